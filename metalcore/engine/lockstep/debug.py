"""Debug locations of LLVM IR: which lines of which files an instruction stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .ir import Location

_METADATA = re.compile(r"^!(\d+) = (.*)$", re.MULTILINE)
_FIELD = re.compile(r'(\w+): (!\d+|"[^"]*"|\d+)')
_MOST_STEPS = 64


def metadata_of(ir: str) -> dict[int, str]:
    """The numbered lines at the end of a module."""
    return {int(number): words for number, words in _METADATA.findall(ir)}


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

    def _fields(self, number: int) -> dict[str, str]:
        if number not in self._known:
            self._known[number] = dict(_FIELD.findall(self._metadata.get(number, "")))
        return self._known[number]

    def _file_of(self, scope: int) -> str:
        if scope not in self._files:
            self._files[scope] = self._find_file(scope)
        return self._files[scope]

    def _find_file(self, scope: int) -> str:
        for _ in range(_MOST_STEPS):
            entry = self._fields(scope)
            if "file" in entry:
                return self._fields(int(entry["file"][1:])).get("filename", "").strip('"')
            if "filename" in entry:
                return entry["filename"].strip('"')
            if "scope" not in entry:
                return ""
            scope = int(entry["scope"][1:])
        return ""
