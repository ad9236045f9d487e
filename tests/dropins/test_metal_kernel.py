"""mx.fast.metal_kernel's rules, on mlx arrays, torch tensors and NumPy arrays, errors included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metalcore

torch = pytest.importorskip("torch")
mx = pytest.importorskip("mlx.core")
ml_dtypes = pytest.importorskip("ml_dtypes")

ID = "uint i = thread_position_in_grid.x;"


def launch(kernel: Any, n: int, inputs: list[Any], shapes: list[Any], dtypes: list[Any], **kwargs: Any) -> Any:
    kwargs = {"grid": (n, 1, 1), "threadgroup": (32, 1, 1)} | kwargs
    return kernel(inputs=inputs, output_shapes=shapes, output_dtypes=dtypes, **kwargs)


def make(source: str, inputs: str = "x", outputs: str = "y", **kwargs: Any) -> Any:
    return metalcore.metal_kernel("test", inputs.split(), outputs.split(), source, **kwargs)


@pytest.fixture(scope="module")
def scale() -> Any:
    return make(ID + " y[i] = T(float(x[i]) * 2 + 1);")


@pytest.mark.feature("API", "metal_kernel: outputs are arrays of the inputs' framework")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8", "int64"])
def test_frameworks(scale: Any, dtype: str) -> None:
    expected = [2 * i + 1 for i in range(40)]
    kind = getattr(mx, dtype)
    (y,) = launch(scale, 40, [mx.arange(40).astype(kind)], [(40,)], [kind], template=[("T", kind)])
    assert isinstance(y, mx.array) and y.dtype == kind and y.tolist() == expected
    kind = getattr(torch, dtype)
    (y,) = launch(scale, 40, [torch.arange(40).to(kind)], [(40,)], [kind], template=[("T", kind)])
    assert isinstance(y, torch.Tensor) and y.dtype == kind and y.tolist() == expected
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    (y,) = launch(scale, 40, [np.arange(40).astype(kind)], [(40,)], [kind], template=[("T", kind)])
    assert isinstance(y, np.ndarray) and y.dtype == kind and y.astype(float).tolist() == expected


@pytest.mark.feature("API", "metal_kernel: every dtype that Metal has")
@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int64", "float16", "bfloat16", "complex64"],
)
def test_dtypes(dtype: str) -> None:
    kernel = make(ID + " y[i] = x[i];")
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = np.array([0, 1, 2, 100] * 5).astype(kind) * (1 - 2j if dtype == "complex64" else 1)
    x = x.astype(kind)
    bits = x.view(np.uint16) if dtype == "bfloat16" else x
    (y,) = launch(kernel, 20, [x], [(20,)], [kind])
    assert y.dtype == kind and (y == x).all()
    tensor = torch.from_numpy(bits.copy()).view(getattr(torch, dtype))
    (y,) = launch(kernel, 20, [tensor], [(4, 5)], [tensor.dtype])
    assert y.dtype == tensor.dtype and torch.equal(y.view(-1), tensor)
    array = mx.array(bits).view(getattr(mx, "bool_" if dtype == "bool" else dtype))
    (y,) = launch(kernel, 20, [array], [(20,)], [array.dtype])
    assert y.dtype == array.dtype and mx.array_equal(y, array).item()


def test_output_dtypes_decide_where_no_array_does() -> None:
    kernel = make("y[thread_position_in_grid.x] = thread_position_in_grid.x;", inputs="")
    assert isinstance(launch(kernel, 4, [], [(4,)], [mx.float32])[0], mx.array)
    assert isinstance(launch(kernel, 4, [], [(4,)], [torch.float32])[0], torch.Tensor)
    assert isinstance(launch(kernel, 4, [], [(4,)], ["float32"])[0], np.ndarray)
    assert launch(kernel, 4, [], [(2, 2)], [np.float16])[0].tolist() == [[0, 1], [2, 3]]


@pytest.mark.feature("API", "metal_kernel: Python scalars and small inputs")
def test_scalars_and_small_inputs() -> None:
    kernel = make(ID + " y[i] = x[i] * a + b[1] + (flag ? 100 : 0) + n;", inputs="x a b flag n")
    x = np.arange(10, dtype=np.float32)
    (y,) = launch(kernel, 10, [x, 0.5, np.array([1, 7], np.int32), True, -3], [(10,)], [np.float32])
    assert y.tolist() == [i * 0.5 + 104 for i in range(10)]
    (y,) = launch(kernel, 3, [mx.arange(3.0), 0.5, mx.array([1, 7]), False, 2**40], [(3,)], [mx.float32])
    assert y.tolist() == [float(np.float32(2**40 + 7 + i / 2)) for i in range(3)]


@pytest.mark.feature("API", "metal_kernel: shapes, strides and ensure_row_contiguous=False")
@pytest.mark.parametrize("framework", ["numpy", "torch", "mlx"])
def test_strides(framework: str) -> None:
    source = ID + " y[i] = x[elem_to_loc(i, x_shape, x_strides, x_ndim)]; if (i == 0) { s[0] = x_strides[0]; }"
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    array = {"numpy": base, "torch": torch.from_numpy(base.copy()), "mlx": mx.array(base)}[framework]
    view = array.transpose(2, 0, 1) if framework != "torch" else array.permute(2, 0, 1)
    for contiguous, stride in ((True, 6), (False, 1)):
        kernel = make(source, outputs="y s", ensure_row_contiguous=contiguous)
        y, s = launch(
            kernel, 24, [view], [(4, 2, 3), (1,)], [view.dtype, "int32" if framework == "numpy" else view.dtype]
        )
        assert y.tolist() == base.transpose(2, 0, 1).tolist()
        assert s.tolist() == [stride]


@pytest.mark.feature("API", "metal_kernel: templates")
def test_templates() -> None:
    kernel = make(ID + " y[i] = FLAG ? T(x[i]) / N : T(x[i]);")
    x = np.arange(8, dtype=np.int32)
    template = [("T", np.float32), ("N", 4), ("FLAG", True)]
    assert launch(kernel, 8, [x], [(8,)], [np.float32], template=template)[0].tolist() == [i / 4 for i in range(8)]
    template = [("T", "int32"), ("N", 4), ("FLAG", False)]
    assert launch(kernel, 8, [x], [(8,)], [np.float32], template=template)[0].tolist() == list(range(8))
    for wrong in (1.5, "float", None, 1 << 40):
        with pytest.raises(ValueError):
            launch(kernel, 8, [x], [(8,)], [np.float32], template=[("T", np.float32), ("N", wrong), ("FLAG", True)])


@pytest.mark.feature("API", "metal_kernel: atomic_outputs and init_value")
def test_atomics_and_initial_values() -> None:
    source = ID + " atomic_fetch_add_explicit(&y[x[i] % 4], 1, memory_order_relaxed);"
    kernel = make(source, atomic_outputs=True)
    x = np.arange(1000, dtype=np.uint32)
    assert launch(kernel, 1000, [x], [(4,)], [np.int32], init_value=0)[0].tolist() == [250] * 4
    (y,) = launch(kernel, 1000, [mx.array(x)], [(4,)], [mx.float32], init_value=0.5)
    assert y.tolist() == [250.5] * 4
    (y,) = launch(kernel, 0, [torch.from_numpy(x)], [(4,)], [torch.int32], init_value=7)
    assert y.tolist() == [7] * 4


@pytest.mark.feature("API", "metal_kernel: grid in threads, threadgroup clamped to it")
def test_grid() -> None:
    kernel = make(
        """
        uint3 p = thread_position_in_grid, n = threads_per_grid;
        y[(p.z * n.y + p.y) * n.x + p.x] = threads_per_threadgroup.x * 100 + threads_per_threadgroup.y;
        """,
        inputs="",
    )
    (y,) = launch(kernel, 0, [], [(2, 3, 5)], [np.int32], grid=(5, 3, 2), threadgroup=(256, 4, 1))
    assert y.reshape(-1).tolist() == [503] * 30
    with pytest.raises(ValueError, match="2048"):
        launch(kernel, 0, [], [(1,)], [np.int32], grid=(2048, 1, 1), threadgroup=(2048, 1, 1))
    with pytest.raises(ValueError):
        launch(kernel, 0, [], [(1,)], [np.int32], grid=(4, 1, 1), threadgroup=(0, 1, 1))
    for wrong in ((4,), (1, 2), (1.5, 1, 1)):
        with pytest.raises(TypeError):
            launch(kernel, 0, [], [(1,)], [np.int32], grid=wrong)


@pytest.mark.feature("API", "metal_kernel: the names of MLX's utils.h without an include")
def test_prelude() -> None:
    kernel = make(
        ID
        + """
        if (i == 0) {
            y[0] = float(Limits<int>::max == 2147483647) + float(Limits<float>::min < -3e38f);
            y[1] = float(bfloat16_t(1.00390625f));
            y[2] = log1p(1e-8f) * 1e8f;
            y[3] = hypot(3e30f, 4e30f) / 1e30f;
            y[4] = ceildiv(10, 4);
            complex64_t z = complex64_t(1, 2) * complex64_t(3, 4) / complex64_t(3, 4) + 1;
            y[5] = z.real;
            y[6] = z.imag;
            y[7] = cast_to<bool>(1e-40f);
            y[8] = float(float16_t(65504.0f));
        }
        uint64_t wide = simd_shuffle_down(uint64_t(i) << 40, uint16_t(1));
        if (i == 4) { y[9] = float(wide >> 40); }
        """,
        inputs="",
    )
    (y,) = launch(kernel, 32, [], [(10,)], [np.float32])
    np.testing.assert_allclose(y, [2, 1, 1, 5, 3, 2, 2, 1, 65504, 5], rtol=1e-6)


def test_bfloat_math_returns_bfloat() -> None:
    kernel = make(ID + " T v = metal::exp(x[i]); y[i] = metal::max(v, metal::fast::abs(x[i])) + simd_max(x[i]);")
    x = mx.linspace(-1, 1, 64).astype(mx.bfloat16)
    (y,) = launch(kernel, 64, [x], [(64,)], [mx.bfloat16], template=[("T", mx.bfloat16)])
    top = mx.array([x[:32].max().item()] * 32 + [x[32:].max().item()] * 32).astype(mx.bfloat16)
    expected = mx.maximum(mx.exp(x.astype(mx.float32)).astype(mx.bfloat16), mx.abs(x)) + top
    assert mx.allclose(y, expected, rtol=1e-2)


@pytest.mark.feature("API", "metal_kernel: MLX's own headers may be included")
def test_mlx_headers() -> None:
    kernel = make(
        ID + " y[i] = x[elem_to_loc(i, x_shape, x_strides, x_ndim)] + ceildiv(5, 2);",
        header='#include "mlx/backend/metal/kernels/utils.h"\n',
    )
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert launch(kernel, 8, [x], [(8,)], [np.float32])[0].tolist() == [i + 3 for i in range(8)]


def test_header_and_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = make(ID + " y[i] = twice(x[i]);", header="float twice(float v) { return 2 * v; }\n")
    (y,) = launch(kernel, 4, [np.ones(4, np.float32)], [(4,)], [np.float32], verbose=True)
    assert y.tolist() == [2, 2, 2, 2]
    printed = capsys.readouterr().out
    assert printed.startswith("Generated source code for `test`:\n```\nfloat twice(")
    assert "[[kernel]] void custom_kernel_test_floatc_float(" in printed


@pytest.mark.feature("API", "metal_kernel: errors are MLX's ValueError and TypeError")
def test_errors(scale: Any) -> None:
    x = np.ones(8, np.float32)
    with pytest.raises(ValueError, match="at least one output"):
        make("", outputs="")
    with pytest.raises(ValueError, match="`inputs` to have size 1 but got size 2"):
        launch(scale, 8, [x, x], [(8,)], [np.float32])
    with pytest.raises(ValueError, match="output_shapes"):
        launch(scale, 8, [x], [], [np.float32])
    with pytest.raises(ValueError, match="output_dtypes"):
        launch(scale, 8, [x], [(8,)], [])
    with pytest.raises(ValueError, match="float64"):
        launch(scale, 8, [x.astype(np.float64)], [(8,)], [np.float32])
    with pytest.raises(ValueError, match="float64"):
        launch(scale, 8, [x], [(8,)], [np.float64])
    with pytest.raises(ValueError, match="neither an array nor a number"):
        launch(scale, 8, ["text"], [(8,)], [np.float32])
    with pytest.raises(ValueError, match="mixes"):
        launch(make(ID, inputs="a b"), 8, [mx.array(1), torch.ones(1)], [(8,)], [np.float32])
    with pytest.raises(ValueError, match="math_mode"):
        make(ID, compile_options={"math_mode": "quick"})
    with pytest.raises(ValueError, match="Unknown compile option"):
        make(ID, compile_options={"other": 1})
    with pytest.raises(TypeError):
        scale(x)
    with pytest.raises(SyntaxError, match="no_such_name") as caught:
        launch(make(ID + "\ny[i] = no_such_name;"), 8, [x], [(8,)], [np.float32])
    assert "source>:2" in str(caught.value)


@pytest.mark.feature("API", "metal_kernel: compile_options math_mode")
def test_math_modes() -> None:
    source = "#ifdef __FAST_MATH__\ny[0] = 1;\n#else\ny[0] = 0;\n#endif\n"
    for options, expected in ((None, 0), ({"math_mode": "safe"}, 0), ({"math_mode": "fast"}, 1)):
        kernel = make(source, inputs="", compile_options=options)
        assert launch(kernel, 1, [], [(1,)], [np.int32])[0].tolist() == [expected]


@pytest.mark.feature("API", "metal_kernel: gradients through mx.custom_function, an error without")
def test_gradients() -> None:
    kernel = make(ID + " y[i] = x[i] * x[i];")

    def square(x: Any) -> Any:
        return launch(kernel, x.size, [x], [x.shape], [x.dtype])[0]

    custom = mx.custom_function(square)
    custom.vjp(lambda x, cotangent, output: 2 * x * cotangent)
    x = mx.arange(5.0)
    assert mx.grad(lambda v: custom(v * 3).sum())(x).tolist() == [18 * i for i in range(5)]
    with pytest.raises(ValueError, match="Not implemented"):
        mx.grad(lambda v: square(v).sum())(x)
    assert square(mx.arange(3.0)[::-1] + 1).tolist() == [9, 4, 1]  # evaluated first


def test_inputs_are_not_changed_and_outputs_are_new(scale: Any) -> None:
    x = mx.arange(40.0)
    first = launch(scale, 40, [x], [(40,)], [mx.float32], template=[("T", mx.float32)])[0]
    second = launch(scale, 40, [x], [(40,)], [mx.float32], template=[("T", mx.float32)])[0]
    assert x.tolist() == list(range(40)) and mx.array_equal(first, second)
    zeros = mx.zeros((40,))
    third = launch(scale, 40, [x], [(40,)], [mx.float32], template=[("T", mx.float32)], init_value=0)[0]
    assert not zeros.any().item() and mx.array_equal(first, third)
