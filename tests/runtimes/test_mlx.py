"""MlxRuntime with the engine's metal_kernel, and mlx arrays as the engine sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metalcore.mlx
from metalcore.arrays.mlx import MlxArrays, sort
from metalcore.dropins.metal_kernel import metal_kernel
from metalcore.errors import ArgumentError, IndexRangeError
from metalcore.mlx.call import using
from metalcore.ops.rms_norm import FORWARD
from metalcore.runtimes.kernel import Out
from metalcore.runtimes.mlx import MlxRuntime, engine, has_metal, mlx_runtime, number

mx: Any = pytest.importorskip("mlx.core")
DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "uint32", "bool")


def launch(run: Any, x: Any, weight: Any, width: int, eps: float, groups: tuple[int, ...] = (2,)) -> list[Any]:
    arguments = dict(x=x, weight=weight, y=Out(tuple(x.shape), "float32"), power=Out((2,), "float32"))
    arguments |= dict(rows=2, width=width, eps=eps)
    types = ("float32", "float32", 1)
    found: list[Any] = run.launch(FORWARD, types, (weight is not None,), arguments, groups, (32,))
    return found


def test_arguments() -> None:
    """Made once; small inputs come in device memory, numbers as `constant T&`, None as an array of the right type."""
    made: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []

    def make(**options: Any) -> Any:
        made.append(options)
        kernel = metal_kernel(**options)
        return lambda **given: (calls.append(given), kernel(**given))[1]

    run = MlxRuntime(make, is_eager=True)
    x = mx.array([[3.0, 4.0], [6.0, 8.0]])  # fewer than 8 elements
    for _ in range(2):
        y, power = launch(run, x, None, 2, 0)
    assert np.allclose(np.asarray(y), np.array([[3.0, 4.0], [3.0, 4.0]]) / 12.5**0.5, rtol=1e-6)
    assert np.allclose(np.asarray(power), [12.5, 50.0])
    assert len(made) == 1 and made[0]["name"] == "rms_norm_forward_float_float_1_false"
    given = calls[0]
    assert [(a.shape, a.dtype) for a in given["inputs"]] == [
        ((8,), mx.float32),
        ((8,), mx.float32),
        ((), mx.int64),
        ((), mx.int64),
        ((), mx.float32),
    ]
    assert given["template"] == [("T", mx.float32), ("W", mx.float32), ("V_value", 1)]
    assert (given["grid"], given["threadgroup"]) == ((64, 1, 1), (32, 1, 1))
    assert given["output_shapes"] == [(2, 2), (2,)] and given["output_dtypes"] == [mx.float32] * 2


def test_graph() -> None:
    """Nothing is evaluated on the way to MLX's kernels: with kernels that are steps of the graph, mx.compile works."""

    def make(**_: Any) -> Any:
        def kernel(inputs: list[Any], output_shapes: list[Any], **_: Any) -> list[Any]:
            x, _, _, _, eps = inputs  # as rms_norm_forward computes it, in mlx's own ops
            power = x.square().mean(-1) + eps
            return [(x * mx.rsqrt(power)[:, None]).reshape(output_shapes[0]), power]

        return kernel

    x = mx.random.normal((2, 64))
    with using(MlxRuntime(make)):
        for _ in range(2):
            found = mx.compile(lambda x: metalcore.mlx.rms_norm(x * 2, (64,), eps=1e-6))(x)
    np.testing.assert_allclose(np.asarray(found), np.asarray(mx.fast.rms_norm(x * 2, None, 1e-6)), rtol=1e-5)


def test_refused() -> None:
    run = MlxRuntime(metal_kernel, is_eager=True)
    x = mx.ones((2, 8))
    with pytest.raises(ArgumentError, match="x holds float32, not float16"):
        launch(run, x.astype(mx.float16), None, 8, 0.0)
    arguments = dict(x=x, weight=None, y=x, power=x, rows=2, width=8, eps=0.0)
    with pytest.raises(ArgumentError, match="mlx arrays are immutable"):
        run.launch(FORWARD, ("float32", "float32", 1), (False,), arguments, (2,), (32,))
    assert [a.shape for a in launch(run, x, None, 8, 0.0, groups=(0,))] == [(2, 8), (2,)]


def test_numbers() -> None:
    assert number("long", "-5").item() == -5 and number("long", str(2**40)).item() == 2**40
    assert np.signbit(np.asarray(number("float", "-0.0"))) and not np.signbit(np.asarray(number("float", "0.0")))
    assert number("float", "inf").item() == float("inf") and number("float", "0.1") is number("float", "0.1")


def test_errors_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    run, errors = MlxRuntime(metal_kernel, is_eager=True), mx.array([[1, 5, 77]])
    run.check_errors(errors, lambda row, value: "")
    monkeypatch.setenv("METALCORE_CHECK_GPU", "1")
    with pytest.raises(IndexRangeError, match="77 in row 5"):
        run.check_errors(errors, lambda row, value: f"{value} in row {row}")


@pytest.mark.skipif(has_metal(), reason="Metal is there")
def test_the_engine_where_there_is_no_metal() -> None:
    assert mlx_runtime() is engine() and engine().is_eager


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty(dtype: str) -> None:
    """Memory of its own, that nobody else sees: two arrays, and the source of their zeros, stay apart."""
    arrays = MlxArrays()
    first, second = arrays.empty((3, 5), dtype), arrays.empty((3, 5), dtype)
    assert arrays.dtype(first) == dtype and first.shape == (3, 5)
    (a, size), (b, _) = arrays.memory(first), arrays.memory(second)
    assert size == first.nbytes == 15 * first.itemsize and abs(a - b) >= size
    np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * size).from_address(a))[:] = 1
    bits = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint64}[first.itemsize]
    written = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}[first.itemsize]
    assert (first.view(bits) == mx.array(written, bits)).all() and (second.view(bits) == 0).all()
    assert (arrays.empty((3, 5), dtype).view(bits) == 0).all()
    assert arrays.memory(arrays.empty((0, 3), dtype)) == (0, 0)
    nothing = arrays.empty((0,), dtype)
    assert arrays.dtype(nothing) == dtype and nothing.shape == (0,) and arrays.memory(nothing) == (0, 0)
    assert arrays.empty((0,), dtype) is nothing and arrays.contiguous(nothing) is nothing


def test_large_empty() -> None:
    """Larger than the zeros kept so far."""
    array = MlxArrays().empty((1 << 19,), "float32")
    assert array.nbytes == 1 << 21 and not np.asarray(array).any()


def test_contiguous() -> None:
    """Rows one after the other and evaluated, without a copy where it is so already."""
    arrays = MlxArrays()
    x = mx.arange(24.0).reshape(4, 6) + 1
    assert arrays.contiguous(x) is x and arrays.memory(x)[0] == np.asarray(x).ctypes.data
    cases = [x.T, x[:, ::2], mx.broadcast_to(x[0], (4, 6)), x[1:3].swapaxes(0, 1), x[::-1]]
    cases += [mx.arange(1 << 19).reshape(512, 1024).T, mx.zeros((0, 4)).T, (x > 7).T, x.astype(mx.uint32)[::2]]
    for view in [*cases, *(c.T.astype(t).T for c in cases for t in (mx.bfloat16, mx.float16, mx.int8))]:
        found = arrays.contiguous(view)
        assert memoryview(found).c_contiguous and (found == view).all() and found.dtype == view.dtype
    with pytest.raises(TypeError, match="contiguous"):
        arrays.memory(x.T)
    assert arrays.memory(x[1:])[0] == arrays.memory(x)[0] + 24  # a view of rows is used where it lies
    half = x.astype(mx.bfloat16)
    assert arrays.memory(half)[0] == np.asarray(half.view(mx.uint16)).ctypes.data


def test_sort() -> None:
    values = mx.array([5, 1, 5, 0, 1, 5])
    found, order = sort(values)
    assert found.tolist() == [0, 1, 1, 5, 5, 5] and order.tolist() == [3, 1, 4, 0, 2, 5]
    assert order.dtype == mx.int64
