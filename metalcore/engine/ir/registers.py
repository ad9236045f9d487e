"""Variables of unoptimised code that need no memory: each is stored once at the top of its function, or all that is
done with it stands in one block.

clang keeps every parameter and every variable in memory and reads it wherever it is named. Where small functions are
inlined by the hundreds, these are nine tenths of the text, and each stage in front of the optimiser reads all of it.
What is left, a variable that several blocks set, is LLVM's. Nothing is concluded from what would be undefined: a
variable that is read before it is written stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from metalcore.engine.ir.function import Function
from metalcore.engine.ir.values import Instr, Value

_SIMPLE = frozenset(("ptr", "int", "half", "bfloat", "float", "double"))
_SPECIAL = frozenset(("atomic", "volatile", "ordering"))
_Place = tuple[int, int]  # block, number in the function


@dataclass
class _Variable:
    alloca: Instr
    stores: list[tuple[_Place, Value]] = field(default_factory=list)
    loads: list[tuple[_Place, Instr]] = field(default_factory=list)
    own: list[Instr] = field(default_factory=list)  # all that is done with it, which goes

    def values(self) -> dict[Instr, Value] | None:
        """What each load gives; None: it has to stay in memory."""
        if not self.stores:
            return None if self.loads else {}
        first, value = self.stores[0]
        if len(self.stores) == 1 and first[0] == 0 and all(at > first for at, _ in self.loads):
            return dict.fromkeys((load for _, load in self.loads), value)
        blocks = {at[0] for at, _ in (*self.stores, *self.loads)}
        if len(blocks) > 1 or any(at < first for at, _ in self.loads):
            return None
        found, number = dict[Instr, Value](), 0
        for at, load in self.loads:  # in the order of the text, as the stores are
            while number < len(self.stores) and self.stores[number][0] < at:
                value = self.stores[number][1]
                number += 1
            found[load] = value
        return found


def without_variables(function: Function) -> None:
    """Keep a function's simple variables as values."""
    if function.is_declaration or not function.mentions(" alloca "):
        return
    variables = {instr.name: _Variable(instr) for instr in function.instructions() if _is_simple(instr)}
    if not variables:
        return
    _look(function, variables)
    gone: set[Instr] = set()
    values: dict[Instr, Value] = {}
    for variable in variables.values():
        if (found := variable.values()) is not None:
            values |= found
            gone.update((variable.alloca, *variable.own))
    if not gone:
        return
    for block in function.blocks:
        if any(instr in gone for instr in block.instrs):
            block.instrs = [instr for instr in block.instrs if instr not in gone]
    last = {load.name: _last(value, values) for load, value in values.items()}
    for instr in function.instructions():
        if instr.may_read(last.keys()):
            instr.substitute(last)


def _is_simple(instr: Instr) -> bool:
    """Does it make room for one number or pointer?"""
    if instr.op != "alloca" or instr.args or "inalloca" in instr.extra:
        return False
    return getattr(instr.extra["allocated"], "kind", "") in _SIMPLE


def _look(function: Function, variables: dict[str, _Variable]) -> None:
    """Find what is done with each variable; one whose address is used in another way is no longer among them."""
    number = 0
    for at, block in enumerate(function.blocks):
        for instr in block.instrs:
            number += 1
            if instr.op == "alloca" and instr.name in variables:
                continue
            if instr.op in ("load", "store") and _is_plain(instr, (at, number), variables):
                continue
            if not instr.may_read(variables.keys()):
                continue
            if instr.callee.startswith("llvm.lifetime.") and isinstance(instr.args[-1], Instr):
                variables[instr.args[-1].name].own.append(instr)
                continue
            for name in instr.locals():
                variables.pop(name, None)


def _is_plain(instr: Instr, place: _Place, variables: dict[str, _Variable]) -> bool:
    """Does it read or write one variable as a whole, and nothing else of them?"""
    pointer = instr.args[-1]
    mine = variables.get(pointer.name) if isinstance(pointer, Instr) else None
    if mine is None or not _SPECIAL.isdisjoint(instr.extra):
        return False
    allocated = mine.alloca.extra["allocated"]
    if instr.op == "load":
        if instr.type is not allocated:
            return False
        mine.loads.append((place, instr))
    else:
        value = instr.args[0]
        if instr.extra["stored"] is not allocated or (isinstance(value, Instr) and value.name in variables):
            return False
        mine.stores.append((place, value))
    mine.own.append(instr)
    return True


def _last(value: Value, values: dict[Instr, Value]) -> Value:
    """The value behind a chain of variables."""
    while isinstance(value, Instr) and value in values:
        value = values[value]
    return value
