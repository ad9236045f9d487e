"""What sanitize mode found, collected over launches and put in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from metalcore.diagnostics.kinds import KINDS
from metalcore.diagnostics.model import Diagnostic, Related
from metalcore.engine.locks import ForkLock
from metalcore.errors import SanitizerError

Position = tuple[int, int, int]
COMPILED_IN = frozenset(["not-finite"])


@dataclass(frozen=True)
class Access:
    """The other access of a race: who, where and how."""

    access: str  # "read", "write" or "atomic"
    file: str
    line: int
    column: int
    thread: Position  # position in the grid
    threadgroup: Position

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")
        return f"{self.access} by thread {self.thread} of threadgroup {self.threadgroup} at {where}"


@dataclass(frozen=True)
class Finding:
    """One mistake at one place: the first thread that made it, and how often it was made."""

    kind: str  # id of diagnostics/kinds.py
    kernel: str
    file: str
    line: int
    column: int
    thread: Position  # position in the grid
    threadgroup: Position
    count: int
    detail: str = ""  # one clause: "a read of 4 bytes at index 12 of 'x' (buffer 0), which has 8 elements"
    simdgroup: int = 0
    lane: int = 0
    buffer: str = ""  # the name in the MSL; "" where there is none
    index: int | None = None  # element of the buffer
    access: str = ""  # "read", "write" or "atomic"
    other: Access | None = None
    source: str = ""  # which text `file` is in, where that is no file: see diagnostics/sources.py
    launched: str = ""  # "program.py:12", the line that launched the kernel first

    @property
    def key(self) -> tuple[Any, ...]:
        """Findings with the same key are counted together: kind, kernel and line, or pair of lines."""
        places = [(self.file, self.line)]
        if self.other:
            places.append((self.other.file, self.other.line))
        return self.kind, self.kernel, self.source, self.buffer, *sorted(places)

    def diagnostic(self) -> Diagnostic:
        """The finding in the form that all formatters take."""
        kind = KINDS[self.kind]
        message = kind.title + (f": {self.detail}" if self.detail else "")
        related: tuple[Related, ...] = ()
        if self.other is not None:
            o = self.other
            words = f"the other access: {o.access} by thread {o.thread} of threadgroup {o.threadgroup}"
            related = (Related(o.file, o.line, o.column, words),)
        properties: dict[str, Any] = {
            "thread": list(self.thread),
            "threadgroup": list(self.threadgroup),
            "simdgroup": self.simdgroup,
            "lane": self.lane,
            "count": self.count,
        }
        for name in ("buffer", "index", "access", "launched"):
            if getattr(self, name) not in ("", None):
                properties[name] = getattr(self, name)
        return Diagnostic(
            self.kind,
            kind.level,
            self.file,
            self.line,
            self.column,
            message,
            self.kernel,
            kind.remedy,
            related,
            properties,
            self.source,
        )

    def __str__(self) -> str:
        more = f"; {self.count - 1} more" if self.count > 1 else ""
        detail = f": {self.detail}" if self.detail else ""
        other = f"; the other access: {self.other}" if self.other else ""
        where = f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")
        return (
            f"{where}: {self.kind} in kernel '{self.kernel}' by thread {self.thread} of the grid{detail}{other}{more}"
        )


class Report:
    """The findings of all launches under one `metalcore.mode("sanitize")`, the same ones counted together."""

    def __init__(
        self,
        *,
        schedule_seed: int | None = None,
        also: Sequence[str] = (),
        silence: Sequence[str] = (),
        fail_fast: bool = False,
    ) -> None:
        if isinstance(also, str) or isinstance(silence, str):
            raise ValueError("also= and silence= take a list of kinds")
        for name in (*also, *silence):
            if name not in KINDS:
                raise ValueError(f"unknown kind of finding {name!r}: the kinds are {', '.join(KINDS)}")
        self.schedule_seed, self.fail_fast = schedule_seed, fail_fast
        self.kinds = frozenset(k.id for k in KINDS.values() if not k.on_request or k.id in also) - frozenset(silence)
        """Ids of the kinds that are reported."""
        self.compiled_in = tuple(sorted(COMPILED_IN & self.kinds))
        """Kinds for which kernels are compiled anew."""
        self.lost = 0
        """How many findings were not kept: a launch has room for 512 different ones."""
        self._found: dict[tuple[Any, ...], Finding] = {}
        self._notes: dict[str, None] = {}
        self._lock = ForkLock()
        self.launches = 0
        """How many launches were looked at."""

    def add(self, findings: Sequence[Finding]) -> None:
        """Called after each launch, from any thread."""
        reported = [finding for finding in findings if finding.kind in self.kinds]
        with self._lock:
            self.launches += 1
            for finding in reported:
                known = self._found.get(finding.key)
                if known is not None:
                    finding = replace(known, count=known.count + finding.count)
                self._found[finding.key] = finding
        if self.fail_fast and any(KINDS[finding.kind].level != "note" for finding in reported):
            raise SanitizerError(str(self))

    def note(self, text: str) -> None:
        """Something worth knowing that is no mistake: it is shown, and fails nothing."""
        with self._lock:
            self._notes[text] = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What is no mistake and worth knowing."""
        with self._lock:
            return tuple(self._notes)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """By file and line."""
        with self._lock:
            found = list(self._found.values())
        return tuple(sorted(found, key=lambda f: (f.file, f.line, f.column, f.kind, str(f.other), f.kernel, f.source)))

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return tuple(finding.diagnostic() for finding in self.findings)

    def render(self, format: str = "text", *, colour: bool = False) -> str:
        """The report as "text", "json", "sarif" or "github" (annotations of a pull request)."""
        from metalcore.diagnostics import render

        return render(self.diagnostics, format, colour=colour)

    def _repr_html_(self) -> str:
        from metalcore.diagnostics import summary
        from metalcore.diagnostics.html import html_table

        rows = [
            (f.kind, f.kernel, f"{f.file}:{f.line}", f.thread, f.count, f.detail, f.launched) for f in self.findings
        ]
        headings = ["kind", "kernel", "line", "first thread", "count", "what", "launched at"]
        return html_table(f"sanitizer: {summary(self.diagnostics)}", headings, rows, "\n".join(self.notes))

    def to_json(self) -> str:
        return self.render("json")

    def __len__(self) -> int:
        return len(self._found)

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings] or ["nothing found"]
        return "\n".join([*lines, *(f"note: {text}" for text in self.notes)])
