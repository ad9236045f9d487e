"""Debug locations of LLVM IR: which lines of which files an instruction stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from metalcore.engine.ir.tokens import fields, unescaped

_MOST_STEPS = 64


@dataclass(frozen=True)
class Location:
    """A place in the user's source."""

    file: str
    line: int
    column: int


@dataclass(frozen=True)
class Scope:
    """A function as the source has it, and where it begins."""

    name: str
    file: str
    line: int


def _name(quoted: str) -> str:
    """A name as LLVM writes it."""
    name = quoted.strip('"')
    return unescaped(name).decode("utf-8", "surrogateescape") if "\\" in name else name


class DebugLines:
    """Reads locations from a module's metadata."""

    def __init__(self, metadata: Mapping[int, str]) -> None:
        self._metadata = metadata
        self._known: dict[int, dict[str, str]] = {}
        self._files: dict[int, str] = {}

    def frames(self, number: int) -> Iterator[Location]:
        """A location, then who called the function that was inlined there, outwards."""
        for _ in range(_MOST_STEPS):
            entry = self._fields(number)
            if "line" not in entry or "scope" not in entry:
                return
            file = self._file_of(int(entry["scope"][1:]))
            yield Location(file, int(entry["line"]), int(entry.get("column", "0")))
            if "inlinedAt" not in entry:
                return
            number = int(entry["inlinedAt"][1:])

    def scope(self, number: int) -> Scope | None:
        """The function that a DISubprogram describes; None where it is none."""
        entry = self._fields(number) if "DISubprogram(" in self._metadata.get(number, "") else {}
        if "name" not in entry:
            return None
        return Scope(_name(entry["name"]), self._file_of(number), int(entry.get("line", "0")))

    def _fields(self, number: int) -> dict[str, str]:
        if number not in self._known:
            self._known[number] = fields(self._metadata.get(number, ""))
        return self._known[number]

    def _file_of(self, scope: int) -> str:
        if scope not in self._files:
            self._files[scope] = self._find_file(scope)
        return self._files[scope]

    def _find_file(self, scope: int) -> str:
        for _ in range(_MOST_STEPS):
            entry = self._fields(scope)
            if "file" in entry:
                return _name(self._fields(int(entry["file"][1:])).get("filename", ""))
            if "filename" in entry:
                return _name(entry["filename"])
            if "scope" not in entry:
                return ""
            scope = int(entry["scope"][1:])
        return ""


class Locations:
    """Debug locations by number: the innermost place that is not in our own headers."""

    def __init__(self, metadata: Mapping[int, str]) -> None:
        self._metadata, self._lines = metadata, DebugLines(metadata)
        self._found: dict[int, Location | None] = {}

    def get(self, number: int) -> Location | None:
        if number not in self._found:
            is_place = "DILocation(" in self._metadata.get(number, "")
            frames = list(self._lines.frames(number)) if is_place else []
            own = frames[-1] if frames else None
            self._found[number] = next((frame for frame in frames if not _is_own_header(frame.file)), own)
        return self._found[number]


def _is_own_header(file: str) -> bool:
    return "metalcore/engine/include" in file or file.startswith("<mc")
