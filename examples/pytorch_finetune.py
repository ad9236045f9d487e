"""Fine-tune a small language model, letter by letter: plain PyTorch beside the same model on metalcore's ops.

    python examples/pytorch_finetune.py [--steps 60] [--dtype float32|bfloat16]

The model is first trained on one text, then fine-tuned on another, once with torch's own functions and once with
metalcore's modules, optimizer and loss. Both start from the same weights and see the same data; the losses agree.
"""

from __future__ import annotations

import argparse
import time

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from torch import Tensor, nn

import metalcore
import metalcore.nn

FIRST = """the shader reads a row of numbers, squares each one, adds them up and takes the root of their mean.
a thread holds one number, a simdgroup holds thirty two threads, a threadgroup holds many simdgroups.
each thread writes its part to shared memory, a barrier waits for all, and one simdgroup adds the parts up. """
SECOND = """once upon a time a small kernel wanted to see the world. it had been written for one machine alone,
and nobody could run it anywhere else. then it met an engine that knew every word of its language,
and from that day it ran on every computer that would have it, and was checked at every step of the way. """


class Torch:
    """The parts in plain PyTorch."""

    RMSNorm = nn.RMSNorm
    AdamW = torch.optim.AdamW
    CrossEntropyLoss = nn.CrossEntropyLoss

    class SwiGLU(nn.Module):
        def forward(self, gate: Tensor, up: Tensor) -> Tensor:
            return nn.functional.silu(gate) * up

    class RotaryEmbedding(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.frequencies = [10000.0 ** (-2 * i / dim) for i in range(dim // 2)]

        def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            angles = torch.arange(q.shape[-2], dtype=torch.float64)[:, None] * torch.tensor(self.frequencies)
            cos, sin = angles.cos().to(q.dtype), angles.sin().to(q.dtype)

            def turned(x: Tensor) -> Tensor:
                a, b = x.chunk(2, -1)
                return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

            return turned(q), turned(k)


class Metalcore:
    """The same parts from metalcore."""

    RMSNorm = metalcore.nn.RMSNorm
    AdamW = metalcore.optim.AdamW
    CrossEntropyLoss = metalcore.nn.CrossEntropyLoss
    SwiGLU = metalcore.nn.SwiGLU
    RotaryEmbedding = metalcore.nn.RotaryEmbedding


class Block(nn.Module):
    def __init__(self, parts: type, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = parts.RMSNorm(width, eps=1e-6), parts.RMSNorm(width, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.rope, self.activation = parts.RotaryEmbedding(width // heads), parts.SwiGLU()

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = self.rope(q, k)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        y = self.before_mlp(x)
        return x + self.down(self.activation(self.gate(y), self.up(y)))


class LanguageModel(nn.Module):
    def __init__(self, parts: type, letters: int, width: int = 64, heads: int = 4, blocks: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(letters, width)
        self.blocks = nn.ModuleList(Block(parts, width, heads) for _ in range(blocks))
        self.norm, self.head = parts.RMSNorm(width, eps=1e-6), nn.Linear(width, letters, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        found: Tensor = self.head(self.norm(x))
        return found


def batches(text: str, letters: str, steps: int, length: int = 48, batch: int = 8) -> list[Tensor]:
    """Random pieces of a text, with a stored seed."""
    numbers = torch.tensor([letters.index(c) for c in text])
    generator = torch.Generator().manual_seed(1)
    starts = torch.randint(0, len(numbers) - length, (steps, batch), generator=generator)
    return [torch.stack([numbers[s : s + length + 1] for s in row.tolist()]) for row in starts]


def train(model: nn.Module, parts: type, data: list[Tensor], rate: float, label: str, bar: Progress) -> list[float]:
    optimizer = parts.AdamW(model.parameters(), lr=rate)
    criterion = parts.CrossEntropyLoss()
    task = bar.add_task(label, total=len(data), loss=float("nan"))
    losses = []
    for piece in data:
        logits = model(piece[:, :-1])
        loss = criterion(logits.flatten(0, 1).float(), piece[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        bar.update(task, advance=1, loss=losses[-1])
    return losses


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    given = options.parse_args()
    dtype = getattr(torch, given.dtype)
    letters = "".join(sorted(set(FIRST + SECOND)))
    torch.manual_seed(0)
    base = LanguageModel(Torch, len(letters)).to(dtype)
    found: dict[str, list[float]] = {}
    columns = (
        TextColumn("{task.description:>22}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]:.4f}"),
    )
    seconds: dict[str, float] = {}
    with Progress(*columns) as bar:
        train(base, Torch, batches(FIRST, letters, given.steps), 3e-3, "first text", bar)
        for parts in (Torch, Metalcore):
            name = parts.__name__.lower()
            model = LanguageModel(parts, len(letters)).to(dtype)
            model.load_state_dict(base.state_dict(), strict=True)
            begin = time.perf_counter()
            found[name] = train(model, parts, batches(SECOND, letters, given.steps), 1e-3, f"fine-tune, {name}", bar)
            seconds[name] = time.perf_counter() - begin
    console = Console()
    console.print("step    torch   metalcore  difference")
    for step in sorted({*range(0, given.steps, max(1, given.steps // 6)), given.steps - 1}):
        a, b = found["torch"][step], found["metalcore"][step]
        console.print(f"{step + 1:>4}  {a:.5f}     {b:.5f}  {abs(a - b):.1e}")
    console.print(f"seconds: {seconds['torch']:.1f} and {seconds['metalcore']:.1f} (with compilation at the first run)")
    worst = max(abs(a - b) for a, b in zip(found["torch"], found["metalcore"], strict=True))
    limit = 1e-3 if dtype == torch.float32 else 5e-2
    console.print(f"largest difference of a loss: {worst:.1e}, allowed {limit:.0e}")
    if not worst < limit:
        raise SystemExit("the losses do not agree")


if __name__ == "__main__":
    main()
