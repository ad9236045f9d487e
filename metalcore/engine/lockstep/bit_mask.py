"""A mask as the bits of a number; what it says of a chunk's lanes is made where somebody asks for it.

Masks of large kernels are kept so, joined and tested: a scalar instruction each, where vectors take one for each chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from .operands import Operand

if TYPE_CHECKING:
    from .values import Values


class BitMask(Sequence[Operand]):
    def __init__(self, values: Values, bits: Operand) -> None:
        self.values, self.bits = values, bits

    def __len__(self) -> int:
        return self.values.code.count

    @overload
    def __getitem__(self, c: int) -> Operand: ...

    @overload
    def __getitem__(self, c: slice) -> Sequence[Operand]: ...

    def __getitem__(self, c: int | slice) -> Operand | Sequence[Operand]:
        """Of chunk c, as a vector."""
        if isinstance(c, slice):
            return [self[i] for i in range(*c.indices(len(self)))]
        if not 0 <= c < len(self):
            raise IndexError(c)
        key = ("lanes", (self.bits.text, c))
        if key not in self.values.splats:
            self.values.splats[key] = self.values.code.mask_of(self.values.splat(self.bits), c)
        return self.values.splats[key]
