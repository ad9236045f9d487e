"""Results of isolated kernels are those of others, however their arrays come to the worker."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import CompileError, ConstantError, IsolationError, KernelFault, LaunchError
from tests.isolate.kernels import SOURCE


def floats(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n, dtype=np.float32)


@pytest.mark.feature("API", "metalcore.isolate: kernels are compiled and run in a sealed worker process")
@pytest.mark.parametrize("mode", ["checked", "fast", "sanitize"])
def test_values_in_every_mode(library: metalcore.Library, mode: str) -> None:
    y, x = np.ones(100, np.float32), floats(100)
    with metalcore.mode(mode):
        library.function("axpy")(y, x, 2.5, threads=100, group_size=32)
    assert (y == 1 + np.float32(2.5) * x).all()


def test_torch_tensors_names_threadgroup_memory_and_constants(library: metalcore.Library) -> None:
    y, x = torch.zeros(1), torch.arange(64.0)
    library.function("sum")(x=x, y=y, threads=64, group_size=64, threadgroup_memory={0: 256})
    assert y.item() == 2016
    numbers = np.arange(8, dtype=np.int32)
    library.function("scaled", {"scale": 3})(numbers, threads=8)
    assert numbers.tolist() == [0, 3, 6, 9, 12, 15, 18, 21]


def test_large_arrays_grow_the_arena(library: metalcore.Library) -> None:
    f = library.function("axpy")
    for n in (1 << 10, 1 << 20, 3 << 20, 100):
        y, x = np.zeros(n, np.float32), floats(n)
        f(y, x, 2.0, threads=n, group_size=256)
        assert (y == 2 * x).all()


def test_arrays_that_overlap_still_do(library: metalcore.Library) -> None:
    memory = floats(65)
    library.function("shift")(memory[1:], memory[:-1], threads=1)
    assert memory[:3].tolist() == [0, 0, 2]
    library.function("axpy")(memory, memory, 1.0, threads=65)
    assert memory[:4].tolist() == [0, 0, 4, 6]


def test_lists_of_arrays_are_read_and_written_through_their_pointers(library: metalcore.Library) -> None:
    a, b, y = floats(16), np.full(16, 100, np.float32), np.zeros(16, np.float32)
    b.flags.writeable = False
    library.function("gather")(y, [a, b], threads=16)
    assert (y == a + 100).all()
    a, b = np.zeros(16, np.float32), metalcore.shared_array(16)
    library.function("scatter")([a, b], threads=16)
    assert a[::2].tolist() == list(range(0, 16, 2)) and b[1::2].tolist() == list(range(1, 16, 2))
    assert not a[1::2].any() and not b[::2].any()


@pytest.mark.feature("API", "metalcore.shared_array: arrays that isolated kernels use without a copy")
def test_shared_arrays_views_and_tensors_of_them(library: metalcore.Library) -> None:
    x, y = metalcore.shared_array((4, 25)), metalcore.shared_array(100, np.float32)
    x[:] = floats(100).reshape(4, 25)
    f = library.function("axpy")
    f(y, x, 2.0, threads=100)
    assert (y == 2 * floats(100)).all()
    f(y[50:], x, 1.0, threads=50)
    assert (y[50:] == 2 * floats(100)[50:] + floats(50)).all()
    f(torch.from_numpy(y), floats(100), 1.0, threads=100)
    assert y[1] == 3
    with pytest.raises(metalcore.errors.ArgumentError, match="not a shape"):
        metalcore.shared_array(-1)


def test_mistakes_keep_their_errors_and_words(library: metalcore.Library) -> None:
    here = metalcore.Library(SOURCE, isolate=False)
    x = np.zeros(32, np.float32)

    def words(of: metalcore.Library, kernel: str, *args: Any, **sizes: Any) -> tuple[type, str]:
        with pytest.raises(Exception) as caught:
            of.function(kernel)(*args, **sizes)
        return caught.type, str(caught.value)

    for kernel, args, sizes, kind in (
        ("past", (x,), {"threads": 32}, KernelFault),
        ("past", (x.astype(np.float64),), {"threads": 32}, metalcore.errors.ArgumentError),
        ("past", (x,), {"threads": 4096, "group_size": 2048}, LaunchError),
        ("past", (x,), {}, LaunchError),
        ("nothing", (), {}, metalcore.errors.UnknownFunction),
        ("scaled", (x,), {"threads": 1}, ConstantError),
        ("declared", (x, 9), {"threads": 1}, LaunchError),
    ):
        got = words(library, kernel, *args, **sizes)
        assert got[0] is kind and got == words(here, kernel, *args, **sizes), kernel
    assert (x[1:] == 7).all(), "a fault is raised when the launch is over: what was in bounds is written"


def test_a_compile_error_keeps_its_place(isolation: metalcore.isolate) -> None:
    bad = "kernel void f(device float* x) {\n  x[0] = undefined_name;\n}\n"
    caught = []
    for isolate in (isolation, False):
        with pytest.raises(CompileError) as error:
            metalcore.Library(bad, isolate=isolate)
        caught.append((str(error.value), error.value.lineno, error.value.offset, error.value.text))
    assert caught[0] == caught[1] and caught[0][1] == 2


def test_the_sanitizer_reports_from_the_worker(library: metalcore.Library) -> None:
    reports = []
    for of in (library, metalcore.Library(SOURCE, isolate=False)):
        with metalcore.mode("sanitize") as report:
            of.function("racy")(np.zeros(1, np.int32), threads=64, group_size=32)
            of.function("past")(np.zeros(64, np.float32), threads=64, group_size=64)
        reports.append([(str(f), f.buffer, f.index) for f in report.findings])
    assert reports[0] == reports[1] and any("race" in text for text, _, _ in reports[0])


def test_a_function_made_outside_runs_inside_in_the_worker(isolation: metalcore.isolate) -> None:
    x, at = np.zeros(4, np.uint32), np.array([8], np.uint64)
    outside = metalcore.Library(SOURCE)
    wild, axpy = outside.function("wild"), outside.function("axpy")
    y = np.zeros(4, np.float32)
    axpy(y, floats(4), 1.0, threads=4)  # a plan of it is kept
    with isolation, metalcore.mode("fast"), pytest.raises(IsolationError):
        wild(x, at, threads=4)  # here it would end this process
    with isolation:
        axpy(y, floats(4), 1.0, threads=4)
    assert y.tolist() == [0, 2, 4, 6] and not x.any()


def test_blocks_nest_and_libraries_stay_where_they_were_made() -> None:
    source = "kernel void k(device uint* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"
    x = np.zeros(4, np.uint32)
    with metalcore.isolate() as outer:
        f = metalcore.Library(source).function("k")
        with metalcore.isolate(timeout=5):
            g = metalcore.Library(source).function("k")
            g(x, threads=4)
            f(x, threads=4)
        f(x, threads=4)
        first = outer.sandbox
    assert first._launcher is None
    f(x, threads=4)  # its worker ended with the block; a new one starts
    assert first._launcher is not None and x.tolist() == [4] * 4
    outer.close()


def test_threads_take_turns(library: metalcore.Library) -> None:
    f, arrays = library.function("axpy"), [np.zeros(1000, np.float32) for _ in range(4)]

    def work(y: np.ndarray[Any, Any]) -> None:
        for _ in range(20):
            f(y, floats(1000), 1.0, threads=1000)

    threads = [threading.Thread(target=work, args=(y,)) for y in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((y == 20 * floats(1000)).all() for y in arrays)


def test_drop_ins_inside_a_block(isolation: metalcore.isolate) -> None:
    from metalcore.engine.isolate.unit import IsolatedUnit

    with isolation:
        shader = metalcore.compile_shader(SOURCE)
        kernel = metalcore.metal_kernel("twice", ["x"], ["y"], "uint i = thread_position_in_grid.x; y[i] = 2 * x[i];")
    assert isinstance(shader._library._unit, IsolatedUnit)
    y, a, b = torch.zeros(16), torch.arange(16.0), torch.ones(16)
    shader.gather(y, [a, b])
    assert (y == a + 1).all()
    (twice,) = kernel(
        inputs=[floats(8)], output_shapes=[(8,)], output_dtypes=[np.float32], grid=(8, 1, 1), threadgroup=(8, 1, 1)
    )
    assert (twice == 2 * floats(8)).all()
    assert isinstance(next(iter(kernel._built.values()))[0]._unit, IsolatedUnit)


def test_ops_of_the_package_are_not_isolated(isolation: metalcore.isolate) -> None:
    with isolation:
        assert metalcore.silu(np.zeros(4, np.float32)).tolist() == [0] * 4
        assert isolation.sandbox is not None
