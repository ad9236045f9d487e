"""`metalcore check`: compile every kernel of each file, and lint."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

import metalcore.lint
from metalcore.diagnostics import Diagnostic, Rule, render
from metalcore.errors import MetalcoreError
from metalcore.lint.body import is_body, wrap
from metalcore.lint.embedded import MadeAtRunTime, embedded
from metalcore.lint.front import Options, Source
from metalcore.lint.registry import LEVELS, RULES, unknown
from metalcore.lint.run import lint

CLEAN, FOUND, FAILED = 0, 1, 2
MANY = 3  # files, from which on progress is shown
COMPILE_ERROR = Rule("compile-error", "the source does not compile", "mend what the compiler says", "error")
Found = dict[tuple[str, str, int], Diagnostic]  # by rule, file and line
PAGES = Path(metalcore.lint.__file__).parent / "pages"


def check_files(
    files: Sequence[str],
    format: str,
    include: Sequence[str],
    define: Sequence[str],
    silence: Sequence[str],
    only: Sequence[str],
    level: str,
    metal_version: str,
    math_mode: str | None,
    mlx: bool | None,
    output: str | None = None,
) -> int:
    """Lint each file and print what was found, or write it to *output*; answers the exit status."""
    rules = _chosen(silence, only)
    if not files:
        raise click.UsageError("no file is given")
    files = list(_expanded(files))
    options = Options(tuple(include), _defines(define), math_mode or "fast", _version(metal_version))
    found: Found = {}
    failures: list[Diagnostic] = []
    console = Console(stderr=True)
    quiet = len(files) < MANY or not console.is_terminal
    with Progress(console=console, transient=True, disable=quiet) as progress:
        for file in progress.track(files, description="checking"):
            _check(file, options, rules, math_mode, mlx, found, failures)
    wanted = LEVELS[LEVELS.index(level) :]
    shown = [d for d in found.values() if d.level in wanted]
    if format != "text":
        shown += failures
    tool = "metalcore check"
    listed = [*RULES.values(), COMPILE_ERROR]
    colour = format == "text" and output is None and sys.stdout.isatty()
    if shown or not failures or format != "text" or output:
        text = render(shown, format, colour=colour, tool=tool, rules=listed)
        if output in (None, "-"):
            click.echo(text, nl=False)
        else:
            Path(str(output)).write_text(text, encoding="utf-8")
    if failures:
        return FAILED
    return FOUND if shown else CLEAN


def _expanded(files: Sequence[str]) -> Iterator[str]:
    """A folder stands for all Metal and Python files in it, but for hidden folders and environments."""
    for file in files:
        if not os.path.isdir(file):
            yield file
            continue
        found = []
        for folder, inside, names in os.walk(file):
            inside[:] = [n for n in inside if n[0] != "." and n != "__pycache__" and not _is_environment(folder, n)]
            found += [os.path.normpath(os.path.join(folder, n)) for n in names if n.endswith((".metal", ".py"))]
        yield from sorted(found) or [file]


def _is_environment(folder: str, name: str) -> bool:
    return name == "node_modules" or os.path.isfile(os.path.join(folder, name, "pyvenv.cfg"))


def _check(
    file: str,
    options: Options,
    rules: set[str],
    math_mode: str | None,
    mlx: bool | None,
    found: Found,
    failures: list[Diagnostic],
) -> None:
    """Lint one file; an error that keeps it from being linted goes to *failures* and to standard error."""
    try:
        text = _read(file)
        if file.endswith(".py"):
            _check_program(file, text, options, rules, math_mode, found, failures)
            return
        source = Source(file, text)
        if mlx or (mlx is None and is_body(text)):
            # MLX compiles in safe mode.
            options = replace(options, math_mode=math_mode or "safe")
            source = wrap(source, options)
    except MetalcoreError as error:
        _fail(file, error, failures)
        return
    _lint(file, source, options, rules, found, failures)


def _check_program(
    file: str,
    text: str,
    options: Options,
    rules: set[str],
    math_mode: str | None,
    found: Found,
    failures: list[Diagnostic],
) -> None:
    """Lint the sources that a Python program has as literals; what is said of each names the program's lines."""
    try:
        sources = list(embedded(text))
    except (SyntaxError, ValueError) as error:
        raise MetalcoreError(f"it is no Python that can be read: {error}") from None
    for each in sources:
        if isinstance(each, MadeAtRunTime):
            click.echo(
                f"metalcore: {file}:{each.line}: the source of {each.function} is made at run time: not checked",
                err=True,
            )
            continue
        own = options
        source = Source(file, each.padded)
        if each.is_body:
            own = replace(options, math_mode=math_mode or "safe")
            source = wrap(source, own, each.header)
        inside: Found = {}
        _lint(file, source, own, rules, inside, failures)
        for diagnostic in inside.values():
            line = min(diagnostic.line, each.last)
            placed = diagnostic if line == diagnostic.line else replace(diagnostic, line=line, column=0)
            found.setdefault((placed.rule, placed.file, placed.line), placed)


def _lint(
    file: str,
    source: Source,
    options: Options,
    rules: set[str],
    found: Found,
    failures: list[Diagnostic],
) -> None:
    outcome = lint(source, options, rules)
    for diagnostic in outcome.diagnostics:
        found.setdefault((diagnostic.rule, diagnostic.file, diagnostic.line), diagnostic)
    if outcome.error is not None:
        _fail(file, outcome.error, failures)
    else:
        for note in outcome.notes:
            click.echo(f"metalcore: {file}: {note}", err=True)


def _read(file: str) -> str:
    """The text of a file, or an error that says what it is instead."""
    try:
        data = Path(file).read_bytes()
    except FileNotFoundError:
        raise MetalcoreError("there is no such file") from None
    except IsADirectoryError:
        raise MetalcoreError("it is a folder with no .metal and no .py file in it") from None
    except OSError as error:
        raise MetalcoreError(f"it cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MetalcoreError(f"line {line}: it is not UTF-8 text") from None
    if "\0" in text:
        raise MetalcoreError("it is not text, it holds a zero byte")
    return text


def _fail(file: str, error: MetalcoreError, failures: list[Diagnostic]) -> None:
    click.echo(f"metalcore: {file}: {error}", err=True)
    place = (getattr(error, "filename", None) or file, getattr(error, "lineno", None) or 1)
    column = getattr(error, "offset", None) or 1
    first = str(error).split("\n", 1)[0]
    failures.append(Diagnostic(COMPILE_ERROR.id, "error", *place, column, first, remedy=COMPILE_ERROR.remedy))


def _chosen(silence: Sequence[str], only: Sequence[str]) -> set[str]:
    for name in (*silence, *only):
        if name not in RULES:
            raise click.UsageError(unknown(name))
    return (set(only) or set(RULES)) - set(silence)


def _defines(given: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise click.UsageError(f"-D takes NAME or NAME=VALUE, not '{text}'")
        found[name] = value if equals else 1
    return found


def _version(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise click.UsageError(f"--metal-version is a number such as 3.1, not '{text}'")
    return int(match[1]), int(match[2] or 0)


def list_rules() -> None:
    """Every rule with its level and what it finds."""
    width = max(map(len, RULES))
    for rule in RULES.values():
        click.echo(f"{rule.id:<{width}}  {rule.level:<7}  {rule.title}")


def explain(name: str) -> None:
    """The page of a rule, where the pages are installed, or what the registry says."""
    rule = RULES.get(name)
    if rule is None:
        raise click.UsageError(unknown(name))
    page = PAGES / f"{name}.md"
    if os.path.isfile(page):
        click.echo(page.read_text(encoding="utf-8").rstrip())
        return
    click.echo(f"{rule.id} ({rule.level}): {rule.title}\n\nInstead: {rule.remedy}")
    click.echo(f"Silence it: --silence {rule.id}, or a comment: // metalcore: silence({rule.id})")
