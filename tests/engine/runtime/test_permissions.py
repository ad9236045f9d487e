"""What a kernel may write: pointers that come from memory obey the arguments' const and the arrays' own flags."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError, KernelFault, LaunchError

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
GRID = "uint i [[thread_position_in_grid]]"
THROUGH = (
    f"device const ulong* t, {{}} x, device float* o, {GRID}) {{{{ ((device float*)t[0])[i] = 42; o[i] = x[i]; }}}}"
)


def function(signature_and_body: str) -> Any:
    return metalcore.Library(f"{HEAD}kernel void w({signature_and_body}").function("w")


def through(declared: str) -> Any:
    """A kernel that writes 42 where the first word of its table points."""
    return function(THROUGH.format(declared))


def zeros(count: int = 64) -> Any:
    return np.zeros(count, np.float32)


def fixed(count: int = 64) -> Any:
    x = zeros(count)
    x.flags.writeable = False
    return x


def table(*arrays: Any) -> Any:
    return np.array([a.ctypes.data for a in arrays], np.uint64)


@pytest.mark.feature("API", "read-only arrays and const arguments are not written through pointers from memory")
@pytest.mark.parametrize(
    ("declared", "make"),
    [
        ("device float*", fixed),
        ("device const float*", fixed),
        ("device const float*", zeros),
        ("constant float*", zeros),
    ],
)
def test_memory_that_may_not_be_written_is_not(declared: str, make: Any) -> None:
    x = make()
    with pytest.raises(
        KernelFault, match=r"write on read-only memory .* read-only array, or the kernel declares it const"
    ):
        through(declared)(table(x), x, zeros(), threads=64)
    assert not x.any()


def test_read_only_pages_are_no_crash() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(4096))
        file.flush()
        x = np.memmap(file.name, np.float32, "r")
        with pytest.raises(KernelFault, match="read-only"):
            through("device const float*")(table(x), x, zeros(), threads=64)
        with pytest.raises(ArgumentError, match="read-only"):  # named instead of positional: another way to bind
            function(f"device float* x, {GRID}) {{ x[i] = 1; }}")(x=x, threads=64)


def test_an_address_may_be_written_where_any_binding_allows_it() -> None:
    write = through("device const float*")
    memory = zeros(128)
    write(table(memory), memory, memory[:64], threads=64)
    assert (memory[64:] == 0).all() and (memory[1:64] == 42).all()
    memory[:] = 0
    with pytest.raises(KernelFault, match=r"thread \(63, 0, 0\).*read-only"):
        write(table(memory), memory, memory[:63], threads=64)
    assert memory[62] == 42 and not memory[63:].any()


def test_a_view_inside_another_does_not_hide_it() -> None:
    f = function(
        f"device const ulong* t, device float* x, device float* y, {GRID}) {{ ((device float2*)t[0])[i] = 1; }}"
    )
    memory = zeros(16)
    f(table(memory), memory, memory[3:6], threads=8)
    assert (memory == 1).all()


def test_bytes_between_the_elements_of_a_view_are_not_written() -> None:
    write = through("device float*")
    memory = zeros(128)
    with pytest.raises(KernelFault, match="read-only"):
        write(table(memory), memory[::2], zeros(), threads=64)
    assert not memory.any()
    dense = np.zeros((8, 8), np.float32)
    write(table(dense), dense.T, zeros(), threads=64)
    assert (dense == 42).all()


@pytest.mark.parametrize("make", [zeros, lambda: torch.zeros(64)])
def test_items_of_a_list_of_const_pointers_are_not_written(make: Any) -> None:
    x = make()
    f = function(f"device const float* constant* t, {GRID}) {{ ((device float*)t[0])[i] = 1; }}")
    with pytest.raises(KernelFault, match="read-only"):
        f([x], threads=64)
    assert not x.any()


def test_a_struct_called_constants_has_no_const_in_it() -> None:
    source = f"struct constants {{ device float* p; }};\nkernel void w(constant constants& c, {GRID}) {{ c.p[i] = 1; }}"
    f = metalcore.Library(HEAD + source).function("w")
    with pytest.raises(ArgumentError, match="read-only"):
        f([fixed()], threads=64)
    x = zeros()
    f([x], threads=64)
    assert (x == 1).all()


@pytest.mark.parametrize(
    "body",
    [
        "((device float*)x)[i] = 1;",
        "((device float*)((ulong)x ^ (ulong)o ^ (ulong)o))[i] = 1;",
        "atomic_fetch_add_explicit((device atomic_uint*)x + i, 1u, memory_order_relaxed);",
    ],
)
@pytest.mark.parametrize("declared", ["device const float*", "constant float*"])
def test_a_kernel_that_casts_const_away_and_writes_is_refused(declared: str, body: str) -> None:
    if declared == "constant float*":
        body = body.replace("(device float*)x", "(device float*)(ulong)x").replace("_uint*)x", "_uint*)(ulong)x")
    x = zeros()
    with pytest.raises(LaunchError, match=r"argument 0 'x'.*the kernel writes it, and declares it const"):
        function(f"{declared} x, device float* o, {GRID}) {{ {body} o[i] = x[i]; }}")(x, zeros(), threads=64)
    assert not x.any()


@pytest.mark.parametrize(
    "body",
    [
        "threadgroup ulong s; s = (ulong)x; threadgroup_barrier(mem_flags(2)); ((device float*)s)[i] = 1;",
        "device const float* p[3]; p[k] = x; p[(k + 1) % 3] = x; ((device float*)p[i % 2 ? k : (k + 1) % 3])[i] = 1;",
        "((device float*)((ulong)x * k))[i] = 1;",
    ],
)
def test_casts_through_memory_and_arithmetic_do_not_help(body: str) -> None:
    f = function(f"device const float* x, device float* o, constant uint& k, {GRID}) {{ {body} o[i] = x[i]; }}")
    for x in (zeros(), fixed()):
        with pytest.raises(KernelFault, match="read-only"):
            f(x, zeros(), 1, threads=64)
        assert not x.any()


def test_a_pointer_that_may_be_an_argument_or_come_from_memory() -> None:
    pick = "device uint* p = i % 2 ? o : (device uint*)t[0];"
    f = function(f"device const ulong* t, device uint* x, device uint* o, {GRID}) {{ {pick} p[i] = i + 1; }}")
    x, o = np.zeros(8, np.uint32), np.zeros(8, np.uint32)
    f(table(x), x, o, threads=8)
    assert x.tolist() == [1, 0, 3, 0, 5, 0, 7, 0] and o.tolist() == [0, 2, 0, 4, 0, 6, 0, 8]


def test_the_sanitizer_says_that_memory_is_read_only() -> None:
    x = fixed()
    with metalcore.mode("sanitize") as report:
        through("device float*")(table(x), x, zeros(), threads=64)
    assert "read-only array" in str(report) and not x.any()


def test_compile_shader_keeps_const_too() -> None:
    kernel = metalcore.compile_shader(f"{HEAD}kernel void w({THROUGH.format('device const float*')}").w
    x = torch.zeros(64)
    addresses = torch.tensor([x.data_ptr()])
    with pytest.raises(KernelFault, match="read-only"):
        kernel(addresses, x, torch.zeros(64), threads=64)
    assert not x.any()


ADD = "atomic_fetch_add_explicit({}, 1u, memory_order_relaxed)"


@pytest.mark.feature("atomics", "through pointers that were loaded from memory")
def test_atomics_through_pointers_from_memory() -> None:
    f = function(f"device atomic_uint* device* t, device uint* o, {GRID}) {{ o[i] = {ADD.format('t[i % 2]')}; }}")
    a, b, o = (np.zeros(4, np.uint32) for _ in range(3))
    f([a, b], o, threads=4)
    assert a.tolist() == b.tolist() == [2, 0, 0, 0] and o.tolist() == [0, 0, 1, 1]


def test_each_lane_of_an_atomic_is_looked_up() -> None:
    body = "o[i] = " + ADD.format("(device atomic_uint*)t[i % 2]")
    f = function(f"device const ulong* t, device uint* a, device const uint* b, device uint* o, {GRID}) {{ {body}; }}")
    a, b, o = (np.zeros(4, np.uint32) for _ in range(3))
    with pytest.raises(KernelFault, match=r"atomic operation on read-only memory .* thread \(1, 0, 0\)"):
        f(table(a, b), a, b, o, threads=4)
    assert a.tolist() == [2, 0, 0, 0] and b.tolist() == [0, 0, 0, 0] and o.tolist() == [0, 0, 1, 0]
    with pytest.raises(KernelFault, match="atomic operation on a misaligned address"):
        f(table(a) + np.uint64(1), a, b, o, threads=1)
    with pytest.raises(KernelFault, match="atomic operation out of bounds"):
        f(table(a) + np.uint64(16), a, b, o, threads=1)
    assert a.tolist() == [2, 0, 0, 0]


def test_atomic_reads_of_read_only_memory_and_exchanges() -> None:
    load = "atomic_load_explicit(t[0], memory_order_relaxed)"
    f = function(f"device const atomic_uint* device* t, device uint* o, {GRID}) {{ o[i] = {load}; }}")
    x, o = np.full(4, 5, np.uint32), np.zeros(4, np.uint32)
    x.flags.writeable = False
    f([x], o, threads=4)
    assert o.tolist() == [5, 5, 5, 5]
    order = "memory_order_relaxed, memory_order_relaxed"
    swap = f"uint e = 0; while (!atomic_compare_exchange_weak_explicit(p, &e, e + 1, {order})); o[i] = e;"
    f = function(f"device atomic_uint* device* t, device uint* o, {GRID}) {{ device atomic_uint* p = t[0]; {swap} }}")
    x = np.zeros(4, np.uint32)
    f([x], o, threads=4)
    assert x[0] == 4 and o.tolist() == [0, 1, 2, 3]
    head = "device const ulong* t, device const uint* x, device uint* o"
    f = function(f"{head}, {GRID}) {{ device atomic_uint* p = (device atomic_uint*)t[0]; {swap} }}")
    with pytest.raises(KernelFault, match="read-only"):  # and it ends
        f(table(x), x, o, threads=4)
    assert x[0] == 4
