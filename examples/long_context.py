"""Decode with a small transformer over a paged cache: a prompt, a few tokens, then a fork that goes on another way.

    python examples/long_context.py --prompt 1500 --tokens 8

The weights are random. Each step is compared with dense attention over all tokens again.
"""

from __future__ import annotations

import click
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import metalcore
import metalcore.nn

WIDTH, HEADS, KEY_HEADS, DEPTH, WORDS = 128, 8, 2, 16, 97


class Block(nn.Module):
    """Attention and a small network, with norms in front of them."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ParameterList([torch.ones(WIDTH) for _ in range(2)])
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * KEY_HEADS) * DEPTH, bias=False)
        self.out = nn.Linear(HEADS * DEPTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values, (tokens, heads, depth)."""
        found = self.qkv(metalcore.rms_norm(x, (WIDTH,), self.norms[0]))
        return found.unflatten(-1, (-1, DEPTH)).split((HEADS, KEY_HEADS, KEY_HEADS), 1)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.out(attended.flatten(1))
        return x + self.down(metalcore.silu(self.up(metalcore.rms_norm(x, (WIDTH,), self.norms[1]))))


class Decoder(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embed, self.blocks = nn.Embedding(WORDS, WIDTH), nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def dense(self, tokens: Tensor) -> Tensor:
        """Logits of the last token, with attention over all of them."""
        x = self.embed(tokens)
        for block in self.blocks:
            q, k, v = (t.transpose(0, 1)[None] for t in block.project(x))
            found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = block.finish(x, found[0].transpose(0, 1))
        return self.head(x[-1])

    def step(self, caches: list[metalcore.nn.PagedCache], sequences: list[int], tokens: list[Tensor]) -> Tensor:
        """New tokens of each sequence go into the caches; logits of the last one of each."""
        counts = [len(t) for t in tokens]
        starts = torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()], dtype=torch.int32)
        x = self.embed(torch.cat(tokens))
        for block, cache in zip(self.blocks, caches, strict=True):
            q, keys, values = block.project(x)
            for s, key, value in zip(sequences, keys.split(counts), values.split(counts), strict=True):
                cache.append(s, key, value)
            found = metalcore.paged_attention(
                *(q, cache.key_cache, cache.value_cache, cache.block_tables(sequences), cache.seq_lens(sequences)),
                cu_seqlens_q=None if max(counts) == 1 else starts,
            )
            x = block.finish(x, found)
        return self.head(x[starts[1:] - 1])


@click.command()
@click.option("--prompt", default=1500, show_default=True, help="Tokens of the prompt.")
@click.option("--tokens", default=8, show_default=True, help="Tokens to decode before the fork, and after it.")
@click.option("--layers", default=2, show_default=True)
@torch.no_grad()
def main(prompt: int, tokens: int, layers: int) -> None:
    torch.manual_seed(0)
    model, console = Decoder(layers), Console()
    blocks = -(-(prompt + 2 * tokens) // 16) + tokens + 2
    caches = [metalcore.nn.PagedCache(blocks, 16, KEY_HEADS, DEPTH) for _ in range(layers)]
    (first,) = {cache.allocate() for cache in caches}
    texts = {first: torch.randint(WORDS, (prompt,))}
    logits = model.step(caches, [first], [texts[first]])
    console.print(f"prompt of {prompt} tokens: {caches[0]}")
    table, worst = Table("step", "sequences", "blocks in use", "largest difference"), 0.0
    for step in range(2 * tokens):
        sequences = list(texts)
        best = logits.topk(2).indices
        chosen = [best[i, 0] for i in range(len(sequences))]
        if step == tokens:  # the fork takes the second best token, and shares all blocks but the last
            (second,) = {cache.fork(first) for cache in caches}
            texts[second], sequences = texts[first], [first, second]
            chosen.append(best[0, 1])
        for s, token in zip(sequences, chosen, strict=True):
            texts[s] = torch.cat([texts[s], token[None]])
        logits = model.step(caches, sequences, [texts[s][-1:] for s in sequences])
        expected = torch.stack([model.dense(texts[s]) for s in sequences])
        difference = (logits - expected).abs().max().item()
        worst = max(worst, difference / expected.abs().max().item())
        table.add_row(str(step), str(sequences), str(blocks - caches[0].free_blocks), f"{difference:.1e}")
    console.print(table)
    assert worst < 1e-4, f"paged and dense attention differ by {worst}"
    shared = [set(row) for row in caches[0].block_tables(list(texts)).tolist()]
    console.print(f"{len(shared[0] & shared[1])} blocks are shared, {len(shared[0] ^ shared[1])} are not")
    for s in texts:
        for cache in caches:
            cache.free(s)
    assert all(cache.free_blocks == blocks for cache in caches)
    console.print("freed; the same logits as dense attention over all tokens")


if __name__ == "__main__":
    main()
