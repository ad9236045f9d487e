"""One finding, whoever made it: a rule, a place in the source, and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Related:
    """Another place that a finding names: the other access of a race, the declaration of a buffer."""

    file: str
    line: int
    column: int
    message: str


@dataclass(frozen=True)
class Diagnostic:
    """What a formatter needs. `properties` holds plain data (numbers, text, lists) for JSON and SARIF."""

    rule: str  # id of the kind or rule, such as "race" or "dynamic-private-array"
    level: str  # "error", "warning" or "note"
    file: str
    line: int
    column: int
    message: str
    kernel: str = ""
    remedy: str = ""
    related: tuple[Related, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""  # what `sources.remember` gave for a source that is a string; "" where it is a file


@dataclass(frozen=True)
class Rule:
    """What can be found, for formats that list it: the sanitizer's kinds, the linter's rules."""

    id: str
    title: str
    remedy: str = ""
    level: str = "error"
    page: str = ""  # address of a page about it, where there is one
