"""A language model of one mLSTM and one sLSTM block learns the parity of a sequence of bits, for any length of it.

    python examples/xlstm_parity.py

After every bit the model says whether the number of ones so far is odd. That needs a state which changes with each bit:
attention and mLSTM alone cannot carry it on to longer sequences, sLSTM can. It is trained on up to 40 bits, then tested
on 40 and on 160, at once and bit by bit with states that are carried on.
"""

from __future__ import annotations

import time

import click
import torch
from rich.console import Console
from torch import Tensor, nn

import metalcore.nn as mnn
from metalcore.optim import AdamW

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
        self.stack = mnn.xLSTMBlockStack(config)
        self.head = nn.Linear(width, 2)

    def forward(self, bits: Tensor) -> Tensor:
        return self.head(self.stack(self.embedding(bits)))

    def by_steps(self, bits: Tensor) -> Tensor:
        """The same, one bit after the other."""
        state, found = None, []
        for t in range(bits.shape[1]):
            y, state = self.stack.step(self.embedding(bits[:, t : t + 1]), state)
            found.append(self.head(y))
        return torch.cat(found, 1)


def draw(batch: int, length: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    bits = torch.randint(0, 2, (batch, length), generator=random)
    return bits, bits.cumsum(1) % 2


def accuracy(model: Model, bits: Tensor, parity: Tensor) -> float:
    with torch.no_grad():
        return (model(bits).argmax(-1) == parity).float().mean().item()


@click.command()
@click.option("--width", default=32, show_default=True, help="Of the model.")
@click.option("--steps", default=1500, show_default=True, help="Of training, at most.")
@click.option("--seed", default=0, show_default=True)
def main(width: int, steps: int, seed: int) -> None:
    torch.manual_seed(seed)
    console, random, start = Console(), torch.Generator().manual_seed(seed), time.perf_counter()
    model = Model(width)
    optimizer = AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    test = draw(256, 40, torch.Generator().manual_seed(99))
    length, found = 4, 0.0
    for step in range(1, steps + 1):
        bits, parity = draw(64, length, random)
        loss = nn.functional.cross_entropy(model(bits).flatten(0, 1), parity.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 25 == 0:
            known = accuracy(model, *draw(256, length, random))
            if known > 0.98:  # short sequences first: of long ones there is nothing to follow yet
                length = min(40, length * 2)
            found = accuracy(model, *test)
            console.print(f"step {step:4d}  loss {loss.item():.4f}  {length:2d} bits  accuracy at 40 bits {found:.1%}")
            if found >= GOAL:
                break
    longer = draw(64, 160, torch.Generator().manual_seed(100))
    console.print(f"accuracy at 40 bits {found:.1%}, at 160 {accuracy(model, *longer):.1%}")
    with torch.no_grad():
        apart = (model.by_steps(longer[0][:4]) - model(longer[0][:4])).abs().max().item()
    console.print(f"bit by bit the same to {apart:.1e}; {time.perf_counter() - start:.0f} s")
    if found < GOAL or apart > 1e-3:
        raise SystemExit("the model did not learn it")


if __name__ == "__main__":
    main()
