"""Real MSL through the whole engine: results, faults, limits, threads, processes, time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError, KernelFault, LaunchError

SAXPY = """#include <metal_stdlib>
using namespace metal;
kernel void saxpy(device const float* x, device float* y, constant float& a, uint i [[thread_position_in_grid]]) {
  y[i] += a * x[i];
}
"""

GRID = """
kernel void where(device uint* out, uint3 p [[thread_position_in_grid]], uint3 n [[threads_per_grid]],
                  uint3 size [[threads_per_threadgroup]]) {
  out[(p.z * n.y + p.y) * n.x + p.x] += size.x * 10000 + size.y * 100 + size.z;
}
"""


@pytest.mark.parametrize("cpu_threads", [1, 2])
@pytest.mark.parametrize("n", [1, 31, 33, 1000, 100_003])
def test_saxpy(n: int, cpu_threads: int) -> None:
    metalcore.set_num_threads(cpu_threads)
    saxpy = metalcore.Library(SAXPY).function("saxpy")
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    for mode in ("checked", "fast"):
        y[:] = 1
        with metalcore.mode(mode):
            saxpy(x, y, 2.0, threads=n, group_size=256)
        np.testing.assert_array_equal(y, 1 + 2 * x)
    tensor = torch.ones(n)
    saxpy(torch.from_numpy(x), tensor, a=2.0, threads=n)
    np.testing.assert_array_equal(tensor.numpy(), 1 + 2 * x)


@pytest.mark.parametrize(
    ("grid", "group"),
    [((70, 3, 2), (32, 1, 1)), ((37, 5, 3), (16, 4, 2)), ((64, 5, 1), (32, 2, 1)), ((13, 7, 1), (5, 3, 1))],
)
def test_edge_groups_know_their_size(grid: tuple[int, int, int], group: tuple[int, int, int]) -> None:
    where = metalcore.Library(GRID).function("where")
    out = np.zeros(grid[::-1], np.uint32)
    where(out, threads=grid, group_size=group)
    axes = [np.minimum(np.arange(n) // g * g + g, n) - np.arange(n) // g * g for n, g in zip(grid, group, strict=True)]
    x, y, z = axes
    np.testing.assert_array_equal(out, x[None, None] * 10000 + y[None, :, None] * 100 + z[:, None, None])


def test_a_fault_names_everything() -> None:
    saxpy = metalcore.Library(SAXPY).function("saxpy")
    memory = np.ones(256, np.float32)
    with pytest.raises(KernelFault) as caught:
        saxpy(np.ones(256, np.float32), memory[:100], 2.0, threads=128, group_size=32)
    message = str(caught.value)
    for part in ("'saxpy'", ":4:", "thread (", "'y'", "[[buffer(1)]]", "size is 100", "more"):
        assert part in message, (part, message)
    assert (memory[:100] == 3).all() and (memory[100:] == 1).all()


def test_none_for_a_buffer_that_is_used_is_a_fault() -> None:
    saxpy = metalcore.Library(SAXPY).function("saxpy")
    with pytest.raises(KernelFault, match="'x'"):
        saxpy(None, np.ones(4, np.float32), 2.0, threads=4)


def test_what_the_kernel_writes_must_be_writable() -> None:
    saxpy = metalcore.Library(SAXPY).function("saxpy")
    fixed = np.ones(4, np.float32)
    fixed.flags.writeable = False
    y = np.ones(4, np.float32)
    saxpy(fixed, y, 1.0, threads=4)
    assert y.tolist() == [2] * 4
    with pytest.raises(ArgumentError, match=r"argument 1 'y'.*read-only"):
        saxpy(y, fixed, 1.0, threads=4)


def test_dynamic_threadgroup_memory() -> None:
    reverse = metalcore.Library("""
    using namespace metal;
    kernel void reverse(device float* x, threadgroup float* tile [[threadgroup(0)]],
                        uint i [[thread_position_in_threadgroup]], uint g [[threadgroup_position_in_grid]],
                        uint n [[threads_per_threadgroup]]) {
      tile[i] = x[g * n + i];
      threadgroup_barrier(mem_flags::mem_threadgroup);
      x[g * n + i] = tile[n - 1 - i];
    }""").function("reverse")
    x = np.arange(256, dtype=np.float32)
    reverse(x, threads=256, group_size=128, threadgroup_memory={0: 512})
    np.testing.assert_array_equal(x, np.arange(256).reshape(2, 128)[:, ::-1].reshape(-1))
    with pytest.raises(LaunchError, match="tile"):
        reverse(x, threads=256, group_size=128)
    with pytest.raises(KernelFault, match="threadgroup"):
        reverse(x, threads=256, group_size=128, threadgroup_memory={0: 256})


def test_static_threadgroup_memory_and_its_limit() -> None:
    source = """kernel void f(device float* x, uint i [[thread_position_in_threadgroup]]) {
      threadgroup float tile[SIZE]; tile[i] = x[i];
      metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
      x[i] = tile[i ^ 1]; }"""
    small = metalcore.Library(source, defines={"SIZE": 64}).function("f")
    assert small.static_threadgroup_memory == 256
    large = metalcore.Library(source, defines={"SIZE": 10000}).function("f")
    with pytest.raises(LaunchError, match=r"40000 bytes of threadgroup memory.*32768"):
        large(np.zeros(64, np.float32), threads=64)


def test_the_kernels_own_maximum() -> None:
    source = "[[max_total_threads_per_threadgroup(64)]] kernel void f(device float* x) { x[0] = 1; }"
    small = metalcore.Library(source).function("f")
    assert small.max_threads == 64
    with pytest.raises(LaunchError, match="own maximum is 64"):
        small(np.zeros(1, np.float32), threads=128, group_size=128)


def test_lists_of_arrays_are_bounded() -> None:
    total = metalcore.Library("""
    kernel void total(device const float* device const* list, device float* out, constant uint& n,
                      uint i [[thread_position_in_grid]]) {
      float sum = 0; for (uint k = 0; k < n; k++) sum += list[k][i]; out[i] = sum; }""").function("total")
    parts = [np.full(40, k, np.float32) for k in range(5)]
    out = np.zeros(40, np.float32)
    total(parts, out, 5, threads=40, group_size=32)
    assert (out == 10).all()
    parts[3] = parts[3][:10]
    with pytest.raises(KernelFault):
        total(parts, out, 5, threads=40, group_size=32)
    assert (out[:10] == 10).all() and (out[10:] == 7).all()


def test_threads_compile_and_launch_at_once() -> None:
    n = 5000

    def work(k: int) -> bool:
        source = SAXPY.replace("saxpy", f"saxpy{k % 3}").replace("a * x[i]", f"a * x[i] + {k % 3}")
        kernel = metalcore.Library(source).function(f"saxpy{k % 3}")
        x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        for _ in range(20):
            y[:] = 0
            kernel(x, y, float(k), threads=n, group_size=64)
        return bool((y == k * x + k % 3).all())

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(12)))


def test_fork_after_use() -> None:
    saxpy = metalcore.Library(SAXPY).function("saxpy")
    x, y = np.ones(50_000, np.float32), np.zeros(50_000, np.float32)
    metalcore.set_num_threads(2)
    saxpy(x, y, 1.0, threads=y.size, group_size=128)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            saxpy(x, y, 1.0, threads=y.size, group_size=128)
            fresh = metalcore.Library(SAXPY.replace("saxpy", "forked")).function("forked")
            fresh(x, y, 1.0, threads=y.size, group_size=128)
            status = 0 if (y == 3).all() else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert (y == 1).all()


ENDLESS = """
import sys, numpy as np, metalcore
source = "kernel void spin(device volatile uint* x, device uint* y, uint i [[thread_position_in_grid]])"
spin = metalcore.Library(source + "{ while (x[i] == 0) { y[i] += 1; } }").function("spin")
x, y = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
with metalcore.mode(sys.argv[1]):
    spin(x + 1, y, threads=64, group_size=32)
    print("ready", flush=True)
    try:
        spin(x, y, threads=64, group_size=32)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("mode", ["checked", "fast"])
def test_ctrl_c_stops_an_endless_kernel(mode: str) -> None:
    run = subprocess.Popen([sys.executable, "-c", ENDLESS, mode], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    guard = threading.Timer(60, run.kill)
    guard.start()
    try:
        assert run.stdout.readline() == "ready\n"
        time.sleep(0.3)
        assert run.poll() is None
        run.send_signal(signal.SIGINT)
        assert run.stdout.read() == "interrupted\n"
        assert run.wait() == 0
    finally:
        guard.cancel()


FIRST = """
import sys, time
import numpy as np
from metalcore import Library
x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
begin = time.process_time()  # not the clock: other programs may be using the processor
Library(sys.argv[1]).function("saxpy")(x, y, 2.0, threads=1000, group_size=256)
took = time.process_time() - begin
assert (y == 1 + 2 * x).all()
print(took, [m for m in ("llvmlite", "subprocess", "torch", "mlx") if m in sys.modules])
"""


def _first_call(cache: Path) -> tuple[float, str]:
    env = {**os.environ, "METALCORE_CACHE": str(cache)}
    done = subprocess.run([sys.executable, "-c", FIRST, SAXPY], env=env, capture_output=True, text=True, check=True)
    took, _, modules = done.stdout.partition(" ")
    return float(took), modules.strip()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that two processes filled at once."""
    folder = tmp_path_factory.mktemp("cache")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_first_call, [folder] * 2))
    return folder


def test_a_cached_kernel_starts_quickly_in_a_new_process(filled: Path) -> None:
    runs = [_first_call(filled) for _ in range(5)]
    assert {modules for _, modules in runs} == {"[]"}
    assert min(took for took, _ in runs) < 0.030


@pytest.mark.parametrize("trouble", ["damaged", "no folder"])
def test_trouble_with_the_cache_costs_only_time(tmp_path: Path, filled: Path, trouble: str) -> None:
    cache = tmp_path / "cache"
    if trouble == "no folder":
        cache.write_text("a file stands where the folder should be")
    else:
        shutil.copytree(filled, cache)
        for file in cache.rglob("*"):
            if file.is_file():
                file.write_bytes(file.read_bytes()[:-1] + b"?")
    _first_call(cache)


def test_a_warm_launch_takes_microseconds() -> None:
    add = metalcore.Library("""
    kernel void add(device const float* a, device const float* b, device const float* c, device float* out,
                    uint i [[thread_position_in_grid]]) { out[i] = a[i] + b[i] + c[i]; }""").function("add")
    a, b, c, out = (np.ones(32, np.float32) for _ in range(4))
    best = 1.0
    for _ in range(20):
        begin = time.thread_time()
        for _ in range(200):
            add(a, b, c, out, threads=32, group_size=32)
        best = min(best, (time.thread_time() - begin) / 200)
    assert (out == 3).all()
    assert best < 15e-6
