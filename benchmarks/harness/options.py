"""The options that benchmarks of many rows have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def row_options(quick: str, document: str = "the generated part of docs/performance.md") -> Callable[[Any], Any]:
    """--only, --quick (which is explained), --json and --write-docs."""
    path = click.Path(dir_okay=False, path_type=Path)
    options = (
        click.option("--only", multiple=True, help="Rows whose name contains this text (may be repeated)."),
        click.option("--quick", is_flag=True, help=quick),
        click.option("--json", "json_path", type=path, help="Keep the raw figures."),
        click.option("--write-docs", is_flag=True, help=f"Rewrite {document}."),
    )

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add
