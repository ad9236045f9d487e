"""Runs a whole launch on the interpreter: threadgroups one after another, their simdgroups in turns at barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.stress import tree as t
from tests.stress.arith import Undefined, wrap
from tests.stress.expressions import WIDTH, Budget, Frame, Lanes, Machine, Values, element
from tests.stress.interpreter import Run, Simdgroup, call_function, run_body
from tests.stress.memory import Memory, from_cells, to_cells
from tests.stress.types import Vector

Arrays = dict[str, np.ndarray[Any, Any]]
STEPS = 8_000_000  # scalar evaluations before a kernel counts as endless


def run(kernel: t.Kernel, arrays: Arrays) -> Arrays:
    """Runs the launch; returns the arrays as they are afterwards."""
    memory = {}
    scalars = {}
    for buffer in kernel.buffers:
        cells = to_cells(arrays[buffer.name], buffer.type)
        if buffer.role == "uniform":
            scalars[buffer.name] = cells[0]
        else:
            memory[buffer.name] = Memory(buffer.name, cells, buffer.role != "input", buffer.role == "atomic")
    for table in kernel.tables:
        memory[table.name] = Memory(table.name, list(table.values), False)
    budget = Budget(STEPS)
    counts = [-(-n // g) for n, g in zip(kernel.threads, kernel.group_size, strict=True)]
    with np.errstate(all="ignore"):
        number = 0
        for z in range(counts[2]):
            for y in range(counts[1]):
                for x in range(counts[0]):
                    run_group(kernel, memory, scalars, (x, y, z), tuple(counts), number, budget)
                    number += 1
    out = {}
    for buffer in kernel.buffers:
        before = arrays[buffer.name]
        changed = buffer.role in ("output", "atomic")
        out[buffer.name] = from_cells(memory[buffer.name].cells, buffer.type, before) if changed else before
    return out


def run_group(
    kernel: t.Kernel,
    memory: dict[str, Memory],
    scalars: dict[str, Any],
    position: tuple[int, int, int],
    counts: tuple[int, ...],
    number: int,
    budget: Budget,
) -> None:
    """One threadgroup; at the edge of the grid it is smaller."""
    size = [min(g, n - p * g) for g, n, p in zip(kernel.group_size, kernel.threads, position, strict=True)]
    shared = {}
    for name, array, atomic in kernel.shared:
        shared[name] = Memory(name, [None] * array.size, True, atomic)
    total = size[0] * size[1] * size[2]
    running: list[tuple[Simdgroup, Run]] = []
    for first in range(0, total, WIDTH):
        lanes = list(range(min(WIDTH, total - first)))
        threads = [(number, first + i) for i in range(WIDTH)]
        group = make_simdgroup(kernel, {**memory, **shared}, threads, budget)
        variables = attribute_values(kernel, position, counts, size, first, lanes)
        variables.update({name: [value] * WIDTH for name, value in scalars.items()})
        group.frame.variables.update(variables)
        group.alive = set(lanes)
        running.append((group, run_body(group, group.frame, kernel.body, lanes)))
    ended = False  # a simdgroup came to the end of the kernel with living lanes
    while running:
        waiting = []
        at: set[int] = set()
        for group, generator in running:
            try:
                at.add(next(generator).number)
                waiting.append((group, generator))
            except StopIteration:
                ended = ended or bool(group.alive)
        if waiting and ended:
            raise Undefined("some simdgroups end while others wait at a barrier")
        if len(at) > 1:
            raise Undefined("simdgroups wait at different barriers")
        for block in shared.values():
            block.epoch += 1
        running = waiting


def make_simdgroup(
    kernel: t.Kernel, memory: dict[str, Memory], threads: list[tuple[int, int]], budget: Budget
) -> Simdgroup:
    def call(function: t.Function, args: list[Values], lanes: Lanes) -> Values:
        return call_function(group, function, args, lanes)

    machine = Machine({f.name: f for f in kernel.functions}, memory, threads, budget, call)
    group = Simdgroup(machine, Frame({}))
    return group


def attribute_values(
    kernel: t.Kernel,
    position: tuple[int, int, int],
    counts: tuple[int, ...],
    size: list[int],
    first: int,
    lanes: Lanes,
) -> dict[str, Values]:
    """The thread attributes of each lane, cut down to the type of the parameter."""
    total = size[0] * size[1] * size[2]

    def facts(lane: int) -> dict[str, tuple[int, ...]]:
        i = first + lane
        local = (i % size[0], i // size[0] % size[1], i // (size[0] * size[1]))
        return {
            "thread_position_in_threadgroup": local,
            "thread_position_in_grid": tuple(
                p * g + q for p, g, q in zip(position, kernel.group_size, local, strict=True)
            ),
            "threadgroup_position_in_grid": position,
            "threads_per_threadgroup": tuple(size),
            "dispatch_threads_per_threadgroup": kernel.group_size,
            "threads_per_grid": kernel.threads,
            "threadgroups_per_grid": tuple(counts),
            "thread_index_in_threadgroup": (i,),
            "thread_index_in_simdgroup": (lane,),
            "simdgroup_index_in_threadgroup": (first // WIDTH,),
            "simdgroups_per_threadgroup": (-(-total // WIDTH),),
            "threads_per_simdgroup": (WIDTH,),
            "thread_index_in_quadgroup": (lane % 4,),
            "quadgroup_index_in_threadgroup": (i // 4,),
        }

    out: dict[str, Values] = {a.name: [None] * WIDTH for a in kernel.attributes}
    for lane in lanes:
        known = facts(lane)
        for a in kernel.attributes:
            value = tuple(wrap(element(a.type), v) for v in known[a.attribute])
            out[a.name][lane] = value[: a.type.size] if isinstance(a.type, Vector) else value[0]
    return out
