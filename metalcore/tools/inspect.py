"""`metalcore inspect`: what a .metal file holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from metalcore.errors import ConstantError
from metalcore.tools import values
from metalcore.tools.run import open_library

FEW = 24  # kernels whose arguments are shown without being asked for: each has to be compiled


def inspect_file(
    file: str,
    as_json: bool,
    kernels: Sequence[str],
    everything: bool,
    constants: tuple[tuple[str, str], ...],
    include: Sequence[str],
    define: Sequence[str],
    prelude: str | None = None,
) -> None:
    """Print entry points, arguments and function constants."""
    library = open_library(file, include, define, prelude=prelude)
    for name in kernels:
        if name not in library.functions:
            raise click.UsageError(f"{file} has no kernel '{name}'; it has {', '.join(library.functions) or 'none'}")
    names = list(kernels) or list(library.functions)
    chosen = names if kernels or everything or len(names) <= FEW else []
    console = Console(stderr=True)
    details = _details(library, chosen, values.keyed(constants, "--constant"), console)
    if as_json:
        click.echo(json.dumps(_as_json(file, library, names, details), indent=2))
    else:
        _print(file, library, names, details)


def _details(library: Any, names: Sequence[str], constants: Any, console: Console) -> dict[str, Any]:
    """For each kernel its function, or the error that it gave."""
    found: dict[str, Any] = {}
    with Progress(console=console, transient=True, disable=len(names) < 4 or not console.is_terminal) as progress:
        for name in progress.track(names, description="compiling"):
            try:
                found[name] = library.function(name, constants)
            except ConstantError as error:
                found[name] = error  # it needs constants that were not given; its name is still worth showing
    return found


def _as_json(file: str, library: Any, names: Sequence[str], details: dict[str, Any]) -> dict[str, Any]:
    functions = []
    for name in names:
        entry: dict[str, Any] = {"name": name}
        function = details.get(name)
        if isinstance(function, Exception):
            entry["error"] = str(function)
        elif function is not None:
            entry["max_threads"] = function.max_threads
            entry["arguments"] = [_argument(argument) for argument in function.arguments]
        functions.append(entry)
    constants = [{"name": c.name, "index": c.index, "type": c.type, "required": c.required} for c in library.constants]
    return {"file": file, "functions": functions, "constants": constants}


def _argument(argument: Any) -> dict[str, Any]:
    shown = {
        "name": argument.name,
        "kind": argument.kind,
        "index": argument.index,
        "type": argument.type,
        "space": argument.space,
        "writable": argument.writable,
        "element_size": argument.element_size,
        "enabled": argument.enabled,
    }
    if argument.kind == "builtin":
        shown = {"name": argument.name, "kind": "builtin", "attribute": argument.attribute, "type": argument.type}
    return shown


def _print(file: str, library: Any, names: Sequence[str], details: dict[str, Any]) -> None:
    console = Console()
    console.print(f"{file}: {len(library.functions)} kernels, {len(library.constants)} function constants")
    if names and not details:
        for name in names:
            console.print(f"  {name}", highlight=False)
        console.print("Arguments are shown with --kernel NAME, or with --all, which compiles every kernel.")
    for name, function in details.items():
        console.print()
        if isinstance(function, Exception):
            console.print(f"[bold]{name}[/bold]: {escape(str(function))}", highlight=False)
            continue
        table = Table(title=f"{name} (at most {function.max_threads} threads in a group)", title_justify="left")
        for heading in ("where", "name", "type", "access"):
            table.add_column(heading)
        for argument in function.arguments:
            table.add_row(*_row(argument))
        console.print(table)
    if library.constants:
        console.print()
        table = Table(title="function constants", title_justify="left")
        for heading in ("index", "name", "type", "required"):
            table.add_column(heading)
        for constant in library.constants:
            table.add_row(str(constant.index), constant.name, constant.type, "yes" if constant.required else "no")
        console.print(table)


def _row(argument: Any) -> tuple[str, str, str, str]:
    if argument.kind == "builtin":
        return argument.attribute, argument.name, argument.type, ""
    where = f"threadgroup({argument.index})" if argument.kind == "threadgroup" else f"buffer({argument.index})"
    spelled = f"{argument.space} {argument.type}{'&' if argument.kind == 'value' else '*'}".strip()
    access = "disabled" if not argument.enabled else "read and write" if argument.writable else "read"
    return where, argument.name, spelled, access
