"""Loads and stores of lanes that have an address each, one lane after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .emitters import Emitters


MANY_ACCESSES = 256  # loads and stores of a kernel; with more, those under masks are calls
Temp = Callable[[str], str]


class Gathers:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.plan = at, at.code, at.plan

    def gather(self, addresses: str, ty: str, align: int, mask: str | None) -> str:
        """Idle lanes read from a harmless place instead of being branched around."""
        if self.has_instruction(ty):
            return self._at_once(addresses, ty, align, mask, None)
        if mask is None:
            return gather_code(self.code.temp, self.code.width, addresses, ty, align)
        addresses = self._active(addresses, mask, "@mc.zero")
        if not self.plan.is_large:
            return gather_code(self.code.temp, self.code.width, addresses, ty, align)
        name = f"mc.gather.{ty}.align{align}"
        self.code.helpers[name] = gather_function(name, self.code.width, ty, align)
        return self.code.temp(f"call {self.code.vec(ty)} @{name}({self.code.vec('ptr')} {addresses})")

    def scatter_lanes(self, addresses: str, value: str, ty: str, align: int, mask: str | None) -> None:
        """Idle lanes write to a place that nobody reads: a global one, whose address need not be kept anywhere."""
        if self.has_instruction(ty):
            self._at_once(addresses, ty, align, mask, value)
            return
        if mask is not None:
            addresses = self._active(addresses, mask, "@mc.sink")
        if mask is None or not self.plan.is_large:
            scatter_code(self.code.temp, self.code.emit, self.code.width, addresses, value, ty, align)
            return
        name = f"mc.scatter.{ty}.align{align}"
        self.code.helpers[name] = scatter_function(name, self.code.width, ty, align)
        self.code.emit(f"call void @{name}({self.code.vec('ptr')} {addresses}, {self.code.vec(ty)} {value})")

    def has_instruction(self, ty: str) -> bool:
        """Whether the machine has one for all lanes that is worth its name: AVX-512, from 32 bits on."""
        return self.code.width == 16 and ty in ("i32", "i64", "float", "double")

    def _at_once(self, addresses: str, ty: str, align: int, mask: str | None, value: str | None) -> str:
        vec, pointers, lanes = (
            self.code.vec(ty),
            f"{self.code.vec('ptr')} align {align} {addresses}",
            mask or "splat (i1 true)",
        )
        name = f"v{self.code.width}{self.at.ops.suffix(ty, None)}.v{self.code.width}p0"
        if value is None:
            self.code.need(
                f"declare {vec} @llvm.masked.gather.{name}({self.code.vec('ptr')}, {self.code.vec('i1')}, {vec})"
            )
            masked = f"{self.code.vec('i1')} {lanes}, {vec} zeroinitializer"
            return self.code.temp(f"call {vec} @llvm.masked.gather.{name}({pointers}, {masked})")
        self.code.need(
            f"declare void @llvm.masked.scatter.{name}({vec}, {self.code.vec('ptr')}, {self.code.vec('i1')})"
        )
        self.code.emit(
            f"call void @llvm.masked.scatter.{name}({vec} {value}, {pointers}, {self.code.vec('i1')} {lanes})"
        )
        return ""

    def _active(self, addresses: str, mask: str, idle: str) -> str:
        pointers = self.code.vec("ptr")
        return self.code.temp(
            f"select {self.code.vec('i1')} {mask}, {pointers} {addresses}, {pointers} splat (ptr {idle})"
        )


def gather_code(temp: Temp, width: int, addresses: str, ty: str, align: int) -> str:
    result = "poison"
    for i in range(width):
        pointer = temp(f"extractelement <{width} x ptr> {addresses}, i64 {i}")
        one = temp(f"load {ty}, ptr {pointer}, align {align}")
        result = temp(f"insertelement <{width} x {ty}> {result}, {ty} {one}, i64 {i}")
    return result


def scatter_code(
    temp: Temp, emit: Callable[[str], None], width: int, addresses: str, value: str, ty: str, align: int
) -> None:
    for i in range(width):
        pointer = temp(f"extractelement <{width} x ptr> {addresses}, i64 {i}")
        one = temp(f"extractelement <{width} x {ty}> {value}, i64 {i}")
        emit(f"store {ty} {one}, ptr {pointer}, align {align}")


def gather_function(name: str, width: int, ty: str, align: int) -> str:
    lines, temp, _ = _text(f"<{width} x {ty}> @{name}(<{width} x ptr> %addresses)")
    result = gather_code(temp, width, "%addresses", ty, align)
    return "\n".join([*lines, f"  ret <{width} x {ty}> {result}", "}"])


def scatter_function(name: str, width: int, ty: str, align: int) -> str:
    lines, temp, emit = _text(f"void @{name}(<{width} x ptr> %addresses, <{width} x {ty}> %value)")
    scatter_code(temp, emit, width, "%addresses", "%value", ty, align)
    return "\n".join([*lines, "  ret void", "}"])


def _text(head: str) -> tuple[list[str], Temp, Callable[[str], None]]:
    """The lines of a function, and what adds a value or an instruction to them."""
    lines = [f"define internal {head} noinline nounwind {{"]

    def temp(text: str) -> str:
        lines.append(f"  %t{len(lines)} = {text}")
        return f"%t{len(lines) - 1}"

    return lines, temp, lambda text: lines.append("  " + text)
