"""Accesses past private arrays and constant tables, kept where LLVM would draw conclusions from them.

An access that surely leaves its array is undefined, so LLVM deletes it and what depends on it, before lockstep could
test it. Here, with variables still in memory, every address that is computed from an array goes through a choice: the
address itself where it lies inside, else the same one, but by an offset that LLVM cannot see through (`__mc_past`).
LLVM folds the choice where it knows the index; what is left of it is taken out again behind the optimiser
(settled_arrays.py), because lockstep tests those addresses anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from metalcore.engine.ir import (
    I64,
    PTR,
    Builder,
    Const,
    Edits,
    Function,
    Global,
    Instr,
    Module,
    Names,
    Parameter,
    Value,
    gep_terms,
    is_alike,
    make,
    type_of,
)
from metalcore.engine.optimiser.constant_places import place_of

PAST, KEPT, SAME = "__mc_past", "__mc_past_kept", "__mc_same"
_ATTRIBUTES = ["nounwind", "willreturn", "speculatable", "memory(none)"]
_COPIES = ("llvm.memcpy.", "llvm.memmove.", "llvm.memset.")
_Offset = int | Value  # in bytes


def guard(module: Module, *, private: bool = True) -> bool:
    """Add choices to unoptimised IR; whether there was anything to choose.

    Run before inlining, which folds what it reads from tables, and again behind it, for pointers that were passed on.
    *private*: of private arrays too, not of tables alone.
    """
    guarded = _Guard(module, private)
    changed = False
    for function in module.defined():
        changed = guarded.function(function) or changed
    if changed:
        group = module.attribute_group(_ATTRIBUTES)
        for name, ty in ((PAST, I64), (KEPT, I64), (SAME, PTR)):
            module.declare(Function(f"@{name}", ty, [Parameter(ty, "", [])], suffix=[group]))
    return changed


class _NotInOrder(Exception):
    """A pointer is kept before the line that makes it: the function stays as it is."""


@dataclass(eq=False)
class _Slot:
    """A variable that holds a pointer."""

    stored: list[Value] = field(default_factory=list)
    escapes: bool = False
    beside: Instr | None = None  # the variable that holds the offset of that pointer


_Source = Value | _Slot  # what a pointer is computed from: a value, or what a slot holds


class _Guard:
    def __init__(self, module: Module, private: bool) -> None:
        self.private = private
        tables = [variable for variable in module.globals.values() if variable.constant]
        self.tables: dict[Value, int] = {table: table.value_type.size for table in tables}
        self.table_names = [table.name for table in tables]
        self.alike = {table for table in tables if is_alike(table)}
        self.names = Names(module.unused_prefix("mc.own"))

    def function(self, function: Function) -> bool:
        """Whether anything was added."""
        if not self._may_point(function):
            return False
        self.edits = Edits(function, self.names)
        changed = self._spread(function)
        self.sizes: dict[Value, int] = dict(self.tables)
        self.offset: dict[Value, _Offset] = dict.fromkeys(self.tables, 0)
        self.constants: dict[Value, Global] = {}  # a constant address -> its table
        self.chosen: list[tuple[Instr, int, Value]] = []  # operands to set
        slots: dict[Value, _Slot] = {}
        behind: dict[_Source, list[_Source]] = {}
        loads: list[Instr] = []
        for instr in function.instructions():
            op = instr.op
            if op == "alloca" and not instr.args:
                if type_of(instr, "allocated") is PTR:
                    slots[instr] = _Slot()
                elif self.private:
                    self.sizes[instr], self.offset[instr] = type_of(instr, "allocated").size, 0
            elif op == "getelementptr":
                behind[instr] = [instr.args[0]]
            elif op == "load" and instr.type.kind == "ptr":
                loads.append(instr)
            elif op == "phi" and instr.mentions("ptr ") and instr.type.kind == "ptr":
                behind[instr] = list(instr.args)
                self._know_constants(instr.args)
        if not slots and not self.sizes:
            return changed
        _find_slots(function, slots)
        elsewhere = _Slot()
        behind |= {load: [slots.get(load.args[0], elsewhere)] for load in loads}
        behind |= {slot: [elsewhere] if slot.escapes else list(slot.stored) for slot in slots.values()}
        self.arrays = self._arrays(behind)
        self.slots = {name: slot for name, slot in slots.items() if self.arrays.get(slot)}
        try:
            for block in function.in_order():
                for instr in block.instrs:
                    self._instruction(instr)
        except _NotInOrder:
            self.edits.drop()
            return changed
        for instr, index, value in self.chosen:
            instr.set_arg(index, value)
        changed = changed or not self.edits.is_empty
        self.edits.apply()
        return changed

    def _may_point(self, function: Function) -> bool:
        """Whether a table or a private variable that is no pointer is there at all."""
        if self.table_names and function.mentions(*self.table_names):
            return True
        allocas = (instr for instr in function.instructions() if instr.op == "alloca")
        return self.private and any(type_of(instr, "allocated") is not PTR for instr in allocas)

    def _spread(self, function: Function) -> bool:
        """Make each constant place in a table an instruction of its own, which LLVM folds again."""
        for instr in function.instructions():
            if instr.op == "phi" or (instr.rest is not None and "getelementptr" not in instr.rest):
                continue
            for i, arg in enumerate(instr.args):
                if isinstance(arg, Instr) and not arg.name and (place := place_of(arg, self.tables)):
                    instr.set_arg(i, self.edits.before(instr)(make.offset(*place)))
        if self.edits.is_empty:
            return False
        self.edits.apply()
        return True

    def _know_constants(self, values: list[Value]) -> None:
        """Constant places in tables among the values that a pointer may have."""
        for value in values:
            if value not in self.sizes and (place := place_of(value, self.tables)):
                self.constants[value], self.offset[value] = place

    def _arrays(self, behind: Mapping[_Source, list[_Source]]) -> dict[_Source, frozenset[Value]]:
        """The arrays that each pointer may point into; none where it may point elsewhere too."""
        found: dict[_Source, frozenset[Value]] = {array: frozenset([array]) for array in self.sizes}
        found |= {value: frozenset([table]) for value, table in self.constants.items()}
        lost: set[_Source] = set()
        users: dict[_Source, list[_Source]] = {}
        for name, sources in behind.items():
            if not sources or any(source not in behind and source not in found for source in sources):
                lost.add(name)
            for source in sources:
                users.setdefault(source, []).append(name)
        changed: list[_Source] = list(lost)
        while changed:
            for user in users.get(changed.pop(), ()):
                if user not in lost:
                    lost.add(user)
                    changed.append(user)
        changed = list(found)
        while changed:
            source = changed.pop()
            for user in users.get(source, ()):
                known = found.get(user, frozenset())
                if user not in lost and not known >= found[source]:
                    found[user] = known | found[source]
                    changed.append(user)
        return {name: arrays for name, arrays in found.items() if name not in lost}

    def _instruction(self, instr: Instr) -> None:
        op = instr.op
        if op == "load":
            slot = self.slots.get(instr.args[0])
            if slot is not None and instr.type.kind == "ptr":
                assert slot.beside is not None
                self.offset[instr] = self.edits.after(instr)(make.load(I64, slot.beside, 8))
            else:
                self._access(instr, 0, instr.type.touched)
        elif op == "store":
            slot = self.slots.get(instr.args[1])
            if slot is not None:
                if instr.args[0] not in self.offset:
                    raise _NotInOrder
                assert slot.beside is not None
                self.edits.after(instr, 0)(make.store(_number(self.offset[instr.args[0]]), slot.beside, 8))
            else:
                self._access(instr, 1, type_of(instr, "stored").touched)
        elif op == "getelementptr":
            if self.arrays.get(instr.args[0]) and instr.args[0] in self.offset:
                self.offset[instr] = self._advance(instr, self.offset[instr.args[0]])
        elif op == "phi":
            if self.arrays.get(instr):
                self.offset[instr] = self._either(instr)
        elif op == "alloca":
            slot = self.slots.get(instr)
            if slot is not None:
                slot.beside = self.edits.after(instr, 0)(make.alloca(I64, 8), self._beside(instr))
        elif op == "call" and instr.mentions("@llvm.mem") and instr.callee.startswith(_COPIES):
            length = instr.args[2]
            if isinstance(length, Const) and length.value:
                for i in (1, 0):
                    if instr.args[i].type.kind == "ptr":
                        self._access(instr, i, length.value)

    def _beside(self, slot: Instr) -> str:
        """The name of the variable that holds the offset of the pointer in a slot."""
        name = f"{self.names.prefix}at."  # not one that is counted: a slot's own name may be a number
        return f"{name}{slot.name[1:]}" if slot.name[1] != '"' else f'%"{name[1:]}{slot.name[2:]}'

    def _either(self, phi: Instr) -> _Offset:
        """The offset of a pointer that is one of several."""
        if any(value not in self.offset for value in phi.args):
            raise _NotInOrder
        offsets = [self.offset[value] for value in phi.args]
        if isinstance(offsets[0], int) and len(set(offsets)) == 1:
            return offsets[0]
        pairs = [(_number(offset), block) for offset, block in zip(offsets, phi.targets, strict=True)]
        return self.edits.after(phi)(make.phi(I64, pairs))

    def _advance(self, gep: Instr, start: _Offset) -> _Offset:
        """The byte offset of a pointer in its array."""
        build = self.edits.after(gep)
        known = start if isinstance(start, int) else 0
        total = None if isinstance(start, int) else start
        for scale, index in gep_terms(gep):
            if isinstance(index, int):
                known += scale * index
                continue
            if index.type is not I64:
                index = build(make.cast("sext", index, I64))
            step = build(make.binary("mul", index, make.number(I64, scale))) if scale != 1 else index
            total = build(make.binary("add", total, step)) if total is not None else step
        if total is None:
            return known
        return build(make.binary("add", total, make.number(I64, known))) if known else total

    def _access(self, instr: Instr, index: int, touched: int) -> None:
        """Choose the address that is an operand, where it is computed from an array."""
        pointer = instr.args[index]
        arrays, offset = self.arrays.get(pointer), self.offset.get(pointer)
        if not arrays or offset is None:
            return
        room = min(self.sizes[array] for array in arrays) - touched
        if isinstance(offset, int) and 0 <= offset <= room:
            return
        apart = room <= 0  # LLVM takes the start for the only place in an array that is as short as this
        build = self.edits.before(instr)
        if isinstance(offset, int) or room < 0:
            chosen = self._past(pointer, offset, build, kept=True, apart=apart)
        else:
            away = self._past(pointer, offset, build, kept=apart, apart=apart)
            test = build(make.compare("ule", offset, make.number(I64, room)))
            chosen = build(make.select(test, pointer, away))
        self.chosen.append((instr, index, chosen))

    def _past(self, pointer: Value, offset: _Offset, build: Builder, *, kept: bool, apart: bool = False) -> Instr:
        """The address that lies outside. In a table of like elements LLVM reads one value everywhere: not here."""
        arrays = self.arrays[pointer]
        base = next(iter(arrays)) if len(arrays) == 1 else pointer
        if apart or not self.alike.isdisjoint(arrays):
            base, kept = build(make.call(PTR, SAME, [base])), True
        hidden = build(make.call(I64, KEPT if kept else PAST, [_number(offset)]))
        if len(arrays) > 1:  # counted from the pointer itself, as the array is not known
            hidden = build(make.binary("sub", hidden, _number(offset)))
        return build(make.offset(base, hidden))


def _find_slots(function: Function, slots: Mapping[Value, _Slot]) -> None:
    """What is kept in variables that hold pointers, and which of these are used in other ways."""
    if not slots:
        return
    names = {slot.name for slot in slots if isinstance(slot, Instr)}
    for instr in function.instructions():
        op = instr.op
        if op not in ("load", "store") and not instr.may_read(names):
            continue
        for i, arg in enumerate(instr.args):
            slot = slots.get(arg)
            if slot is None or (op == "load" and instr.type.kind == "ptr"):
                continue
            if op == "store" and i == 1 and instr.args[0].type.kind == "ptr":
                slot.stored.append(instr.args[0])
            elif not instr.callee.startswith("llvm.lifetime."):
                slot.escapes = True


def _number(offset: _Offset) -> Value:
    return make.number(I64, offset) if isinstance(offset, int) else offset
