"""What a shared object says of itself, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass


class Unreadable(ValueError):
    """The file is not what its system loads; the text says why, behind "the file"."""


@dataclass(frozen=True)
class Contents:
    """Names without the underscore that Mach-O puts in front of those of C."""

    exported: frozenset[str]
    missing: frozenset[str]  # left to the process that loads it
    libraries: tuple[str, ...]  # that it wants loaded
    starts: tuple[str, ...]  # what it has for code that runs when it is loaded
    has_thread_variables: bool
