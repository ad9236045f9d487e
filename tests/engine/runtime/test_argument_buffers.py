"""Argument buffers: structs of pointers and values, bound as one argument and filled from Python by names."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError, KernelFault

SOURCE = """#include <metal_stdlib>
using namespace metal;
enum class Kind : uchar { add, multiply };
struct Base { int offset [[id(20)]]; };
template <typename T> struct Inner { vec<T, 4> v; half h; bool on; packed_float3 q[2]; };
template <typename T> struct Args : Base {
  device float* out[4] [[id(0)]];
  device const float* x [[id(4)]];
  uint n [[id(5)]];
  Inner<T> inner [[id(6)]];
  constant uint* c [[id(9)]];
  Kind kind;
  float3x2 m;
  struct { short s; };
  array<device float*, 2> more [[id(30)]];
};
kernel void apply(constant Args<float>& a [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  for (uint k = 0; k < a.n; k++) {
    float by = a.inner.v.y + a.inner.h + a.inner.q[1].z + a.m[2].x + a.c[0] + a.offset + a.s;
    a.out[k][i] = a.kind == Kind::add ? a.x[i] + by : a.x[i] * by;
  }
  if (a.inner.on) a.more[1][i] = 1;
}
struct State { uint steps; float4 last; device float* x; };
kernel void advance(device State& s, uint i [[thread_position_in_grid]]) {
  s.x[i] += 1;
  if (i == 0) { s.steps += 1; s.last = float4(1, 2, 3, 4); }
}
struct Item { device const float* x; uint n; };
kernel void items(device const Item* all, device float* o, uint i [[thread_position_in_grid]]) {
  o[i] = all[i].x[0] * all[i].n;
}
struct Outer { device const State* state; device float* device* table; };
kernel void nested(constant Outer& a, uint i [[thread_position_in_grid]]) {
  a.state->x[i] = a.state->steps;
  a.table[1][i] = 9;
}
struct Odd { uint low : 4; uint high : 4; device float* x; };
kernel void odd(constant Odd& a, uint i [[thread_position_in_grid]]) { a.x[i] = a.low; }
"""
LIBRARY = metalcore.Library(SOURCE)


def zeros(count: int = 4) -> Any:
    return np.zeros(count, np.float32)


def arguments(**changes: Any) -> dict[str, Any]:
    inner = {"v": (0, 1, 0, 0), "h": 0.5, "on": False, "q": [(0, 0, 0), (0, 0, 2)]}
    c = np.array([10], np.uint32)
    c.flags.writeable = False
    values = {"offset": 100, "out": [zeros()], "x": np.arange(4, dtype=np.float32), "n": 1, "inner": inner, "c": c}
    values |= {"kind": 0, "m": np.array([(0, 0), (0, 0), (20, 0)], np.float32), "s": 1000, "more": [None, None]}
    return values | changes


BY = 1 + 0.5 + 2 + 20 + 10 + 100 + 1000


@pytest.mark.feature("API", "argument buffers: structs of pointers and values ([[id(n)]]), filled from a dict")
def test_a_struct_from_a_dict() -> None:
    apply = LIBRARY.function("apply")
    out = [zeros(), zeros()]
    apply(arguments(out=out, n=2), threads=4)
    assert out[0].tolist() == out[1].tolist() == [BY, BY + 1, BY + 2, BY + 3]
    apply(a=arguments(out=out, kind=1), threads=4)
    assert out[0].tolist() == [0, BY, 2 * BY, 3 * BY]


@pytest.mark.feature("API", "argument_buffer: a struct that is kept and changed between launches")
def test_a_buffer_is_kept_and_changed() -> None:
    apply = LIBRARY.function("apply")
    out = zeros()
    buffer = metalcore.argument_buffer(apply, "a", arguments(out=[out]), n=1)
    gc.collect()  # the arrays live in the buffer
    apply(buffer, threads=4)
    assert out.tolist() == [BY, BY + 1, BY + 2, BY + 3]
    buffer["x"] = np.full(4, 5, np.float32)
    buffer["offset"] = 0
    apply(buffer, threads=4)
    assert out.tolist() == [BY + 5 - 100] * 4
    assert buffer["n"] == 1 and buffer["offset"] == 0 and buffer["m"].tolist() == [[0, 0], [0, 0], [20, 0]]
    buffer["out"] = []
    with pytest.raises(KernelFault, match="address 0x0 lies in none of the arrays bound"):
        apply(buffer, threads=4)


def test_a_kernel_that_writes_its_struct() -> None:
    step, x = LIBRARY.function("advance"), zeros()
    state = metalcore.argument_buffer(step, 0, steps=3, last=(0, 0, 0, 0), x=x)
    step(state, threads=4)
    step(state, threads=4)
    assert state["steps"] == 5 and state["last"].tolist() == [1, 2, 3, 4] and x.tolist() == [2] * 4
    with pytest.raises(ArgumentError, match=r"the kernel writes it: pass metalcore.argument_buffer"):
        step({"steps": 3, "last": (0, 0, 0, 0), "x": x}, threads=4)


def test_structs_in_a_row_and_structs_behind_pointers() -> None:
    o = zeros(2)
    rows = [{"x": np.full(1, 2, np.float32), "n": 3}, {"x": np.full(1, 4, np.float32), "n": 5}]
    LIBRARY.function("items")(rows, o, threads=2)
    assert o.tolist() == [6, 20]
    x, y = zeros(), zeros()
    state = metalcore.argument_buffer(LIBRARY.function("advance"), "s", steps=7, last=(0, 0, 0, 0), x=x)
    LIBRARY.function("nested")({"state": state, "table": [None, y]}, threads=4)
    assert x.tolist() == [7] * 4 and y.tolist() == [9] * 4


def test_pointers_are_checked_and_obey_const() -> None:
    apply, out = LIBRARY.function("apply"), zeros()
    with pytest.raises(KernelFault, match="index 4, the size is 4"):
        apply(arguments(out=[out]), threads=5)
    fixed = zeros()
    fixed.flags.writeable = False
    apply(arguments(x=fixed), threads=4)
    with pytest.raises(ArgumentError, match=r"a.out\[0\]: .*is read-only, and the kernel may write"):
        apply(arguments(out=[fixed]), threads=4)
    x = zeros()
    item = metalcore.Library(SOURCE + "kernel void w(constant Item& a) { ((device float*)a.x)[0] = 1; }").function("w")
    with pytest.raises(KernelFault, match="read-only"):
        item({"x": x, "n": 1}, threads=1)
    assert not x.any()


PAIR = """struct Pair { device const float* x; device float* y[2]; };
kernel void pair(constant Pair& p, uint i [[thread_position_in_grid]]) {
  p.y[1][i] = p.x[i];
  ((device float*)p.x)[i] = 1;
}
"""


@pytest.mark.parametrize("ours", [True, False])
def test_a_list_for_a_struct_of_pointers_obeys_each_const(ours: bool) -> None:
    x, y, z = (torch.full((4,), float(n)) for n in (5, 6, 7))
    pair: Any = metalcore.Library(PAIR).function("pair") if ours else metalcore.compile_shader(PAIR).pair
    with pytest.raises(KernelFault, match="write on read-only memory"):
        pair([x, y, z], threads=4)
    assert x.tolist() == [5] * 4 and z.tolist() == [5] * 4


def test_buffers_that_point_to_one_another() -> None:
    source = """struct Node { device const Node* next; device float* x; };
    kernel void walk(constant Node& n, uint i [[thread_position_in_grid]]) {
      n.next->next->x[i] = 1; n.next->x[i] = 2; }"""
    walk = metalcore.Library(source).function("walk")
    first, second = (metalcore.argument_buffer(walk, "n", next=None, x=None) for _ in "ab")
    first["next"], second["next"] = second, first
    first["x"], second["x"] = x, y = zeros(), zeros()  # set behind the pointers to them
    walk(first, threads=4)
    assert x.tolist() == [1] * 4 and y.tolist() == [2] * 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n": -1}, r"a\.n .*-1 is out of range"),
        ({"n": None}, r"a\.n: it must be unsigned int, not"),
        ({"n": (1, 2)}, r"a\.n: unsigned int takes 1 number, not"),
        ({"x": zeros().astype(np.float64)}, r"a\.x: it must be an array of float32, .*float64"),
        ({"x": 4096}, r"a\.x: a pointer takes an array, an argument buffer or None, not the int 4096"),
        ({"out": zeros()}, r"a\.out: it is an array of 4, given as a list|a\.out\[0\]: a pointer takes"),
        ({"out": [zeros()] * 5}, r"a\.out: it is an array of 4, and 5 are given"),
        ({"inner": 5}, r"a\.inner: a struct is a dict of its members"),
        ({"inner": {"v": (1, 2, 3, 4)}}, r"a\.inner misses h, on, q"),
        ({"other": 1}, r"a has no member 'other'; .* has: offset, out, x"),
        ({"kind": "add"}, r"a\.kind: a member of type enum Kind"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        LIBRARY.function("apply")(arguments(**changes), threads=4)


def test_what_is_no_struct_is_named() -> None:
    apply = LIBRARY.function("apply")
    with pytest.raises(ArgumentError, match="has no argument 'b'; it has: a"):
        metalcore.argument_buffer(apply, "b", n=1)
    with pytest.raises(ArgumentError, match=r"takes a kernel, library.function\(name\)"):
        metalcore.argument_buffer(3, "a")
    with pytest.raises(ArgumentError, match=r"bit-field unsigned int.*pass the struct as bytes"):
        LIBRARY.function("odd")({"low": 1, "high": 2, "x": zeros()}, threads=1)
    with pytest.raises(ArgumentError, match=r"'o' .*not a struct filled by names"):
        LIBRARY.function("items")(bytes(16), {"x": 1}, threads=1)
    other = metalcore.argument_buffer(LIBRARY.function("items"), "all", x=zeros(1), n=1)
    with pytest.raises(ArgumentError, match=r"it takes structs of .* bytes, not .*Item"):
        apply(other, threads=1)


class Odd(ctypes.Structure):
    _fields_ = [("bits", ctypes.c_uint32), ("x", ctypes.c_void_p)]


@pytest.mark.feature("API", "argument buffers as bytes and ctypes.Structure")
@pytest.mark.parametrize("raw", [bytes, lambda x: x])
def test_raw_addresses_reach_only_what_is_bound(raw: Any) -> None:
    x = zeros()
    struct = Odd(0x25, x.ctypes.data)
    with pytest.raises(KernelFault, match="lies in none of the arrays bound"):
        LIBRARY.function("odd")(raw(struct), threads=4)
    assert not x.any()
    source = SOURCE.replace("void odd(constant Odd& a,", "void odd(constant Odd& a, device float* bound,")
    metalcore.Library(source).function("odd")(raw(struct), x, threads=4)
    assert x.tolist() == [5] * 4
    with pytest.raises(ArgumentError, match="16 bytes"):
        LIBRARY.function("odd")(bytes(struct)[:8], threads=4)


def test_compile_shader_takes_them_too() -> None:
    kernel = metalcore.compile_shader(SOURCE).apply
    out = [torch.zeros(4) for _ in range(4)]
    kernel(arguments(out=out, n=4, x=torch.ones(4)), threads=4)
    assert all(t.tolist() == [BY + 1] * 4 for t in out)
    kernel(metalcore.argument_buffer(kernel, "a", arguments(out=out, x=torch.zeros(4))), threads=4)
    assert out[0].tolist() == [BY] * 4 and out[1].tolist() == [BY + 1] * 4
    with pytest.raises(KernelFault, match="index 4"):
        kernel(arguments(out=out), threads=5)


@pytest.mark.parametrize("mode", ["fast", "sanitize"])
def test_other_modes(mode: str) -> None:
    out = zeros()
    with metalcore.mode(mode):
        LIBRARY.function("apply")(arguments(out=[out]), threads=4)
    assert out.tolist() == [BY, BY + 1, BY + 2, BY + 3]


FUSED = """#include <metal_stdlib>
using namespace metal;
constant constexpr uint kTensors = 8;
template <typename T> struct AdamArgs {
  array<device T*, kTensors> params [[id(0)]];
  array<device const T*, kTensors> grads [[id(kTensors)]];
  array<device float*, kTensors> steps [[id(2 * kTensors)]];
};
struct Sizes { uint32_t numels[kTensors]; uint32_t chunks[4][2]; };
template <typename T>
kernel void fused(constant AdamArgs<T>& args [[buffer(0)]], constant Sizes& sizes [[buffer(1)]],
    constant float& lr [[buffer(2)]], uint tid [[thread_position_in_threadgroup]],
    uint tgid [[threadgroup_position_in_grid]], uint width [[threads_per_threadgroup]]) {
  const uint t = sizes.chunks[tgid][0];
  if (tid == 0) *args.steps[t] += 1;
  for (uint i = tid; i < sizes.numels[t]; i += width) args.params[t][i] -= T(lr) * args.grads[t][i];
}
template [[host_name("fused_half")]] kernel void fused<half>(
    constant AdamArgs<half>&, constant Sizes&, constant float&, uint, uint, uint);
"""


@pytest.mark.feature("API", "argument buffers of arrays of pointers, as fused optimizers use them")
def test_a_fused_optimizer() -> None:
    fused = metalcore.Library(FUSED).function("fused_half")
    params = [torch.ones(n, dtype=torch.half) for n in (5, 300, 1)]
    grads = [torch.full_like(p, 2) for p in params]
    steps = [torch.zeros(()) for _ in params]
    sizes = {"numels": [p.numel() for p in params], "chunks": [(0, 0), (1, 0), (2, 0)]}
    fused({"params": params, "grads": grads, "steps": steps}, sizes, 0.25, threadgroups=3, group_size=64)
    assert all((p == 0.5).all() for p in params) and [s.item() for s in steps] == [1, 1, 1]


COUNTS = """struct Args { device uint* counts; device const int* signs; uint n; };
kernel void count(constant Args& a, uint i [[thread_position_in_grid]]) { a.counts[i] += a.signs[i] + a.n; }"""


@pytest.mark.feature("API", "compile_shader: an int32 tensor behind a pointer to uint in a dict, and the reverse")
def test_a_shaders_struct_takes_integers_of_either_sign() -> None:
    kernel: Any = metalcore.compile_shader(COUNTS).count
    counts, signs = np.array([1, 2, -1], np.int32), np.array([10, 20, 30], np.uint32)
    kernel({"counts": counts, "signs": signs, "n": 5}, threads=3)
    assert counts.tolist() == [16, 27, 34]
    kernel(metalcore.argument_buffer(kernel, "a", counts=counts, signs=signs, n=0), threads=3)
    assert counts.tolist() == [26, 47, 64]
    with pytest.raises(ArgumentError, match="an array of uint32"):
        kernel({"counts": counts.view(np.float32), "signs": signs, "n": 5}, threads=3)
    with pytest.raises(ArgumentError, match="an array of uint32"):  # a Library checks what its own arguments check
        metalcore.Library(COUNTS).function("count")({"counts": counts, "signs": signs, "n": 5}, threads=3)


@pytest.mark.parametrize("value", [5, [], [1, 2], 2.5])
def test_numbers_for_a_struct_name_what_it_takes(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"a struct takes a dict of its members, metalcore\.argument_buffer\("):
        metalcore.Library(COUNTS).function("count")(value, threads=1)
