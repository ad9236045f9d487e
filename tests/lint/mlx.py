"""Lints MLX's kernel headers through the files that instantiate them: `python -m tests.lint.mlx`.

Prints what each rule finds, by header and line; docs/rules/mlx_findings.md has a verdict on each.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from metalcore.diagnostics import Diagnostic
from metalcore.lint import Options, Source, lint
from tests.foreign.corpus import KERNELS, include_dirs, mlx_include, sources


def findings(files: list[Path], progress: Progress) -> tuple[list[Diagnostic], list[str]]:
    """What is found in MLX's own headers, each line once, and what went wrong."""
    found: dict[tuple[str, str, int], Diagnostic] = {}
    wrong: list[str] = []
    options = Options(tuple(str(folder) for folder in include_dirs("mlx")), math_mode="safe")
    for file in progress.track(files, description="checking"):
        outcome = lint(Source(str(file), file.read_text()), options)
        if outcome.error is not None:
            wrong.append(f"{file.name}: {outcome.error}")
        wrong += [f"{file.name}: {note}" for note in outcome.notes]
        for diagnostic in outcome.diagnostics:
            found.setdefault((diagnostic.rule, diagnostic.file, diagnostic.line), diagnostic)
    return sorted(found.values(), key=lambda d: (d.rule, d.file, d.line)), wrong


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Lint the headers that the files NAMES of tests/foreign/mlx use; all of them by default."""
    files = [file for file in sources("mlx") if not names or file.stem in names]
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        found, wrong = findings(files, progress)
    headers = mlx_include() / KERNELS
    for diagnostic in found:
        path = Path(diagnostic.file)
        shown = path.relative_to(headers) if path.is_relative_to(headers) else path.name
        click.echo(f"{diagnostic.rule}: {shown}:{diagnostic.line}: {diagnostic.message}")
    for message in wrong:
        click.echo(message, err=True)
    counts = Counter(diagnostic.rule for diagnostic in found)
    click.echo(
        f"{len(files)} files, {len(found)} findings: " + ", ".join(f"{r} {n}" for r, n in sorted(counts.items()))
    )
    sys.exit(2 if wrong else 0)


if __name__ == "__main__":
    main()
