"""Loads and stores of lanes that have an address each, one lane after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .builder import Builder
from .frame import parameters
from .operands import Operand, constant, poison, zero
from .support import function
from .types import DOUBLE, FLOAT, I32, I64, PTR, VOID, LLType

if TYPE_CHECKING:
    from .emitters import Emitters


MANY_ACCESSES = 256  # loads and stores of a kernel; with more, those under masks are calls
_ZERO, _SINK = Operand("@mc.zero", PTR), Operand("@mc.sink", PTR)


class Gathers:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.plan = at, at.code, at.plan

    def gather(self, addresses: Operand, ty: LLType, align: int, mask: Operand | None) -> Operand:
        """Idle lanes read from a harmless place instead of being branched around."""
        if self.has_instruction(ty):
            return self._gather_at_once(addresses, ty, align, mask)
        if mask is None:
            return gather_code(self.code, addresses, ty, align)
        addresses = self._active(addresses, mask, _ZERO)
        if not self.plan.is_large:
            return gather_code(self.code, addresses, ty, align)
        name = f"mc.gather.{ty}.align{align}"
        self.code.helpers[name] = gather_function(name, addresses.type, ty, align)
        return self.code.call(name, self.code.vec(ty), addresses)

    def scatter_lanes(self, addresses: Operand, value: Operand, align: int, mask: Operand | None) -> None:
        """Idle lanes write to a place that nobody reads: a global one, whose address need not be kept anywhere."""
        ty = value.type.item
        if self.has_instruction(ty):
            lanes, kinds = self._lanes(mask), ("", f"align {align} ", "")
            name = f"llvm.masked.scatter.{value.type.suffix}.{addresses.type.suffix}"
            self.code.call(name, VOID, value, addresses, lanes, kinds=kinds)
            return
        if mask is not None:
            addresses = self._active(addresses, mask, _SINK)
        if mask is None or not self.plan.is_large:
            scatter_code(self.code, addresses, value, align)
            return
        name = f"mc.scatter.{ty}.align{align}"
        self.code.helpers[name] = scatter_function(name, addresses.type, value.type, align)
        self.code.call(name, VOID, addresses, value)

    def has_instruction(self, ty: LLType) -> bool:
        """Whether the machine has one for all lanes that is worth its name: AVX-512, from 32 bits on."""
        return self.code.width == 16 and ty in (I32, I64, FLOAT, DOUBLE)

    def _gather_at_once(self, addresses: Operand, ty: LLType, align: int, mask: Operand | None) -> Operand:
        vec, kinds = self.code.vec(ty), (f"align {align} ", "", "")
        name = f"llvm.masked.gather.{vec.suffix}.{addresses.type.suffix}"
        return self.code.call(name, vec, addresses, self._lanes(mask), zero(vec), kinds=kinds)

    def _lanes(self, mask: Operand | None) -> Operand:
        return mask if mask is not None else constant(self.code.mask, True)

    def _active(self, addresses: Operand, mask: Operand, idle: Operand) -> Operand:
        return self.code.select(mask, addresses, constant(addresses.type, idle.text))


def gather_code(code: Builder, addresses: Operand, ty: LLType, align: int) -> Operand:
    result = poison(addresses.type.with_item(ty))
    for i in range(addresses.type.length):
        one = code.load(ty, code.extract(addresses, i), align)
        result = code.insert(result, one, i)
    return result


def scatter_code(code: Builder, addresses: Operand, value: Operand, align: int) -> None:
    for i in range(addresses.type.length):
        pointer = code.extract(addresses, i)
        code.store(code.extract(value, i), pointer, align)


def gather_function(name: str, pointers: LLType, ty: LLType, align: int) -> str:
    code, addresses = Builder(), Operand("%addresses", pointers)
    code.ret(gather_code(code, addresses, ty, align))
    return function(code, name, pointers.with_item(ty), parameters(addresses), "noinline nounwind")


def scatter_function(name: str, pointers: LLType, values: LLType, align: int) -> str:
    code, addresses, value = Builder(), Operand("%addresses", pointers), Operand("%value", values)
    scatter_code(code, addresses, value, align)
    code.ret()
    return function(code, name, VOID, parameters(addresses, value), "noinline nounwind")
