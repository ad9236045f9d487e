"""Calls of a metal_kernel that are like an earlier one: bound in C, with the same results and the same errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault, MetalcoreError

torch = pytest.importorskip("torch")
mx = pytest.importorskip("mlx.core")
ml_dtypes = pytest.importorskip("ml_dtypes")

ID = "uint i = thread_position_in_grid.x;"
KINDS = {"numpy": np.array, "torch": torch.tensor, "mlx": mx.array}


def make(source: str, inputs: str = "x", **options: Any) -> Any:
    return metalcore.metal_kernel("test", inputs.split(), ["y"], ID + source, **options)


def call(kernel: Any, inputs: list[Any], dtype: Any, shape: Any = (4,), **options: Any) -> Any:
    options = {"grid": (math.prod(shape), 1, 1), "threadgroup": (32, 1, 1)} | options
    return kernel(inputs=inputs, output_shapes=[shape], output_dtypes=[dtype], **options)[0]


def is_bound_in_c(kernel: Any, inputs: list[Any]) -> bool:
    """Whether the one plan that the kernel has takes these."""
    (plan,) = kernel._plans.values()
    return plan.run(inputs) is not None


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_second_call_is_bound_in_c(kind: str) -> None:
    kernel = make(" y[i] = a[i] * b[i] + c[i];", "a b c")
    made = KINDS[kind]
    outputs = []
    for n in range(3):
        inputs = [made([1.0, 2.0, 3.0, n], dtype=_float(kind)) for _ in range(3)]
        outputs.append(call(kernel, inputs, inputs[0].dtype))
    for n, y in enumerate(outputs):  # each call has made an array of its own
        assert type(y) is type(inputs[0]) and y.tolist() == [2, 6, 12, n * n + n]
    assert len(kernel._plans) == 1 and is_bound_in_c(kernel, inputs)


def _float(kind: str) -> Any:
    return {"numpy": np.float32, "torch": torch.float32, "mlx": mx.float32}[kind]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int64", "bool", "complex64"])
def test_dtypes_of_mlx(dtype: str) -> None:
    kernel = make(" y[i] = x[i];")
    x = mx.array([0, 1, 1, 0]).astype(getattr(mx, "bool_" if dtype == "bool" else dtype))
    for _ in range(2):
        y = call(kernel, [x], x.dtype)
        assert y.dtype == x.dtype and mx.array_equal(x, y)
    assert is_bound_in_c(kernel, [x]) == (dtype != "complex64")  # a struct


@pytest.mark.parametrize("kind", list(KINDS))
def test_views(kind: str) -> None:
    """Rows one after the other where that is asked for, whatever the input's own are."""
    kernel = make(" y[i] = x[i] + x_shape[0] * 10 + x_ndim * 100 + int(x_strides[0]) * 1000;")
    rows = KINDS[kind](np.arange(6, dtype=np.float32).reshape(2, 3))
    for _ in range(2):
        assert call(kernel, [rows], rows.dtype, (6,)).tolist() == [3220 + i for i in range(6)]
        turned = KINDS[kind](np.arange(6, dtype=np.float32).reshape(3, 2)).T
        assert call(kernel, [turned], rows.dtype, (6,)).tolist() == [3220 + i for i in (0, 2, 4, 1, 3, 5)]
        part = KINDS[kind](np.arange(9, dtype=np.float32).reshape(3, 3))[1:]
        assert call(kernel, [part], rows.dtype, (6,)).tolist() == [3223 + i for i in range(6)]
    assert is_bound_in_c(kernel, [rows]) and is_bound_in_c(kernel, [part]) and not is_bound_in_c(kernel, [turned])


def test_strides_as_they_are() -> None:
    kernel = make(" y[i] = x[elem_to_loc(i, x_shape, x_strides, x_ndim)];", ensure_row_contiguous=False)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for _ in range(2):
        assert call(kernel, [x], np.float32, (6,)).tolist() == [0, 1, 2, 3, 4, 5]
        assert call(kernel, [x.reshape(3, 2).T], np.float32, (6,)).tolist() == [0, 2, 4, 1, 3, 5]


def test_numbers_and_arrays_without_dimensions() -> None:
    kernel = make(" y[i] = x[i] * s;", "x s")
    x, s = mx.arange(4.0), mx.array(3.0)
    for _ in range(2):
        assert call(kernel, [x, s], mx.float32).tolist() == [0, 3, 6, 9]
        assert call(kernel, [x, 2.0], mx.float32).tolist() == [0, 2, 4, 6]
    assert is_bound_in_c(kernel, [x, s])


def test_arrays_that_are_not_there_yet() -> None:
    """mlx computes when it must: in C too."""
    kernel = make(" y[i] = x[i];")
    for n in range(3):
        assert call(kernel, [mx.arange(4.0) * n + 1], mx.float32).tolist() == [n * i + 1 for i in range(4)]
    y = mx.arange(4.0)
    for _ in range(4):
        y = call(kernel, [y], mx.float32) + 1
    assert y.tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_makes_a_call_another_one(kind: str) -> None:
    kernel = make(" y[i] = N + int(is_same<decltype(N), const bool>::value) * 0;", "x")
    x = KINDS[kind](np.zeros(4, np.float32))
    for _ in range(2):
        for value in (1, 2, True, False):
            assert call(kernel, [x], x.dtype, template=[("N", value)]).tolist() == [int(value)] * 4
    kernel = make(" if (i == 0) y[i] = 5;", "x")
    for _ in range(2):
        for init, expected in ((0.0, 1.0), (-0.0, -1.0)):
            y = call(kernel, [x], x.dtype, init_value=init)
            assert y.tolist() == [5, 0, 0, 0] and math.copysign(1.0, y.tolist()[1]) == expected
        assert call(kernel, [x], x.dtype, (2, 3), grid=(6, 1, 1)).shape == (2, 3)
        assert call(kernel, [x], x.dtype, (3, 2), grid=(6, 1, 1)).shape == (3, 2)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "changes",
    [
        {"grid": (4.0, 1, 1)},
        {"grid": (4, 1)},
        {"threadgroup": (32, 1, 1.0)},
        {"threadgroup": (2048, 1, 1)},
        {"shape": (4.0,)},
        {"shape": 4},
        {"inputs": []},
        {"inputs": ["text"]},
        {"inputs": [object()]},
        {"dtype": "float64"},
        {"template": [("N", [])]},
        {"init_value": "1"},
    ],
)
def test_mistakes_are_refused_as_by_the_first_call(kind: str, changes: dict[str, Any]) -> None:
    x = KINDS[kind](np.zeros(4, np.float32))
    arguments: dict[str, Any] = {"inputs": [x], "dtype": x.dtype, "shape": (4,), "grid": (4, 1, 1)}
    said = []
    for known in (False, True):
        kernel = make(" y[i] = x[i];")
        if known:
            call(kernel, **arguments)
            assert is_bound_in_c(kernel, [x])
        with pytest.raises((MetalcoreError, TypeError)) as caught:
            call(kernel, **arguments | changes)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]


def test_an_input_that_the_kernel_writes_after_all() -> None:
    kernel = make(" y[i] = x[i]; ((device float*)x)[i] = 9;")
    x = mx.arange(40.0)
    for _ in range(2):
        with pytest.raises(MetalcoreError, match="declares it const"):
            call(kernel, [x], mx.float32, (40,))
    assert x.tolist() == list(range(40))


def test_transformations_of_mlx_see_the_kernel() -> None:
    kernel = make(" y[i] = x[i] * x[i];")

    def square(x: Any) -> Any:
        return call(kernel, [x], mx.float32)

    x = mx.arange(4.0)
    square(x)
    assert is_bound_in_c(kernel, [x])
    with pytest.raises(ValueError, match="Not implemented"):
        mx.grad(lambda v: square(v).sum())(x)
    with pytest.raises(ValueError, match="Not implemented"):
        mx.grad(lambda v: square(v * 2).sum())(x)
    custom = mx.custom_function(square)
    custom.vjp(lambda x, cotangent, output: 2 * x * cotangent)
    assert mx.grad(lambda v: custom(v * 3).sum())(x).tolist() == [18 * i for i in range(4)]
    assert is_bound_in_c(kernel, [x]) and square(x).tolist() == [0, 1, 4, 9]


def test_modes_and_faults() -> None:
    kernel = make(" y[i + 1] = x[i];")
    x = np.zeros(4, np.float32)
    for _ in range(2):
        with pytest.raises(KernelFault, match="'y'"):
            call(kernel, [x], np.float32)
    good = make(" y[i] = x[i];")
    call(good, [x], np.float32)
    with metalcore.mode("sanitize") as report:
        call(good, [x], np.float32)
        call(kernel, [x], np.float32)
    assert {finding.kind for finding in report.findings} == {"out-of-bounds"}
