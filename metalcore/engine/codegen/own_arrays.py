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

from metalcore.engine.codegen.constant_places import constant_addresses, parts, place_of
from metalcore.engine.lockstep.parse import gep_of, type_reader

_NAME = r'[%@](?:[-\w.$]+|"[^"]*")'
_OBJECT = re.compile(rf"  ({_NAME}) = alloca ([^,]+?), align")
_TABLE = re.compile(rf"^({_NAME}) = [^\n]*?\bconstant (.*)$", re.MULTILINE)
_GEP = re.compile(rf"  (%\S+) = getelementptr (?:inbounds |nuw |nusw )*(.*?), ptr ({_NAME}), (.*?)(?:, !dbg !\d+)?$")
_LOAD = re.compile(rf"  (%\S+) = load (.+?), ptr ({_NAME})(,.*|$)")
_PHI = re.compile(r"  (%\S+) = phi ptr (\[ .*? \])(?:, !dbg !\d+)?$")
_COPY = re.compile(r"  (?:tail )?call void @llvm\.mem(?:cpy|move|set)\.[\w.]+\((.*), i64 (\d+), i1 \w+\)")
_POINTER = re.compile(rf"\bptr [^,]*?({_NAME})(?=,|$)")
_STORE = re.compile(rf"  store (.+?) (\S+|{_NAME}), ptr ({_NAME})(,.*|$)")
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


def guard(text: str, *, private: bool = True) -> str:
    """Unoptimised IR with choices; the same text where it has no arrays.

    Run before inlining, which folds what it reads from tables, and again behind it, for pointers that were passed on.
    *private*: of private arrays too, not of tables alone.
    """
    if "getelementptr" not in text:
        return text
    lines = text.split("\n")
    guarded = _Guard(text, private)
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
    def __init__(self, text: str, private: bool) -> None:
        self.private = private
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
        name = f"{self.prefix}at."  # not one of temp(): a slot's own name may be a number
        return f"{name}{slot[1:]}" if slot[1] != '"' else f'%"{name[1:]}{slot[2:]}'

    def function(self, lines: list[str]) -> list[str]:
        lines = self._spread(lines)
        self.sizes = dict(self.tables)
        slots: dict[str, _Slot] = {}
        self.offset: dict[str, str] = {name: "0" for name in self.tables}
        self.constants: dict[str, str] = {}  # a constant address -> its table
        behind: dict[str, list[str]] = {}  # pointer -> what it is computed from; "*slot" is what a slot holds
        for line in lines:
            if found := _OBJECT.match(line):
                if found[2] == "ptr":
                    slots[found[1]] = _Slot()
                elif self.private:
                    self.sizes[found[1]] = self._size(found[2])
                    self.offset[found[1]] = "0"
            elif found := _GEP.match(line):
                behind[found[1]] = [found[3]]
            elif (found := _LOAD.match(line)) and found[2] == "ptr":
                behind[found[1]] = ["*" + found[3]]
            elif found := _PHI.match(line):
                behind[found[1]] = [value for value, _ in _incoming(found[2])]
                self._know_constants(behind[found[1]])
        if not slots.keys() | self.sizes.keys():
            return lines
        self._find_slots(lines, slots)
        behind |= {"*" + name: [""] if slot.escapes else slot.stored for name, slot in slots.items()}
        self.arrays = self._arrays(behind)
        self.slots = {name: slot for name, slot in slots.items() if self.arrays.get("*" + name)}
        out: list[str] = []
        try:
            for line in lines:
                self._line(line, out)
        except _NotInOrder:
            return lines
        return out

    def _spread(self, lines: list[str]) -> list[str]:
        """The lines with each constant place in a table as a line of its own, which LLVM folds again."""
        out: list[str] = []
        for line in lines:
            debug = found[0] if (found := _DEBUG.search(line)) else ""
            for text in () if " = phi " in line else constant_addresses(line):
                if place := place_of(text, self.tables, self.types):
                    name = self.temp(f"getelementptr i8, ptr {place[0]}, i64 {place[1]}", out, debug)
                    line = line.replace(text, name, 1)
            out.append(line)
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

    def _know_constants(self, values: list[str]) -> None:
        """Constant places in tables among the values that a pointer may have."""
        for text in values:
            if text not in self.sizes and (place := place_of(text, self.tables, self.types)):
                self.constants[text], self.offset[text] = place[0], str(place[1])

    def _arrays(self, behind: dict[str, list[str]]) -> dict[str, frozenset[str]]:
        """The arrays that each pointer may point into; none where it may point elsewhere too."""
        found = {name: frozenset([name]) for name in self.sizes}
        found |= {text: frozenset([table]) for text, table in self.constants.items()}
        lost = {name for name, sources in behind.items() if not sources or set(sources) - behind.keys() - found.keys()}
        changed = True
        while changed:
            changed = False
            for name, sources in behind.items():
                arrays = frozenset[str]().union(*(found.get(source, ()) for source in sources))
                is_lost = name in lost or not lost.isdisjoint(sources)
                if arrays != found.get(name) or is_lost != (name in lost):
                    found[name], changed = arrays, True
                    lost |= {name} if is_lost else set()
        return {name: arrays for name, arrays in found.items() if name not in lost}

    def _line(self, line: str, out: list[str]) -> None:
        debug = found[0] if (found := _DEBUG.search(line)) else ""
        if (found := _OBJECT.match(line)) and found[1] in self.slots:
            out += [line, f"  {self._beside(found[1])} = alloca i64, align 8"]
        elif (found := _PHI.match(line)) and self.arrays.get(found[1]):
            out.append(line)
            self.offset[found[1]] = self._either(_incoming(found[2]), out, debug)
        elif (found := _GEP.match(line)) and self.arrays.get(found[3]):
            out.append(line)
            if found[3] in self.offset:
                self.offset[found[1]] = self._advance(found[2], found[4], self.offset[found[3]], out, debug)
        elif found := _LOAD.match(line):
            if found[2] == "ptr" and found[3] in self.slots:
                out.append(line)
                self.offset[found[1]] = self.temp(f"load i64, ptr {self._beside(found[3])}, align 8", out, debug)
            else:
                out.append(self._access(line, found.span(3), self._touched(found[2]), out, debug))
        elif found := _STORE.match(line):
            if found[3] in self.slots:
                if found[2] not in self.offset:
                    raise _NotInOrder
                out += [line, f"  store i64 {self.offset[found[2]]}, ptr {self._beside(found[3])}, align 8"]
            else:
                out.append(self._access(line, found.span(3), self._touched(found[1]), out, debug))
        elif (found := _COPY.match(line)) and int(found[2]):
            for pointer in reversed(list(_POINTER.finditer(line, found.start(1), found.end(1)))):
                line = self._access(line, pointer.span(1), int(found[2]), out, debug)
            out.append(line)
        else:
            out.append(line)

    def _touched(self, ty: str) -> int:
        return self.types(ty.replace("volatile ", "").replace("atomic ", "")).touched

    def _either(self, incoming: list[tuple[str, str]], out: list[str], debug: str) -> str:
        """The offset of a pointer that is one of several."""
        if any(value not in self.offset for value, _ in incoming):
            raise _NotInOrder
        offsets = [self.offset[value] for value, _ in incoming]
        if len(set(offsets)) == 1 and _is_number(offsets[0]):
            return offsets[0]
        pairs = ", ".join(f"[ {offset}, {block} ]" for offset, (_, block) in zip(offsets, incoming, strict=True))
        return self.temp(f"phi i64 {pairs}", out, debug)

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

    def _access(self, line: str, at: tuple[int, int], touched: int, out: list[str], debug: str) -> str:
        """The line with the address that stands in a place of it chosen, where that is computed from an array."""
        pointer = line[slice(*at)]
        arrays, offset = self.arrays.get(pointer), self.offset.get(pointer)
        if not arrays or offset is None:
            return line
        room = min(self.sizes[array] for array in arrays) - touched
        if _is_number(offset) and 0 <= int(offset) <= room:
            return line
        apart = room <= 0  # LLVM takes the start for the only place in an array that is as short as this
        if _is_number(offset) or room < 0:
            chosen = self._past(pointer, offset, out, debug, kept=True, apart=apart)
        else:
            away = self._past(pointer, offset, out, debug, kept=apart, apart=apart)
            test = self.temp(f"icmp ule i64 {offset}, {room}", out, debug)
            chosen = self.temp(f"select i1 {test}, ptr {pointer}, ptr {away}", out, debug)
        return line[: at[0]] + chosen + line[at[1] :]

    def _past(self, pointer: str, offset: str, out: list[str], debug: str, *, kept: bool, apart: bool = False) -> str:
        """The address that lies outside. In a table of like elements LLVM reads one value everywhere: not here."""
        arrays = self.arrays[pointer]
        base = next(iter(arrays)) if len(arrays) == 1 else pointer
        if apart or not self.alike.isdisjoint(arrays):
            base, kept = self.temp(f"call ptr @__mc_same(ptr {base})", out, debug), True
        hidden = self.temp(f"call i64 @__mc_past{'_kept' * kept}(i64 {offset})", out, debug)
        if len(arrays) > 1:  # counted from the pointer itself, as the array is not known
            hidden = self.temp(f"sub i64 {hidden}, {offset}", out, debug)
        return self.temp(f"getelementptr i8, ptr {base}, i64 {hidden}", out, debug)


def _incoming(text: str) -> list[tuple[str, str]]:
    """The values of a phi, and the blocks that they come from."""
    pairs = (parts(each[1:-1]) for each in parts(text))
    return [(value, block) for value, block in pairs]


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
