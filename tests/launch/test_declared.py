"""Where declarations belong, what they may say, and rules that concern arguments and memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import metalcore
from metalcore import launch
from metalcore.engine.frontend import make_unit
from metalcore.errors import CompileError, LaunchError
from metalcore.launch import Code, Kernel, limits


def declared(source: str, **options: object) -> dict[str, list[str]]:
    unit = make_unit(source, **options)  # type: ignore[arg-type]
    return {kernel.host_name: [r.expression for r in kernel.requirements] for kernel in unit.kernels}


def test_a_declaration_belongs_to_the_kernel_around_or_below_it(tmp_path: Path) -> None:
    (tmp_path / "inner.h").write_text(
        """#pragma once
template <typename T>
// metalcore: requires(threads.x > 1)
kernel void templated(device T* x) { x[0] = 1; }
"""
    )
    source = """#include "inner.h"
// metalcore: requires(threads.x > 2)
/* more words
 * metalcore: requires(threads.x > 3)
 */

[[kernel]] void first(device float* x) { // metalcore: requires(threads.x > 4)
  x[0] = 1;
  /* metalcore: requires(threads.x > 5) */
}  // metalcore: requires(threads.x > 6)
kernel void second(device float* x) { x[0] = 1; }
#if 0
// metalcore: requires(threads.x > 7)
kernel void third(device float* x) { x[0] = 1; }
#endif
#define MAKE(name) kernel void name(device float* x) { x[0] = 1; }
// metalcore: requires(threads.x > 8)
MAKE(fourth)
template [[host_name("t_float")]] kernel void templated<float>(device float*);
template [[host_name("t_int")]] kernel void templated<int>(device int*);
// metalcore: silence(unused-parameter)
"""
    assert declared(source, include_dirs=[str(tmp_path)]) == {
        "first": [f"threads.x > {i}" for i in (2, 3, 4, 5, 6)],
        "second": [],
        "fourth": ["threads.x > 8"],
        "t_float": ["threads.x > 1"],
        "t_int": ["threads.x > 1"],
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("requires(n %)", "'n %' ends too early"),
        ("requires()", "the expression is empty"),
        ("require(n == 1)", "'metalcore: require(...)' is not known: there are requires(...) and allows(...)"),
        ("requires(n == 1", "a ')' is missing behind 'metalcore: ...(n == 1'"),
        ("allows(everything)", "allows(everything) is not known, only partial_simdgroups"),
        ("requires(nn == 1)", "'nn' is not known here: did you mean n?"),
        ("requires(x == 1)", "'x' is not known here: there are x.length, x.bytes, n, v, v.x, v.y, many, group_size, "
         "threads, threadgroups, threads_per_threadgroup, simdgroups_per_threadgroup, threadgroup_memory, full_groups"),
        ("requires(threads_per_threadgroup.x == 1)", "'threads_per_threadgroup.x' is not known here: "
         "did you mean threads_per_threadgroup or simdgroups_per_threadgroup?"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_declaration_is_said_with_its_line(line: str, message: str) -> None:
    source = f"""constant bool many [[function_constant(0)]];

// metalcore: {line}
kernel void f(device float* x, constant int& n, constant metal::float2& v) {{ x[0] = many ? n : v.x; }}"""
    with pytest.raises(CompileError) as caught:
        metalcore.Library(source).function("f", {0: True})
    text = str(caught.value)
    assert text.startswith(f"{message}\n<metal>:3: error: {message}\n    // metalcore: {line}")
    assert caught.value.lineno == 3


def test_a_declaration_above_something_else() -> None:
    with pytest.raises(
        CompileError, match=r"'metalcore: requires\(...\)' belongs to no kernel: put it above or inside"
    ):
        make_unit(
            "// metalcore: requires(full_groups)\nstruct S { int a; };\nkernel void f(device int* x) { x[0] = 1; }"
        )


def test_values_of_every_kind() -> None:
    source = """#include <metal_stdlib>
using namespace metal;
constant int tile [[function_constant(3)]];
// metalcore: requires(h == 1.5 && b == -2.0 && i8 == -3 && u64 > 9000000000 && on && v.y == 2 && v == (1, 2, 3))
// metalcore: requires(threads.x % tile == 0 && x.bytes == 4 * x.length && threadgroup_memory >= 16)
kernel void f(device float* x, constant half& h, constant bfloat& b, constant char& i8, constant ulong& u64,
              constant bool& on, constant int3& v, threadgroup float* memory [[threadgroup(0)]]) { x[0] = tile; }"""
    f = metalcore.Library(source).function("f", {"tile": 8})
    x = np.zeros(8, np.float32)
    values = [1.5, -2.0, -3, 10**10, True, (1, 2, 3)]
    f(x, *values, threads=16, threadgroup_memory={0: 16})
    assert x[0] == 8
    for i, wrong in enumerate((2.5, 2.0, 3, 1, False, (1, 3, 2))):
        given = [*values[:i], wrong, *values[i + 1 :]]
        with pytest.raises(LaunchError, match=r"kernel 'f' requires h == 1\.5"):
            f(x, *given, threads=16, threadgroup_memory={0: 16})
    with pytest.raises(LaunchError, match=r"and threads\.x is 12, tile is 8, x\.bytes is 32, x\.length is 8"):
        f(x, *values, threads=12, threadgroup_memory={0: 16})


def test_a_kernel_may_say_that_partial_simdgroups_are_right() -> None:
    source = """#include <metal_stdlib>
using namespace metal;
// metalcore: allows(partial_simdgroups)
kernel void sums(device float* y, uint i [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float part[32];
  float sum = simd_sum(1.0f);
  if (lane == 0) part[group] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) { sum = 0; for (uint k = 0; k < n / 32; k++) sum += part[k]; y[0] = sum + part[n / 32]; }
}"""
    y = np.zeros(1, np.float32)
    metalcore.Library(source).function("sums")(y, threads=48, group_size=48)
    assert y[0] == 48
    with pytest.raises(LaunchError, match="its last 16 would be lost"):
        metalcore.Library(source.replace("allows(", "silence(")).function("sums")(y, threads=48, group_size=48)


def test_constant_buffers_start_at_multiples_of_four_bytes() -> None:
    f = metalcore.Library("kernel void f(constant half* c, device half* y) { y[0] = c[0]; }").function("f")
    values, y = np.arange(8, dtype=np.float16), np.zeros(8, np.float16)
    f(values[2:], y[1:], threads=1)
    assert y[1] == 2
    with pytest.raises(LaunchError, match=r"kernel 'f', argument 0 'c': a buffer in constant memory starts at a "
                       r"multiple of 4 bytes, and 0x\w+ is not: pass a copy"):  # fmt: skip
        f(values[1:], y, threads=1)


KERNEL = Kernel("f", ((0, "device"),), ((1, "tile"),))


@pytest.mark.parametrize(
    ("memory", "target", "message"),
    [
        ({1: 100}, "", "kernel 'f': threadgroup_memory[1]=100 must be a multiple of 16 bytes, as Metal wants it: "
         "pass 112"),
        ({"tile": 1.5}, "", "kernel 'f': threadgroup_memory['tile']=1.5 must be a number of bytes"),
        ({}, "", "kernel 'f': the size of 'tile' is not given: pass threadgroup_memory={1: bytes}"),
        ({"tilt": 16, 1: 16}, "", "kernel 'f' has no [[threadgroup(tilt)]] argument; it has: 1 ('tile')"),
        ({1: 32768}, "", "kernel 'f': 32784 bytes of threadgroup memory (16 static, 32768 given), the limit is 32768: "
         "use smaller tiles, or a smaller type"),
        ({1: 16384}, "A9", "kernel 'f': 16400 bytes of threadgroup memory (16 static, 16384 given), the limit of "
         "A9 (Apple3) is 16384: use smaller tiles, or a smaller type"),
    ],
)  # fmt: skip
def test_threadgroup_memory(memory: dict[object, object], target: str, message: str) -> None:
    chosen = metalcore.target(target).limits if target else launch.COMMON
    with pytest.raises(LaunchError) as caught:
        launch.validate(KERNEL, threads=8, threadgroup_memory=memory, code=Code(static_memory=16), limits=chosen)
    assert str(caught.value) == message


def test_memory_is_placed_behind_what_the_kernel_declares() -> None:
    kernel = Kernel("f", (), ((3, "b"), (1, "a")))
    found = launch.validate(kernel, threads=8, threadgroup_memory={"b": 32, 1: 64}, code=Code(static_memory=20))
    assert (found.placed, found.memory) == ({1: (32, 64), 3: (96, 32)}, 128)


def test_numbers_of_buffers() -> None:
    many = Kernel("f", tuple((slot, "constant" if slot > 15 else "device") for slot in range(31)))
    launch.validate(many, threads=1, limits=metalcore.target("M4").limits)
    with pytest.raises(LaunchError) as caught:
        launch.validate(many, threads=1, limits=metalcore.target("Mac2").limits)
    text = "kernel 'f' has 15 arguments in constant memory, Mac2 binds 14: put several values into one struct"
    assert str(caught.value) == text
    with pytest.raises(LaunchError) as caught:
        launch.check_buffers(Kernel("f", ((31, "device"),)))
    text = "kernel 'f' uses [[buffer(31)]]; Metal binds 31 buffers, 0 to 30: put several values into one struct"
    assert str(caught.value) == text


def test_the_largest_grid_and_the_first_that_is_too_large() -> None:
    largest = limits.MAX_POSITION - 1024
    assert launch.validate(KERNEL._replace(threadgroup_arguments=()), threads=largest).shape.grid[0] == largest
    for too_large in ({"threads": limits.MAX_POSITION - 5}, {"threadgroups": 1 << 22, "group_size": 1024}):
        with pytest.raises(LaunchError, match="positions are 32-bit: dimension x"):
            launch.validate(KERNEL, **too_large)  # type: ignore[arg-type]
