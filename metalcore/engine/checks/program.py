"""A kernel's inlined scalar IR as lines of text that checks add lines to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from metalcore.engine.codegen.variant import Place
from metalcore.engine.lockstep.parse import parse

NAME = r'%(?:[-\w.$]+|"[^"]*")'
_RESULT = re.compile(rf"^  ({NAME}) = ")
_DEBUG = re.compile(r", !dbg !(\d+)")
_USED = re.compile(NAME)
# It may never return, for all that LLVM knows: else a division behind it would prove that its divisor is not zero. And
# two calls stay two: each names its place.
HOOKS = (
    "declare void @__mc_report_if(i1, i32) #990",
    "attributes #990 = { nomerge nounwind memory(inaccessiblemem: readwrite) }",
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
    def __init__(self, text: str, entry: str = "__mc_entry") -> None:
        all_lines = text.split("\n")
        first = next(i for i, line in enumerate(all_lines) if line.startswith("define ") and f"@{entry}(" in line)
        last = next(i for i in range(first, len(all_lines)) if all_lines[i] == "}")
        self._head, self._tail = all_lines[: first + 1], all_lines[last:]
        self._locations = parse(text).locations
        self._temps = 0
        self.places: list[Place] = []
        self._numbers: dict[Place, int] = {}
        self.lines: list[Line] = []
        for line in _whole(all_lines[first + 1 : last]):
            if line.startswith("  "):
                self.lines.append(_read(line))
            elif line:  # a label
                self.lines.append(Line(line))

    def temp(self) -> str:
        self._temps += 1
        return f"%mc.{self._temps}"

    def place(self, check: str, line: Line) -> int:
        """Number of what is reported at a line."""
        found = self._locations.get(int(line.debug.rsplit("!", 1)[1])) if line.debug else None
        where = (found.file, found.line, found.column) if found else ("", 0, 0)
        place = Place(check, *where)
        if place not in self._numbers:
            self._numbers[place] = len(self.places)
            self.places.append(place)
        return self._numbers[place]

    def report_if(self, condition: str, check: str, line: Line) -> None:
        number = self.place(check, line)
        line.before.append(f"  call void @__mc_report_if(i1 {condition}, i32 {number}){line.debug}")

    def text(self) -> str:
        body: list[str] = []
        for line in self.lines:
            body += [*line.before, line.text, *line.after]
        return "\n".join([*self._head, *body, *self._tail, *HOOKS])


def _read(text: str) -> Line:
    result = _RESULT.match(text)
    line = Line(text, result[1] if result else "")
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
