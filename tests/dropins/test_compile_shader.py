"""torch.mps.compile_shader's rules, on torch tensors and NumPy arrays, errors included."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.errors import CompileError, KernelFault, MetalcoreError

torch = pytest.importorskip("torch")

SOURCE = """
#include <metal_stdlib>
using namespace metal;

kernel void saxpy(device const float* x, device float* y, constant float& a, uint i [[thread_position_in_grid]]) {
  y[i] += a * x[i];
}
kernel void add_long(device long* x, constant long& n, uint i [[thread_position_in_grid]]) { x[i] += n; }
kernel void add_int(device int* x, constant int& n, uint i [[thread_position_in_grid]]) { x[i] += n; }
kernel void add_half(device half* x, constant half& n, uint i [[thread_position_in_grid]]) { x[i] += n; }
kernel void where_am_i(device uint* out, uint3 p [[thread_position_in_grid]], uint3 n [[threads_per_grid]],
                       uint3 g [[threads_per_threadgroup]]) {
  out[(p.z * n.y + p.y) * n.x + p.x] = (g.x << 20) | (g.y << 10) | g.z;
}
kernel void sum_table(device float* out, constant float* table, constant long* weights,
                      uint i [[thread_position_in_grid]]) {
  out[i] = table[0] * weights[0] + table[1] * weights[1];
}
kernel void gather(device float* out, device const float* constant* parts, uint i [[thread_position_in_grid]]) {
  out[i] = parts[i][1];
}
kernel void group_memory(device float* out, uint i [[thread_position_in_threadgroup]]) {
  threadgroup float shared[64];
  shared[i] = i;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = shared[63 - i];
}
[[max_total_threads_per_threadgroup(128)]] kernel void limited(device float* out, uint i [[thread_position_in_grid]]) {
  out[i] = i;
}
"""


@pytest.fixture(scope="module")
def library() -> Any:
    return metalcore.compile_shader(SOURCE)


@pytest.mark.feature("API", "compile_shader: kernels by attribute, dir(), RuntimeError for an absent kernel")
def test_library(library: Any) -> None:
    names = ["saxpy", "add_long", "add_int", "add_half", "where_am_i", "sum_table", "gather", "group_memory", "limited"]
    assert sorted(dir(library)) == sorted(names)
    assert library.saxpy is library.saxpy
    with pytest.raises(RuntimeError, match="nothing_like_it"):
        _ = library.nothing_like_it
    with pytest.raises(RuntimeError):
        hasattr(library, "other")


@pytest.mark.feature("API", "compile_shader on torch tensors and NumPy arrays")
@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_saxpy(library: Any, framework: str) -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    given = (torch.from_numpy(x), torch.from_numpy(y)) if framework == "torch" else (x, y)
    assert library.saxpy(*given, 2.5, threads=1000, group_size=256) is None
    assert (y == np.float32(2.5) * x + 1).all()
    library.saxpy(*given, 1.0)  # as many threads as the first tensor has elements
    assert (y == np.float32(3.5) * x + 1).all()


@pytest.mark.feature("API", "compile_shader: tensors are bound at their storage offset, strides unseen")
def test_raw_memory(library: Any) -> None:
    base = torch.zeros(20)
    y = base[4:].view(4, 4).t()[1:]  # 5 elements in, transposed
    library.saxpy(torch.arange(3, dtype=torch.float32), y, 1.0, threads=3)
    assert base.tolist() == [0, 0, 0, 0, 0, 0, 1, 2] + [0] * 12
    memory = np.zeros(6, np.float32)
    library.saxpy(np.ones(3, np.float32), memory[::-2], 1.0, threads=1)
    assert memory.tolist() == [0, 0, 0, 0, 0, 1]


def test_numbers(library: Any) -> None:
    x = torch.zeros(3, dtype=torch.int64)
    library.add_long(x, 1 << 40)
    library.add_long(x, True)
    assert x.tolist() == [(1 << 40) + 1] * 3
    out = torch.zeros(2)
    library.sum_table(out, [0.5, 2.0], (3, 4))
    assert out.tolist() == [9.5, 9.5]
    small = torch.zeros(2, dtype=torch.int32)
    library.add_int(small, 7, arg_casts="int32")
    library.add_int(small, 7.9, arg_casts={1: "int32"})
    assert small.tolist() == [14, 14]
    halves = torch.zeros(2, dtype=torch.float16)
    library.add_half(halves, 0.5, arg_casts={1: "fp16"})
    assert halves.tolist() == [0.5, 0.5]


@pytest.mark.feature("API", "compile_shader: a list of tensors is an array of addresses, bounded")
def test_list_of_tensors(library: Any) -> None:
    parts = [torch.tensor([float(i), float(10 * i)]) for i in range(5)]
    out = torch.zeros(5)
    library.gather(out, parts)
    assert out.tolist() == [0, 10, 20, 30, 40]
    with pytest.raises(KernelFault):
        library.gather(torch.zeros(2), [torch.zeros(1), torch.zeros(1)])


def test_threads(library: Any) -> None:
    out = torch.zeros(60, dtype=torch.int32)
    library.where_am_i(out, threads=(5, 4, 3), group_size=(5, 4, 3))
    assert out.tolist() == [(5 << 20) | (4 << 10) | 3] * 60
    out.zero_()
    library.where_am_i(out, threads=(30, 2), group_size=[7, 2])
    assert out.tolist() == ([(7 << 20) | (2 << 10) | 1] * 28 + [(2 << 20) | (2 << 10) | 1] * 2) * 2
    library.where_am_i(out, threads=0)
    with pytest.raises(ValueError, match="Threadgroup size exceeds 1024 limit"):
        library.where_am_i(out, threads=2048, group_size=2048)
    with pytest.raises(RuntimeError):
        library.where_am_i(out, threads=(5, 4), group_size=5)
    with pytest.raises(RuntimeError, match="Number of threads is undefined"):
        library.where_am_i(1)


@pytest.mark.feature("API", "compile_shader: properties of a kernel")
def test_properties(library: Any) -> None:
    assert library.saxpy.max_threads_per_threadgroup == 1024
    assert library.saxpy.thread_execution_width == 32
    assert library.saxpy.static_thread_group_memory_length == 0
    assert library.group_memory.static_thread_group_memory_length == 256
    assert library.limited.max_threads_per_threadgroup == 128
    with pytest.raises(ValueError, match="exceeds 128 limit"):
        library.limited(torch.zeros(256), group_size=256)
    out = torch.zeros(300)
    library.limited(out)
    assert out.tolist() == list(range(300))
    out = torch.zeros(64)
    library.group_memory(out)
    assert out.tolist() == list(range(63, -1, -1))


def test_argument_errors(library: Any) -> None:
    x = torch.zeros(4)
    for wrong in (None, "text", [], np.float32(1)):
        with pytest.raises(RuntimeError):
            library.saxpy(x, x, wrong)
    with pytest.raises(RuntimeError, match=r"'a' \[\[buffer\(2\)\]\]"):
        library.saxpy(x, x)
    library.saxpy(x, x, 1.0, 5, 6)  # what is bound beyond the kernel's buffers is ignored, as by Metal
    read_only = np.zeros(4, np.float32)
    read_only.flags.writeable = False
    with pytest.raises(MetalcoreError, match="read-only"):
        library.saxpy(x, read_only, 1.0)


@pytest.mark.feature("API", "compile_shader: a SyntaxError at once, ASCII only, text only")
def test_bad_source() -> None:
    with pytest.raises(SyntaxError, match="undefined_name") as caught:
        metalcore.compile_shader("kernel void f(device float* x) { x[0] = 1; }\nkernel void g() { undefined_name(); }")
    assert isinstance(caught.value, CompileError) and ":2" in str(caught.value)
    with pytest.raises(SyntaxError):
        metalcore.compile_shader("this is not MSL")
    with pytest.raises(SyntaxError, match="line 2, column 4"):
        metalcore.compile_shader("//\n// \u00e9\nkernel void f() {}")
    for wrong in (b"kernel void f() {}", None, 3):
        with pytest.raises(TypeError):
            metalcore.compile_shader(wrong)  # type: ignore[arg-type]
    assert dir(metalcore.compile_shader("constant float x = 1;")) == []


def test_out_of_bounds_is_caught(library: Any) -> None:
    memory = torch.zeros(64)
    with pytest.raises(KernelFault, match="add_int"):
        library.add_int(memory[60:], 1, threads=8, arg_casts="int32")
    assert not memory[:60].any()


@pytest.mark.feature("API", "compile_shader: c10/metal headers of the installed torch, error_buf_idx")
def test_torch_headers_and_error_buffer() -> None:
    library = metalcore.compile_shader("""
    #include <c10/metal/utils.h>
    #include <c10/metal/error.h>
    kernel void checked_sqrt(device float* x, device c10::metal::ErrorMessages* errors,
                             uint i [[thread_position_in_grid]]) {
      if (x[i] < 0) {
        TORCH_REPORT_ERROR(errors, "negative value at ", long(i));
        return;
      }
      x[i] = ::metal::precise::sqrt(x[i]);
    }
    """)
    x = torch.tensor([4.0, 9.0])
    library.checked_sqrt(x, error_buf_idx=1)
    assert x.tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="checked_sqrt: negative value at 1"):
        library.checked_sqrt(torch.tensor([1.0, -1.0]), error_buf_idx=1)


@pytest.mark.feature("API", "compile_shader: PYTORCH_MPS_FAST_MATH")
def test_math_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
    kernel void mode(device int* out) {
    #ifdef __FAST_MATH__
      out[0] = 1;
    #else
      out[0] = 0;
    #endif
    }"""
    out = np.full(1, -1, np.int32)
    for value, expected in ((None, 0), ("0", 0), ("1", 1)):
        monkeypatch.delenv("PYTORCH_MPS_FAST_MATH", raising=False)
        if value is not None:
            monkeypatch.setenv("PYTORCH_MPS_FAST_MATH", value)
        metalcore.compile_shader(source).mode(out)
        assert out[0] == expected


def test_threads_of_python_may_compile_and_launch_at_once() -> None:
    library = metalcore.compile_shader(SOURCE)
    arrays = [torch.zeros(100, dtype=torch.int64) for _ in range(8)]
    workers = [threading.Thread(target=lambda x=x, i=i: library.add_long(x, i)) for i, x in enumerate(arrays)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [int(x.unique()) for x in arrays] == list(range(8))
