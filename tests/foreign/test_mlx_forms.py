"""Kernels in the forms of MLX's .metal files, which its wheel does not bring: ours, on its headers, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.foreign.arrays import EPSILON, FLOATS, Array, close, exact, generator, numbers
from tests.foreign.corpus import library

MASK = (1 << 32) - 1


def threefry(key: tuple[int, int], count: tuple[int, int]) -> tuple[int, int]:
    """Threefry 2x32 with 20 rounds, of Salmon et al. 2011."""
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = ((c + k) & MASK for c, k in zip(count, keys, strict=False))
    for i in range(20):
        turn = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x = (x + y) & MASK
        y = ((y << turn | y >> (32 - turn)) & MASK) ^ x
        if i % 4 == 3:
            n = i // 4 + 1
            x, y = (x + keys[n % 3]) & MASK, (y + keys[(n + 1) % 3] + n) & MASK
    return x, y


@pytest.mark.feature("corpus", "in the forms of MLX's random.metal")
def test_random_bits() -> None:
    assert threefry((0, 0), (0, 0)) == (0x6B200159, 0x99BA4EFE)  # of the paper's own test vectors
    keys = np.array([[0, 0], [7, 0xDEADBEEF], [MASK, MASK]], np.uint32)
    out = np.zeros((3, 45), np.uint8)
    library("mlx", "random").function("random_bits")(keys, out, np.uint32(45), threads=(6, 3), group_size=(6, 1))
    for row, key in enumerate(keys.tolist()):
        words = [word for i in range(6) for word in threefry(tuple(key), (i, i ^ 0x55))]
        assert out[row].tobytes() == np.array(words, np.uint32).tobytes()[:45]


@pytest.mark.feature("corpus", "in the forms of MLX's arg_reduce.metal")
@pytest.mark.parametrize("name", ("float32", "bfloat16", "int32", "int64", "uint8"))
def test_arg_reduce(name: str) -> None:
    x = numbers(generator(name), (3, 2, 301), name)
    for op in ("argmin", "argmax"):
        out = np.full((3, 301), 99, np.uint32)  # along the middle axis
        shape, strides = np.array([3, 301], np.int32), np.array([602, 1], np.int64)
        kernel = library("mlx", "arg_reduce").function(f"{op}_{name}")
        grid = {"threads": (64, 3 * 301, 1), "group_size": (64, 1, 1)}
        kernel(x, out, shape, strides, np.int32(2), np.int64(301), np.uint32(2), **grid)
        assert np.array_equal(out, getattr(np, op)(x, 1))
        out = np.full((3, 2), 99, np.uint32)
        shape, strides = np.array([6], np.int32), np.array([301], np.int64)
        kernel(
            x, out, shape, strides, np.int32(1), np.int64(1), np.uint32(301), threads=(64, 6, 1), group_size=(64, 1, 1)
        )
        assert np.array_equal(out, getattr(np, op)(x, 2))


def normalised(x: Array) -> tuple[Array, Array]:
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return (x - x.mean(-1, keepdims=True)) * scale, scale


@pytest.mark.feature("corpus", "in the forms of MLX's rms_norm.metal")
@pytest.mark.parametrize("name", FLOATS)
def test_rms_norm(name: str) -> None:
    rng = generator("rms", name)
    for form, size, group in (("", 301, 96), ("_looped", 1000, 128)):
        x, w = numbers(rng, (3, size), name), numbers(rng, size, name)
        for has_weight in (True, False):
            kernel = library("mlx", "rms_norm").function(f"rms{form}{name}", constants={20: has_weight})
            out = np.zeros_like(x)
            kernel(x, w, out, 1e-5, np.uint32(size), np.uint32(1), threadgroups=3, group_size=group)
            wanted = exact(x) / np.sqrt((exact(x) ** 2).mean(-1, keepdims=True) + 1e-5)
            close(out, wanted * (exact(w) if has_weight else 1), name, 3, floor=3 * EPSILON[name])


@pytest.mark.feature("corpus", "in the forms of MLX's layer_norm.metal")
@pytest.mark.parametrize("name", FLOATS)
def test_layer_norm_and_its_gradient(name: str) -> None:
    rng = generator("layer", name)
    size = np.uint32(301)
    x, g = numbers(rng, (3, 301), name), numbers(rng, (3, 301), name)
    w, b = numbers(rng, 301, name), numbers(rng, 1, name)
    out = np.zeros_like(x)
    kernel = library("mlx", "layer_norm").function(f"layer_norm{name}")
    kernel(x, w, b, out, 1e-5, size, np.uint32(1), np.uint32(0), threadgroups=3, group_size=96)
    h, scale = normalised(exact(x))
    close(out, h * exact(w) + exact(b), name, 4, floor=6 * EPSILON[name])
    kernel = library("mlx", "layer_norm").function(f"vjp_layer_norm{name}")
    kernel(x, w, g, out, 1e-5, size, np.uint32(1), threadgroups=3, group_size=64)
    gw = exact(g) * exact(w)
    wanted = scale * (gw - gw.mean(-1, keepdims=True) - h * (gw * h).mean(-1, keepdims=True))
    close(out, wanted, name, 4, floor=6 * EPSILON[name])


@pytest.mark.feature("corpus", "in the forms of MLX's rope.metal")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("traditional", (False, True))
def test_rope(name: str, traditional: bool) -> None:
    batches, heads, length, half = 2, 5, 3, 8
    x = numbers(generator("rope", name), (batches, heads, length, 2 * half), name)
    offsets = np.array([0, 4], np.int32)
    periods = (10000 ** (np.arange(half) / half)).astype(np.float32)
    strides = (length * 2 * half, 2 * half, length * 2 * half)
    grid = {"threads": (half, length, 4), "group_size": (half, 1, 1)}
    positions = (offsets[:, None] + np.arange(length))[:, None, :, None]
    angle = positions / (10000.0 ** (np.arange(half) / half))
    forms = (
        (f"rope_{name}", np.int32, np.float32(np.log2(10000)), True, True),
        (f"rope_large_{name}", np.int64, np.float32(np.log2(10000)), False, True),
        (f"rope_freqs_{name}", np.int32, periods, True, True),
    )
    for form, index, last, forward, per_head in forms:
        constants = {"forward": forward, "traditional": traditional, "per_head": per_head}
        kernel = library("mlx", "rope").function(form, constants=constants)
        out = np.zeros_like(x)
        named = {kernel.arguments[6].name: last}
        kernel(x, out, offsets, 1.0, np.array(strides, index), np.int32(heads), **named, **grid)
        a, b = (x[..., ::2], x[..., 1::2]) if traditional else (x[..., :half], x[..., half:])
        a, b, c, s = exact(a), exact(b), np.cos(angle), np.sin(angle) * (1 if forward else -1)
        wanted = np.zeros(x.shape)
        places = (slice(0, None, 2), slice(1, None, 2)) if traditional else (slice(0, half), slice(half, None))
        wanted[..., places[0]], wanted[..., places[1]] = a * c - b * s, a * s + b * c
        close(out, wanted, name, 2, floor=6 * EPSILON[name])
