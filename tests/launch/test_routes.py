"""Every rule of a launch, on every way to launch: the engine, both drop-ins, and both of them emulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.errors import LaunchError

SOURCE = """#include <metal_stdlib>
using namespace metal;
kernel void plain(device float* y, uint i [[thread_position_in_grid]]) { y[i] = 1; }
[[max_total_threads_per_threadgroup(64)]]
kernel void small(device float* y, uint i [[thread_position_in_grid]]) { y[i] = 1; }
// metalcore: requires(group_size == (16, 4), "tiles are 16 x 4")
kernel void tiles(device float* y, uint2 p [[thread_position_in_grid]]) { y[p.x] = 1; }
kernel void large(device float* y, uint i [[thread_index_in_threadgroup]]) {
  threadgroup float tile[9000];
  tile[i] = i;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = tile[i ^ 1];
}
kernel void sums(device float* y, uint i [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float part[32];
  float sum = simd_sum(y[i]);
  if (lane == 0) part[group] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (group == 0) {
    sum = simd_sum(lane < n / 32 ? part[lane] : 0);
    if (lane == 0) y[0] = sum;
  }
}
kernel void rows(device float4* y, constant long& n, uint i [[thread_position_in_grid]]) {
  // metalcore: requires(n % 4 == 0) requires(y.length >= n / 4)
  if (long(i) < n / 4) y[i] *= 2;
}
"""
# For metal_kernel: the same as bodies, y is the output.
BODIES = {
    "plain": "y[thread_position_in_grid.x] = 1;",
    "tiles": """
    // metalcore: requires(group_size == (16, 4), "tiles are 16 x 4")
    y[thread_position_in_grid.x] = 1;""",
    "large": """threadgroup float tile[9000];
    uint i = thread_index_in_threadgroup;
    tile[i] = i;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = tile[i ^ 1];""",
    "sums": """threadgroup float part[32];
    uint lane = thread_index_in_simdgroup, group = simdgroup_index_in_threadgroup;
    float sum = simd_sum(float(thread_index_in_threadgroup));
    if (lane == 0) part[group] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (group == 0) {
      sum = simd_sum(lane < threads_per_threadgroup.x / 32 ? part[lane] : 0);
      if (lane == 0) y[0] = sum;
    }""",
}
SMALLER = "use smaller threadgroups"
EXTRA = "kernel 'sums' combines the sums of its simdgroups and counts them as threads / 32 ({place}), but {who}; "
EXTRA += "use a group_size that is a multiple of 32{grid}, or count with (threads + 31) / 32; "
EXTRA += "`// metalcore: allows(partial_simdgroups)` in the kernel says that it is right as it is"

# kernel, threads, group, target, what the message must be; {group} is how the way to launch shows the group.
RULES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], str, str]] = {
    "1,024 threads": (
        *("plain", (4096, 1), (64, 32), ""),
        f"kernel 'plain': {{group}} has 2048 threads, Metal's limit is 1024: {SMALLER}",
    ),
    "the family's limit": (
        *("plain", (1024, 1), (1024, 1), "A10"),
        f"kernel 'plain': {{group}} has 1024 threads, the limit of A10 (Apple3) is 512: {SMALLER}",
    ),
    "the kernel's own maximum": (
        *("small", (128, 1), (128, 1), ""),
        "kernel 'small': {group} has 128 threads, the kernel's own maximum is 64 (max_total_threads_per_threadgroup): "
        + SMALLER,
    ),
    "a pipeline's limit": (
        *("plain", (1024, 1), (1024, 1), "M1:832"),
        "kernel 'plain': {group} has 1024 threads, the limit of its pipeline on M1 (Apple7) is 832 "
        f"(max_threads of the target): {SMALLER}",
    ),
    "no thread": (
        *("plain", (16, 1), (0, 1), ""),
        "kernel 'plain': {group} holds no thread: each size must be at least 1",
    ),
    "32 bits": (
        *("plain", (1, 2**32 - 5), (1, 64), ""),
        "kernel 'plain': the grid is (1, 4294967291, 1) threads, and positions are 32-bit: dimension y must stay "
        "below 4294967296 threads, edge threadgroups filled up; split the launch, or use another dimension",
    ),
    "threadgroup memory": (
        *("large", (32, 1), (32, 1), ""),
        "kernel 'large': 36000 bytes of threadgroup memory (36000 static, 0 given), the limit is 32768: "
        "use smaller tiles, or a smaller type",
    ),
    "edge threadgroups": (
        *("plain", (100, 1), (32, 1), "Apple3"),
        "kernel 'plain': (100, 1, 1) threads are no multiple of the threadgroup (32, 1, 1), and Apple3 has no "
        "threadgroups of other sizes at the edge: launch whole threadgroups (threadgroups=) and test the position "
        "in the kernel",
    ),
    "a feature": (
        *("sums", (64, 1), (64, 1), "A13"),
        "kernel 'sums' uses simd-reduction, which A13 (Apple6) does not have: `metalcore families` shows which do",
    ),
    "whole simdgroups": (
        *("sums", (96, 1), (48, 1), ""),
        EXTRA.replace("{who}", "each threadgroup has 48 threads: its last 16 would be lost").replace("{grid}", ""),
    ),
    "whole simdgroups at the edge": (
        *("sums", (100, 1), (64, 1), ""),
        EXTRA.replace("{who}", "a threadgroup at the edge has 36 threads: its last 4 would be lost").replace(
            "{grid}", ", or a grid that is a multiple of it"
        ),
    ),
    "what the kernel declares": (
        *("tiles", (16, 16), (8, 8), ""),
        "kernel 'tiles' requires group_size == (16, 4) ({place}), and group_size is (8, 8, 1): tiles are 16 x 4",
    ),
}
PLACES = {"tiles": ("<metal>:6", "<tiles source>:2"), "sums": ("<metal>:21", "<sums source>:7")}
LEADS = {  # what the frameworks themselves say, where they say something
    "torch": "Threadgroup size exceeds {limit} limit: ",
    "mlx": "Thread group size ({total}) is greater than the maximum allowed threads per threadgroup ({limit}): ",
}
Run = Callable[[str, tuple[int, ...], tuple[int, ...]], None]


def by_shader(library: Any) -> Run:
    def run(kernel: str, threads: tuple[int, ...], group: tuple[int, ...]) -> None:
        getattr(library, kernel)(np.zeros(128, np.float32), threads=threads, group_size=group)

    return run


def by_mlx(make: Any) -> Run:
    kernels: dict[str, Any] = {}

    def run(kernel: str, threads: tuple[int, ...], group: tuple[int, ...]) -> None:
        built = kernels.get(kernel) or make(
            name=kernel, input_names=[], output_names=["y"], source=BODIES[kernel], header="using namespace metal;\n"
        )
        kernels[kernel] = built
        grid = {"grid": (*threads, 1), "threadgroup": (*group, 1)}
        built(inputs=[], output_shapes=[(128,)], output_dtypes=[np.float32], **grid)

    return run


@pytest.fixture(scope="module", params=["engine", "compile_shader", "metal_kernel", "torch.mps", "mx.fast"])
def route(request: pytest.FixtureRequest) -> Iterator[tuple[str, Run]]:
    name: str = request.param
    if name == "engine":
        library = metalcore.Library(SOURCE)

        def run(kernel: str, threads: tuple[int, ...], group: tuple[int, ...]) -> None:
            library.function(kernel)(np.zeros(128, np.float32), threads=threads, group_size=group)

        yield name, run
    elif name == "compile_shader":
        yield name, by_shader(metalcore.compile_shader(SOURCE))
    elif name == "metal_kernel":
        yield name, by_mlx(metalcore.metal_kernel)
    elif name == "torch.mps":
        torch = pytest.importorskip("torch")
        with metalcore.emulate():
            yield name, by_shader(torch.mps.compile_shader(SOURCE))
    else:
        mx = pytest.importorskip("mlx.core")
        with metalcore.emulate():
            yield name, by_mlx(mx.fast.metal_kernel)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_on_every_route(route: tuple[str, Run], rule: str) -> None:
    name, run = route
    kernel, threads, group, target, message = RULES[rule]
    mlx = name in ("metal_kernel", "mx.fast")
    if mlx and kernel not in BODIES:
        pytest.skip("MLX writes the signature, which has no maximum of its own")
    chip, _, pipeline = target.partition(":")
    inside = metalcore.target(chip, max_threads=int(pipeline) if pipeline else None) if chip else nullcontext()
    with inside, pytest.raises(LaunchError) as caught:
        run(kernel, threads, group)
    shown = f"threadgroup={(*group, 1)}" if mlx else f"group_size={group}"
    place = PLACES.get(kernel, ("", ""))[mlx]
    expected = message.replace("{group}", shown).replace("{place}", place)
    if "has " in message and "threads, " in message and SMALLER in message and name != "engine":
        limit = {"1,024 threads": 1024, "the family's limit": 512, "a pipeline's limit": 832}.get(rule, 64)
        total = group[0] * group[1]
        expected = LEADS["mlx" if mlx else "torch"].format(limit=limit, total=total) + expected
    if rule == "no thread":
        if name == "engine":
            expected = "kernel 'plain': group_size=(0, 1) must be positive ints"
        elif mlx:
            expected = "[metal_kernel]: " + expected
    written = str(caught.value).replace(f"custom_kernel_{kernel}_float", kernel)
    assert written == expected


def test_the_same_launches_within_the_rules(route: tuple[str, Run]) -> None:
    name, run = route
    run("plain", (128, 1), (32, 4))
    run("plain", (100, 1), (32, 1))
    run("tiles", (16, 16), (16, 4))
    run("sums", (64, 1), (64, 1))
    with metalcore.target("M1", max_threads={"other": 32}):
        run("sums", (64, 1), (64, 1))
    if name in ("engine", "compile_shader", "torch.mps"):
        run("small", (64, 1), (64, 1))


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (18, "requires n % 4 == 0 (<metal>:26), and n is 18: change the arguments or the launch so that this holds"),
        (
            1024,
            "requires y.length >= n / 4 (<metal>:26), and y.length is 32, n is 1024: "
            "change the arguments or the launch so that this holds",
        ),
    ],
)
def test_requirements_on_arguments(n: int, message: str) -> None:
    function = metalcore.Library(SOURCE).function("rows")
    shader = metalcore.compile_shader(SOURCE)
    y = np.ones(128, np.float32)
    for mode in ("checked", "fast", "sanitize"):
        with metalcore.mode(mode):
            for _ in range(2):  # the second time from the kept plan
                with pytest.raises(LaunchError) as caught:
                    function(y, n, threads=32)
                assert str(caught.value) == f"kernel 'rows' {message}"
            with pytest.raises(LaunchError, match="kernel 'rows' requires"):
                function(y, n=np.array([n], np.int64), threads=32)
    with pytest.raises(LaunchError, match="kernel 'rows' requires"):
        shader.rows(y, n, threads=32)
    assert (y == 1).all()
    function(y, 128, threads=32)
    shader.rows(y, 128, threads=32)
    assert (y == 4).all()
