"""Accesses past private arrays and constant tables, kept where LLVM would draw conclusions from them.

An access that surely leaves its array is undefined, so LLVM deletes it and what depends on it, before lockstep could
test it. Here, with variables still in memory, every address that is computed from an array goes through a choice: the
address itself where it lies inside, else the same one, but by an offset that LLVM cannot see through (`__mc_past`).
LLVM folds the choice where it knows the index; what is left of it is taken out again behind the optimiser, because
lockstep tests those addresses anyway.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from metalcore.engine.lockstep.parse import gep_of, type_reader

_NAME = r'[%@](?:[-\w.$]+|"[^"]*")'
_OBJECT = re.compile(rf"  ({_NAME}) = alloca ([^,]+?), align")
_TABLE = re.compile(rf"^({_NAME}) = [^\n]*?\bconstant (.*)$", re.MULTILINE)
_GEP = re.compile(rf"  (%\S+) = getelementptr (?:inbounds |nuw |nusw )*(.*?), ptr ({_NAME}), (.*?)(?:, !dbg !\d+)?$")
_LOAD = re.compile(rf"  (%\S+) = load (.+?), ptr ({_NAME})(,.*|$)")
_STORE = re.compile(rf"  store (.+?) (\S+|{_NAME}), ptr ({_NAME})(,.*|$)")
_INSIDE = re.compile(rf"ptr getelementptr (?:inbounds |nuw |nusw )*\((.*), ptr ({_NAME}), (.*?)\)(?=,|$)")
_MARK = re.compile(r"  call void @llvm\.lifetime\.")
_DEBUG = re.compile(r", !dbg !\d+")
_PAST = re.compile(r"  (%\S+) = (?:tail )?call i64 @(__mc_past(?:_kept)?)\(i64 (\S+)\)(?: #\d+)?(.*)")
_SAME = re.compile(rf"  (%\S+) = (?:tail )?call (?:\w+ )*?ptr @__mc_same\(ptr (?:\w+ )*?({_NAME})\)(?: #\d+)?(.*)")
_CHOICE = re.compile(rf"  (%\S+) = select i1 \S+, (ptr|i64) ({_NAME}|\S+), (?:ptr|i64) ({_NAME}|\S+?)((?:, !.*)?)$")
_AT_CONSTANT = re.compile(r" = getelementptr .*ptr \S+, i64 -?\d+(?:,|$)")
_DECLARED = {
    "__mc_past": "declare i64 @__mc_past(i64) #993",
    "__mc_past_kept": "declare i64 @__mc_past_kept(i64) #993",
    "__mc_same": "declare ptr @__mc_same(ptr) #993",
}
_ATTRIBUTES = "attributes #993 = { nounwind willreturn speculatable memory(none) }"


def guard(text: str) -> str:
    """Unoptimised IR with choices; the same text where it has no arrays.

    Run before inlining, which folds what it reads from tables, and again behind it, for pointers that were passed on.
    """
    if "getelementptr" not in text:
        return text
    lines = text.split("\n")
    guarded = _Guard(text)
    changed = False
    start = None
    out: list[str] = []
    for i, line in enumerate(lines):
        if line.startswith("define "):
            start = i + 1
        elif line == "}" and start is not None:
            body = guarded.function(lines[start:i])
            changed = changed or len(body) != i - start
            out += body
            start = None
        if start is None or line.startswith("define "):
            out.append(line)
    if not changed:
        return text
    there = set(re.findall(r"^declare .*@(__mc_past|__mc_past_kept|__mc_same)\(", text, re.MULTILINE))
    return "\n".join([*out, *(line for name, line in _DECLARED.items() if name not in there), _ATTRIBUTES])


def settle(optimised: str) -> str:
    """Optimised IR without the choices that lockstep makes itself."""
    if "@__mc_past" not in optimised:
        return optimised
    past: set[str] = set()  # names that are computed from such an offset
    out: list[str] = []
    lines = optimised.split("\n")
    made = {line[2 : line.index(" = ")]: line for line in lines if line.startswith("  %") and " = " in line}
    for line in lines:
        if offset := _PAST.match(line):
            if offset[2] == "__mc_past":
                past.add(offset[1])
            line = f"  {offset[1]} = add i64 {offset[3]}, 0{offset[4]}"
        elif array := _SAME.match(line):
            line = f"  {array[1]} = getelementptr i8, ptr {array[2]}, i64 0{array[3]}"
        elif past and line.startswith("  ") and " = " in line and any(name in past for name in _names(line)):
            line = _settled(line, past, made)
        if not line.startswith("declare ") or ("@__mc_past" not in line and "@__mc_same" not in line):
            out.append(line)
    return "\n".join(out)


def _names(line: str) -> list[str]:
    return re.findall(_NAME, line.split(" = ", 1)[1])


def _settled(line: str, past: set[str], made: dict[str, str]) -> str:
    """A line that reads an offset of ours; *made* has the line that makes each name."""
    choice = _CHOICE.match(line)
    if choice is None:
        result = line.split(" = ", 1)[0].strip()
        if re.search(r" = (?:getelementptr|add|sub|mul|shl|or) ", line):
            past.add(result)
        return line
    arms = [arm for arm in (choice[3], choice[4]) if arm not in past]
    if len(arms) != 1:
        past.add(choice[1])
        return line
    if arms[0] not in made or _AT_CONSTANT.search(made[arms[0]]):
        return line  # LLVM has used what the choice says: it is part of the result
    if choice[2] == "ptr":
        return f"  {choice[1]} = getelementptr i8, ptr {arms[0]}, i64 0{choice[5]}"
    return f"  {choice[1]} = add i64 {arms[0]}, 0{choice[5]}"


class _NotInOrder(Exception):
    """A pointer is kept before the line that makes it: the function stays as it is."""


@dataclass
class _Slot:
    """A variable that holds a pointer."""

    stored: list[str] = field(default_factory=list)
    escapes: bool = False


class _Guard:
    def __init__(self, text: str) -> None:
        self.types = type_reader(text)
        self.tables = {name: self._size(ty) for name, ty in _TABLE.findall(text)}
        self.alike = {name for name, ty in _TABLE.findall(text) if _is_alike(ty)}
        self.prefix = next(f"%mc.own{i}." for i in range(9) if f"%mc.own{i}." not in text)
        self.count = 0

    def _size(self, ty: str) -> int:
        return self.types(ty).size

    def temp(self, text: str, to: list[str], debug: str) -> str:
        self.count += 1
        to.append(f"  {self.prefix}{self.count} = {text}{debug}")
        return f"{self.prefix}{self.count}"

    def _beside(self, slot: str) -> str:
        """The variable that holds the offset of the pointer in a slot."""
        return f"{self.prefix}{slot[1:]}" if slot[1] != '"' else f'%"{self.prefix[1:]}{slot[2:]}'

    def function(self, lines: list[str]) -> list[str]:
        self.sizes = dict(self.tables)
        slots: dict[str, _Slot] = {}
        pointers: dict[str, tuple[str, str]] = {}  # result -> how, from what
        for line in lines:
            if found := _OBJECT.match(line):
                if found[2] == "ptr":
                    slots[found[1]] = _Slot()
                else:
                    self.sizes[found[1]] = self._size(found[2])
            elif found := _GEP.match(line):
                pointers[found[1]] = ("gep", found[3])
            elif (found := _LOAD.match(line)) and found[2] == "ptr":
                pointers[found[1]] = ("load", found[3])
        if not slots.keys() | self.sizes.keys():
            return lines
        self._find_slots(lines, slots)
        self.object = self._objects(pointers, slots)
        self.slots = {name: slot for name, slot in slots.items() if self.object.get("*" + name)}
        self.offset: dict[str, str] = {name: "0" for name in self.sizes}
        out: list[str] = []
        try:
            for line in lines:
                self._line(line, out)
        except _NotInOrder:
            return lines
        return out

    @staticmethod
    def _find_slots(lines: list[str], slots: dict[str, _Slot]) -> None:
        for line in lines:
            named = [name for name in re.findall(_NAME, line) if name in slots]
            if not named or _MARK.match(line) or _OBJECT.match(line):
                continue
            load, store = _LOAD.match(line), _STORE.match(line)
            if load and load[3] in slots and load[2] == "ptr":
                continue
            if store and store[3] in slots and store[1] == "ptr":
                slots[store[3]].stored.append(store[2])
                named = [name for name in named if name != store[3]]
            for name in named:
                slots[name].escapes = True

    def _objects(self, pointers: dict[str, tuple[str, str]], slots: dict[str, _Slot]) -> dict[str, str]:
        """The array behind each pointer, and behind what each slot holds ("*slot"); "" where it may be several."""
        found = {name: name for name in self.sizes}
        found |= {"*" + name: "" for name, slot in slots.items() if slot.escapes or not slot.stored}
        changed = True
        while changed:
            changed = False
            for result, (how, base) in pointers.items():
                new = found.get(base if how == "gep" else "*" + base)
                if new is None and base not in (pointers if how == "gep" else slots):
                    new = ""
                if new is not None and found.get(result) != new and found.get(result) != "":
                    found[result] = new if result not in found else ""
                    changed = True
            for name, slot in slots.items():
                key = "*" + name
                if found.get(key) == "":
                    continue
                held = {found.get(v, "" if v not in pointers else None) for v in slot.stored} - {None}
                new = None if not held else held.pop() if len(held) == 1 else ""
                if new is not None and found.get(key) != new:
                    found[key] = new if key not in found else ""
                    changed = True
        return found

    def _line(self, line: str, out: list[str]) -> None:
        debug = found[0] if (found := _DEBUG.search(line)) else ""
        if (found := _OBJECT.match(line)) and found[1] in self.slots:
            out += [line, f"  {self._beside(found[1])} = alloca i64, align 8"]
        elif (found := _GEP.match(line)) and self.object.get(found[3]):
            out.append(line)
            if found[3] in self.offset:
                self.offset[found[1]] = self._advance(found[2], found[4], self.offset[found[3]], out, debug)
        elif "getelementptr" in line and (found := _INSIDE.search(line)):
            out.append(self._constant(line, found, out, debug) if found[2] in self.sizes else line)
        elif found := _LOAD.match(line):
            if found[2] == "ptr" and found[3] in self.slots:
                out.append(line)
                self.offset[found[1]] = self.temp(f"load i64, ptr {self._beside(found[3])}, align 8", out, debug)
            else:
                out.append(self._access(line, found[2], found[3], out, debug))
        elif found := _STORE.match(line):
            if found[3] in self.slots:
                if found[2] not in self.offset:
                    raise _NotInOrder
                out += [line, f"  store i64 {self.offset[found[2]]}, ptr {self._beside(found[3])}, align 8"]
            else:
                out.append(self._access(line, found[1], found[3], out, debug))
        else:
            out.append(line)

    def _advance(self, source: str, indices: str, start: str, out: list[str], debug: str) -> str:
        """The byte offset of a pointer in its array: a number, or the name of one."""
        known, total = 0, start
        if _is_number(start):
            known, total = int(start), ""
        for scale, index in gep_of(self.types(source), indices):
            if isinstance(index, int):
                known += scale * index
                continue
            ty, name = index
            if ty != "i64":
                name = self.temp(f"sext {ty} {name} to i64", out, debug)
            step = self.temp(f"mul i64 {name}, {scale}", out, debug) if scale != 1 else name
            total = self.temp(f"add i64 {total}, {step}", out, debug) if total else step
        if not total:
            return str(known)
        return self.temp(f"add i64 {total}, {known}", out, debug) if known else total

    def _access(self, line: str, ty: str, pointer: str, out: list[str], debug: str) -> str:
        """The line with its address chosen, where that is computed from an array."""
        array, offset = self.object.get(pointer, ""), self.offset.get(pointer)
        if not array or offset is None or pointer == array:
            return line
        touched = self.types(ty.replace("volatile ", "").replace("atomic ", "")).touched
        room = self.sizes[array] - touched
        if _is_number(offset):
            if 0 <= int(offset) <= room:
                return line
            chosen = self._past(array, offset, out, debug, kept=True, apart=room < 0)
        elif room < 0:  # LLVM takes the start for the only place in an array that is as short as this
            chosen = self._past(array, offset, out, debug, kept=True, apart=True)
        else:  # LLVM knows the one index that one element can have
            away = self._past(array, offset, out, debug, kept=room == 0, apart=room == 0)
            test = self.temp(f"icmp ule i64 {offset}, {room}", out, debug)
            chosen = self.temp(f"select i1 {test}, ptr {pointer}, ptr {away}", out, debug)
        return re.sub(rf", ptr {re.escape(pointer)}(?=,|$)", f", ptr {chosen}", line, count=1)

    def _constant(self, line: str, found: re.Match[str], out: list[str], debug: str) -> str:
        """An access to a table at a constant place, which is written as one expression."""
        access = re.match(r"  (?:%\S+ = load (.+?), ptr getelem|store (.+?) \S+, ptr getelem)", line)
        terms = gep_of(self.types(found[1]), found[3])
        if access is None or not all(isinstance(index, int) for _, index in terms):
            return line
        offset = sum(scale * index for scale, index in terms if isinstance(index, int))
        if 0 <= offset <= self.sizes[found[2]] - self.types(access[1] or access[2]).touched:
            return line
        return line.replace(found[0], f"ptr {self._past(found[2], str(offset), out, debug, kept=True)}", 1)

    def _past(self, array: str, offset: str, out: list[str], debug: str, *, kept: bool, apart: bool = False) -> str:
        """The address that lies outside. In a table of like elements LLVM reads one value everywhere: not here."""
        if apart or array in self.alike:
            array, kept = self.temp(f"call ptr @__mc_same(ptr {array})", out, debug), True
        hidden = self.temp(f"call i64 @__mc_past{'_kept' * kept}(i64 {offset})", out, debug)
        return self.temp(f"getelementptr i8, ptr {array}, i64 {hidden}", out, debug)


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()


def _is_alike(definition: str) -> bool:
    """Whether all elements of a table have one value, as LLVM sees it."""
    value = re.sub(r'c"[^"]*"', "", definition)  # of text nothing is said
    value = re.sub(r", (?:align|section|comdat|!).*$", "", value)
    if value.endswith("zeroinitializer"):
        return True
    elements = value.partition("] ")[2] or value
    values = re.findall(r"\b\w+ (-?[\d.]+(?:e[+-]\d+)?|0x\w+|true|false|undef|poison)(?=[,\s\]}]|$)", elements)
    return len(set(values)) <= 1
