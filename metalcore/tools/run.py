"""`metalcore run`: one kernel of a .metal file on arrays from the command line, or a program written for a Mac."""

from __future__ import annotations

import os
import runpy
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from metalcore.errors import SanitizerError
from metalcore.tools import values
from metalcore.tools.sanitize import Options, publish


def isolated(wanted: bool) -> AbstractContextManager[object]:
    """Every kernel inside in a sealed worker process, where that is wanted; all threads, so that none escapes."""
    if not wanted:
        return nullcontext()
    import metalcore
    from metalcore.engine.isolate.block import isolate_process

    return isolate_process(metalcore.isolate())


def run_script(arguments: Sequence[str], mode: str) -> None:
    """Run a Python program as `python FILE ARG...` would, inside emulate()."""
    import metalcore

    path = Path(arguments[0])
    if not path.is_file():
        raise click.UsageError(f"there is no file {path}")
    sys.argv = list(arguments)
    sys.path.insert(0, str(path.parent.resolve()))
    with metalcore.emulate(), metalcore.mode(mode):
        runpy.run_path(str(path), run_name="__main__")


def run_kernel(
    file: str,
    kernel: str,
    words: Sequence[str],
    threads: tuple[int, ...] | None,
    threadgroups: tuple[int, ...] | None,
    group_size: tuple[int, ...] | None,
    constants: tuple[tuple[str, str], ...],
    threadgroup_memory: tuple[tuple[str, str], ...],
    save: tuple[str, ...],
    mode: str,
    math_mode: str,
    include: tuple[str, ...],
    define: tuple[str, ...],
    repeat: int,
    isolate: bool = False,
    sanitize: Options | None = None,
    prelude: str | None = None,
) -> int:
    """Compile one kernel, run it, show what it wrote; the exit status is 0 unless sanitize mode found something."""
    if isolate:
        options = {key: value for key, value in locals().items() if key != "isolate"}
        with isolated(True):
            return run_kernel(**options)
    import metalcore
    from metalcore.engine.modes import sanitize_process

    report = sanitize.new_report() if sanitize else None
    console = Console()
    arguments = [values.parse(word) for word in words]
    library = open_library(file, include, define, math_mode, prelude)
    with working(console, f"compiling {kernel}"):
        started = time.perf_counter()
        function = library.function(kernel, values.keyed(constants, "--constant"))
        compiled = time.perf_counter() - started
    written = [a for a in function.arguments if a.kind in ("buffer", "value") and a.writable and a.enabled]
    plan = _save_plan(save, written, arguments)
    if threads is None and threadgroups is None:
        threads = (_default_threads(arguments),)
    memory = values.keyed(threadgroup_memory, "--threadgroup-memory")
    times = []
    in_mode = sanitize_process(report) if report is not None else metalcore.mode(mode)
    with working(console, f"running {kernel}"), in_mode, suppress(SanitizerError):  # --fail-fast: the report says it
        for _ in range(max(1, repeat)):
            started = time.perf_counter()
            try:
                function(
                    *arguments,
                    threads=threads,
                    threadgroups=threadgroups,
                    group_size=group_size,
                    threadgroup_memory=memory or None,
                )
            finally:
                times.append(time.perf_counter() - started)
    grid = f"threads {_show(threads)}" if threads else f"threadgroups {_show(threadgroups)}"
    console.print(
        f"[bold]{kernel}[/bold]: {grid}, group {_show(group_size)}, mode {'sanitize' if sanitize else mode}; "
        f"compiled in {compiled * 1e3:.0f} ms, first call {times[0] * 1e3:.1f} ms"
        + (f", median of {repeat} {statistics.median(times) * 1e3:.3f} ms" if repeat > 1 else "")
    )
    console.print(_summary(written, arguments))
    for index, path in plan:
        _save(arguments[index], path)
        console.print(f"saved argument {index} to {path}")
    return publish(report, sanitize, sys.stderr, os.getcwd()) if report is not None and sanitize else 0


def open_library(
    file: str, include: Sequence[str], define: Sequence[str], math_mode: str = "safe", prelude: str | None = None
) -> Any:
    """The library in a file, with -I and -D as a compiler takes them, and the text of file *prelude* in front of it."""
    import metalcore

    path = Path(file)
    if not path.is_file():
        raise click.UsageError(f"there is no file {file}")
    defines: dict[str, object] = {}
    for text in define:
        name, equals, value = text.partition("=")
        defines[name] = value if equals else 1
    front = ""
    if prelude is not None:
        if not Path(prelude).is_file():
            raise click.UsageError(f"there is no file {prelude} for --prelude")
        front = Path(prelude).read_text(encoding="utf-8")
    return metalcore.Library(path, include_dirs=include, defines=defines, math_mode=math_mode, prelude=front)


def working(console: Console, text: str) -> Progress:
    """A spinner with the time it takes, gone when done; nothing where the output is not a terminal."""
    progress = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
    )
    progress.disable = not console.is_terminal
    progress.add_task(text, total=None)
    return progress


def _default_threads(arguments: Sequence[Any]) -> int:
    for value in arguments:
        if isinstance(value, np.ndarray):
            return int(value.size)
    raise click.UsageError("give --threads or --threadgroups: there is no array whose size could be taken")


def _show(sizes: tuple[int, ...] | None) -> str:
    return "default" if sizes is None else " x ".join(map(str, sizes))


def _summary(written: Sequence[Any], arguments: Sequence[Any]) -> Table:
    table = Table(title="what the kernel may have written", title_justify="left")
    for heading in ("buffer", "name", "dtype", "shape", "min", "max", "mean", "first values"):
        table.add_column(heading)
    for argument in written:
        value = arguments[argument.index] if argument.index < len(arguments) else None
        if not isinstance(value, np.ndarray):
            continue
        shape = "x".join(map(str, value.shape))
        table.add_row(str(argument.index), argument.name, value.dtype.name, shape, *_statistics(value))
    return table


def _statistics(value: np.ndarray[Any, Any]) -> tuple[str, str, str, str]:
    if value.size == 0:
        return "", "", "", "(empty)"
    shown = value if value.dtype.kind in "biuc" else value.astype(np.float64)
    first = " ".join(f"{item:.6g}" if shown.dtype.kind == "f" else str(item) for item in shown.reshape(-1)[:4])
    if value.dtype.kind == "c":
        return "", "", f"{shown.mean():.6g}", first
    plain = shown.astype(np.float64) if shown.dtype.kind == "b" else shown
    return f"{plain.min():.6g}", f"{plain.max():.6g}", f"{plain.mean():.6g}", first + (" ..." if value.size > 4 else "")


def _save_plan(save: Sequence[str], written: Sequence[Any], arguments: Sequence[Any]) -> list[tuple[int, Path]]:
    """Which argument goes to which file; wrong names are an error before anything runs."""
    names = {argument.name: argument.index for argument in written}
    plan = []
    for text in save:
        left, equals, right = text.partition("=")
        if not equals:
            folder = Path(text)
            os.makedirs(folder, exist_ok=True)
            plan += [(index, folder / f"{name}.npy") for name, index in names.items() if _is_array(arguments, index)]
            continue
        index = int(left) if left.isdigit() else names.get(left, -1)
        if not _is_array(arguments, index):
            known = ", ".join(f"{i} ({name})" for name, i in names.items()) or "none"
            raise click.UsageError(f"--save {text}: there is no array '{left}'; the kernel writes {known}")
        plan.append((index, Path(right)))
    return plan


def _is_array(arguments: Sequence[Any], index: int) -> bool:
    return 0 <= index < len(arguments) and isinstance(arguments[index], np.ndarray)


def _save(value: np.ndarray[Any, Any], path: Path) -> None:
    # .npy has no bfloat16; float32 holds every one of them exactly.
    plain = value.astype(np.float32) if value.dtype.name == "bfloat16" else value
    with open(path, "wb") as file:
        np.save(file, plain)
