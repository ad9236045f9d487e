"""Atomics on device and threadgroup memory."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.include.probe import Array, launch, row

N = 1000


def run(body: str, cell: Array, values: Array, kind: str) -> tuple[Array, Array]:
    """All threads work on one cell; answers the cell and what each thread read."""
    old = np.zeros(len(values), cell.dtype)
    source = f"""
kernel void k(device atomic<{kind}>* cell [[buffer(0)]], device const {kind}* values [[buffer(1)]],
              device {kind}* old [[buffer(2)]], uint i [[thread_position_in_grid]]) {{
  {kind} v = values[i];
  old[i] = {body};
}}"""
    launch(source, "k", [cell, values, old], len(values), 64)
    return cell, old


@pytest.mark.feature("atomics", "fetch_add, sub, min, max, and, or, xor")
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_fetch(kind: str) -> None:
    dtype = np.dtype(np.int32 if kind == "int" else np.uint32)
    values = np.random.default_rng(1).integers(0, 1 << 30, N).astype(dtype)
    if kind == "int":
        values[::2] *= -1
    both = values.astype(np.int64)
    wanted = {
        "add": (both.sum(), 0),
        "sub": (-both.sum(), 0),
        "min": (min(both.min(), 5), 5),
        "max": (max(both.max(), 5), 5),
        "and": (np.bitwise_and.reduce(values), -1 if kind == "int" else 0xFFFFFFFF),
        "or": (np.bitwise_or.reduce(values), 0),
        "xor": (np.bitwise_xor.reduce(values), 0),
    }
    for name, (want, start) in wanted.items():
        cell, old = run(
            f"atomic_fetch_{name}_explicit(cell, v, memory_order_relaxed)", np.array([start], dtype), values, kind
        )
        assert cell[0] == np.array(int(want) & 0xFFFFFFFF, np.uint32).astype(dtype), name
        assert start in old, name


def test_every_thread_sees_a_different_count() -> None:
    cell, old = run(
        "atomic_fetch_add_explicit(cell, 1, memory_order_relaxed)",
        np.zeros(1, np.uint32),
        np.ones(N, np.uint32),
        "uint",
    )
    assert cell[0] == N
    assert sorted(old.tolist()) == list(range(N))


@pytest.mark.feature("atomics", "atomic<float>")
def test_float_add_and_exchange() -> None:
    values = np.arange(N, dtype=np.float32)
    cell, _ = run("atomic_fetch_add_explicit(cell, v, memory_order_relaxed)", np.zeros(1, np.float32), values, "float")
    assert cell[0] == N * (N - 1) / 2
    cell, _ = run("atomic_fetch_sub_explicit(cell, v, memory_order_relaxed)", cell, values, "float")
    assert cell[0] == 0
    cell, old = run(
        "atomic_exchange_explicit(cell, v, memory_order_relaxed)", np.array([-1], np.float32), values, "float"
    )
    assert sorted([*old.tolist(), float(cell[0])]) == [-1.0, *values.tolist()]


@pytest.mark.feature("atomics", "compare_exchange_weak")
def test_compare_exchange_makes_progress() -> None:
    source = """
kernel void product(device atomic_uint* cell [[buffer(0)]], device const uint* values [[buffer(1)]],
                    uint i [[thread_position_in_grid]]) {
  uint old = atomic_load_explicit(cell, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(cell, &old, old * values[i], memory_order_relaxed,
                                                memory_order_relaxed)) {
  }
}"""
    values = (np.random.default_rng(2).integers(0, 1 << 31, N) * 2 + 1).astype(np.uint32)
    cell = np.ones(1, np.uint32)
    launch(source, "product", [cell, values], N, 128)
    assert cell[0] == np.multiply.reduce(values, dtype=np.uint32)


def test_compare_exchange_of_halves_in_a_word() -> None:
    source = """
kernel void add(device atomic_uint* cells [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  device atomic_uint* cell = cells + i % 4 / 2;
  uint old = atomic_load_explicit(cell, memory_order_relaxed), next;
  do {
    half2 pair = as_type<half2>(old);
    pair[i % 2] += 1.0h;
    next = as_type<uint>(pair);
  } while (!atomic_compare_exchange_weak_explicit(cell, &old, next, memory_order_relaxed, memory_order_relaxed));
}"""
    cells = np.zeros(4, np.float16)
    launch(
        source,
        "add",
        [
            cells.view(np.uint32),
        ],
        400,
        100,
    )
    assert cells.tolist() == [100, 100, 100, 100]


@pytest.mark.feature("atomics", "64-bit atomic min and max")
def test_ulong_max_and_min() -> None:
    source = """
kernel void extremes(device atomic_ulong* cells [[buffer(0)]], device const ulong* values [[buffer(1)]],
                     uint i [[thread_position_in_grid]]) {
  atomic_max_explicit(cells, values[i], memory_order_relaxed);
  atomic_min_explicit(cells + 1, values[i], memory_order_relaxed);
}"""
    values = np.random.default_rng(3).integers(0, 1 << 63, N).astype(np.uint64)
    cells = np.array([0, np.iinfo(np.uint64).max], np.uint64)
    launch(source, "extremes", [cells, values], N, 64)
    assert cells.tolist() == [values.max(), values.min()]


@pytest.mark.feature("atomics", "threadgroup atomics")
def test_histogram_in_threadgroup_memory() -> None:
    source = """
kernel void histogram(device const uchar* values [[buffer(0)]], device atomic_uint* out [[buffer(1)]],
                      uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {
  threadgroup atomic_uint bins[16];
  if (t < 16) atomic_store_explicit(&bins[t], 0, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&bins[values[i] % 16], 1, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint count = t < 16 ? atomic_load_explicit(&bins[t], memory_order_relaxed) : 0;
  if (t < 16) atomic_fetch_add_explicit(&out[t], count, memory_order_relaxed);
}"""
    values = np.random.default_rng(4).integers(0, 256, 1024).astype(np.uint8)
    out = np.zeros(16, np.uint32)
    launch(source, "histogram", [values, out], 1024, 256)
    assert out.tolist() == np.bincount(values % 16, minlength=16).tolist()


@pytest.mark.feature("atomics", "atomic_bool, stronger orders and fences")
def test_other_forms() -> None:
    source = """
struct State { atomic_int n; atomic<bool> flag; };
kernel void k(device State* s [[buffer(0)]], volatile device atomic_int* m [[buffer(1)]]) {
  atomic_store_explicit(&s->n, 3, memory_order_relaxed);
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  atomic_store_explicit(&s->flag, true, memory_order_release);
  if (!atomic_load_explicit(&s->flag, memory_order_acquire)) return;
  int n = atomic_load_explicit(&s->n, memory_order_relaxed);
  atomic_fetch_add_explicit(m, 39 + n, memory_order_acq_rel);
}"""
    state, m = np.zeros(2, np.int32), np.zeros(1, np.int32)
    launch(source, "k", [state.view(np.uint8), m], 1, 1)
    assert state.tolist() == [3, 1]
    assert m[0] == 42
    assert row(
        ["sizeof(atomic_bool)", "sizeof(atomic_uint)", "sizeof(atomic_ulong)", "sizeof(atomic<float>)"], "int"
    ) == [4, 4, 8, 4]
