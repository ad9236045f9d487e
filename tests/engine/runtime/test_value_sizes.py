"""`constant T&` has all its bytes, whatever binds it: compiled code reads it without a test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.engine.runtime import layout
from metalcore.errors import ArgumentError

SOURCE = """#include <metal_stdlib>
using namespace metal;
struct S { float a[3]; uint n; };
kernel void square(device float* o, constant float4x4& s, uint i [[thread_position_in_grid]]) { o[i] = s[3][3]; }
kernel void number(device float* o, constant int& s, uint i [[thread_position_in_grid]]) { o[i] = s; }
kernel void record(device float* o, constant S& s, uint i [[thread_position_in_grid]]) { o[i] = s.n; }
kernel void here(device float* o, device S& s, uint i [[thread_position_in_grid]]) { o[i] = s.n; }
"""
NEEDED = {"square": 64, "number": 4, "record": 16, "here": 16}
LIBRARY = metalcore.Library(SOURCE)
SHADERS = metalcore.compile_shader(SOURCE)


def needs(name: str, given: int) -> Any:
    space = "device" if name == "here" else "constant"
    return pytest.raises(
        ArgumentError,
        match=f"kernel '{name}', argument 1 's' .*{space}.*it needs {NEEDED[name]} bytes, and {given} are bound",
    )


@pytest.mark.feature("API", "the size of constant T& is tested on every route")
@pytest.mark.parametrize(("name", "size"), [("square", 15), ("square", 0), ("record", 3), ("here", 2), ("number", 0)])
def test_compile_shader_binds_no_less_than_the_type(name: str, size: int) -> None:
    o = torch.zeros(4)
    for value in (torch.ones(size), np.ones(size, np.float32)):
        with needs(name, 4 * size):
            getattr(SHADERS, name)(o, value, threads=4, group_size=4)
    assert not o.any()


def test_compile_shader_scalars_and_lists() -> None:
    o = torch.zeros(4)
    with needs("record", 8):  # PyTorch passes an int as eight bytes
        SHADERS.record(o, 5, threads=4)
    with needs("square", 4):
        SHADERS.square(o, 5.0, threads=4)
    with needs("record", 12):
        SHADERS.record(o, [1.0, 2.0, 3.0], threads=4)
    with needs("number", 1):
        SHADERS.number(o, 5, threads=4, arg_casts="int8")
    SHADERS.number(o, 5, threads=4)  # more than it needs
    assert o.tolist() == [5] * 4
    SHADERS.record(o, [0, 7 << 32], threads=4)
    assert o.tolist() == [7] * 4


@pytest.mark.parametrize("mode", ["checked", "fast", "sanitize"])
def test_launch_raw_and_launch_packed(mode: str) -> None:
    o, s = np.zeros(4, np.float32), np.ones(15, np.float32)
    f = LIBRARY.function("square")

    def memory(array: Any) -> Any:
        return SimpleNamespace(
            address=array.ctypes.data, size=array.nbytes, writable=True, inside=(), fresh=False, owner=array
        )

    with metalcore.mode(mode):
        with needs("square", 60):
            f.launch_raw([memory(o), memory(s)], grid=(4, 1, 1), group=(4, 1, 1))
        pairs = np.array([o.ctypes.data, o.nbytes, s.ctypes.data, s.nbytes], np.uint64)
        with needs("square", 60):
            f.launch_packed(pairs.tobytes(), (o, s), (1,), (4,))
        short = np.array([o.ctypes.data, o.nbytes, 32, 8 | layout.INLINE, 0], np.uint64)
        with needs("square", 8):
            f.launch_packed(short.tobytes(), o, (1,), (4,))
    assert not o.any()


def test_what_is_off_or_left_out_of_a_raw_launch_is_zeros() -> None:
    source = """constant bool on [[function_constant(0)]];
    kernel void f(device float* o, constant float& a [[function_constant(on)]], uint i [[thread_position_in_grid]]) {
      o[i] = on ? a : 3; }"""
    f = metalcore.Library(source).function("f", {"on": False})
    o = np.ones(4, np.float32)
    bound = SimpleNamespace(address=o.ctypes.data, size=16, writable=True, inside=(), fresh=False)
    f.launch_raw([bound], grid=(4, 1, 1), group=(4, 1, 1))
    assert o.tolist() == [3] * 4


def test_function_call_says_what_it_always_said() -> None:
    o = np.zeros(4, np.float32)
    for value in (np.ones(15, np.float32), np.zeros(0, np.float32), bytes(63)):
        with pytest.raises(ArgumentError, match=r"'s' .*it needs (exactly )?64 bytes"):
            LIBRARY.function("square")(o, value, threads=4)
    with pytest.raises(ArgumentError, match="it needs 16 bytes"):
        LIBRARY.function("here")(o, np.zeros(3, np.float32), threads=4)


def test_metal_kernel_with_a_header_of_its_own() -> None:
    kernel = metalcore.metal_kernel(
        name="k", input_names=["s"], output_names=["y"], source="y[thread_position_in_grid.x] = s[0];"
    )
    empty = np.zeros((0,), np.float32)
    with pytest.raises(metalcore.errors.KernelFault, match="'s'"):
        kernel(inputs=[empty], output_shapes=[(4,)], output_dtypes=[np.float32], grid=(4, 1, 1), threadgroup=(4, 1, 1))


def test_two_types_that_share_a_slot() -> None:
    source = """constant bool wide [[function_constant(0)]]; constant bool narrow = !wide;
    kernel void f(device float* o, constant float& a [[buffer(1), function_constant(narrow)]],
        constant float4& b [[buffer(1), function_constant(wide)]], uint i [[thread_position_in_grid]]) {
      o[i] = wide ? b.w : a; }"""
    library = metalcore.Library("#include <metal_stdlib>\nusing namespace metal;\n" + source)
    o = np.zeros(4, np.float32)
    library.function("f", {"wide": False})(o, 5.0, threads=4)
    assert o.tolist() == [5] * 4
    library.function("f", {"wide": True})(o, (1, 2, 3, 4), threads=4)
    assert o.tolist() == [4] * 4
    with pytest.raises(ArgumentError, match=r"'b' .*it needs 16 bytes"):
        library.function("f", {"wide": True})(o, np.ones(1, np.float32), threads=4)
