"""Arguments and launch sizes of torch.mps.compile_shader's kernels, as the bytes that a kernel gets."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from metalcore.dropins.binding import bind_array
from metalcore.dropins.shader_arguments import (
    INLINE_LIMIT,
    Casts,
    ShaderArgumentError,
    bind_value,
    extents,
    launch_size,
)
from metalcore.engine.runtime.raw_binding import Binding
from metalcore.errors import ArgumentError, LaunchError
from metalcore.launch import ThreadLimit


def limit(threads: int) -> list[ThreadLimit]:
    return [ThreadLimit(threads, f"the limit is {threads}")]


def read(binding: Binding, dtype: str) -> list[object]:
    return np.frombuffer(ctypes.string_at(binding.address, binding.size), dtype).tolist()


@pytest.mark.feature("API", "compile_shader: int as int64, float as float32, bool as int64, lists of them")
@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (7, "int64", [7]),
        (-(1 << 63), "int64", [-(1 << 63)]),
        (True, "int64", [1]),
        (0.1, "float32", [float(np.float32(0.1))]),
        (1e300, "float32", [float("inf")]),
        ([1, 2, 3], "int64", [1, 2, 3]),
        ((1.5, 2), "float32", [1.5, 2.0]),
        (np.float64(2.5), "float32", [2.5]),
    ],
)
def test_numbers(value: object, dtype: str, expected: list[object]) -> None:
    binding = bind_value(value, 0, Casts(None))
    assert read(binding, dtype) == expected
    assert binding.address % 16 == 0


@pytest.mark.feature("API", "compile_shader: arg_casts for all scalars or by index")
def test_casts() -> None:
    assert read(bind_value(3.75, 0, Casts("int32")), "int32") == [3]
    assert read(bind_value((1 << 32) + 5, 0, Casts("int32")), "int32") == [5]
    assert read(bind_value(-1, 0, Casts("uint8")), "uint8") == [255]
    assert read(bind_value([300, -2], 0, Casts("int16")), "int16") == [300, -2]
    assert read(bind_value(1.0 / 3, 0, Casts("fp16")), "float16") == [float(np.float16(1.0 / 3))]
    assert read(bind_value([1.0, 3.140625, -0.0], 0, Casts("bf16")), "uint16") == [0x3F80, 0x4049, 0x8000]
    by_index = Casts({1: "int8"})
    assert read(bind_value(5, 0, by_index), "int64") == [5]
    assert read(bind_value(5, 1, by_index), "int8") == [5]


def test_bfloat16_rounds_to_even_and_keeps_nan() -> None:
    values = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F800000], np.uint32).view(np.float32)
    assert read(bind_value(values.tolist(), 0, Casts("bf16")), "uint16") == [0x3F80, 0x3F82, 0x3F81, 0x7F80]
    assert read(bind_value(float("nan"), 0, Casts("bf16")), "uint16") == [0x7FC0]


@pytest.mark.feature("API", "compile_shader: errors for arguments are PyTorch's RuntimeError")
@pytest.mark.parametrize(
    "value",
    ["text", None, np.float32(1), np.int64(1), 1j, [], (), [1, 2.5], [1.0, "x"], ["x"], 1 << 63, [1, None], b"ab"],
)
def test_bad_values(value: object) -> None:
    with pytest.raises(RuntimeError) as caught:
        bind_value(value, 3, Casts(None))
    assert isinstance(caught.value, ArgumentError)
    assert "argument" in str(caught.value)


def test_lists_have_a_limit() -> None:
    assert bind_value([0] * (INLINE_LIMIT // 8), 0, Casts(None)).size == INLINE_LIMIT
    with pytest.raises(RuntimeError, match="at most 4096 bytes"):
        bind_value([0] * (INLINE_LIMIT // 8 + 1), 0, Casts(None))


@pytest.mark.parametrize("casts", ["int64", {0: "float"}, 7, ["fp16"]])
def test_bad_casts(casts: object) -> None:
    with pytest.raises(RuntimeError, match=r"Unsupported cast instruction|Unexpected caster arg type"):
        Casts(casts)  # type: ignore[arg-type]


def test_a_list_of_arrays_is_a_list_of_addresses() -> None:
    first, second = np.arange(4.0), np.arange(6.0)
    binding = bind_value([first, second[2:]], 0, Casts(None))
    addresses = read(binding, "uint64")
    assert addresses == [first.__array_interface__["data"][0], second.__array_interface__["data"][0] + 16]
    assert [inner.size for inner in binding.inside] == [32, 32]
    with pytest.raises(RuntimeError, match="mixes"):
        bind_value([first, 1], 0, Casts(None))


@pytest.mark.parametrize(
    ("threads", "group", "expected"),
    [
        ((10,), None, ((10, 1, 1), (10, 1, 1))),
        ((5000,), None, ((5000, 1, 1), (1024, 1, 1))),
        ((8, 4), None, ((8, 4, 1), (1024, 1, 1))),
        ((8, 4, 2), (4, 2, 1), ((8, 4, 2), (4, 2, 1))),
        ((0,), None, ((0, 1, 1), (0, 1, 1))),
        ((33,), (32,), ((33, 1, 1), (32, 1, 1))),
    ],
)
def test_launch_sizes(threads: tuple[int, ...], group: tuple[int, ...] | None, expected: object) -> None:
    assert launch_size(threads, group, limit(1024)) == expected


@pytest.mark.feature("API", "compile_shader: threads and group_size, with PyTorch's defaults and errors")
def test_bad_launch_sizes() -> None:
    with pytest.raises(ValueError, match="Threadgroup size exceeds 1024 limit") as caught:
        launch_size((2048,), (2048,), limit(1024))
    assert isinstance(caught.value, LaunchError)
    with pytest.raises(ValueError, match="exceeds 64 limit"):
        launch_size((64, 64), (16, 16), limit(64))
    with pytest.raises(RuntimeError, match="must agree"):
        launch_size((64, 64), (16,), limit(1024))
    with pytest.raises(ValueError, match="holds no thread"):
        launch_size((64,), (0,), limit(1024))
    assert extents(None, "threads") is None
    assert extents(5, "threads") == (5,)
    assert extents([5, 6], "threads") == (5, 6)
    for wrong in ((), (1, 2, 3, 4), (-1,), (1.5,), ("a",)):
        with pytest.raises(ShaderArgumentError):
            extents(wrong, "threads")


class TestMemory:
    """Arrays are bound at their first element, up to the end of their storage, strides unseen."""

    def test_numpy_views(self) -> None:
        base = np.arange(24, dtype=np.float32)
        start = base.__array_interface__["data"][0]
        for view, offset in ((base, 0), (base[5:9], 20), (base.reshape(4, 6).T, 0), (base[::-1], 92)):
            binding = bind_array(view, "x")
            assert (binding.address - start, binding.size) == (offset, 96 - offset)

    def test_read_only_numpy(self) -> None:
        array = np.zeros(3)
        array.flags.writeable = False
        assert not bind_array(array, "x").writable

    @pytest.mark.parametrize("dtype", [object, ">f4"])
    def test_numpy_that_a_kernel_cannot_read(self, dtype: object) -> None:
        with pytest.raises(ArgumentError, match="argument 2"):
            bind_array(np.zeros(2, dtype), "argument 2")

    def test_torch_storage_offset(self) -> None:
        torch = pytest.importorskip("torch")
        base = torch.arange(24, dtype=torch.float32)
        for view, offset in ((base, 0), (base[5:9], 20), (base.view(4, 6).t(), 0), (base[4:].view(4, 5)[:, 1:], 20)):
            binding = bind_array(view, "x")
            assert (binding.address - base.data_ptr(), binding.size) == (offset, 96 - offset)
        with pytest.raises(ArgumentError, match="meta"):
            bind_array(torch.empty(3, device="meta"), "x")
        with pytest.raises(ArgumentError, match="sparse"):
            bind_array(torch.eye(3).to_sparse(), "x")

    def test_mlx_is_bound_without_a_copy_and_not_for_writing(self) -> None:
        mx = pytest.importorskip("mlx.core")
        array = mx.arange(12, dtype=mx.bfloat16).reshape(3, 4)
        binding = bind_array(array, "x")
        assert (binding.size, binding.writable) == (24, False)
        assert bind_array(array, "x").address == binding.address
        assert bind_array(array[1:], "x").address == binding.address + 8
