"""Tiny kernels with one defect each, and what sanitize mode must say of it, written as comments in the MSL.

One `.metal` file for each class of defects. A kernel reads `fixed`, a function constant or an argument (which saves a
compilation): with `false` it has the defect, with `true` it has not, and nothing may be found. Above a kernel:

    // words on what is wrong
    // from: a public project, and what happened there          (the kernel re-creates that defect)
    // launch: threads=64 group_size=64 x=float32[64] n=64      (arguments by their MSL names)
    // fixed launch: ...                                        (where the correction is another launch)
    // also: not-finite                                         (kinds that are off unless asked for)

An array is `float32[64]` (1, 2, 3, ...), `float32[64]:0` (all 0) or `int32:4,0,2` (these). At the end of a line:

    // expect: race                 found here; several kinds with commas; `thread 5` names the thread
    // other                        the other access of the race (without it: the same line)
    // or                           the finding may name this line instead
    // may: simdgroup-race          may be found here too, as it follows from the defect

`// expect:` above the kernel is for findings without a line. Bodies for `metalcore.metal_kernel` stand between
`// body NAME` and `// end`; their arrays after `->` are outputs. `is_fixed` is `fixed` as a template argument.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
RACES = frozenset(
    ("race", "race-between-threadgroups", "same-value-race", "simdgroup-race", "wrong-fence")
)  # findings with two accesses
_KERNEL = re.compile(r"^(?:\[\[.*\]\] )?kernel void (\w+)\(|^// body (\w+)$")
_HEADER = re.compile(r"^// (from|launch|fixed launch|also|expect): (.*)$")
_MARK = re.compile(r"// (expect: .*|may: .*|other|or)$")


@dataclass(frozen=True)
class Expected:
    """One finding: its kind, the lines that it may name (none: any), and the other line of a race."""

    kind: str
    lines: frozenset[int]
    other: int | None = None
    thread: int | None = None


@dataclass
class Defect:
    kind: str  # the class: the name of the file
    name: str
    source: str  # the whole file, or the body of a metal_kernel
    first_line: int  # 0 for a kernel of a file; for a body, lines of the file above it
    launch: str = ""
    fixed_launch: str = ""
    origin: str = ""
    also: tuple[str, ...] = ()
    is_body: bool = False
    expected: list[Expected] = field(default_factory=list)
    allowed: list[Expected] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def path(self) -> Path:
        return HERE / f"{self.kind}.metal"


def read_file(path: Path) -> list[Defect]:
    """Every defect of one file."""
    text = path.read_text()
    lines = text.split("\n")
    starts = [i for i, line in enumerate(lines) if _KERNEL.search(line)]
    defects = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(lines)
        defects.append(_read(path.stem, text, lines, start, end))
    return defects


def _read(kind: str, text: str, lines: list[str], start: int, end: int) -> Defect:
    match = _KERNEL.search(lines[start])
    assert match
    defect = Defect(kind, match[1] or match[2], text, 0, is_body=bool(match[2]))
    top = start
    while top > 0 and lines[top - 1].startswith("//"):
        top -= 1
    header = lines[top:start]
    if defect.is_body:
        stop = next(i for i in range(start, end) if lines[i] == "// end")
        while lines[start + 1].startswith("//"):
            start += 1
            header.append(lines[start])
        defect.source, defect.first_line = "\n".join(lines[start + 1 : stop]), start + 1
        end = stop
    for line in header:
        found = _HEADER.match(line)
        if not found:
            continue
        what, value = found.groups()
        if what == "from":
            defect.origin = value
        elif what == "also":
            defect.also = tuple(value.split())
        elif what == "expect":
            defect.expected.append(Expected(value.split()[0], frozenset()))
        else:
            setattr(defect, what.replace(" ", "_"), value)
    _read_marks(defect, lines, start, end)
    if not defect.launch or not defect.expected:
        raise ValueError(f"{kind}.metal: '{defect.name}' needs `// launch:` and `// expect:`")
    return defect


def _read_marks(defect: Defect, lines: list[str], start: int, end: int) -> None:
    expected: list[tuple[str, int, int | None]] = []
    allowed: list[tuple[str, int]] = []
    others: list[int] = []
    alternatives: set[int] = set()
    for index in range(start, end):
        mark = _MARK.search(lines[index])
        if not mark or lines[index].startswith("//"):
            continue
        line = index + 1 - defect.first_line
        if mark[1] == "other":
            others.append(line)
        elif mark[1] == "or":
            alternatives.add(line)
        for part in mark[1].split("; "):
            what, _, value = part.partition(": ")
            for word in value.split(", ") if value else ():
                kind, _, thread = word.partition(" thread ")
                if what == "expect":
                    expected.append((kind, line, int(thread) if thread else None))
                else:
                    allowed.append((kind, line))
    if len(others) > 1:
        raise ValueError(f"{defect.id}: one line is `// other`, not {len(others)}")
    for kind, line, thread in expected:
        other = (others or [line])[0] if kind in RACES else None
        defect.expected.append(Expected(kind, frozenset({line, *alternatives}), other, thread))
    for kind, line in allowed:
        other = (others or [line])[0] if kind in RACES else None
        defect.allowed.append(Expected(kind, frozenset({line, *alternatives}), other))


def all_defects() -> list[Defect]:
    return [defect for path in sorted(HERE.glob("*.metal")) for defect in read_file(path)]
