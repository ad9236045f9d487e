"""PyTorch's Metal headers, called from kernels of our own: random numbers, reductions, atomics, indexing, errors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.foreign import batch
from tests.foreign.arrays import DTYPES, EPSILON, FLOATS, Array, close, exact, generator, numbers
from tests.foreign.corpus import library, sources, torch_include

SOURCES = {path.stem: path for path in sources("torch")}


@pytest.mark.feature("corpus", "PyTorch: every header of c10/metal compiles")
@pytest.mark.parametrize("name", SOURCES)
def test_every_kernel_compiles_to_scalar_ir(name: str) -> None:
    unit = batch.read_unit(SOURCES[name])
    assert batch.entries(batch.lower_all(unit, {})) == {kernel.marker for kernel in unit.kernels}


def test_every_header_is_read() -> None:
    folder = torch_include() / "c10" / "metal"
    read = {path for source in SOURCES.values() for path, _ in batch.read_unit(source).includes}
    left = [path.name for path in sorted(folder.glob("*.h")) if str(path) not in read]
    assert not left, f"included by no file of ours: {left}"


def philox(seed: int, count: int) -> Array:
    """Ten-round Philox 4x32 as random.h runs it: nine rounds, the counter in the upper half."""
    mask = (1 << 32) - 1
    rows = []
    for index in range(count):
        x, y, z, w = 0, 0, index >> 32, index & mask
        k0, k1 = seed >> 32, seed & mask
        for _ in range(9):
            p, q = 0xD2511F53 * x, 0xCD9E8D57 * z
            x, y, z, w = q >> 32 ^ y ^ k0, q & mask, p >> 32 ^ w ^ k1, p & mask
            k0, k1 = k0 + 0x9E3779B9 & mask, k1 + 0xBB67AE85 & mask
        rows.append((x, y, z, w))
    return np.array(rows, np.uint32)


@pytest.mark.feature("corpus", "PyTorch: random.h")
@pytest.mark.parametrize("count", (64, 37))
def test_philox(count: int) -> None:
    out = np.zeros((count, 4), np.uint32)
    seed = 0x123456789ABCDEF
    library("torch", "random").function("philox")(out, np.int64(seed), threads=count, group_size=32)
    np.testing.assert_array_equal(out, philox(seed, count))


@pytest.mark.feature("corpus", "PyTorch: random.h")
@pytest.mark.parametrize("count", (4096, 1001))
def test_uniform_and_normal_numbers(count: int) -> None:
    uniform, normal = np.zeros(count, np.float32), np.zeros(count, np.float32)
    pair, whole = np.zeros((count, 2), np.float32), np.zeros(count, np.int64)
    library("torch", "random").function("uniform_and_normal")(
        uniform, normal, pair, whole, np.int64(7), threads=count, group_size=128
    )
    raw = (philox(7, count) & 0x7FFFFFFF).astype(np.float32) * np.float32(4.6566127342e-10)
    np.testing.assert_array_equal(uniform, raw[:, 0])
    np.testing.assert_array_equal(whole, -10 + (raw[:, 0] * np.float32(100)).astype(np.int64))
    u = exact(raw)
    radius = np.sqrt(-2 * np.log(np.maximum(u[:, 0], 2.0**-23)))
    np.testing.assert_allclose(pair[:, 0], radius * np.cos(2 * np.pi * u[:, 1]), atol=2e-5)
    np.testing.assert_allclose(pair[:, 1], radius * np.sin(2 * np.pi * u[:, 1]), atol=2e-5)
    assert abs(float(normal.mean())) < 0.1 and abs(float(normal.std()) - 1) < 0.1


@pytest.mark.feature("corpus", "PyTorch: reduction_utils.h")
@pytest.mark.parametrize("name", FLOATS)
def test_threadgroup_reductions(name: str) -> None:
    kernel = library("torch", "reduction").function(f"row_reduce_{name}")
    for rows, size in ((3, 128), (2, 77)):
        x = (1 + numbers(generator(name, size), (rows, size), "float32", 0.1)).astype(DTYPES[name])
        out = np.zeros((rows, 4), np.float32)
        kernel(x, out, threadgroups=rows, group_size=size)
        wide = exact(x)
        np.testing.assert_array_equal(out[:, 2:], np.stack([wide.max(1), wide.min(1)], 1))
        close(out[:, 0], wide.sum(1), "float32", 64)
        close(out[:, 1], wide.prod(1), "float32", 256)


@pytest.mark.feature("corpus", "PyTorch: reduction_utils.h")
@pytest.mark.parametrize("seed", (1, 2))
def test_simdgroup_functions_of_wide_numbers(seed: int) -> None:
    """A whole simdgroup: these functions shuffle from lanes that must be there."""
    rng = generator("wide", seed)
    x = rng.integers(-(2**50), 2**50, 32)
    y = numbers(rng, 32, "float32")
    total, place = np.zeros(2, np.int64), np.zeros(1, np.uint16)
    library("torch", "reduction").function("simd_functions")(x, y, total, place, threads=32, group_size=32)
    assert total.tolist() == [x.sum(), x.max()]
    assert place[0] == y.argmax()


@pytest.mark.feature("corpus", "PyTorch: atomic.h")
@pytest.mark.parametrize("name", ("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8", "int64"))
def test_atomic_add(name: str) -> None:
    """Repeated places; 8 and 16 bits are added by exchanging whole words."""
    kernel = library("torch", "atomic").function(f"add_{name}")
    for count, size in ((128, 16), (77, 9)):
        rng = generator("atomic", name, count)
        at = rng.integers(0, size, count).astype(np.uint32)
        kind = DTYPES.get(name, name)
        x = rng.integers(0, 4, count).astype(kind)
        words = np.zeros(-(-size * x.itemsize // 8) * 2, np.uint32)  # whole words, as the header takes them
        argument = words.view(kind) if name in ("float32", "int32") else words
        kernel(argument, x, at, threads=count, group_size=32)
        want = np.zeros(size)
        np.add.at(want, at, exact(x))
        np.testing.assert_array_equal(exact(words.view(kind)[:size]), want)


@pytest.mark.feature("corpus", "PyTorch: indexing.h")
@pytest.mark.parametrize("name", FLOATS)
def test_registered_unary_operation(name: str) -> None:
    msl = {"float32": "float", "float16": "half", "bfloat16": "bfloat"}[name]
    lib = library("torch", "indexing")
    for size in (256, 101):
        x = numbers(generator("softsign", name, size), size, name)
        out = np.zeros_like(x)
        lib.function(f"softsign_dense_scalar_{msl}_{msl}")(out, x, threads=size, group_size=64)
        close(out, exact(x) / (1 + np.abs(exact(x))), name, 1)


@pytest.mark.feature("corpus", "PyTorch: indexing.h")
@pytest.mark.parametrize("shape", ((8, 16), (5, 7)))
def test_registered_operations_on_strided_tensors(shape: tuple[int, int]) -> None:
    """PyTorch lists the innermost dimension first, and strides in bytes."""
    lib = library("torch", "indexing")
    base = numbers(generator(shape), shape[::-1], "float32")
    x, out = base.T, np.zeros(shape, np.float32)
    sizes = np.array(shape[::-1], np.int64)
    lib.function("softsign_strided_float_float")(
        out,
        base,
        sizes,
        np.array(x.strides[::-1], np.int64),
        np.array(out.strides[::-1], np.int64),
        np.uint32(2),
        threads=shape[::-1],
        group_size=(8, 4),
    )
    close(out, exact(x) / (1 + np.abs(exact(x))), "float32", 1)
    other = numbers(generator("other", shape), shape, "float32")
    ndim = np.array([2, 0, 0, 0], np.uint32)
    lib.function("scaled_sum_strided_float_float")(
        out,
        base,
        other,
        sizes,
        *(np.array(a.strides[::-1], np.int64) for a in (out, x, other)),
        ndim,
        threads=out.size,
        group_size=32,
    )
    close(out, 2 * exact(x) + exact(other), "float32", 2, floor=EPSILON["float32"])


@pytest.mark.feature("corpus", "PyTorch: utils.h")
@pytest.mark.parametrize("size", (128, 77))
def test_division_of_whole_numbers(size: int) -> None:
    rng = generator("division", size)
    a = rng.integers(-100, 100, size).astype(np.int32)
    b = rng.choice([-7, -3, 2, 5, 11], size).astype(np.int32)
    quotient, rest = np.zeros_like(a), np.zeros_like(a)
    library("torch", "indexing").function("whole_numbers")(a, b, quotient, rest, threads=size, group_size=32)
    np.testing.assert_array_equal(quotient, a // b)
    np.testing.assert_array_equal(rest, a % b)


@pytest.mark.feature("corpus", "PyTorch: error.h")
@pytest.mark.parametrize("count", (64, 37))
def test_errors_are_written_down(count: int) -> None:
    index = np.arange(count)
    index[5], index[20] = 1234567, -42
    record = np.dtype([("file", "S128"), ("func", "S128"), ("message", "S250"), ("line", np.uint32)], align=True)
    layout = np.dtype([("count", np.uint32), ("msg", record, 30)], align=True)
    errors = np.zeros(1, layout)
    library("torch", "error").function("check_index")(
        index, np.int64(count), errors.view(np.uint8), threads=count, group_size=32
    )
    assert errors["count"][0] == 2
    messages = {bytes(m).decode() for m in errors["msg"][0]["message"][:2]}
    assert messages == {f"index {i} is out of range [0, {count})" for i in (1234567, -42)}
    assert {bytes(m) for m in errors["msg"][0]["func"][:2]} == {b"check_index"}
    assert errors["msg"][0]["file"][0].endswith(b"error.metal")
