"""A kernel's inlined scalar IR as lines of text that checks add lines to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from metalcore.engine.codegen.variant import Place
from metalcore.engine.lockstep.ir import Instr
from metalcore.engine.lockstep.parse import parse
from metalcore.engine.lockstep.roots import Roots

if TYPE_CHECKING:
    from metalcore.engine.frontend.model import ScalarKernel

NAME = r'%(?:[-\w.$]+|"[^"]*")'
LOAD = re.compile(r"^load (?:volatile )?(.+?), ptr (.+?)(?:, align|, !|$)")
STORE = re.compile(rf"^store (?:volatile )?(\S+|{NAME}) (\S+), ptr (.+?)(?:, align|, !|$)")
LIFETIME = re.compile(rf"^call void @llvm\.lifetime\.(start|end)\.\w+\((?:i64 \S+, )?ptr ({NAME})\)")
_RESULT = re.compile(rf"^  ({NAME}) = ")
_DEBUG = re.compile(r", !dbg !(\d+)")
_USED = re.compile(NAME)
# It may never return, for all that LLVM knows: else a division behind it would prove that its divisor is not zero. And
# two calls stay two: each names its place.
# Hooks of accesses read the memory that they name, so that stores to it keep their places.
HOOKS = {
    "__mc_report_if": "declare void @__mc_report_if(i1, i32) #990",
    "__mc_report_unset": "declare void @__mc_report_unset(i1, i32) #990",
    "__mc_has_no_value": "declare i1 @__mc_has_no_value(ptr captures(none), i32) #991",
    "__mc_lose_value": "declare void @__mc_lose_value(ptr captures(none), i32, i1) #991",
    "__mc_store_unset": "declare void @__mc_store_unset(ptr captures(none), i32, i1, i32) #991",
    "__mc_read": "declare void @__mc_read(ptr captures(none), i32) #991",
    "__mc_copy": "declare void @__mc_copy(ptr captures(none), i32) #991",
    "__mc_write": "declare void @__mc_write(ptr captures(none), i32, i64) #991",
    "__mc_touch_atomically": "declare void @__mc_touch_atomically(ptr captures(none), i32) #991",
    "__mc_load_atomically": "declare void @__mc_load_atomically(ptr captures(none), i32) #991",
    "__mc_store_atomically": "declare void @__mc_store_atomically(ptr captures(none), i32) #991",
}
_ATTRIBUTES = (
    "attributes #990 = { nomerge nounwind memory(inaccessiblemem: readwrite) }",
    "attributes #991 = { nomerge nounwind memory(argmem: read, inaccessiblemem: readwrite) }",
)


@dataclass
class Line:
    """One instruction, and the lines that checks put around it."""

    text: str
    result: str = ""
    op: str = ""
    debug: str = ""  # ", !dbg !7", for what is added
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    @property
    def body(self) -> str:
        """The instruction without its result and what follows it."""
        return self.text.split(" = ", 1)[1] if self.result else self.text.strip()

    def operands(self) -> list[str]:
        """Every name that it reads, types and labels included."""
        return _USED.findall(_DEBUG.sub("", self.body))


class Program:
    """The lines, and for analyses the same instructions as lockstep's parser sees them."""

    def __init__(self, text: str, kernel: ScalarKernel, places: list[Place], entry: str = "__mc_entry") -> None:
        all_lines = text.split("\n")
        first = next(i for i, line in enumerate(all_lines) if line.startswith("define ") and f"@{entry}(" in line)
        last = next(i for i in range(first, len(all_lines)) if all_lines[i] == "}")
        self._head, self._tail = all_lines[: first + 1], all_lines[last:]
        self.kernel, self.places, self._text = kernel, places, text
        self.module = parse(text)
        self._prefix = next(f"%mc{i}." for i in range(9) if f"%mc{i}." not in text)
        self._temps = 0
        self._declared: dict[str, str] = {}
        self._numbers = {place: i for i, place in enumerate(places)}
        self.lines: list[Line] = []
        for line in _whole(all_lines[first + 1 : last]):
            if line.startswith("  "):
                self.lines.append(_read(line))
            elif line:  # a label
                self.lines.append(Line(line))

    def temp(self) -> str:
        self._temps += 1
        return f"{self._prefix}{self._temps}"

    @cached_property
    def pairs(self) -> list[tuple[Line, Instr]]:
        """Each line with what it says."""
        lines = [line for line in self.lines if line.op and "(metadata " not in line.text]
        instrs = [instr for block in self.module.function.blocks for instr in block.instrs]
        instrs = [instr for instr in instrs if not instr.name.startswith("%mc.cx")]  # parts of constant operands
        assert len(lines) == len(instrs), "the lines of a kernel and its instructions differ"
        return list(zip(lines, instrs, strict=True))

    @cached_property
    def order(self) -> dict[Instr, int]:
        return {instr: i for i, (_, instr) in enumerate(self.pairs)}

    def line_of(self, line: Line) -> tuple[str, int]:
        """File and line of the source."""
        return self._where(line)[:2]

    def _where(self, line: Line) -> tuple[str, int, int]:
        found = self.module.locations.get(int(line.debug.rsplit("!", 1)[1])) if line.debug else None
        return (found.file, found.line, found.column) if found else ("", 0, 0)

    @cached_property
    def forwarded(self) -> dict[str, str]:
        """Pointers that are kept in a variable written once, as parameters are: what is loaded is what was stored."""
        stores: dict[str, list[str]] = {}
        slots = {line.result for line in self.lines if line.body.startswith("alloca ptr,")}
        others: set[str] = set()
        for line in self.lines:
            stored, loaded = STORE.match(line.body), LOAD.match(line.body)
            if stored and stored[3] in slots:
                stores.setdefault(stored[3], []).append(stored[2])
                others |= {n for n in (stored[2],) if n in slots}
            elif not loaded and not LIFETIME.match(line.body):
                others |= slots & set(line.operands())
        once = {slot: values[0] for slot, values in stores.items() if len(values) == 1 and slot not in others}
        found = {}
        for line in self.lines:
            loaded = LOAD.match(line.body)
            if loaded and loaded[1] == "ptr" and loaded[2] in once:
                found[line.result] = once[loaded[2]]
        return found

    @cached_property
    def roots(self) -> Roots:
        """The memory behind each pointer."""
        return Roots(self.module)

    def place(self, check: str, line: Line, detail: str = "") -> int:
        """Number of what is reported at a line."""
        place = Place(check, *self._where(line), detail)
        if place not in self._numbers:
            self._numbers[place] = len(self.places)
            self.places.append(place)
        return self._numbers[place]

    def report_if(self, condition: str, check: str, line: Line, detail: str = "") -> None:
        number = self.place(check, line, detail)
        line.before.append(f"  call void @__mc_report_if(i1 {condition}, i32 {number}){line.debug}")

    def need_simd(self, call: str) -> None:
        """Declare a simd function of 32-bit numbers, with the attributes of one that the kernel uses."""
        name, arguments = call.split("(", 1)
        if f"{name}(" not in self._text:
            attributes = re.search(r"^declare .*@__mc_simd_\w+\(.*\) (#\d+)", self._text, re.M)
            types = ", ".join(["i32"] * (arguments.count(",") + 1))
            self._declared[name] = f"declare i32 {name}({types}) {attributes[1] if attributes else ''}"

    def text(self) -> str:
        body: list[str] = []
        for line in self.lines:
            body += [*line.before, line.text, *line.after]
        missing = [text for name, text in HOOKS.items() if f"@{name}(" not in self._text]
        return "\n".join([*self._head, *body, *self._tail, *missing, *self._declared.values(), *_ATTRIBUTES])


def _read(text: str) -> Line:
    result = _RESULT.match(text)
    line = Line(text, result[1] if result else "")
    if text.lstrip().startswith("#dbg_"):
        return line
    words = line.body.split()
    line.op = next((w for w in words if w not in ("tail", "musttail", "notail")), "")
    debug = _DEBUG.search(text)
    line.debug = debug[0] if debug else ""
    return line


def _whole(lines: list[str]) -> list[str]:
    """Instructions of one line each: a switch has its cases on lines of their own."""
    out: list[str] = []
    for line in lines:
        if out and out[-1].lstrip().startswith("switch ") and "]" not in out[-1]:
            out[-1] += " " + line.strip()
        else:
            out.append(line)
    return out
