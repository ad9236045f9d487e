"""`metalcore demo`: real Metal kernels on this CPU, next to NumPy, and a broken one being caught."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """A kernel with its arguments, and the same thing in NumPy."""

    name: str
    size: str
    arguments: list[Any]
    output: int  # which argument holds the result
    numpy: Callable[[], Array]
    tolerance: float  # largest error allowed, relative to the largest value
    launch: dict[str, Any]
    reset: bool = False  # the kernel adds to its output, which has to start afresh
    initial: Array | None = field(default=None)


def show(quick: bool) -> bool:
    """Run everything and print it; whether all results were right and the broken kernel was caught."""
    console = Console()
    folder = examples()
    cases = _cases(64 if quick else 1)
    table = Table(title="Metal kernels on this CPU", title_justify="left")
    for heading in ("kernel", "size", "error", "metalcore", "NumPy", "speed", ""):
        table.add_column(heading, justify="left" if heading in ("kernel", "size", "") else "right", no_wrap=True)
    right = True
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    )  # fmt: skip
    with bar as progress:
        task = progress.add_task("compiling and running", total=len(cases))
        for case in cases:
            progress.update(task, description=f"compiling and running {case.name}")
            good, row = _run(folder, case, 3 if quick else 7)
            right &= good
            table.add_row(*row)
            progress.advance(task)
    console.print(table)
    console.print("error: the largest one, relative to the largest value; speed: NumPy's time over metalcore's")
    caught = _catch(folder, console)
    return right and caught


def examples() -> Path:
    """The folder of the examples: in the package of a wheel, beside it in a clone."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "examples", package.parent / "examples"):
        if (folder / "saxpy.metal").is_file():
            return folder
    raise click.ClickException("the folder 'examples' is missing: pip install --force-reinstall metalcore-kernels")


def _run(folder: Path, case: Case, repeats: int) -> tuple[bool, list[str]]:
    import metalcore

    function = metalcore.Library(folder / f"{case.name}.metal").function(case.name)

    def launch() -> None:
        if case.reset:
            case.arguments[case.output][...] = 0
        elif case.initial is not None:
            np.copyto(case.arguments[case.output], case.initial)
        function(*case.arguments, **case.launch)

    expected = case.numpy()
    launch()
    result = case.arguments[case.output].astype(np.float64)
    error = float(np.abs(result - expected).max() / max(np.abs(expected).max(), 1e-30))
    good = math.isfinite(error) and error <= case.tolerance
    ours, theirs = _median(lambda: function(*case.arguments, **case.launch), repeats), _median(case.numpy, repeats)
    verdict = "[green]ok[/green]" if good else "[red]wrong[/red]"
    shown = "exact" if error == 0 else f"{error:.1e}"
    times = [f"{ours * 1e3:.2f} ms", f"{theirs * 1e3:.2f} ms", f"{theirs / ours:.2f}x"]
    return good, [case.name, case.size, shown, *times, verdict]


def _median(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _cases(shrink: int) -> list[Case]:
    rng = np.random.default_rng(0)
    count, rows, columns, edge = 4_000_000 // shrink, 1024 // shrink, 1024, 512 if shrink == 1 else 96
    x = rng.standard_normal(count).astype(np.float32)
    y = rng.standard_normal(count).astype(np.float32)
    matrix = rng.standard_normal((rows, columns)).astype(np.float32)
    weight = rng.standard_normal(columns).astype(np.float32)
    left = rng.standard_normal((edge, edge)).astype(np.float32)
    right = rng.standard_normal((edge, edge)).astype(np.float32)
    data = rng.integers(0, 256, count).astype(np.uint8)
    row_launch = {"threadgroups": rows, "group_size": 256}
    shape = f"{rows}x{columns}"
    return [
        Case("saxpy", f"{count:,}", [x, y.copy(), 2.5], 1, lambda: np.float32(2.5) * x + y, 1e-6,
             {"threads": count, "group_size": 256}, initial=y),
        Case("gelu", f"{count:,}", [x, np.zeros_like(x)], 1, lambda: _gelu(x), 1e-6,
             {"threads": count, "group_size": 256}),
        Case("rms_norm", shape, [matrix, weight, np.zeros_like(matrix), columns, 1e-5], 2,
             lambda: _rms_norm(matrix, weight), 2e-6, row_launch),
        Case("softmax", shape, [matrix, np.zeros_like(matrix), columns], 1, lambda: _softmax(matrix), 2e-6, row_launch),
        Case("matmul", f"{edge}x{edge}x{edge}", [left, right, np.zeros_like(left), (edge, edge, edge)], 2,
             lambda: left @ right, 1e-5, {"threads": (edge, edge), "group_size": (16, 16)}),
        Case("histogram", f"{count:,}", [data, np.zeros(256, np.uint32), count], 1,
             lambda: np.bincount(data, minlength=256), 0.0, {"threads": 8192, "group_size": 256}, reset=True),
    ]  # fmt: skip


def _gelu(x: Array) -> Array:
    result: Array = (
        np.float32(0.5) * x * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)))
    )
    return result


def _rms_norm(x: Array, weight: Array) -> Array:
    result: Array = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(1e-5)) * weight
    return result


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    result: Array = e / e.sum(axis=1, keepdims=True)
    return result


def _catch(folder: Path, console: Console) -> bool:
    """Run the broken example, which must be caught."""
    import metalcore
    from metalcore.errors import KernelFault

    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    console.print("\nA kernel with a mistake (examples/broken.metal) on arrays of 1,000 elements:")
    try:
        metalcore.Library(folder / "broken.metal").function("blur")(x, y, threads=1000, group_size=256)
    except KernelFault as error:
        console.print(f"[green]caught[/green]: {escape(str(error))}", highlight=False, soft_wrap=True)
        return True
    console.print("[red]not caught[/red]")
    return False
