"""One kernel over many tensors: arrays of addresses, small tables, and a chunk of one tensor for each threadgroup."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Protocol

import numpy as np
import torch

from metalcore.arrays.torch import room, short_storage
from metalcore.engine import modes
from metalcore.engine.model import FAST
from metalcore.errors import ArgumentError
from metalcore.runtimes.cpu import library
from metalcore.runtimes.kernel import Kernel, Variant
from metalcore.runtimes.mps_native import list_words, tensor_words
from metalcore.runtimes.mps_route import route
from metalcore.runtimes.native_torch import Extension
from metalcore.runtimes.policy import policy
from metalcore.runtimes.text import shader_text

Column = list[torch.Tensor]
Table = Any  # a NumPy array, or a tensor on the device of the launch
DTYPES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float64: "float64",  # the engine alone
}
_SHADER_LIST = 512  # addresses that torch.mps.compile_shader passes in one list


class Launch(Protocol):
    """Runs one variant: buffers are the columns, then the tables."""

    def __call__(
        self, columns: Sequence[Column | None], tables: Sequence[Table], groups: tuple[int, ...], group: tuple[int, ...]
    ) -> None: ...


class Chunks:
    """Which threadgroup takes which part of which tensor: rows of tensor, first element, number of elements."""

    def __init__(self, counts: Sequence[int], op: str, family: str, dtype: str) -> None:
        chosen = policy(op, family, dtype)
        size: int = chosen["chunk"]
        self.group: tuple[int] = (chosen["threads"],)
        rows = [(i, at, min(size, count - at)) for i, count in enumerate(counts) for at in range(0, count, size)]
        self.groups = (len(rows),)
        parts = [-(-count // size) for count in counts]
        self.starts = np.concatenate([[0], np.cumsum(parts)]).astype(np.int64)
        """Where each tensor's chunks begin, and the end of the last one's."""
        self._tables: dict[torch.device | None, Table] = {None: np.array(rows, np.int64).reshape(-1, 3)}

    def table(self, device: torch.device) -> Table:
        """The rows, where a kernel can read them."""
        if device.type == "cpu":
            return self._tables[None]
        if device not in self._tables:
            self._tables[device] = torch.from_numpy(self._tables[None]).to(device)
        return self._tables[device]


@lru_cache(64)
def _kept_chunks(counts: tuple[int, ...], op: str, family: str, dtype: str) -> Chunks:
    return Chunks(counts, op, family, dtype)


def chunks_of(column: Column, op: str = "optim") -> Chunks:
    """The same object for tensors of the same sizes: a model's sizes do not change from step to step."""
    first = column[0]
    family = "cpu" if first.is_cpu else "apple"
    return _kept_chunks(tuple(t.numel() for t in column), op, family, DTYPES[first.dtype])


@cache
def launch_of(kernel: Kernel, dtype: torch.dtype, constants: tuple[object, ...], device: str) -> Launch:
    """What runs a kernel on tensors of this dtype and kind of device."""
    if device == "cpu":
        double = dtype == torch.float64
        name = "float32" if double else DTYPES[dtype]
        return EngineLaunch(kernel.variant((name,), constants), "double" if double else "float")
    if device == "mps" and dtype != torch.float64:
        extension = route().extension
        if extension is not None:
            return NativeLaunch(kernel.variant((DTYPES[dtype],), constants), extension)
        return ShaderLaunch(kernel.variant((DTYPES[dtype],), constants), torch.mps.compile_shader)
    raise ArgumentError(f"{kernel.name}: tensors must be on the CPU or on mps, not {dtype} on {device}")


def most_tensors(device: str) -> int:
    """How many tensors one launch takes."""
    return _SHADER_LIST if device == "mps" else 1 << 30


class EngineLaunch:
    """On the CPU: addresses are packed here, once for each launch."""

    def __init__(self, variant: Variant, float_type: str = "float") -> None:
        constants: dict[int | str, object] = dict(zip(variant.kernel.constants, variant.constants, strict=True))
        self._function = library(variant, float_type).function(variant.entry_point, constants)

    def __call__(
        self, columns: Sequence[Column | None], tables: Sequence[Table], groups: tuple[int, ...], group: tuple[int, ...]
    ) -> None:
        if 0 in groups:
            return
        if not modes.is_default() and modes.current_mode() != FAST:  # tests bounds behind the addresses too
            self._function(*columns, *tables, threadgroups=groups, group_size=group)
            return
        addresses = [None if c is None else addresses_of(c) for c in columns]
        bound = (*addresses, *tables)
        self.run_packed(pack(bound), bound, groups, group)

    def run_packed(self, packed: bytes, keep: object, groups: tuple[int, ...], group: tuple[int, ...]) -> None:
        """With arguments that `pack` made, in `fast` mode."""
        if 0 not in groups:
            self._function.launch_packed(packed, keep, groups, group)


def addresses_of(column: Column) -> np.ndarray[Any, Any]:
    """Where each tensor is; an error where the storage of one was resized and does not hold it."""
    for tensor in column:
        if tensor.nbytes > room(tensor):
            raise ArgumentError(f"an optimizer's tensor {short_storage(tensor, tensor.nbytes)}")
    return np.array([tensor.data_ptr() for tensor in column], np.uint64)


def pack(bound: Sequence[Table]) -> bytes:
    """Addresses and sizes of arrays, as the engine takes them; None is left out."""
    pairs: list[int] = []
    for value in bound:
        pairs += (0, 0) if value is None else _memory(value)
    return struct.pack(f"={len(pairs)}Q", *pairs)


def _memory(value: Any) -> tuple[int, int]:
    if isinstance(value, torch.Tensor):
        return value.data_ptr(), value.nbytes
    return value.__array_interface__["data"][0], value.nbytes


def _present(columns: Sequence[Column | None], tables: Sequence[Table]) -> tuple[Column | None, torch.Tensor]:
    """A list that is not absent, where there is one, and a tensor on the device of all."""
    present = next((c for c in columns if c is not None), None)
    return present, next(t for t in tables if isinstance(t, torch.Tensor)) if present is None else present[0]


class ShaderLaunch:
    """On a Mac: a list of tensors is passed as an array of addresses. Not yet run on a device."""

    def __init__(self, variant: Variant, compile_shader: Any) -> None:
        self._kernel = getattr(compile_shader(shader_text(variant)), variant.entry_point)

    def __call__(
        self, columns: Sequence[Column | None], tables: Sequence[Table], groups: tuple[int, ...], group: tuple[int, ...]
    ) -> None:
        if 0 in groups:
            return
        present, like = _present(columns, tables)
        lists = [present if c is None else c for c in columns]  # a list may not be empty; what is absent is not touched
        sent = [_on_device(t, like.device) for t in tables]
        self._kernel(*lists, *sent, threads=groups[0] * group[0], group_size=group[0])


class NativeLaunch:
    """On a Mac, by the native extension: the same lists, with no copy of what is there already."""

    def __init__(self, variant: Variant, extension: Extension) -> None:
        self._extension, self._pipeline = extension, extension.pipeline(variant)

    def __call__(
        self, columns: Sequence[Column | None], tables: Sequence[Table], groups: tuple[int, ...], group: tuple[int, ...]
    ) -> None:
        if 0 in groups:
            return
        present, like = _present(columns, tables)
        sent = [_on_device(t, like.device) for t in tables]
        kept: list[Any] = []
        words = [list_words(c if c is not None else present or [like], kept) for c in columns]
        words += [tensor_words(t) for t in sent]
        self._extension.launch(self._pipeline, words, (*groups, 1, 1)[:3], (*group, 1, 1)[:3])


def _on_device(table: Table, device: torch.device) -> torch.Tensor:
    if table is None:
        return torch.empty(4, device=device)
    if isinstance(table, np.ndarray):
        view = table.view(np.int32) if table.dtype == np.uint32 else table
        return torch.from_numpy(view).to(device)
    assert isinstance(table, torch.Tensor)
    return table
