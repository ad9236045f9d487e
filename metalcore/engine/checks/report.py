"""What sanitize mode found, collected over launches and put in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Finding:
    """One mistake at one place: the first thread that made it, and how often it was made."""

    check: str
    kernel: str
    file: str
    line: int
    column: int
    thread: tuple[int, int, int]  # position in the grid
    threadgroup: tuple[int, int, int]
    count: int
    detail: str = ""

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        return self.check, self.kernel, self.file, self.line, self.column

    def __str__(self) -> str:
        more = f"; {self.count - 1} more" if self.count > 1 else ""
        detail = f": {self.detail}" if self.detail else ""
        where = f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")
        return f"{where}: {self.check} in kernel '{self.kernel}' by thread {self.thread} of the grid{detail}{more}"


class Report:
    """The findings of all launches under one `metalcore.mode("sanitize")`, the same ones counted together."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, int, int], Finding] = {}

    def add(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            known = self._found.get(finding.key)
            if known is not None:
                finding = replace(known, count=known.count + finding.count)
            self._found[finding.key] = finding

    @property
    def findings(self) -> tuple[Finding, ...]:
        """By file and line."""
        return tuple(sorted(self._found.values(), key=lambda f: (f.file, f.line, f.column, f.check)))

    def __len__(self) -> int:
        return len(self._found)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "nothing found"
