"""`metalcore families`: the table of Apple GPU families that launches may be held to."""

from __future__ import annotations

import json
import sys

import click
from rich.console import Console
from rich.table import Table

from metalcore.launch.families import LIMITS, Family, families, limits_of, table

HEADERS = {
    "max_threads": "threads",
    "threadgroup_memory": "group memory",
    "buffers": "buffers",
    "threadgroup_arguments": "group args",
    "constant_buffers": "constants",
    "constant_offset_alignment": "const align",
    "threadgroup_alignment": "group align",
}


def show_families(names: tuple[str, ...], as_json: bool) -> None:
    """Print every family, or those of the chips and families that are named."""
    chosen = _chosen(names)
    if as_json:
        rows = [row for row in table()["families"] if row["name"] in {family.name for family in chosen}]
        click.echo(json.dumps({**table(), "families": rows}, indent=1))
        return
    console = Console() if sys.stdout.isatty() else Console(width=180)
    limits = Table(title="Limits of a launch, by GPU family", title_justify="left")
    limits.add_column("family")
    limits.add_column("chips", overflow="fold")
    for name in LIMITS:
        limits.add_column(HEADERS[name], justify="right")
    for family in chosen:
        cells = [_marked(str(getattr(family.limits, name)), name in family.unconfirmed) for name in LIMITS]
        limits.add_row(family.name, ", ".join(family.chips), *cells)
    console.print(limits)
    features = Table(title="Features that kernels use", title_justify="left")
    features.add_column("feature")
    for family in chosen:
        features.add_column(family.name, justify="center")
    for name in table()["features"]:
        features.add_row(name, *(_feature(family, name) for family in chosen))
    console.print(features)
    console.print(f"Source: {table()['source']}.")
    if any(family.unconfirmed for family in chosen):
        console.print("? not confirmed: taken from the family before it.")
    if any(family.chip_features for family in chosen):
        console.print("part: only some chips of the family.")


def _marked(text: str, unconfirmed: bool) -> str:
    return f"{text} ?" if unconfirmed else text


def _feature(family: Family, name: str) -> str:
    if name in family.features:
        return _marked("yes", "features" in family.unconfirmed)
    return "part" if any(name == part for part, _ in family.chip_features) else "-"


def _chosen(names: tuple[str, ...]) -> tuple[Family, ...]:
    if not names:
        return families()
    wanted = set()
    for name in names:
        try:
            found = limits_of(name).name
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        wanted.add(found.rpartition("(")[2].rstrip(")"))
    return tuple(family for family in families() if family.name in wanted)
