"""A language model of one mLSTM and one sLSTM block learns the parity of a sequence of bits with MLX, for any length.

    python examples/mlx_xlstm_parity.py

After every bit the model says whether the number of ones so far is odd. That needs a state which changes with each bit:
attention and mLSTM alone cannot carry it on to longer sequences, sLSTM can. It is trained on up to 40 bits, then tested
on 40 and on 160, at once and bit by bit with states that are carried on. On a Mac the ops run as Metal kernels inside
MLX's graph; elsewhere the engine runs the same kernels on the CPU.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from rich.console import Console

import metalcore.mlx as metal
import metalcore.mlx.nn as mnn

GOAL = 0.99


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        config = mnn.xLSTMBlockStackConfig(
            mnn.mLSTMBlockConfig(mnn.mLSTMLayerConfig(num_heads=2)),
            mnn.sLSTMBlockConfig(mnn.sLSTMLayerConfig(num_heads=2, recurrent_weight_init="standard")),
            num_blocks=2,
            embedding_dim=width,
            slstm_at=[1],
        )
        self.embedding = nn.Embedding(2, width)
        self.embedding.weight = mx.random.normal((2, width))  # mlx's own begins far smaller
        self.stack = mnn.xLSTMBlockStack(config)
        self.head = nn.Linear(width, 2)

    def __call__(self, bits: mx.array) -> mx.array:
        return self.head(self.stack(self.embedding(bits))[0])

    def by_steps(self, bits: mx.array) -> mx.array:
        """The same, one bit after the other."""
        state, found = None, []
        for t in range(bits.shape[1]):
            y, state = self.stack(self.embedding(bits[:, t : t + 1]), state)
            found.append(self.head(y))
            mx.eval(found[-1], state)
        return mx.concatenate(found, 1)


def draw(batch: int, length: int, key: mx.array | None = None) -> tuple[mx.array, mx.array]:
    bits = mx.random.randint(0, 2, (batch, length), key=key)
    return bits, bits.cumsum(1) % 2


def loss_of(model: Model, bits: mx.array, parity: mx.array) -> mx.array:
    return metal.cross_entropy(model(bits).reshape(-1, 2), parity.reshape(-1))


def accuracy(model: Model, bits: mx.array, parity: mx.array) -> float:
    return (model(bits).argmax(-1) == parity).mean().item()


@contextmanager
def every_second(console: Console, text: Callable[[], str]) -> Iterator[None]:
    """Prints the text again and again, also while a step waits for its kernels to be compiled."""
    start, done = time.perf_counter(), threading.Event()

    def work() -> None:
        while not done.wait(1.0):
            console.print(f"{time.perf_counter() - start:3.0f} s  {text()}")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@dataclass
class Training:
    """How far it is."""

    step: int = 0
    loss: float = 0.0
    length: int = 4
    found: float = 0.0

    def __str__(self) -> str:
        if self.step == 0:
            return "a first run compiles its kernels"
        known = f"  accuracy at 40 bits {self.found:.1%}" if self.found else ""
        return f"step {self.step:4d}  loss {self.loss:.4f}  {self.length:2d} bits{known}"


def train(model: Model, at: Training, steps: int) -> None:
    optimizer = optim.AdamW(learning_rate=5e-3, weight_decay=0.01, bias_correction=True)
    gradient_of = nn.value_and_grad(model, loss_of)
    test = draw(256, 40, mx.random.key(99))
    while at.step < steps and at.found < GOAL:
        loss, gradients = gradient_of(model, *draw(64, at.length))
        gradients, _ = optim.clip_grad_norm(gradients, 1.0)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state, loss)
        at.step, at.loss = at.step + 1, loss.item()
        if at.step % 25 == 0:
            if accuracy(model, *draw(256, at.length)) > 0.98:  # of long sequences there is nothing to follow yet
                at.length = min(40, at.length * 2)
            at.found = accuracy(model, *test)


@click.command()
@click.option("--width", default=32, show_default=True, help="Of the model.")
@click.option("--steps", default=1500, show_default=True, help="Of training, at most.")
@click.option("--goal/--no-goal", default=True, help="Whether it is an error not to have learnt it.", show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(width: int, steps: int, goal: bool, seed: int) -> None:
    mx.random.seed(seed)
    console, start, at = Console(), time.perf_counter(), Training()
    model = Model(width)
    with every_second(console, lambda: str(at)):
        train(model, at, steps)
        bits, parity = draw(64, 160, mx.random.key(100))
        longer = accuracy(model, bits, parity)
        apart = mx.abs(model.by_steps(bits[:4]) - model(bits[:4])).max().item()
    console.print(f"{at.step} steps: accuracy at 40 bits {at.found:.1%}, at 160 {longer:.1%}")
    console.print(f"bit by bit the same to {apart:.1e}; {time.perf_counter() - start:.0f} s")
    if apart > 1e-3:
        raise SystemExit("bit by bit the results are others")
    if goal and at.found < GOAL:
        raise SystemExit("the model did not learn it")


if __name__ == "__main__":
    main()
