"""The calls whose kernels a wheel brings: common ops, in the shapes that models and first trials have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import metalcore

# Widths that are a multiple of 8, of 4 and of neither: kernels read vectors where they can.
WIDTHS = (64, 100, 768, 1024, 4096, 7)
New = Callable[..., Any]
"""Makes an array of random numbers of this shape in the dtype at hand; `fixed=True`: one that needs no gradient."""
Call = Callable[[], Any]


def rows(new: New) -> Iterator[Call]:
    """Ops along the last dimension."""
    for width in WIDTHS:
        for leading in ((2, 16), (1,)):
            x, y, w, b = new(*leading, width), new(*leading, width), new(width), new(width)
            for weight in (w, None):
                yield partial(metalcore.rms_norm, x, (width,), weight, eps=1e-6)
            yield partial(metalcore.layer_norm, x, (width,), w, b)
            yield partial(metalcore.layer_norm, x, (width,))
            yield partial(metalcore.fused_add_rms_norm, x, y, w)
            yield partial(metalcore.fused_add_layer_norm, x, y, w, b)
            for op in (metalcore.softmax, metalcore.log_softmax, metalcore.logsumexp):
                yield partial(op, x, -1)


def elements(new: New) -> Iterator[Call]:
    """Ops on each element."""
    for width in WIDTHS:
        x, y, b = new(16, width), new(16, width), new(width)
        yield partial(metalcore.silu, x)
        yield partial(metalcore.swiglu, x, y)
        yield partial(metalcore.bias_silu, x, b)
        yield partial(metalcore.softcap, x, 30.0)
        for how in ("none", "tanh"):
            yield partial(metalcore.gelu, x, how)
            yield partial(metalcore.geglu, x, y, how)
            yield partial(metalcore.bias_gelu, x, b, how)


def positions(new: New) -> Iterator[Call]:
    """Rotary embeddings, for heads of all usual depths."""
    for depth in (64, 128):
        q, k, angles = new(1, 8, 32, depth), new(1, 2, 32, depth), new(32, depth, fixed=True)
        for interleaved in (False, True):
            yield partial(metalcore.rope, q, k, angles, angles, interleaved=interleaved)


def attention(new: New) -> Iterator[Call]:
    """A prompt, a step of one row, and a short sequence."""
    for depth in (64, 128):
        for queries, keys, causal in ((128, 128, True), (128, 128, False), (1, 128, False), (33, 33, True)):
            q, k, v = new(1, 4, queries, depth), new(1, 4, keys, depth), new(1, 4, keys, depth)
            yield partial(metalcore.scaled_dot_product_attention, q, k, v, is_causal=causal)
        q, k = new(1, 4, 128, depth), new(1, 2, 128, depth)
        yield partial(metalcore.scaled_dot_product_attention, q, k, k, is_causal=True, enable_gqa=True)


def losses(new: New, integers: Callable[[int, int], Any]) -> Iterator[Call]:
    for classes in (10, 1000, 32000):
        x, target = new(8, classes), integers(8, classes)
        yield partial(metalcore.cross_entropy, x, target)


def calls(new: New, integers: Callable[[int, int], Any]) -> Iterator[Call]:
    """All of them; a function of *new* and *integers*, so that every framework and dtype has its turn."""
    for group in (rows, elements, positions, attention):
        yield from group(new)
    yield from losses(new, integers)
