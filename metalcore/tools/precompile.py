"""`metalcore precompile`: the library's kernels compiled into the cache ahead of time, for images and CI.

Each op is called as health calls it: its fuzzed cases, in each of its dtypes, with gradients. So the
real plans choose the kernels. What was compiled is noted in the cache, and a second run finds it there.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from metalcore import ops as library
from metalcore.engine import units
from metalcore.engine.store.cache import disk_cache
from metalcore.engine.store.identity import digest, key_of
from metalcore.errors import ArgumentError
from metalcore.health.verify import ROUTES, draw_sample
from metalcore.ops.base.op import FLOATS
from metalcore.settings import use_usual_torch

CASES = 24  # the first length of each is another one of draw.SIZES
_SOURCES = ("kernels", "ops", "runtimes", "health")
_NOTES = "precompiled"  # folder of the cache: the kernels of a piece, by its key
_COLUMNS = (TextColumn("{task.description:<40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


@dataclass(frozen=True)
class Piece:
    """An op in one dtype: what one process does at a time."""

    noun: str
    dtype: str
    cases: int
    route: str

    def key(self, sources: str) -> str:
        return key_of(_NOTES, self.noun, self.dtype, self.cases, self.route, sources)

    def run(self, sources: str) -> Done:
        """Call the op."""
        op, problem = library.find(self.noun), ""
        if units.used is None:
            units.used = {}
        for index in range(self.cases):
            try:
                ROUTES[self.route](op, draw_sample(op, index), self.dtype, index)
            except Exception as error:  # one case must not end the others
                problem = f"{op.public_name} {self.dtype}: case {index}: {type(error).__name__}: {error}"
        # What an earlier piece has loaded is not asked for again: the kernels of both are noted.
        if not problem:
            disk_cache().write_json(_NOTES, self.key(sources), sorted(units.used))
        return Done(set(units.used), {key for key, is_new in units.used.items() if is_new}, problem)

    def known(self, sources: str) -> Done | None:
        """Its kernels, where all of them are in the cache."""
        keys: list[str] | None = disk_cache().read_json(_NOTES, self.key(sources))
        is_whole = keys is not None and all(_is_there(key) for key in keys)
        return Done(set(keys), set(), "") if keys is not None and is_whole else None


class Done(NamedTuple):
    """The kernels of a piece, by their keys in the cache, those that were compiled for it, and what went wrong."""

    kernels: set[str]
    compiled: set[str]
    problem: str


@cache
def _is_there(key: str) -> bool:
    return disk_cache().read_binary("kernels", key) is not None


def pieces(names: Sequence[str], dtypes: Sequence[str], cases: int = CASES) -> list[Piece]:
    """Everything that is to be compiled; an unknown name is an error that lists the known ones."""
    known = {library.find(noun).public_name: noun for part in ("", *library.PARTS) for noun in library.nouns(part)}
    for name in names:
        if name not in known:
            raise ArgumentError(f"there is no op {name!r}; there are {', '.join(known)}")
    for dtype in dtypes:
        if dtype not in FLOATS:
            raise ArgumentError(f"there is no dtype {dtype!r}; there are {', '.join(FLOATS)}")
    route = "torch" if importlib.util.find_spec("torch") else "numpy"
    return [
        Piece(known[name], dtype, cases, route)
        for name in dict.fromkeys(names or known)
        for dtype in library.find(known[name]).dtypes
        if not dtypes or dtype in dtypes
    ]


def sources_key() -> str:
    """Changes with the files that decide which kernels an op launches."""
    package = Path(__file__).resolve().parent.parent
    files = sorted(p for name in _SOURCES for p in (package / name).rglob("*") if p.suffix in (".py", ".metal", ".h"))
    return key_of([(str(p.relative_to(package)), digest(p.read_bytes())) for p in files])


def precompile(names: Sequence[str], dtypes: Sequence[str], jobs: int | None) -> bool:
    """Compile what is not in the cache yet, say how much it was, and answer whether all went well."""
    begin, sources = time.perf_counter(), sources_key()
    found = {piece: piece.known(sources) for piece in pieces(names, dtypes)}
    done = [each for each in found.values() if each is not None]
    missing = [piece for piece, known in found.items() if known is None]
    with Progress(*_COLUMNS, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("compiling", total=len(missing))
        for piece, each in _run(missing, sources, jobs or os.cpu_count() or 1):
            done.append(each)
            progress.update(task, advance=1, description=f"{library.find(piece.noun).public_name} {piece.dtype}")
    problems = [each.problem for each in done if each.problem]
    for problem in problems:
        click.echo(f"FAIL {problem}", err=True)
    total, new = (len(set().union(*keys)) for keys in ([d.kernels for d in done], [d.compiled for d in done]))
    took, ops = time.perf_counter() - begin, len({piece.noun for piece in found})
    click.echo(f"{disk_cache().home}: {ops} ops, {total} kernels, {new} of them compiled now, {took:.1f} s")
    return not problems


def _run(work: Sequence[Piece], sources: str, jobs: int) -> Iterator[tuple[Piece, Done]]:
    if not work:
        return
    use_usual_torch()
    if jobs <= 1 or len(work) == 1:
        for piece in work:
            yield piece, piece.run(sources)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        started = {pool.submit(piece.run, sources): piece for piece in work}
        for done in as_completed(started):
            piece, error = started[done], done.exception()
            said = f"{piece.noun} {piece.dtype}: the process died: {type(error).__name__}: {error}"
            yield piece, done.result() if error is None else Done(set(), set(), said)
