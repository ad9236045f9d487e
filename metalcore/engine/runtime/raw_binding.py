"""Memory that a caller has bound already, as mc_call takes it: what `Function.launch_raw` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from metalcore.arrays.memory import Memory
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.binding import Binder, Packed, Region, needed_bytes
from metalcore.errors import ArgumentError


class Binding(NamedTuple):
    """What goes to one buffer slot: an address, the bytes reachable upwards from it, and what keeps it alive."""

    address: int
    size: int
    owner: object
    writable: bool = True
    inside: tuple[Binding, ...] = ()  # memory that pointers stored in this buffer lead to
    fresh: bool = False  # nothing was written to it yet
    is_list: bool = False  # it holds an address of each item inside, in this order
    cells: Sequence[int] = ()  # where addresses of what is inside stand

    @classmethod
    def of(cls, memory: Memory) -> Binding:
        return cls(memory.address, memory.size, memory.owner, memory.writable and not memory.immutable)


def pack_raw(binder: Binder, bindings: Sequence[Binding | None], written: frozenset[int]) -> Packed:
    """In slot order; None where nothing is bound."""
    pairs = [0] * (2 * binder.slots)
    regions: list[Region] = []
    inline = b""
    cells: list[int] = []
    for slot, argument in enumerate(binder.by_slot):
        binding = bindings[slot] if slot < len(bindings) else None
        if argument is None:
            continue
        if binding is None or not argument.enabled:
            needed, is_optional = needed_bytes(argument)
            if not is_optional:  # zeros: the kernel reads it when it starts, and makes nothing of it
                pairs[2 * slot : 2 * slot + 2] = 8 * len(pairs) + len(inline), needed | layout.INLINE
                inline += bytes(needed + -needed % 16)
            continue
        if slot in written and not binding.writable:
            raise ArgumentError(
                f"kernel '{binder.kernel}' writes argument {slot} '{argument.name}', which is read-only"
            )
        binder.check_alignment(argument, binding.address)
        pairs[2 * slot : 2 * slot + 2] = binding.address, binding.size | (0 if binding.writable else layout.FIXED)
        if binding.inside:
            cells += binding.cells
            const = binder.const_items(argument) if binding.is_list else [False]
            for i, item in enumerate(binding.inside):
                writable = item.writable and not const[i % len(const)]
                regions.append((item.address, item.address + item.size, writable))
    packed = binder.packed(pairs, regions, bindings, inline)
    packed.cells = cells
    packed.fresh = sum(1 << slot for slot, b in enumerate(bindings) if b is not None and b.fresh)
    return packed
