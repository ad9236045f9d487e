"""Threadgroups over threads: every group once, edges clipped, serial with one thread, safe when several launch."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hand_kernels import argument, function, value

import metalcore
from metalcore.engine.model import Site, Variant
from metalcore.errors import KernelFault

# Adds 1 to each thread's cell; edge groups add 100 where they run as the "any" variant.
COUNT = """KERNEL { int* out = L->buffers[0];
  EACH_THREAD { out[((uint64_t)Z * L->grid[1] + Y) * L->grid[0] + X] += IS_EDGE ? 100 : 1; } }"""


@pytest.mark.parametrize("cpu_threads", [1, 2, 5])
@pytest.mark.parametrize(
    ("grid", "group"),
    [
        ((1,), (1,)),
        ((1000,), (32,)),
        ((100_003,), (64,)),
        ((65, 33), (16, 16)),
        ((64, 7, 5), (32, 2, 2)),
        ((31, 2, 9), (8, 4, 4)),
        ((5, 5, 5), (3, 2, 4)),
    ],
)
def test_every_thread_runs_once(
    tmp_path: Path, cpu_threads: int, grid: tuple[int, ...], group: tuple[int, ...]
) -> None:
    metalcore.set_num_threads(cpu_threads)
    count = function(tmp_path, "count", COUNT, (argument("out", 0, "int32"),))
    x, y, z = (*grid, 1, 1)[:3]
    out = np.zeros((z, y, x), np.int32)
    count(out, threads=grid, group_size=group)
    expected = np.ones_like(out)
    w, h, d = (*group, 1, 1)[:3]
    layout = Variant.choose((w, h, d), True).layout
    if layout != "line" and x % w:
        expected[:, :, x // w * w :] = 100  # clipped in x: the "any" variant
    if layout == "any":
        expected[:] = 100  # no specialised layout at all
    np.testing.assert_array_equal(out, expected)


def test_one_thread_runs_groups_in_order(tmp_path: Path) -> None:
    body = """KERNEL { uint32_t* out = L->buffers[0]; for (uint32_t gx = gx0; gx < gx1; gx++)
      out[++out[0]] = (gz * L->groups[1] + gy) * L->groups[0] + gx; }"""
    order = function(tmp_path, "order", body, (argument("out", 0, "uint32"),))
    metalcore.set_num_threads(1)
    out = np.zeros(1 + 4 * 3 * 2, np.uint32)
    order(out, threadgroups=(4, 3, 2), group_size=8)
    assert out[0] == 24
    np.testing.assert_array_equal(out[1:], np.arange(24))


def test_threads_share_the_work(tmp_path: Path) -> None:
    """Two groups that wait for one another end only where two threads run them."""
    body = """KERNEL { volatile int* seen = L->buffers[0]; for (uint32_t gx = gx0; gx < gx1; gx++) {
      __atomic_add_fetch(seen, 1, __ATOMIC_SEQ_CST);
      for (uint64_t i = 0; i < 4000000000u && *seen < 2 && !MUST_LEAVE; i++) ; } }"""
    meet = function(tmp_path, "meet", body, (argument("seen", 0, "int32"),))
    metalcore.set_num_threads(2)
    seen = np.zeros(1, np.int32)
    meet(seen, threadgroups=2, group_size=1024)
    assert seen[0] == 2


def test_group_memory_is_aligned_private_and_large_enough(tmp_path: Path) -> None:
    body = """KERNEL { uint64_t* out = L->buffers[0]; char* m = W->group_memory; out[0] = (uint64_t)m % 64;
      for (uint32_t i = 0; i < L->group_memory_size; i++) m[i] = 1;
      out[1] = L->group_memory_size; out[2] = L->tg_offset[0]; out[3] = L->tg_size[0]; out[4] = L->tg_offset[2]; }"""
    shared = (argument("a", 0, kind="threadgroup", space="threadgroup"), argument("c", 2, kind="threadgroup"))
    memory = function(tmp_path, "memory", body, (argument("out", 0, "uint64"), *shared), static=100)
    out = np.zeros(5, np.uint64)
    memory(out, threads=1, group_size=1, threadgroup_memory={0: 16, "c": 32768 - 112 - 16})
    assert out.tolist() == [0, 32768, 112, 16, 128]


def test_frames_grow_and_are_given_back(tmp_path: Path) -> None:
    body = """KERNEL { uint64_t* out = L->buffers[0]; for (uint32_t gx = gx0; gx < gx1; gx++) {
      char *cur = W->frame_cur, *end = W->frame_end; out[0] |= (uint64_t)cur % 128;
      for (int i = 0; i < 50; i++) { uint64_t n = 100000;
        char* p = (uint64_t)(W->frame_end - W->frame_cur) >= n + 96 ? W->frame_cur : 0;
        if (p) W->frame_cur += n + 96; else { p = L->grow_frames(W, n); out[1]++; }
        out[0] |= (uint64_t)p % 128; for (uint64_t k = 0; k < n; k++) p[k] = 1; out[2] += p[n - 1]; }
      W->frame_cur = cur; W->frame_end = end; } }"""
    frames = function(tmp_path, "frames", body, (argument("out", 0, "uint64"),))
    metalcore.set_num_threads(1)
    out = np.zeros(3, np.uint64)
    frames(out, threadgroups=4, group_size=1)
    assert out[0] == 0 and out[2] == 200
    assert out[1] <= 4 * 4  # a few doublings a group, and the same blocks each time


def test_launches_from_many_threads(tmp_path: Path) -> None:
    count = function(tmp_path, "count", COUNT, (argument("out", 0, "int32"),))
    metalcore.set_num_threads(2)
    outs = [np.zeros(20_000, np.int32) for _ in range(8)]

    def launch(out: np.ndarray) -> None:
        for _ in range(50):
            count(out, threads=out.size, group_size=64)

    workers = [threading.Thread(target=launch, args=(out,)) for out in outs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for out in outs:
        assert (out == 50).all()


def test_launch_in_a_forked_child(tmp_path: Path) -> None:
    count = function(tmp_path, "count", COUNT, (argument("out", 0, "int32"),))
    metalcore.set_num_threads(2)
    out = np.zeros(100_000, np.int32)
    count(out, threads=out.size, group_size=64)
    child = os.fork()
    if child == 0:
        ok = False
        try:
            count(out, threads=out.size, group_size=64)
            ok = bool((out == 2).all())
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    count(out, threads=out.size, group_size=64)  # the parent's pool still works
    assert (out == 2).all()


# One access of all 32 lanes at out[base + lane], through the slow path.
ACCESS = """KERNEL { mc_access a = {.site = 0, .mask = 0xffffffffu, .elem_size = 4, .is_store = KIND, .base_thread = 0};
  int data[32]; for (int i = 0; i < 32; i++) { data[i] = i + 1; a.addr[i] = (char*)L->buffers[0] + 4 * (20 + i);
    a.lo[i] = L->buffers[0]; a.hi[i] = a.lo[i] + L->sizes[0]; }
  a.data = data; a.group[0] = gx0; a.group[1] = gy; a.group[2] = gz; L->slow_access(L, &a);
  for (int i = 0; i < 32; i++) ((int*)L->buffers[1])[i] = data[i]; }"""


def _access(folder: Path, kind: int) -> metalcore.Function:
    arguments = (argument("x", 0, "int32"), argument("seen", 1, "int32"))
    verb = ("load", "store", "atomic")[kind]
    sites = (Site("shader.metal", 12, 7, verb, 0, 4),)
    return function(folder, f"access{kind}", f"#define KIND {kind}\n" + ACCESS, arguments, sites=sites, written=(0, 1))


def test_reads_out_of_bounds_give_zero_and_raise(tmp_path: Path) -> None:
    x, seen = np.arange(100, 130, dtype=np.int32), np.full(32, -1, np.int32)
    with pytest.raises(KernelFault) as caught:
        _access(tmp_path, 0)(x, seen, threads=32, group_size=32)
    np.testing.assert_array_equal(seen, [*range(120, 130), *[0] * 22])
    message = str(caught.value)
    for part in (
        "'access0'",
        "read",
        "shader.metal:12:7",
        "thread (10, 0, 0)",
        "'x'",
        "index 30",
        "size is 30",
        "21 more",
    ):
        assert part in message, (part, message)


def test_writes_out_of_bounds_are_dropped(tmp_path: Path) -> None:
    memory = np.zeros(64, np.int32)
    x, seen = memory[:30], np.zeros(32, np.int32)
    with pytest.raises(KernelFault, match=r"write out of bounds at shader.metal:12:7 by thread \(10, 0, 0\)"):
        _access(tmp_path, 1)(x, seen, threads=32, group_size=32)
    np.testing.assert_array_equal(memory, [*[0] * 20, *range(1, 11), *[0] * 34])


def test_atomics_out_of_bounds_are_only_recorded(tmp_path: Path) -> None:
    x, seen = np.full(30, 7, np.int32), np.zeros(32, np.int32)
    with pytest.raises(KernelFault, match="atomic"):
        _access(tmp_path, 2)(x, seen, threads=32, group_size=32)
    assert (x == 7).all()
    np.testing.assert_array_equal(seen, [*range(1, 11), *[0] * 22])


def test_an_access_in_bounds_is_no_error(tmp_path: Path) -> None:
    x, seen = np.arange(52, dtype=np.int32), np.zeros(32, np.int32)
    _access(tmp_path, 0)(x, seen, threads=32, group_size=32)
    np.testing.assert_array_equal(seen, np.arange(20, 52))


POINTERS = """KERNEL { mc_access a = {.site = 0, .mask = 0xffffffffu, .elem_size = 4, .is_store = MC_LOAD};
  float data[32], *out = L->buffers[1]; const char** list = L->buffers[0]; int n = *(int*)L->buffers[2];
  for (int j = 0; j < n; j++) { for (int i = 0; i < 32; i++) a.addr[i] = list[j] + 4 * i;
    a.data = data; L->slow_access(L, &a); for (int i = 0; i < 32; i++) out[32 * j + i] = data[i]; } }"""


def test_pointers_in_memory_are_bounded(tmp_path: Path) -> None:
    arguments = (argument("list", 0, "pointer", type="const device float*"), argument("out", 1), value("n", 2, "int32"))
    sites = (Site("shader.metal", 4, 1, "load", None, 4),)
    follow = function(tmp_path, "follow", POINTERS, arguments, sites=sites, written=(1,))
    whole, short = np.arange(32, dtype=np.float32), np.arange(40, 50, dtype=np.float32)
    out = np.zeros((2, 32), np.float32)
    follow([whole, whole], out, 2, threads=32, group_size=32)
    np.testing.assert_array_equal(out, [whole, whole])
    with pytest.raises(KernelFault, match="through a pointer"):
        follow([whole, short], out, 2, threads=32, group_size=32)
    np.testing.assert_array_equal(out[1], [*short, *[0] * 22])


def test_thread_count_is_checked() -> None:
    for bad in (0, -1, 1.5, True, "2"):
        with pytest.raises(ValueError, match="positive int"):
            metalcore.set_num_threads(bad)  # type: ignore[arg-type]
    metalcore.set_num_threads(3)
    assert metalcore.get_num_threads() == 3


@pytest.mark.parametrize("cpu_threads", [1, 2])
def test_denormals_are_kept_whatever_the_program_set(tmp_path: Path, cpu_threads: int) -> None:
    body = "KERNEL { volatile float* x = L->buffers[0]; EACH_THREAD { x[X] = x[X] * 0.5f; } }"
    halve = function(tmp_path, "halve", body, (argument("x", 0),))
    metalcore.set_num_threads(cpu_threads)
    x = np.full(4096, 1e-38, np.float32)
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush denormals")
    try:
        halve(x, threads=4096, group_size=32)
        assert torch.tensor(1e-38) * 0.5 == 0  # the program's own setting is back
    finally:
        torch.set_flush_denormal(False)
    assert (x == np.float32(1e-38) * np.float32(0.5)).all() and x[0] != 0
