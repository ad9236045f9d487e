"""Attention on MLX with its gradient, against MLX's own: results, gradients, and what each keeps in memory.

    python examples/mlx_attention.py --tokens 512

metalcore.mlx.scaled_dot_product_attention has MLX's signature. With a gradient, MLX makes the scores of all queries and
keys; metalcore's kernels compute them again, block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click
import mlx.core as mx
from rich.console import Console
from rich.table import Table

import metalcore.mlx as metal

HEADS, KEY_HEADS, DEPTH = 8, 2, 64


def unfused(q: mx.array, k: mx.array, v: mx.array, *, scale: float, mask: Any = None, sinks: Any = None) -> mx.array:
    """Plain MLX, in float32: what the two are measured by."""
    q, k, v = (x.astype(mx.float32) for x in (q, k, v))
    each = q.shape[1] // k.shape[1]
    scores = scale * q @ mx.repeat(k, each, axis=1).swapaxes(-1, -2)
    rows, keys = scores.shape[-2:]
    if mask is not None:
        seen = mx.arange(keys)[None] <= mx.arange(rows)[:, None] + keys - rows
        scores = mx.where(seen, scores, -math.inf)
    if sinks is not None:  # one more score of each head, with no value
        column = mx.broadcast_to(sinks.astype(mx.float32)[:, None, None], (*scores.shape[:-1], 1))
        scores = mx.concatenate([scores, column], axis=-1)
    return mx.softmax(scores, axis=-1)[..., :keys] @ mx.repeat(v, each, axis=1)


def both(run: Callable[..., mx.array], arrays: list[mx.array], named: dict[str, Any]) -> list[mx.array]:
    """The result and the gradients by q, k and v of its sum with fixed weights."""
    weights = mx.random.normal(arrays[0].shape, key=mx.random.key(9))

    def loss(*x: mx.array) -> mx.array:
        return (run(*x, **named).astype(mx.float32) * weights).sum()

    found = [run(*arrays, **named), *mx.grad(loss, argnums=(0, 1, 2))(*arrays)]
    mx.eval(found)
    return [x.astype(mx.float32) for x in found]


@click.command()
@click.option("--tokens", default=512, show_default=True, help="Queries and keys of each head.")
def main(tokens: int) -> None:
    table = Table("dtype", "case", "array", "mx.fast", "metalcore")
    limits = {mx.float32: 1e-5, mx.bfloat16: 3e-2}
    for dtype, limit in limits.items():
        shapes = ((1, HEADS, tokens, DEPTH), *[(1, KEY_HEADS, tokens, DEPTH)] * 2)
        arrays = [mx.random.normal(s, key=mx.random.key(i)).astype(dtype) for i, s in enumerate(shapes)]
        sinks = mx.random.normal((HEADS,), key=mx.random.key(7)).astype(dtype)
        cases: dict[str, dict[str, Any]] = {
            "all keys": {},
            "causal": {"mask": "causal"},
            "causal, sinks": {"mask": "causal", "sinks": sinks},
        }
        for case, given in cases.items():
            named = {"scale": 1.0 / math.sqrt(DEPTH), **given}
            truth = both(unfused, arrays, named)
            theirs = both(mx.fast.scaled_dot_product_attention, arrays, named)
            ours = both(metal.scaled_dot_product_attention, arrays, named)
            for name, t, a, b in zip(("out", "dq", "dk", "dv"), truth, theirs, ours, strict=True):
                errors = [(mx.abs(x - t).max() / mx.abs(t).max()).item() for x in (a, b)]
                assert errors[1] <= limit, f"{case} {name} in {dtype}: {errors[1]} is more than {limit}"
                table.add_row(str(dtype).rpartition(".")[2], case, name, *(f"{e:.1e}" for e in errors))
    console = Console()
    console.print("largest difference from unfused attention in float32, over the largest value")
    console.print(table)
    scores, kept = tokens * tokens * HEADS * 4, tokens * HEADS * 2 * 4
    console.print(f"kept for the gradient in float32, beside inputs and result: scores {scores:,} bytes", end=", ")
    console.print(f"metalcore {kept:,} bytes")


if __name__ == "__main__":
    main()
