"""A paged cache of keys and values for a decoding loop: which blocks each sequence has; ops fill them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

import metalcore
from metalcore.errors import ArgumentError, PagedCacheFull, UnknownSequence
from metalcore.ops.base.check import refuse
from metalcore.ops.base.kv_cache import check_scales

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.uint8)


class PagedCache:
    """Keys and values of many sequences in one memory of `blocks` blocks, each of `block_size` tokens.

    `key_cache` and `value_cache` are (blocks, block_size, heads, head_dim), `value_dim` in the place of head_dim for
    values. A sequence takes a block when its last one is full. `fork` makes a sequence that shares all blocks with
    another one; a block that several share is copied when one of them writes to it. dtype torch.uint8 holds fp8 (e4m3)
    of key / k_scale and value / v_scale. An `append` that fails leaves the sequences as they were.

    >>> import torch, metalcore.nn
    >>> cache = metalcore.nn.PagedCache(blocks=4, block_size=2, heads=1, head_dim=3)
    >>> first = cache.allocate()
    >>> cache.append(first, torch.ones(3, 1, 3), torch.ones(3, 1, 3))
    >>> second = cache.fork(first)
    >>> cache.append(second, torch.zeros(1, 1, 3), torch.zeros(1, 1, 3))
    >>> cache.seq_lens([first, second]), cache.free_blocks
    (tensor([3, 4], dtype=torch.int32), 1)
    """

    def __init__(
        self,
        blocks: int,
        block_size: int,
        heads: int,
        head_dim: int,
        value_dim: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: Any = None,
        *,
        k_scale: float = 1.0,
        v_scale: float = 1.0,
    ) -> None:
        value_dim = head_dim if value_dim is None else value_dim
        sizes = {"blocks": blocks, "block_size": block_size, "heads": heads, "head_dim": head_dim}
        for name, size in {**sizes, "value_dim": value_dim}.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                refuse("PagedCache", name, "a number of 1 or more", repr(size))
        if dtype not in DTYPES:
            refuse("PagedCache", "dtype", "torch.float32, float16, bfloat16 or uint8 (fp8)", dtype)
        self.blocks, self.block_size = blocks, block_size
        self._scales = check_scales("PagedCache", k_scale, v_scale)
        # Zeros: what stands in a slot that no token was written to is never used, but would look odd as garbage.
        self.key_cache = torch.zeros(blocks, block_size, heads, head_dim, dtype=dtype, device=device)
        self.value_cache = torch.zeros(blocks, block_size, heads, value_dim, dtype=dtype, device=device)
        self._kind = "fp8" if dtype == torch.uint8 else "auto"
        self._free = list(range(blocks - 1, -1, -1))  # the last one is taken next
        self._users = [0] * blocks  # how many sequences have a block
        self._tables: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}
        self._next = 0

    @property
    def free_blocks(self) -> int:
        """How many blocks no sequence has."""
        return len(self._free)

    def allocate(self) -> int:
        """A new sequence of no tokens: the number by which other calls name it."""
        return self._add([], 0)

    def fork(self, sequence: int) -> int:
        """A new sequence with the tokens of another one. It takes no memory until one of the two is appended to."""
        table = self._table("fork", sequence)
        for block in table:
            self._users[block] += 1
        return self._add(list(table), self._lengths[sequence])

    def free(self, sequence: int) -> None:
        """End a sequence. Blocks that no other one shares can be taken again."""
        for block in self._table("free", sequence):
            self._users[block] -= 1
            if not self._users[block]:
                self._free.append(block)
        del self._tables[sequence], self._lengths[sequence]

    def append(self, sequence: int, key: Tensor, value: Tensor) -> None:
        """Add tokens to the end of a sequence: key (tokens, heads, head_dim), value (tokens, heads, value_dim)."""
        old, length, size = self._table("append", sequence), self._lengths[sequence], self.block_size
        self._check_rows(key, value)
        tokens = key.shape[0]
        is_shared = bool(tokens and length % size and self._users[old[-1]] > 1)
        needed = -(-(length + tokens) // size) - len(old) + is_shared
        if needed > len(self._free):
            raise PagedCacheFull(
                f"PagedCache.append: sequence {sequence} of {length} tokens needs {needed} more blocks for {tokens} "
                f"tokens, and {len(self._free)} of {self.blocks} blocks are free"
            )
        taken = self._free[len(self._free) - needed :][::-1]
        table = [*(old[:-1] if is_shared else old), *taken]
        if is_shared:
            pair = torch.tensor([[old[-1], taken[0]]])  # on the CPU: a GPU copies by itself what is known there
            metalcore.copy_blocks(self.key_cache, self.value_cache, pair)
        slots = [table[p // size] * size + p % size for p in range(length, length + tokens)]
        places = torch.tensor(slots, dtype=torch.int64, device=self.key_cache.device)
        metalcore.reshape_and_cache_flash(
            key, value, self.key_cache, self.value_cache, places, self._kind, *self._scales
        )
        # Written: from here on nothing fails.
        del self._free[len(self._free) - needed :]
        for block in taken:
            self._users[block] = 1
        if is_shared:
            self._users[old[-1]] -= 1
        self._tables[sequence], self._lengths[sequence] = table, length + tokens

    def length(self, sequence: int) -> int:
        """How many tokens a sequence has."""
        self._table("length", sequence)
        return self._lengths[sequence]

    def seq_lens(self, sequences: Iterable[int]) -> Tensor:
        """The lengths of sequences, int32, as paged_attention and gather_kv_cache take them."""
        lengths = [self._lengths[s] for s in sequences if self._table("seq_lens", s) is not None]
        return torch.tensor(lengths, dtype=torch.int32, device=self.key_cache.device)

    def block_tables(self, sequences: Iterable[int]) -> Tensor:
        """The blocks of sequences, a row for each, int32; shorter rows are filled up with 0, which is not looked at."""
        tables = [self._table("block_tables", s) for s in sequences]
        most = max(map(len, tables), default=0)
        rows = [[*table, *[0] * (most - len(table))] for table in tables]
        made = torch.tensor(rows, dtype=torch.int32, device=self.key_cache.device)
        return made.reshape(len(tables), most)

    def __repr__(self) -> str:
        shape = f"block_size={self.block_size}, heads={self.key_cache.shape[2]}, head_dim={self.key_cache.shape[3]}"
        used = self.blocks - len(self._free)
        return f"PagedCache({shape}, {len(self._tables)} sequences in {used} of {self.blocks} blocks)"

    def _add(self, table: list[int], length: int) -> int:
        sequence = self._next
        self._next += 1
        self._tables[sequence], self._lengths[sequence] = table, length
        return sequence

    def _table(self, call: str, sequence: int) -> list[int]:
        if isinstance(sequence, bool) or not isinstance(sequence, int):
            raise ArgumentError(
                f"PagedCache.{call}: a sequence must be a number that allocate or fork gave, not {sequence!r}"
            )
        table = self._tables.get(sequence)
        if table is None:
            why = "was freed" if 0 <= sequence < self._next else "was never allocated"
            raise UnknownSequence(f"PagedCache.{call}: sequence {sequence} {why}; there are {len(self._tables)} now")
        return table

    def _check_rows(self, key: Tensor, value: Tensor) -> None:
        """Before a block is copied."""
        for name, rows, cache in (("key", key, self.key_cache), ("value", value, self.value_cache)):
            if not isinstance(rows, Tensor):
                refuse("PagedCache.append", name, "a torch tensor", f"of type {type(rows).__name__}")
            heads, dim = cache.shape[2:]
            if rows.dim() != 3 or rows.shape[1:] != (heads, dim) or rows.shape[0] != key.shape[0]:
                tokens = "tokens" if name == "key" else key.shape[0]
                refuse("PagedCache.append", name, f"({tokens}, {heads}, {dim})", f"of shape {tuple(rows.shape)}")
            allowed = DTYPES[:3] if self._kind == "fp8" else (cache.dtype,)
            if rows.dtype not in allowed or rows.dtype != key.dtype:
                expected = " or ".join(map(str, allowed if name == "key" else (key.dtype,)))
                refuse("PagedCache.append", name, expected, rows.dtype)
            if rows.device != cache.device:
                refuse("PagedCache.append", name, f"on the cache's device {cache.device}", f"on {rows.device}")
            if rows.requires_grad and torch.is_grad_enabled():
                refuse("PagedCache.append", name, "without a gradient, or under torch.no_grad()", "one that needs it")
