"""Scalar tests that what is kept as a pattern is one: no lane of a 32-bit index has wrapped around."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import Instr, Value

from .operands import Operand

if TYPE_CHECKING:
    from .emitters import Emitters


class Guards:
    def __init__(self, at: Emitters) -> None:
        self.code, self.values, self.shapes = at.code, at.values, at.shapes

    def wrap_guards(self, value: Value) -> list[Operand]:
        """Tests that no lane of the indices behind a pattern has wrapped around."""
        tests = []
        for extension in self.shapes.wrapping.extensions(value):
            index = extension.args[0]
            offsets = self.shapes.get(index).offsets
            assert offsets is not None
            tests.append(self.is_straight(extension, self.values.scalar(index), min(offsets), max(offsets)))
        return tests

    def is_straight(self, extension: Instr, base: Operand, low: int, high: int) -> Operand:
        """Does base + low, as a 32-bit number, come before base + high?"""
        key = ("straight", (extension.op, base.text, low, high))
        if key not in self.values.splats:
            least, most = (self.code.add(base, signed32(o)) if o else base for o in (low, high))
            order = "ule" if extension.op == "zext" else "sle"
            self.values.splats[key] = self.code.icmp(order, least, most)
        return self.values.splats[key]


def signed32(number: int) -> int:
    """The same number modulo 2^32, as LLVM writes it."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)
