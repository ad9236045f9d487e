"""Train a small Llama-style model with MLX, once with plain mlx and once with metalcore's ops, and compare the losses.

    python examples/mlx_finetune.py --steps 50

On a Mac the ops run as Metal kernels inside MLX's graph; elsewhere the engine runs the same kernels on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_map
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import metalcore.mlx as metal

TEXT = (
    "A kernel is written once and run in many places. It reads a row, adds up the squares, and divides by their root. "
    "The row may be long or short, and the numbers may be of sixteen bits or of thirty-two; the sum is kept in "
    "thirty-two. A machine with a graphics processor takes the text as it is, and a machine without one takes the same "
    "text and makes vector code of it. What one computes, the other computes too, to the last few digits. "
)


@dataclass(frozen=True)
class Sizes:
    width: int = 64
    heads: int = 4
    hidden: int = 128
    layers: int = 2
    tokens: int = 32
    batch: int = 8


SMALL = Sizes()


@dataclass(frozen=True)
class Ops:
    """The four functions that the two runs differ in."""

    rms_norm: Callable[[mx.array, mx.array], mx.array]
    swiglu: Callable[[mx.array, mx.array], mx.array]
    rope: Callable[[mx.array, mx.array, mx.array, mx.array], tuple[mx.array, mx.array]]
    cross_entropy: Callable[[mx.array, mx.array], mx.array]


def rotate(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """The half-split rotation, as Llama has it."""
    first, second = mx.split(x, 2, axis=-1)
    return x * cos + mx.concatenate([-second, first], axis=-1) * sin


PLAIN = Ops(
    rms_norm=lambda x, weight: mx.fast.rms_norm(x, weight, 1e-6),
    swiglu=lambda gate, up: nn.silu(gate) * up,
    rope=lambda q, k, cos, sin: (rotate(q, cos, sin), rotate(k, cos, sin)),
    cross_entropy=lambda logits, targets: nn.losses.cross_entropy(logits, targets, reduction="mean"),
)
METALCORE = Ops(
    rms_norm=lambda x, weight: metal.rms_norm(x, weight.shape, weight, 1e-6),
    swiglu=metal.swiglu,
    rope=metal.rope,
    cross_entropy=metal.cross_entropy,
)


class Attention(nn.Module):
    def __init__(self, sizes: Sizes, ops: Ops) -> None:
        super().__init__()
        self._heads, self._ops = sizes.heads, ops
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width, bias=False)
        self.out = nn.Linear(sizes.width, sizes.width, bias=False)

    def __call__(self, x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
        batch, tokens, width = x.shape
        split = self.qkv(x).reshape(batch, tokens, 3, self._heads, -1).transpose(2, 0, 3, 1, 4)
        q, k = self._ops.rope(split[0], split[1], cos, sin)
        scale = 1.0 / math.sqrt(width // self._heads)
        found = mx.fast.scaled_dot_product_attention(q, k, split[2], scale=scale, mask="causal")
        return self.out(found.transpose(0, 2, 1, 3).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, sizes: Sizes, ops: Ops) -> None:
        super().__init__()
        self._ops = ops
        self.attention = Attention(sizes, ops)
        self.gate = nn.Linear(sizes.width, sizes.hidden, bias=False)
        self.up = nn.Linear(sizes.width, sizes.hidden, bias=False)
        self.down = nn.Linear(sizes.hidden, sizes.width, bias=False)
        self.norm1 = mx.ones((sizes.width,))
        self.norm2 = mx.ones((sizes.width,))

    def __call__(self, x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
        x = x + self.attention(self._ops.rms_norm(x, self.norm1), cos, sin)
        h = self._ops.rms_norm(x, self.norm2)
        return x + self.down(self._ops.swiglu(self.gate(h), self.up(h)))


class Model(nn.Module):
    def __init__(self, vocabulary: int, sizes: Sizes, ops: Ops) -> None:
        super().__init__()
        self._ops = ops
        self.embed = nn.Embedding(vocabulary, sizes.width)
        self.blocks = [Block(sizes, ops) for _ in range(sizes.layers)]
        self.norm = mx.ones((sizes.width,))
        self.head = nn.Linear(sizes.width, vocabulary, bias=False)
        size = sizes.width // sizes.heads
        angles = mx.arange(sizes.tokens)[:, None] * 10000.0 ** (-mx.arange(0, size, 2) / size)
        self._angles = mx.concatenate([angles, angles], axis=-1)

    def __call__(self, tokens: mx.array) -> mx.array:
        cos, sin = mx.cos(self._angles), mx.sin(self._angles)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self._ops.rms_norm(x, self.norm))


def train(
    ops: Ops, steps: int, sizes: Sizes = SMALL, dtype: Any = mx.float32, advance: Callable[[], None] = lambda: None
) -> list[float]:
    """The losses of a run; the same seed gives the same weights and batches."""
    letters = sorted(set(TEXT))
    data = mx.array([letters.index(c) for c in TEXT])
    mx.random.seed(0)
    model = Model(len(letters), sizes, ops)
    model.update(tree_map(lambda p: p.astype(dtype), model.parameters()))
    optimizer = optim.AdamW(learning_rate=1e-3)  # at 3e-3 even the last digit of one function changes the losses

    def loss_of(model: Model, tokens: mx.array, targets: mx.array) -> mx.array:
        logits = model(tokens)
        return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))

    step = nn.value_and_grad(model, loss_of)
    losses = []
    for _ in range(steps):
        starts = mx.random.randint(0, len(TEXT) - sizes.tokens - 1, (sizes.batch, 1))
        at = starts + mx.arange(sizes.tokens)
        loss, gradients = step(model, data[at], data[at + 1])
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
        losses.append(loss.item())
        advance()
    return losses


@click.command()
@click.option("--steps", default=50, show_default=True, help="Steps of each run.")
def main(steps: int) -> None:
    console = Console()
    found = {}
    with Progress(console=console) as progress:
        for name, ops in (("plain mlx", PLAIN), ("metalcore", METALCORE)):
            task = progress.add_task(name, total=steps)
            found[name] = train(ops, steps, advance=lambda task=task: progress.advance(task))
    table = Table("step", *found, "difference")
    for i in range(0, steps, max(1, steps // 10)):
        plain, ours = (losses[i] for losses in found.values())
        table.add_row(str(i), f"{plain:.6f}", f"{ours:.6f}", f"{abs(plain - ours):.1e}")
    console.print(table)
    largest = max(abs(a - b) for a, b in zip(*found.values(), strict=True))
    console.print(f"largest difference over {steps} steps: {largest:.1e}")


if __name__ == "__main__":
    main()
