"""Ops whose plans go on by values, inside mlx's transforms: steps of the graph that call Python."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from metalcore.errors import LinAlgError
from metalcore.mlx.primitive import primitive
from metalcore.runtimes.mlx import has_metal

mx: Any = pytest.importorskip("mlx.core")
metal: Any = pytest.importorskip("metalcore.mlx")
linalg: Any = pytest.importorskip("metalcore.mlx.linalg")
precise: Any = pytest.importorskip("metalcore.mlx.precise")
pytestmark = [
    pytest.mark.skipif(has_metal(), reason="with Metal, kernels are steps of the graph"),
    pytest.mark.skipif(primitive() is None, reason="there is no primitive"),
]

A = mx.random.normal((3, 6, 4), key=mx.random.key(0))
B = mx.random.normal((3, 6, 2), key=mx.random.key(1))
POSITIVE = A.swapaxes(-1, -2) @ A + mx.eye(4)
mx.eval(A, B, POSITIVE)
CALLS: dict[str, tuple[Callable[..., Any], Any]] = {
    "svd": (lambda a: linalg.svd(a), A),
    "svd of bfloat16": (lambda a: linalg.svd(a, False, driver="gesvdj"), A.astype(mx.bfloat16)),
    "svdvals": (lambda a: (linalg.svdvals(a),), A),
    "svd_lowrank": (lambda a: linalg.svd_lowrank(a, 2), A),
    "topk_svd": (lambda a: linalg.topk_svd(a, 2), A),
    "polar": (lambda a: linalg.polar(a), A),
    "cond": (lambda a: (linalg.cond(a),), A),
    "nuclear norm": (lambda a: (linalg.matrix_norm(a, "nuc"),), A),
    "precise.cholesky": (lambda a: (precise.cholesky(a),), POSITIVE),
}


def same(found: Any, expected: Any, atol: float = 0.0) -> None:
    """Bit by bit, where nothing else is said: it is the same plan on the same engine."""
    assert len(found) == len(expected) > 0
    for x, y in zip(found, expected, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(np.array(x.astype(mx.float32)), np.array(y.astype(mx.float32)), rtol=0, atol=atol)


@pytest.mark.parametrize("name", CALLS)
def test_compile_and_vmap(name: str) -> None:
    call, x = CALLS[name]
    compiled = mx.compile(lambda x: tuple(call(x)))
    same(compiled(x), call(x))
    same(compiled(x + 1), call(x + 1))
    each = [call(row) for row in x]
    loose = 2e-2 if x.dtype == mx.bfloat16 else 2e-5  # a batch may be worked on in another order
    same(mx.vmap(lambda x: tuple(call(x)))(x), [mx.stack(list(ys)) for ys in zip(*each, strict=True)], loose)
    same(
        mx.compile(mx.vmap(lambda x: tuple(call(x)), in_axes=1))(x.swapaxes(0, 1)), mx.vmap(lambda x: tuple(call(x)))(x)
    )


@pytest.mark.sweep
def test_a_large_one_goes_on_by_what_it_finds() -> None:
    """Above 128 rows and columns it is looked whether rows differ in size: both ways are taken by one compiled step."""
    x = mx.random.normal((136, 132), key=mx.random.key(2))
    compiled = mx.compile(linalg.svdvals)
    graded = x * (10.0 ** -mx.arange(136) / 8)[:, None]
    for values in (x, graded, x * 2):
        same([compiled(values)], [linalg.svdvals(values)])


LOSSES: dict[str, Callable[..., Any]] = {
    "svd": lambda a: linalg.svd(a, False)[1].sum() + (linalg.svd(a, False)[2] ** 3).sum(),
    "lstsq": lambda a: (linalg.lstsq(a, B)[0] ** 2).sum(),
    "cholesky": lambda a: (precise.cholesky(a.swapaxes(-1, -2) @ a + mx.eye(4)) ** 3).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients(name: str) -> None:
    f = LOSSES[name]
    expected = mx.grad(f)(A)
    same([mx.compile(mx.grad(f))(A)], [expected], 1e-5)
    same([mx.compile(mx.grad(mx.checkpoint(f)))(A)], [expected], 1e-5)


@pytest.mark.sweep
def test_gradients_of_each_row() -> None:
    rows = mx.vmap(mx.grad(lambda a: linalg.svdvals(a).sum()))(A)
    same([rows], [mx.grad(lambda a: linalg.svdvals(a).sum())(A)], 1e-5)
    both = mx.vmap(mx.grad(lambda a, b: (linalg.lstsq(a, b)[0] ** 2).sum(), argnums=(0, 1)))(A, B)
    same(both, mx.grad(lambda a, b: (linalg.lstsq(a, b)[0] ** 2).sum(), argnums=(0, 1))(A, B), 1e-4)


def test_in_the_middle_of_a_graph_on_streams_and_asynchronously() -> None:
    expected = linalg.svdvals(mx.exp(A)) * 2 + 1
    compiled = mx.compile(lambda a: linalg.svdvals(mx.exp(a)) * 2 + 1)
    stream = mx.new_stream(mx.cpu)
    for _ in range(20):
        with mx.stream(stream):
            there = mx.exp(A * 1)
        elsewhere = mx.compile(lambda a: linalg.svdvals(a, stream=stream) * 2 + 1)(there)
        later = compiled(A)
        mx.async_eval(later, elsewhere)
        same([later, elsewhere], [expected, expected], 1e-5)


def test_what_has_no_elements_or_lies_apart() -> None:
    for x in (mx.zeros((0, 4, 3)), mx.zeros((2, 0, 3)), A.swapaxes(-1, -2), A[::2, 1:, ::3]):
        same(mx.compile(lambda a: tuple(linalg.svd(a)))(x), linalg.svd(x))


def test_errors_reach_the_caller_and_what_comes_after_works() -> None:
    wrong = mx.where(mx.arange(3)[:, None, None] == 1, mx.nan, A)
    with pytest.raises(LinAlgError, match=r"element 1.* contained non-finite values"):
        linalg.svd(wrong)
    compiled = mx.compile(lambda a: linalg.svdvals(mx.exp(a)).sum())
    good = compiled(A).item()
    for evaluate in (mx.eval, mx.async_eval, lambda y: y.item(), np.array):
        for _ in range(5):
            late = compiled(wrong) * 2 + 1
            with pytest.raises(RuntimeError, match=r"element 1.* contained non-finite values"):
                evaluate(late)
            assert compiled(A).item() == good
    with pytest.raises(RuntimeError, match="not positive-definite"):
        mx.eval(mx.compile(precise.cholesky)(-POSITIVE))


def test_threads() -> None:
    """Each evaluates its own graphs, in ways that give Python's lock away and that may not."""
    expected = np.array(linalg.svdvals(A))
    compiled = mx.compile(lambda a: linalg.svdvals(a))
    failed: list[BaseException] = []

    def work(place: int) -> None:
        try:
            for i in range(15):
                x = mx.array(np.array(A)) * 1
                y = mx.vmap(linalg.svdvals)(x)
                if (i + place) % 3 == 0:
                    mx.async_eval(y)
                if (i + place) % 3 == 1:
                    assert y[0, 0].item() > 0
                np.testing.assert_allclose(np.array(y), expected, atol=1e-5)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed and not any(thread.is_alive() for thread in threads)
    np.testing.assert_array_equal(np.array(compiled(A)), expected)


def test_functions_are_kept_by_key() -> None:
    """Calls add nothing; a function goes when the last step that has it is gone, which may be long after its op."""
    from metalcore.mlx import call

    library = primitive()
    assert library is not None
    compiled = mx.compile(linalg.svdvals)
    mx.eval(compiled(A))
    mx.eval(mx.vmap(linalg.svdvals)(A))
    before = len(library.calls)
    for _ in range(30):
        mx.eval(mx.vmap(linalg.svdvals)(A))
    assert len(library.calls) == before
    expected = np.array(compiled(A))
    waiting = mx.compile(lambda a: linalg.svdvals(a) + 1)(A * 1)
    call._steps.clear()
    gc.collect()
    mx.eval(mx.vmap(linalg.svdvals)(A[:, :5]))  # a new key: here what is dead goes
    np.testing.assert_array_equal(np.array(waiting), expected + 1)
    np.testing.assert_array_equal(np.array(compiled(A)), expected)
    del waiting
    rows = mx.random.normal((2, 16, 4), key=mx.random.key(3))
    before = len(library.calls)
    for n in range(6, 16):
        call._steps.clear()
        gc.collect()
        mx.eval(mx.vmap(linalg.svdvals)(rows[:, :n]))
    assert len(library.calls) <= before + 1


AT_EXIT = """
import mlx.core as mx, metalcore.mlx, atexit
from metalcore.mlx import linalg
f = mx.compile(linalg.svdvals)
kept = [f(mx.random.normal((5, 3))), mx.vmap(linalg.svdvals)(mx.random.normal((2, 5, 3)))]  # never evaluated
atexit.register(lambda: print("at exit", f(mx.ones((5, 3))).shape, mx.eval(f(mx.ones((5, 3))))))
"""


def test_at_the_end_of_the_process() -> None:
    """Without threads: plain mlx 0.32 may end with an abort where one that has ended evaluated something."""
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "at exit (3,) None\n", "")


def test_blocks_of_caches() -> None:
    keys, pairs = mx.arange(8.0).reshape(4, 2), mx.array([[3, 0], [2, 1]])
    for f in (lambda k, p: metal.copy_blocks(k, k + 1, p), lambda k, p: (metal.swap_blocks(k + 1, k, p),)):
        same(mx.compile(f)(keys, pairs), f(keys, pairs))
        same(mx.vmap(f, in_axes=(0, None))(mx.stack([keys, keys]), pairs), [mx.stack([y, y]) for y in f(keys, pairs)])
