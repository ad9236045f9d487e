"""MLX's elementwise kernels against NumPy: unary, binary, ternary, copy, arange."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tests.foreign.arrays import DTYPES, EPSILON, FLOATS, Array, close, exact, generator, numbers, strides, swept, wide
from tests.foreign.corpus import library

SIZES = (1024, 1013)
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _expm1(x: Array) -> Array:
    """What MLX's expm1f.h computes: x = f + k ln 2 with the upper digits of ln 2 alone, so f is 1.4e-6 k too large."""
    k = np.rint(x / math.log(2))
    return np.expm1(x + k * (math.log(2) - float(np.float32(6.93145752e-1))))


# op -> reference in float64, a map from normal numbers into the op's domain, allowed error in ulps
UNARY: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array], float]] = {
    "Abs": (np.abs, lambda x: x, 0),
    "ArcCos": (np.arccos, np.tanh, 8),
    "ArcCosh": (np.arccosh, lambda x: 1.5 + np.abs(x), 8),
    "ArcSin": (np.arcsin, np.tanh, 8),
    "ArcSinh": (np.arcsinh, lambda x: x, 16),
    "ArcTan": (np.arctan, lambda x: x, 8),
    "ArcTanh": (np.arctanh, lambda x: 0.9 * np.tanh(x), 16),
    "Ceil": (np.ceil, lambda x: 10 * x, 0),
    "Cos": (np.cos, lambda x: x, 8),
    "Cosh": (np.cosh, lambda x: x, 8),
    "Erf": (_erf, lambda x: x, 8),
    "Exp": (np.exp, lambda x: x, 4),
    "Expm1": (_expm1, lambda x: x, 2),
    "Floor": (np.floor, lambda x: 10 * x, 0),
    "Log": (np.log, lambda x: 1.5 + np.abs(x), 4),
    "Log2": (np.log2, lambda x: 1.5 + np.abs(x), 8),
    "Log10": (np.log10, lambda x: 1.5 + np.abs(x), 8),
    "Log1p": (np.log1p, lambda x: 0.5 + np.abs(x), 16),
    "Negative": (np.negative, lambda x: x, 0),
    "Round": (np.round, lambda x: 10 * x, 0),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda x: x, 16),
    "Sign": (np.sign, lambda x: x, 0),
    "Sin": (np.sin, lambda x: x, 8),
    "Sinh": (np.sinh, lambda x: 1 + np.abs(x), 16),
    "Square": (np.square, lambda x: x, 2),
    "Sqrt": (np.sqrt, np.abs, 2),
    "Rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: 0.1 + np.abs(x), 4),
    "Tan": (np.tan, np.tanh, 16),
    "Tanh": (np.tanh, lambda x: x, 8),
}


def spread(count: int) -> dict[str, int]:
    """Launch parameters for *count* threads in a line."""
    return {"threads": count, "group_size": min(count, 256)}


@pytest.mark.feature("corpus", "MLX: unary")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", swept(UNARY, ("Exp", "Erf", "Tanh", "Round")))
def test_unary(op: str, name: str) -> None:
    reference, domain, ulps = UNARY[op]
    kernel = library("mlx", "unary").function(f"v_{op}_{name}")
    for size in SIZES:
        x = domain(exact(numbers(generator(op, name, size), size, name))).astype(DTYPES[name])
        out = np.zeros_like(x)
        kernel(x, out, np.uint32(size), **spread(-(-size // wide(x.dtype))))
        close(out, reference(exact(x)), name, max(ulps, 1.5 if ulps else 0), floor=1e-30)


@pytest.mark.feature("corpus", "MLX: unary")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape", ((4, 6, 8), (3, 5, 7)))
def test_unary_of_a_strided_array(shape: tuple[int, int, int], name: str) -> None:
    """A transposed view, walked by its strides."""
    base = numbers(generator(name, shape), shape[::-1], name)
    x = base.transpose(2, 1, 0)
    out = np.zeros(shape, x.dtype)
    kernel = library("mlx", "unary").function(f"gn4large_Exp_{name}")
    grid = (-(-shape[2] // 4), shape[1], shape[0])
    kernel(base, out, np.array(shape, np.int32), strides(x), np.int32(3), threads=grid, group_size=(2, 4, 2))
    close(out, np.exp(exact(x)), name)


@pytest.mark.feature("corpus", "MLX: unary")
@pytest.mark.parametrize("size", SIZES)
def test_unary_of_integers_booleans_and_complex_numbers(size: int) -> None:
    rng = generator(size)
    lib = library("mlx", "unary")
    for op, name, reference in (
        ("Abs", "int32", np.abs),
        ("BitwiseInvert", "uint8", np.invert),
        ("LogicalNot", "bool_", np.logical_not),
    ):
        x = numbers(rng, size, name)
        out = np.zeros_like(x)
        lib.function(f"v_{op}_{name}")(x, out, np.uint32(size), **spread(-(-size // wide(x.dtype))))
        np.testing.assert_array_equal(out, reference(x))
    z = numbers(rng, size, "complex64")
    got = np.zeros_like(z)
    lib.function("v_Exp_complex64")(z.view(np.float32), got.view(np.float32), np.uint32(size), **spread(size))
    close(got, np.exp(exact(z)), "complex64", 8)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
    "Divide": np.divide,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Power": lambda a, b: np.power(np.abs(a), b),
    "LogAddExp": np.logaddexp,
    "ArcTan2": np.arctan2,
    "Remainder": np.mod,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
}


@pytest.mark.feature("corpus", "MLX: binary")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", swept(BINARY, ("Add", "Power", "LessEqual")))
def test_binary(op: str, name: str) -> None:
    kernel = library("mlx", "binary").function(f"vv_{op}_{name}")
    for size in SIZES:
        rng = generator(op, name, size)
        a, b = numbers(rng, size, name), numbers(rng, size, name)
        b[::7] = a[::7]
        if op == "Power":
            a = np.abs(a)
        if op == "Remainder":
            b = np.abs(b) + b.dtype.type(0.25)
        want = BINARY[op](exact(a), exact(b))
        out = np.zeros(size, np.bool_ if want.dtype == np.bool_ else a.dtype)
        kernel(a, b, out, np.uint32(size), **spread(-(-size // wide(a.dtype))))
        if want.dtype == np.bool_:
            np.testing.assert_array_equal(out, want)
        elif op == "LogAddExp":
            # A sum of two rounded terms, which cancel where it is near 0: its error is one of the terms.
            terms = np.abs(np.maximum(exact(a), exact(b))) + np.log1p(np.exp(-np.abs(exact(a) - exact(b))))
            close(out, want, name, 0, floor=2 * EPSILON[name] * terms)
        else:
            # The remainder of nearly divisible numbers keeps few digits of the quotient's.
            close(out, want, name, 16, floor=1e-30)


@pytest.mark.feature("corpus", "MLX: binary")
@pytest.mark.parametrize("name", swept(FLOATS, ("bfloat16",)))
@pytest.mark.parametrize("form", swept(("ss", "sv", "vs", "sv2", "vs2", "vv2"), ("ss", "vs2")))
def test_binary_with_scalars_and_in_two_dimensions(form: str, name: str) -> None:
    kernel = library("mlx", "binary").function(f"{form}_Add_{name}")
    for size in SIZES if form != "ss" else (1, 7):
        rng = generator(form, name, size)
        a = numbers(rng, 1 if form[0] == "s" else size, name)
        b = numbers(rng, 1 if form[1] == "s" else size, name)
        out = np.zeros(size, a.dtype)
        blocks = -(-size // wide(a.dtype))
        if form == "ss":
            kernel(a, b, out, threads=1, group_size=1)
            out[1:] = out[0]
        elif form.endswith("2"):
            rows = -(-blocks // 32)
            kernel(a, b, out, np.int64(size), threads=(32, rows), group_size=(32, 4))
        else:
            kernel(a, b, out, np.uint32(size), **spread(blocks))
        close(out, np.broadcast_to(exact(a) + exact(b), size), name, 1)


@pytest.mark.feature("corpus", "MLX: binary")
@pytest.mark.parametrize("shape", ((4, 6, 8), (3, 5, 7)))
def test_binary_of_strided_arrays(shape: tuple[int, int, int]) -> None:
    """One operand transposed, the other broadcast."""
    rng = generator(shape)
    lib = library("mlx", "binary")
    a, row = numbers(rng, shape[::-1], "float32"), numbers(rng, shape[2], "float32")
    left, right = a.transpose(2, 1, 0), np.broadcast_to(row, shape)
    want = exact(left) + exact(right)
    steps = strides(left), strides(right)
    out = np.zeros(shape, np.float32)
    lib.function("g3_Add_float32")(a, row, out, *steps, threads=shape[::-1], group_size=(4, 2, 2))
    close(out, want, "float32", 1)
    out[:] = 0
    lib.function("gn2_Add_float32")(
        a,
        row,
        out,
        np.array(shape, np.int32),
        *steps,
        np.int32(3),
        threads=(-(-shape[2] // 2), shape[1], shape[0]),
        group_size=(4, 2, 2),
    )
    close(out, want, "float32", 1)


@pytest.mark.feature("corpus", "MLX: binary")
@pytest.mark.parametrize(
    "name", ("int32", pytest.param("uint8", marks=pytest.mark.sweep), pytest.param("int64", marks=pytest.mark.sweep))
)
@pytest.mark.parametrize(
    "op",
    swept(
        ("Add", "FloorDivide", "Remainder", "Power", "BitwiseXor", "LeftShift", "RightShift"),
        ("Remainder", "LeftShift"),
    ),
)
def test_binary_of_integers(op: str, name: str) -> None:
    references = {
        "Add": np.add,
        "FloorDivide": np.floor_divide,
        "Remainder": np.mod,
        "Power": np.power,
        "BitwiseXor": np.bitwise_xor,
        "LeftShift": np.left_shift,
        "RightShift": np.right_shift,
    }
    kernel = library("mlx", "binary").function(f"vv_{op}_{name}")
    for size in SIZES:
        rng = generator(op, name, size)
        a = numbers(rng, size, name)
        b = rng.integers(1, 6, size).astype(a.dtype)
        out = np.zeros_like(a)
        kernel(a, b, out, np.uint32(size), **spread(-(-size // wide(a.dtype))))
        np.testing.assert_array_equal(out, references[op](a, b))


@pytest.mark.feature("corpus", "MLX: binary with two results")
@pytest.mark.parametrize("name", swept((*FLOATS, "int32"), ("int32",)))
def test_divmod(name: str) -> None:
    kernel = library("mlx", "binary_two").function(f"g1_DivMod_{name}")
    for size in SIZES:
        rng = generator(name, size)
        a, b = numbers(rng, size, name, 10), numbers(rng, size, name)
        b = np.where(b == 0, b.dtype.type(1), b)
        quotient, rest = np.zeros_like(a), np.zeros_like(a)
        kernel(a, b, quotient, rest, np.int64(1), np.int64(1), **spread(size))
        if name == "int32":
            np.testing.assert_array_equal(quotient, a // b)
            np.testing.assert_array_equal(rest, np.mod(a, b))
        else:
            close(quotient, np.floor(exact((exact(a) / exact(b)).astype(a.dtype))), name, 1)


@pytest.mark.feature("corpus", "MLX: ternary")
@pytest.mark.parametrize("name", (*FLOATS, "int64"))
def test_select(name: str) -> None:
    lib = library("mlx", "ternary")
    for size in SIZES:
        rng = generator(name, size)
        a, b, c = numbers(rng, size, "bool_"), numbers(rng, size, name), numbers(rng, size, name)
        out = np.zeros_like(b)
        lib.function(f"v_Select_{name}")(a, b, c, out, np.uint32(size), **spread(-(-size // wide(b.dtype))))
        np.testing.assert_array_equal(out, np.where(a, b, c))


@pytest.mark.feature("corpus", "MLX: ternary")
@pytest.mark.parametrize("shape", ((4, 6, 8), (3, 5, 7)))
def test_select_of_strided_arrays(shape: tuple[int, int, int]) -> None:
    rng = generator(shape)
    mask, b, c = numbers(rng, shape[1:], "bool_"), numbers(rng, shape, "float16"), numbers(rng, shape[::-1], "float16")
    wide_mask, turned = np.broadcast_to(mask, shape), c.transpose(2, 1, 0)
    out = np.zeros(shape, np.float16)
    library("mlx", "ternary").function("g3_Select_float16")(
        mask, b, c, out, strides(wide_mask), strides(b), strides(turned), threads=shape[::-1], group_size=(8, 2, 2)
    )
    np.testing.assert_array_equal(out, np.where(wide_mask, b, turned))


CASTS = (
    "float32_float32",
    "float16_float32",
    "float32_float16",
    "float32_bfloat16",
    "bfloat16_float32",
    "float16_bfloat16",
    "bfloat16_float16",
    "float32_int32",
    "float32_bool_",
    "bfloat16_bool_",
    "int64_float32",
    "bool__uint8",
)


@pytest.mark.feature("corpus", "MLX: copy")
@pytest.mark.parametrize("pair", swept(CASTS, ("float16_float32", "float32_bfloat16", "bfloat16_float16")))
def test_copy_converts(pair: str) -> None:
    source, target = next((a, b) for a in DTYPES for b in DTYPES if f"{a}_{b}" == pair)
    kernel = library("mlx", "copy").function(f"v_copy_{pair}")
    for size in SIZES:
        x = numbers(generator(pair, size), size, source, 3)
        x[::9] = 0
        out = np.zeros(size, DTYPES[target])
        kernel(x, out, np.uint32(size), **spread(-(-size // wide(out.dtype))))
        # ml_dtypes converts half and bfloat to each other through float, as MSL does.
        want = x.astype(np.float32).astype(out.dtype) if source in ("float16", "bfloat16") else x.astype(out.dtype)
        np.testing.assert_array_equal(out, want)


@pytest.mark.feature("corpus", "MLX: copy")
@pytest.mark.parametrize("shape", ((4, 6, 8), (3, 5, 7)))
def test_copy_of_strided_arrays(shape: tuple[int, int, int]) -> None:
    lib = library("mlx", "copy")
    base = numbers(generator(shape), shape[::-1], "bfloat16")
    view = base.transpose(2, 1, 0)
    out = np.zeros(shape, ml_dtypes.bfloat16)
    lib.function("g3_copy_bfloat16_bfloat16")(base, out, None, strides(view), threads=shape[::-1], group_size=(4, 2, 2))
    np.testing.assert_array_equal(out, view)
    back = np.zeros(shape[::-1], ml_dtypes.bfloat16)
    target = back.transpose(2, 1, 0)
    lib.function("gg_copy_bfloat16_bfloat16")(
        out,
        back,
        np.array(shape, np.int32),
        strides(out),
        strides(target),
        np.int32(3),
        threads=(-(-shape[2] // 2), shape[1], shape[0]),
        group_size=(4, 2, 2),
    )
    np.testing.assert_array_equal(back, base)


@pytest.mark.feature("corpus", "MLX: arange")
@pytest.mark.parametrize("name", (*FLOATS, "int32"))
@pytest.mark.parametrize("size", (64, 77))
def test_arange(size: int, name: str) -> None:
    kind = DTYPES[name]
    out = np.zeros(size, kind)
    library("mlx", "arange").function(f"arange_{name}")(
        np.array(3, kind)[()], np.array(2, kind)[()], out, **spread(size)
    )
    close(out, 3 + 2 * np.arange(size, dtype=np.float64), name if name in FLOATS else "float32", 1)
