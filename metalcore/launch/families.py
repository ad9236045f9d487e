"""The table of Apple GPU families (`families.json`): which chip is in which, their limits and features."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from metalcore.launch.limits import Limits

TABLE = Path(__file__).with_name("families.json")
LIMITS = (
    "max_threads",
    "threadgroup_memory",
    "buffers",
    "threadgroup_arguments",
    "constant_buffers",
    "constant_offset_alignment",
    "threadgroup_alignment",
)


@dataclass(frozen=True)
class Family:
    """One column of Apple's feature tables."""

    name: str
    chips: tuple[str, ...]
    metal: str
    limits: Limits
    features: frozenset[str]
    chip_features: tuple[tuple[str, tuple[str, ...]], ...] = ()  # features that only some chips have
    unconfirmed: tuple[str, ...] = ()  # rows that were taken from the family before

    def for_chip(self, chip: str) -> Limits:
        """The limits under the name of a chip, with the features that this chip has."""
        extra = {feature for feature, chips in self.chip_features if chip in chips}
        return self.limits._replace(name=f"{chip} ({self.name})", features=self.features | extra)


@cache
def table() -> dict[str, Any]:
    """The file as it is."""
    data: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return data


@cache
def families() -> tuple[Family, ...]:
    """Every family, oldest first.

    >>> [family.name for family in families()][:3]
    ['Apple2', 'Apple3', 'Apple4']
    """
    return tuple(_family(row) for row in table()["families"])


def _family(row: dict[str, Any]) -> Family:
    features = frozenset(row["features"])
    unknown = features - set(table()["features"])
    if unknown:
        raise ValueError(f"{TABLE.name}: {row['name']} names features that the table does not explain: {unknown}")
    limits = Limits(row["name"], **{name: row[name] for name in LIMITS}, features=features)
    return Family(
        row["name"],
        tuple(row["chips"]),
        row["metal"],
        limits,
        features,
        tuple((feature, tuple(chips)) for feature, chips in row.get("chip_features", {}).items()),
        tuple(row.get("unconfirmed", ())),
    )


def limits_of(name: str) -> Limits:
    """The limits of a family or a chip, by its name: `Apple7`, `M1`, `m1 max`, `A17 Pro`.

    >>> limits_of("M1").name, limits_of("A10").max_threads
    ('M1 (Apple7)', 512)
    """
    if not isinstance(name, str):
        raise TypeError(f"a target is the name of a chip or GPU family (str), not {type(name).__name__}")
    wanted = _plain(name)
    known: dict[str, str] = {}
    for family in families():
        if _plain(family.name) == wanted:
            return family.limits
        known[_plain(family.name)] = family.name
        for chip in family.chips:
            if _plain(chip) == wanted:
                return family.for_chip(chip)
            if chip[0] in "AM" and chip[1].isdigit() and "later" not in chip:
                known[_plain(chip)] = chip
    near = [known[match] for match in difflib.get_close_matches(wanted, known, n=3)]
    hint = f"did you mean {' or '.join(near)}?" if near else "`metalcore families` lists them"
    raise ValueError(f"there is no chip or GPU family {name!r} in the table: {hint}")


def _plain(name: str) -> str:
    """Case, spaces and Apple's own additions do not matter: "MTLGPUFamilyApple7", "Apple M1 Max", "m1max"."""
    text = name.lower().replace("mtlgpufamily", "")
    words = text.replace("-", " ").replace("_", " ").split()
    return "".join(word for word in words if word not in ("apple", "bionic", "fusion", "chip"))
