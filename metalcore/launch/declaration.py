"""What a kernel declares about its launches, as the front end hands it on; `requirements.py` works it out."""

from __future__ import annotations

from typing import NamedTuple

REQUIRES, ALLOWS = "requires", "allows"
PARTIAL_SIMDGROUPS = "partial_simdgroups"


class Requirement(NamedTuple):
    """One declaration: what must hold (or is allowed), why, and where it is written."""

    word: str
    expression: str
    note: str
    file: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"
