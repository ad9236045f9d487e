"""Runs a kernel's syntax tree for every thread of a launch.

The 32 lanes of a simdgroup go through the tree together with a list of the active ones, and join again at the end of
each construct. Simdgroups of a group take turns at barriers (they are Python generators that yield there).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from tests.stress import tree as t
from tests.stress.arith import Undefined, wrap
from tests.stress.expressions import (
    LETTERS,
    WIDTH,
    Frame,
    Lanes,
    Machine,
    Values,
    binary_values,
    convert,
    each,
    element,
    evaluate,
)
from tests.stress.simd import UNDEF
from tests.stress.types import Struct, result

Run = Generator[t.Barrier, None, Lanes]


@dataclass
class Simdgroup:
    machine: Machine
    frame: Frame
    alive: set[int] = field(default_factory=set)  # lanes that have not returned from the kernel


def run_body(s: Simdgroup, f: Frame, body: t.Body, lanes: Lanes) -> Run:
    """Returns the lanes that reach the end of the body."""
    for statement in body:
        if not lanes:
            break
        lanes = yield from run_statement(s, f, statement, lanes)
    return lanes


def run_statement(s: Simdgroup, f: Frame, x: t.Stmt, lanes: Lanes) -> Run:
    m = s.machine
    m.budget.spend(1)
    if isinstance(x, t.Decl):
        init = evaluate(m, f, x.init, lanes)
        old = f.variables.setdefault(x.name, [None] * WIDTH)
        for i in lanes:
            old[i] = init[i] if init[i] is UNDEF else convert(init[i], x.init.type, x.type)
    elif isinstance(x, t.Assign):
        assign(m, f, x, lanes)
    elif isinstance(x, t.If):
        cond = evaluate(m, f, x.cond, lanes)
        yes = yield from run_body(s, f, x.then, [i for i in lanes if cond[i]])
        no = yield from run_body(s, f, x.other, [i for i in lanes if not cond[i]])
        return sorted(yes + no)
    elif isinstance(x, t.For):
        start = evaluate(m, f, x.start, lanes)
        counter = f.variables.setdefault(x.name, [None] * WIDTH)
        for i in lanes:
            counter[i] = convert(start[i], x.start.type, x.type)
        return (yield from run_loop(s, f, x, lanes))
    elif isinstance(x, (t.While, t.DoWhile)):
        return (yield from run_loop(s, f, x, lanes))
    elif isinstance(x, t.Switch):
        return (yield from run_switch(s, f, x, lanes))
    elif isinstance(x, t.Break):
        f.breaks[-1].extend(lanes)
        return []
    elif isinstance(x, t.Continue):
        f.continues[-1].extend(lanes)
        return []
    elif isinstance(x, t.Return):
        if x.value is not None:
            values = evaluate(m, f, x.value, lanes)
            for i in lanes:
                f.returned[i] = (x.value.type, values[i])
        if f is s.frame:
            s.alive.difference_update(lanes)
        return []
    elif isinstance(x, t.Barrier):
        if set(lanes) != s.alive or f is not s.frame:
            raise Undefined("a barrier that some living threads do not reach")
        yield x
    else:
        run_atomic(m, f, x, lanes)
    return lanes


def run_loop(s: Simdgroup, f: Frame, x: t.For | t.While | t.DoWhile, lanes: Lanes) -> Run:
    m = s.machine
    done: Lanes = []
    active = lanes
    first = isinstance(x, t.DoWhile)
    while active:
        if not first:
            cond = evaluate(m, f, x.cond, active)
            done += [i for i in active if not cond[i]]
            active = [i for i in active if cond[i]]
            if not active:
                break
        first = False
        f.breaks.append([])
        f.continues.append([])
        active = yield from run_body(s, f, x.body, active)
        active = sorted(active + f.continues.pop())
        done += f.breaks.pop()
        if isinstance(x, t.For):
            counter = f.variables[x.name]
            for i in active:
                counter[i] = step_counter(x, counter[i])
    return sorted(done)


def step_counter(x: t.For, value: int) -> int:
    after = value + x.step
    if x.type.kind == "int" and x.type.bits >= 32 and not x.type.low <= after <= x.type.high:
        raise Undefined("a loop counter overflows")
    return wrap(x.type, after)


def run_switch(s: Simdgroup, f: Frame, x: t.Switch, lanes: Lanes) -> Run:
    value = evaluate(s.machine, f, x.value, lanes)
    labels = {label for case in x.cases for label in case.labels}
    has_default = None in labels
    f.breaks.append([])
    inside: Lanes = []
    for case in x.cases:
        entering = [i for i in lanes if value[i] in case.labels or (None in case.labels and value[i] not in labels)]
        inside = yield from run_body(s, f, case.body, sorted(inside + entering))
    skipped = [] if has_default else [i for i in lanes if value[i] not in labels]
    return sorted(inside + skipped + f.breaks.pop())


def assign(m: Machine, f: Frame, x: t.Assign, lanes: Lanes) -> None:
    value = evaluate(m, f, x.value, lanes)
    source = x.value.type
    if x.op != "=":
        op = x.op[:-1]
        value = binary_values(op, x.target.type, source, evaluate(m, f, x.target, lanes), value, lanes)
        source = result(op, x.target.type, source)
    stored = each(lanes, lambda i: convert(value[i], source, x.target.type))
    place(m, f, x.target, stored, lanes)


def place(m: Machine, f: Frame, target: t.Expr, values: Values, lanes: Lanes) -> None:
    """Stores into a variable, an array element, a field or components of a vector."""
    if isinstance(target, t.Var):
        old = f.variables[target.name]
        for i in lanes:
            old[i] = values[i]
    elif isinstance(target, t.Index):
        base = evaluate(m, f, target.base, lanes)
        index = evaluate(m, f, target.index, lanes)
        for i in lanes:
            if isinstance(base[i], list):
                if not 0 <= index[i] < len(base[i]):
                    raise Undefined(f"private array index {index[i]}")
                base[i][index[i]] = values[i]
            else:
                memory, offset = base[i]
                memory.store(offset + index[i], values[i], m.threads[i])
    elif isinstance(target, t.Member):
        assert isinstance(target.base.type, Struct)
        at = [target.base.type.position(target.field)]
        place(m, f, target.base, replaced(m, f, target.base, at, each(lanes, lambda i: (values[i],)), lanes), lanes)
    else:
        assert isinstance(target, t.Swizzle), target
        at = [LETTERS[c] for c in target.names]
        parts = values if len(at) > 1 else each(lanes, lambda i: (values[i],))
        place(m, f, target.base, replaced(m, f, target.base, at, parts, lanes), lanes)


def replaced(m: Machine, f: Frame, base: t.Expr, at: list[int], parts: Values, lanes: Lanes) -> Values:
    old = evaluate(m, f, base, lanes)

    def one(i: int) -> Any:
        items = list(old[i])
        for k, v in zip(at, parts[i], strict=True):
            items[k] = v
        return tuple(items)

    return each(lanes, one)


def run_atomic(m: Machine, f: Frame, x: t.Atomic, lanes: Lanes) -> None:
    base = evaluate(m, f, x.buffer, lanes)
    index = evaluate(m, f, x.index, lanes)
    value = evaluate(m, f, x.value, lanes)
    for i in lanes:
        memory, offset = base[i]
        memory.update(x.op, offset + index[i], value[i], 1 << element(x.value.type).bits, m.threads[i])


def call_function(s: Simdgroup, function: t.Function, args: list[Values], lanes: Lanes) -> Values:
    frame = Frame({name: list(v) for (name, _), v in zip(function.parameters, args, strict=True)})
    # No barrier in a function, so the generator ends without a yield.
    for _ in run_body(s, frame, function.body, lanes):
        raise Undefined("a barrier in a function")
    for i in lanes:
        if frame.returned[i] is None:
            raise Undefined(f"{function.name} ends without a return")
    return each(lanes, lambda i: convert(frame.returned[i][1], frame.returned[i][0], function.type))
