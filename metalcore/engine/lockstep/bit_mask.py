"""A mask as the bits of a number; what it says of a chunk's lanes is made where somebody asks for it.

Masks of large kernels are kept so, joined and tested: a scalar instruction each, where vectors take one for each chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from .operands import Operand, constants, zero
from .shapes import LANES

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
            code, width = self.values.code, self.values.code.width
            probes = [(1 << lane) - (1 << 32 if lane == 31 else 0) for lane in range(LANES)]
            own = constants(self.bits.type, probes[c * width : (c + 1) * width])
            hit = code.and_(self.values.splat(self.bits), own)
            self.values.splats[key] = code.icmp("ne", hit, zero(hit.type))
        return self.values.splats[key]
