"""Loads and stores of lanes that have an address each, one lane after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import DOUBLE, FLOAT, I1, I32, I64, PTR, VOID, Type

from .builder import Builder
from .frame import parameters
from .operands import Operand, constant, poison, zero
from .support import function

if TYPE_CHECKING:
    from .emitters import Emitters


MANY_ACCESSES = 48  # loads and stores of a kernel; with more, those under masks are calls
_ZERO, _SINK = Operand("@mc.zero", PTR), Operand("@mc.sink", PTR)


class Gathers:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.plan = at, at.code, at.plan

    def gather(self, addresses: Operand, ty: Type, align: int, mask: Operand | None) -> Operand:
        """Idle lanes read from a harmless place instead of being branched around."""
        if self.has_instruction(ty):
            return gather_at_once(self.code, addresses, ty, align, mask)
        if mask is not None:
            addresses = to_active(self.code, addresses, mask, False)
        if not self.plan.is_large:
            return gather_code(self.code, addresses, ty, align)
        if mask is None:
            return gather_at_once(self.code, addresses, ty, align, None)
        name = f"mc.gather.{ty}.align{align}"
        if name not in self.code.helpers:
            self.code.helpers[name] = gather_function(name, addresses.type, ty, align)
        return self.code.call(name, self.code.vec(ty), addresses)

    def scatter_lanes(self, addresses: Operand, value: Operand, align: int, mask: Operand | None) -> None:
        """Idle lanes write to a place that nobody reads: a global one, whose address need not be kept anywhere."""
        ty = value.type.item
        if self.has_instruction(ty):
            scatter_at_once(self.code, addresses, value, align, mask)
            return
        if mask is not None:
            addresses = to_active(self.code, addresses, mask, True)
        if not self.plan.is_large:
            scatter_code(self.code, addresses, value, align)
            return
        if mask is None:
            scatter_at_once(self.code, addresses, value, align, None)
            return
        name = f"mc.scatter.{ty}.align{align}"
        if name not in self.code.helpers:
            self.code.helpers[name] = scatter_function(name, addresses.type, value.type, align)
        self.code.call(name, VOID, addresses, value)

    def has_instruction(self, ty: Type) -> bool:
        """Whether the machine has one for all lanes that is worth its name: AVX-512, from 32 bits on."""
        return self.code.width == 16 and ty in (I32, I64, FLOAT, DOUBLE)


    # Rows under masks, where the machine has no instruction: LLVM makes a branch of every lane, so it is made once.
    def masked_row(self, pointer: Operand, vec: Type, align: int, mask: Operand) -> Operand:
        name = f"mc.row.load.{vec.suffix}.align{align}"
        if name not in self.code.helpers:
            self.code.helpers[name] = masked_load_function(name, vec, align)
        return self.code.call(name, vec, pointer, mask)

    def store_masked_row(self, pointer: Operand, value: Operand, align: int, mask: Operand) -> None:
        name = f"mc.row.store.{value.type.suffix}.align{align}"
        if name not in self.code.helpers:
            self.code.helpers[name] = masked_store_function(name, value.type, align)
        self.code.call(name, VOID, pointer, value, mask)


def masked_load(code: Builder, pointer: Operand, vec: Type, align: int, mask: Operand) -> Operand:
    kinds = (f"align {align} ", "", "")
    return code.call(f"llvm.masked.load.{vec.suffix}.p0", vec, pointer, mask, zero(vec), kinds=kinds)


def masked_store(code: Builder, pointer: Operand, value: Operand, align: int, mask: Operand) -> None:
    kinds = ("", f"align {align} ", "")
    code.call(f"llvm.masked.store.{value.type.suffix}.p0", VOID, value, pointer, mask, kinds=kinds)


def masked_load_function(name: str, vec: Type, align: int) -> str:
    code, pointer, mask = Builder(), Operand("%pointer", PTR), Operand("%mask", vec.with_item(I1))
    code.ret(masked_load(code, pointer, vec, align, mask))
    return function(code, name, vec, parameters(pointer, mask), "noinline nounwind")


def masked_store_function(name: str, vec: Type, align: int) -> str:
    code, pointer, mask = Builder(), Operand("%pointer", PTR), Operand("%mask", vec.with_item(I1))
    value = Operand("%value", vec)
    masked_store(code, pointer, value, align, mask)
    code.ret()
    return function(code, name, VOID, parameters(pointer, value, mask), "noinline nounwind")


def to_active(code: Builder, addresses: Operand, mask: Operand, store: bool) -> Operand:
    """Idle lanes go to a place that nobody reads, or come from one that is 0."""
    return code.select(mask, addresses, constant(addresses.type, (_SINK if store else _ZERO).text))


# One line; where the machine has no instruction for it, LLVM takes it apart behind all its passes but selection.
def gather_at_once(code: Builder, addresses: Operand, ty: Type, align: int, mask: Operand | None) -> Operand:
    vec, kinds = addresses.type.with_item(ty), (f"align {align} ", "", "")
    name = f"llvm.masked.gather.{vec.suffix}.{addresses.type.suffix}"
    return code.call(name, vec, addresses, _lanes(addresses, mask), zero(vec), kinds=kinds)


def scatter_at_once(code: Builder, addresses: Operand, value: Operand, align: int, mask: Operand | None) -> None:
    name = f"llvm.masked.scatter.{value.type.suffix}.{addresses.type.suffix}"
    code.call(name, VOID, value, addresses, _lanes(addresses, mask), kinds=("", f"align {align} ", ""))


def _lanes(addresses: Operand, mask: Operand | None) -> Operand:
    return mask if mask is not None else constant(addresses.type.with_item(I1), True)


def gather_code(code: Builder, addresses: Operand, ty: Type, align: int) -> Operand:
    result = poison(addresses.type.with_item(ty))
    for i in range(addresses.type.length):
        one = code.load(ty, code.extract(addresses, i), align)
        result = code.insert(result, one, i)
    return result


def scatter_code(code: Builder, addresses: Operand, value: Operand, align: int) -> None:
    for i in range(addresses.type.length):
        pointer = code.extract(addresses, i)
        code.store(code.extract(value, i), pointer, align)


def gather_function(name: str, pointers: Type, ty: Type, align: int) -> str:
    code, addresses = Builder(), Operand("%addresses", pointers)
    code.ret(gather_code(code, addresses, ty, align))
    return function(code, name, pointers.with_item(ty), parameters(addresses), "noinline nounwind")


def scatter_function(name: str, pointers: Type, values: Type, align: int) -> str:
    code, addresses, value = Builder(), Operand("%addresses", pointers), Operand("%value", values)
    scatter_code(code, addresses, value, align)
    code.ret()
    return function(code, name, VOID, parameters(addresses, value), "noinline nounwind")
