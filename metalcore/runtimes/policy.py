"""The launch policy: kernels/launch.toml says for each op, kind of device and dtype how a kernel is launched."""

from __future__ import annotations

import sys
from functools import cache
from types import MappingProxyType
from typing import Any

from metalcore.errors import ArgumentError
from metalcore.runtimes.kernel import FOLDER

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VERSION = 1
FAMILIES = ("cpu", "apple")


@cache
def _table() -> dict[str, Any]:
    with open(FOLDER / "launch.toml", "rb") as file:
        table: dict[str, Any] = tomllib.load(file)
    if table.pop("version", None) != VERSION:
        raise ArgumentError(f"kernels/launch.toml is not of version {VERSION}")
    return table


@cache
def policy(op: str, family: str, dtype: str) -> MappingProxyType[str, Any]:
    """Values for an op on a family: those of `default`, then the op's own, then those of its dtype."""
    table, chosen = _table(), {}
    for section in (table["default"], table.get(op, {})):
        values = section.get(family, {})
        chosen.update({k: v for k, v in values.items() if not isinstance(v, dict)})
        chosen.update(values.get(dtype, {}))
    return MappingProxyType(chosen)
