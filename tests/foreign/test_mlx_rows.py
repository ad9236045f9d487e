"""MLX's row kernels against NumPy: softmax, logsumexp, cross entropy, dot product."""

from __future__ import annotations

import numpy as np
import pytest

from tests.foreign.arrays import DTYPES, EPSILON, FLOATS, Array, close, exact, generator, numbers, swept
from tests.foreign.corpus import library

SHAPES = ((7, 512), (5, 301))


def group_for(size: int) -> int:
    """Threads of a group that reads a row once, four elements a thread, in whole simdgroups."""
    return -(-size // 4 // 32) * 32 + 32


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logsumexp(x: Array) -> Array:
    top = x.max(-1, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(-1, keepdims=True)))[..., 0]


@pytest.mark.feature("corpus", "MLX: softmax")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("form", swept(("block", "looped", "block_precise", "looped_precise"), ("block", "looped")))
def test_softmax(form: str, name: str) -> None:
    kind, _, precise = form.partition("_")
    kernel = library("mlx", "softmax").function(f"{kind}_softmax_{precise + '_' if precise else ''}{name}")
    for rows, size in SHAPES:
        if kind == "looped":
            size = 9 * size + 1000  # several passes of 1,024 threads
        x = numbers(generator(form, name, size), (rows, size), name, 2)
        out = np.zeros_like(x)
        group = 1024 if kind == "looped" else group_for(size)
        kernel(x, out, np.int32(size), threadgroups=rows, group_size=group)
        # Without `precise` the sum itself is kept in the element type.
        ulps = 4 if precise or name == "float32" else 12
        close(out, softmax(exact(x)), name, ulps * (8 if name == "float32" else 1), floor=1e-7)


@pytest.mark.feature("corpus", "MLX: softmax")
def test_softmax_of_infinities() -> None:
    """Minus infinity has weight nothing."""
    x = numbers(generator("inf"), (3, 130), "float32")
    x[:, ::3] = -np.inf
    out = np.zeros_like(x)
    library("mlx", "softmax").function("block_softmax_float32")(x, out, np.int32(130), threadgroups=3, group_size=64)
    close(out, softmax(exact(x)), "float32", 16)
    assert (out[:, ::3] == 0).all()


@pytest.mark.feature("corpus", "MLX: logsumexp")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("form", ("block", "looped"))
def test_logsumexp(form: str, name: str) -> None:
    kernel = library("mlx", "logsumexp").function(f"{form}_logsumexp_{name}")
    for rows, size in SHAPES:
        if form == "looped":
            size = 9 * size + 1000
        x = numbers(generator(form, name, size), (rows, size), name, 2)
        out = np.zeros(rows, x.dtype)
        group = 1024 if form == "looped" else group_for(size)
        kernel(x, out, np.int32(size), threadgroups=rows, group_size=group)
        close(out, logsumexp(exact(x)), name, 8 if name == "float32" else 1)


@pytest.mark.feature("corpus", "MLX: cross entropy")
@pytest.mark.parametrize("name", FLOATS)
def test_cross_entropy_and_its_gradient(name: str) -> None:
    lib = library("mlx", "cross_entropy")
    for rows, size in SHAPES:
        rng = generator(name, size)
        x = numbers(rng, (rows, size), name, 2)
        targets = rng.integers(-size, size, rows).astype(np.int32)
        loss = np.zeros(rows, np.float32)
        lib.function(f"cross_entropy_{name}")(x, targets, loss, np.int32(size), threadgroups=rows, group_size=96)
        wide, column = exact(x), targets % size
        want = logsumexp(wide) - wide[np.arange(rows), column]
        close(loss, want, "float32", 16, floor=1e-6)
        weight = numbers(rng, rows, "float32")
        gradient = np.zeros_like(x)
        lib.function(f"cross_entropy_vjp_{name}")(
            x, targets, loss, weight, gradient, np.int32(size), threadgroups=rows, group_size=96
        )
        slope = softmax(wide)
        slope[np.arange(rows), column] -= 1
        close(gradient, slope * exact(weight)[:, None], name, 64 if name == "float32" else 2, floor=1e-6)


@pytest.mark.feature("corpus", "MLX: dot product")
@pytest.mark.parametrize("name", swept(FLOATS, ("float16",)))
def test_dot(name: str) -> None:
    kernel = library("mlx", "dot").function(f"dot_{name}")
    for size in (4096, 3777):
        rng = generator(name, size)
        a, b = numbers(rng, size, name), numbers(rng, size, name)
        groups = -(-size // 2048)
        out = np.zeros(groups, np.float32)
        kernel(a, b, out, np.int32(size), threadgroups=groups, group_size=64)
        want = float(exact(a) @ exact(b))
        assert DTYPES[name] is a.dtype.type
        assert abs(float(exact(out).sum()) - want) < 16 * EPSILON["float32"] * float(np.abs(exact(a) * exact(b)).sum())
