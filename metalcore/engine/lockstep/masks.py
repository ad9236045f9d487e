"""Masks that are kept from block to block: which lanes have come to a block of a divergent region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metalcore.engine.ir import I32, Block

from .bit_mask import BitMask
from .builder import Builder
from .operands import Operand, constant, zero

if TYPE_CHECKING:
    from .emitters import Emitters
    from .partial import Linear


class Masks:
    """Kept as vectors, one for each chunk; in a large kernel as the bits of a number: a quarter of the code."""

    def __init__(self, at: Emitters) -> None:
        self.code, self.values, self.plan = at.code, at.values, at.plan

    def keep(self, key: tuple[object, ...], mask: Sequence[Operand] | bool) -> None:
        """*mask*: of lanes, or of all of them, or of none."""
        if isinstance(mask, bool):
            self.code.later(lambda: self._fill(key, mask))
        elif self.plan.is_large:
            self.code.keep(key, self.values.bits_of(mask))
        else:
            for c in range(self.code.count):
                self.code.keep((*key, c), self.code.kept_mask(mask[c]))

    def _fill(self, key: tuple[object, ...], is_all: bool) -> list[str]:
        """All lanes or none, once all code is written: most masks of blocks far away are never asked for."""
        code, part = Builder("%k", beside=self.code), self.code.all_lanes if is_all else zero(self.code.mask_type)
        value = constant(I32, -int(is_all)) if self.plan.is_large else part
        for each in [key] if self.plan.is_large else [(*key, c) for c in range(self.code.count)]:
            if each in self.code.slots:
                code.store(value, self.code.slots[each][0])
        return code.text()

    def kept(self, key: tuple[object, ...], to: tuple[object, ...] | None = None) -> Sequence[Operand]:
        """*to*: where it is kept from now on too."""
        if self.plan.is_large:
            bits = self.code.load_slot(key, I32)
            if to is not None:
                self.code.keep(to, bits)
            return BitMask(self.values, bits)
        mask = []
        for c in range(self.code.count):
            kept = self.code.load_slot((*key, c), self.code.mask_type)
            if to is not None:
                self.code.keep((*to, c), kept)
            mask.append(self.code.read_mask(kept))
        return mask

    def add_lanes(self, key: tuple[object, ...], mask: Sequence[Operand] | None) -> None:
        if mask is None:
            self.keep(key, True)
        elif self.plan.is_large:
            old = self.code.load_slot(key, I32)
            self.code.keep(key, self.code.or_(old, self.values.bits_of(mask)))
        else:
            for c in range(self.code.count):
                old = self.code.load_slot((*key, c), self.code.mask_type)
                self.code.keep((*key, c), self.code.or_(old, self.code.kept_mask(mask[c])))

    def key(self, linear: Linear, node: Block, entry: bool) -> tuple[object, ...]:
        return (linear.name, node, "entry" if entry else "mask")

    def back_key(self, linear: Linear, header: Block) -> tuple[object, ...]:
        return (linear.name, header, "back")

    def set(self, linear: Linear, node: Block, entry: bool, mask: Sequence[Operand] | bool) -> None:
        self.keep(self.key(linear, node, entry), mask)

    def get(self, linear: Linear, node: Block, entry: bool) -> Sequence[Operand]:
        return self.kept(self.key(linear, node, entry))

    def add(self, linear: Linear, node: Block, entry: bool, mask: Sequence[Operand] | None) -> None:
        self.add_lanes(self.key(linear, node, entry), mask)

    def narrow(self, cond: Sequence[Operand] | Operand, negate: bool) -> Sequence[Operand]:
        """The current mask and a condition (a name: uniform)."""
        if self.plan.is_large:
            return self._narrow_bits(cond, negate)
        out = []
        for c in range(self.code.count):
            if isinstance(cond, Operand):
                part = self.values.splat(cond)
            else:
                part = cond[c]
            if negate:
                part = self.code.not_(part)
            if self.values.mask is not None:
                part = self.code.and_(part, self.values.mask[c])
            out.append(part)
        return out

    def _narrow_bits(self, cond: Sequence[Operand] | Operand, negate: bool) -> BitMask:
        bits = self.code.sext(cond, I32) if isinstance(cond, Operand) else self.values.bits_of(cond)
        if negate:
            bits = self.code.xor(bits, -1)
        if self.values.mask is not None:
            bits = self.code.and_(self.values.mask_bits(), bits)
        return BitMask(self.values, bits)
