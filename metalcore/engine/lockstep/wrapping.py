"""64-bit numbers made from 32-bit indices that may wrap around between two lanes.

The pattern of an extended index is kept as if it did not wrap, which is right for addresses (a wrapped one is outside
of every buffer both ways) and wrong for numbers. Numbers are therefore extended lane by lane where they are read, and a
phi, which has no operands to read again, is a pattern only where nothing but addresses and bounds come from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ir import Function, Instr, Value

if TYPE_CHECKING:
    from .shapes import Shapes

_CARRIES = ("add", "sub", "mul", "shl", "or", "select", "freeze", "phi")  # what keeps the pattern of an operand
_EXTENSIONS = {"zext": "nuw", "sext": "nsw"}  # and the flag that says that an operation does not wrap


class Wrapping:
    def __init__(self, function: Function, shapes: Shapes) -> None:
        self.shapes = shapes
        self.users: dict[Instr, list[Instr]] = {}
        for block in function.blocks:
            for instr in block.instrs:
                for value in instr.args:
                    if isinstance(value, Instr):
                        self.users.setdefault(value, []).append(instr)

    def may_wrap(self, value: Value, seen: frozenset[Value] = frozenset()) -> bool:
        """Is it a pattern that holds for addresses only?"""
        if not isinstance(value, Instr) or value.type.kind != "int" or value.type.bits != 64 or value in seen:
            return False
        shape = self.shapes.get(value)
        if shape.varying or shape.uniform or shape.base is not None:
            return False
        if value.op in _EXTENSIONS:
            return not self._is_exact(value.args[0], _EXTENSIONS[value.op])
        return value.op in _CARRIES and any(self.may_wrap(v, seen | {value}) for v in value.args)

    def _is_exact(self, value: Value, flag: str) -> bool:
        """Do all lanes stay on their side of 2^32 (or 2^31)?"""
        shape = self.shapes.get(value)
        if shape.uniform or shape.base is not None or not isinstance(value, Instr):
            return True
        if value.op == "call":
            return True  # a thread's position
        flags = value.extra.get("flags")
        return isinstance(flags, list) and flag in flags and all(self._is_exact(v, flag) for v in value.args)

    def is_number(self, value: Instr) -> bool:
        """Does anything but an address, or a bound that it is compared with, come from it?"""
        seen, todo = {value}, [value]
        while todo:
            for user in self.users.get(todo.pop(), []):
                if user.op in _CARRIES and user.type.kind == "int" and user.type.bits == 64:
                    if user not in seen:
                        seen.add(user)
                        todo.append(user)
                elif user.op == "icmp":
                    if not str(user.extra["pred"]).startswith("u"):
                        return True
                elif user.op not in ("getelementptr", "trunc"):
                    return True
        return False
