"""Which lines of MSL ran: counts of threads, as a table and as lcov's text."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Coverage:
    """For each file, how many threads came by each line that has code. Kernels that never ran are not in it."""

    files: dict[str, dict[int, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, file: str, line: int, count: int) -> None:
        with self._lock:
            lines = self.files.setdefault(file, {})
            lines[line] = lines.get(line, 0) + count

    def missed(self, file: str) -> list[int]:
        """Lines that no thread came by."""
        return sorted(line for line, count in self.files[file].items() if not count)

    def lcov(self) -> str:
        """What genhtml and editors read; sources that are no files are left out."""
        out = []
        for file, lines in sorted(self.files.items()):
            if file.startswith("<"):
                continue
            out += ["TN:", f"SF:{Path(file).resolve()}", *(f"DA:{line},{lines[line]}" for line in sorted(lines))]
            out += [f"LF:{len(lines)}", f"LH:{len(lines) - len(self.missed(file))}", "end_of_record"]
        return "".join(f"{line}\n" for line in out)

    def rows(self) -> Iterator[tuple[str, int, int, str]]:
        """File, lines, how many of them were missed, and which: `3, 7-9`."""
        for file, lines in sorted(self.files.items()):
            missed = self.missed(file)
            yield file, len(lines), len(missed), ", ".join(_ranges(missed, sorted(lines)))

    def __str__(self) -> str:
        rows = [("file", "lines", "missed", "covered", "not run")]
        for file, count, missed, which in self.rows():
            rows.append((file, str(count), str(missed), f"{100 * (count - missed) // max(1, count)}%", which))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        return "\n".join(
            f"{row[0]:<{widths[0]}}  {'  '.join(f'{row[i]:>{widths[i]}}' for i in (1, 2, 3))}  {row[4]}".rstrip()
            for row in rows
        )


def _ranges(missed: list[int], lines: list[int]) -> Iterator[str]:
    """Neighbours among the lines that have code are one range."""
    start = end = None
    gone = set(missed)
    for line in [*lines, None]:
        if line in gone:
            start, end = start or line, line
        elif start is not None:
            yield str(start) if start == end else f"{start}-{end}"
            start = None


current: Coverage | None = None  # where launches are counted now
