"""The text that a report quotes: files, and sources that were given to the engine as strings.

All strings have the same name in the engine, `<metal>`. Here each gets a name of its own. Where the string stands
word for word in one Python file of the program, that is the file and the line in it, which an editor or a code review
can show. Any other string is named after its text: `<metal 1a2b3c4d>`, the same in every run.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from metalcore.engine.locks import ForkLock

_T = TypeVar("_T")
KEPT = 512  # texts; only those in which something was found are kept
MAIN = "<metal>"  # the engine's name of a source that is no file
_LINE_MARK = re.compile(r'\s*#\s*line\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
_SHORTEST = 16  # characters of a text that is looked for in Python files


@dataclass(frozen=True)
class _Home:
    """Where a text stands: line 1 of it is line `first` of `file`; `shift` is what indentation adds to columns."""

    file: str
    first: int
    shift: Mapping[int, int]


_lock = ForkLock()
_homes: OrderedDict[str, dict[str, _Home]] = OrderedDict()  # key of a text -> part of it -> where that stands
_lines: OrderedDict[str, str | Mapping[int, str]] = OrderedDict()  # name in a report -> text or lines


def remember(text: str, path: str | None = None) -> str:
    """Keep a source in which something was found. The answer goes into `Diagnostic.source`."""
    if path is not None:
        _keep(_lines, path, text)
        return ""
    key = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    with _lock:
        if key in _homes:
            _homes.move_to_end(key)
            return key
    homes = {}
    for name, lines in _parts(text).items():
        if not name.startswith("<"):  # a #line of the user's own that names a file
            continue
        home = _find(lines)
        if home is None:
            joined = "\n".join(lines.values()).encode("utf-8", "replace")
            home = _Home(f"{name[:-1]} {hashlib.sha256(joined).hexdigest()[:8]}>", 1, {})
            _keep(_lines, home.file, lines)
        homes[name] = home
    _keep(_homes, key, homes)
    return key


def locate(source: str, file: str, line: int, column: int) -> tuple[str, int, int]:
    """Where a place of a remembered source is: in a Python file, or in a text with a name of its own."""
    with _lock:
        home = _homes.get(source, {}).get(file)
    if home is None or (home.shift and line not in home.shift):  # a #line may say any number
        return file, line, column
    return home.file, home.first + line - 1, column + home.shift.get(line, 0) if column else 0


class Lines:
    """Lines of files and of named texts, for one report."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._known: dict[str, Mapping[int, str]] = {name: _numbered(text) for name, text in (given or {}).items()}

    def line(self, file: str, number: int) -> str | None:
        """One line, or None where it cannot be read."""
        if file not in self._known:
            with _lock:
                known = _lines.get(file)
            lines = ("" if file.startswith("<") else _read(file)) if known is None else known
            self._known[file] = lines if isinstance(lines, Mapping) else _numbered(lines)
        return self._known[file].get(number)

    def text(self, file: str) -> str | None:
        """All of a text that is no file."""
        if not file.startswith("<") or self.line(file, 1) is None:
            return None
        lines = self._known[file]
        return "\n".join(lines.get(number, "") for number in range(1, max(lines) + 1)) + "\n"

    def column(self, file: str, line: int, column: int) -> int:
        """clang counts bytes; a reader counts characters."""
        text = self.line(file, line)
        if not column or text is None or text.isascii():
            return column
        return len(text.encode("utf-8", "replace")[: column - 1].decode("utf-8", "ignore")) + 1


def _keep(store: OrderedDict[str, _T], key: str, value: _T) -> None:
    with _lock:
        store[key] = value
        store.move_to_end(key)
        while len(store) > KEPT:
            store.popitem(last=False)


def _numbered(text: str) -> Mapping[int, str]:
    lines = re.split(r"\r\n|\n|\r", text)  # as clang counts them
    return dict(enumerate(lines[:-1] if not lines[-1] else lines, 1))


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


def _parts(text: str) -> dict[str, dict[int, str]]:
    """The lines of a text, by the names that #line gives to parts of it, as metal_kernel does."""
    parts: dict[str, dict[int, str]] = {}
    name, number = MAIN, 1
    for line in text.splitlines():
        mark = _LINE_MARK.match(line)
        if mark:
            name, number = re.sub(r"\\(.)", r"\1", mark[2]), int(mark[1])
            continue
        parts.setdefault(name, {})[number] = line
        number += 1
    return parts


def _find(lines: Mapping[int, str]) -> _Home | None:
    """The one place in the program's Python files where these lines stand, indented in any way."""
    numbers = [number for number, line in lines.items() if line.strip()]
    if not numbers or numbers != sorted(numbers):
        return None
    first, last = numbers[0], numbers[-1]
    wanted = [lines.get(number, "").strip() for number in range(first, last + 1)]
    if sum(map(len, wanted)) < _SHORTEST:
        return None
    found = [(file, at) for file in _program_files() for at in _matches(wanted, _stripped(file))]
    if len(found) != 1:
        return None
    file, at = found[0]
    shift = {}
    for offset, text in enumerate(wanted):
        own = lines.get(first + offset, "")
        there = _python_lines(file)[at + offset]
        # The first line may stand behind the quotes, so its text is looked for from the right.
        start = there.rfind(text) if offset == 0 else there.find(text)
        shift[first + offset] = start - (len(own) - len(own.lstrip()))
    return _Home(file, at + 1 - (first - 1), shift)


def _matches(wanted: Sequence[str], there: Sequence[str]) -> list[int]:
    """Indices at which `wanted` begins; quotes may stand before its first line and behind its last."""
    if len(wanted) == 1:
        return [i for i, line in enumerate(there) if wanted[0] in line]
    middle, count = list(wanted[1:-1]), len(wanted)
    return [
        i
        for i in range(len(there) - count + 1)
        if there[i].endswith(wanted[0])
        and there[i + count - 1].startswith(wanted[-1])
        and there[i + 1 : i + count - 1] == middle
    ]


@lru_cache(maxsize=1024)
def _python_lines(file: str) -> list[str]:
    return _read(file).splitlines()


@lru_cache(maxsize=1024)
def _stripped(file: str) -> list[str]:
    return [line.strip() for line in _python_lines(file)]


@lru_cache(maxsize=1)
def _installed() -> tuple[str, ...]:
    """Folders whose Python is not the program's own."""
    import sysconfig

    paths = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (*sorted(paths), str(Path(__file__).resolve().parents[1]))


def _program_files() -> list[str]:
    files = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py"):
            path = str(Path(file).absolute())
            if not path.startswith(_installed()) and "site-packages" not in path:
                files.add(path)
    return sorted(files)
