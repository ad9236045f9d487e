"""Rules that a kernel must keep to be valid C++ with a meaning in lockstep; the shrinker breaks them all the time."""

from __future__ import annotations

from tests.stress import tree as t
from tests.stress.walk import nodes


class Invalid(Exception):
    """The tree is no valid kernel."""


def validate(kernel: t.Kernel) -> None:
    tables = {table.name for table in kernel.tables}
    convergent: set[str] = set()
    known: set[str] = set()
    for function in kernel.functions:
        scope = [tables | {name for name, _ in function.parameters}]
        check_body(function.body, scope, known, loop=False, breakable=False)
        check_meetings(function.body, convergent)
        known.add(function.name)
        if any(meets(child, convergent) for _, child in nodes(function)):
            convergent.add(function.name)
    outer = tables | {b.name for b in kernel.buffers} | {a.name for a in kernel.attributes}
    outer |= {name for name, _, _ in kernel.shared}
    check_body(kernel.body, [outer], known, loop=False, breakable=False)
    check_meetings(kernel.body, convergent)


def check_body(body: t.Body, scopes: list[set[str]], functions: set[str], loop: bool, breakable: bool) -> None:
    scopes = [*scopes, set()]
    for s in body:
        if isinstance(s, (t.Break, t.Continue)):
            if not (loop if isinstance(s, t.Continue) else breakable):
                raise Invalid("break or continue outside a loop")
        elif isinstance(s, t.If):
            check_expression(s.cond, scopes, functions)
            check_body(s.then, scopes, functions, loop, breakable)
            check_body(s.other, scopes, functions, loop, breakable)
        elif isinstance(s, t.For):
            check_expression(s.start, scopes, functions)
            inner = [*scopes, {s.name}]
            check_expression(s.cond, inner, functions)
            check_body(s.body, inner, functions, True, True)
        elif isinstance(s, (t.While, t.DoWhile)):
            check_expression(s.cond, scopes, functions)
            check_body(s.body, scopes, functions, True, True)
        elif isinstance(s, t.Switch):
            check_expression(s.value, scopes, functions)
            labels = [label for case in s.cases for label in case.labels]
            if len(labels) != len(set(labels)):
                raise Invalid("a case twice")
            for case in s.cases:
                check_body(case.body, scopes, functions, loop, True)
        else:
            for _, child in nodes(s):
                check_node(child, scopes, functions)
            if isinstance(s, t.Decl):
                scopes[-1].add(s.name)


def check_expression(e: t.Expr, scopes: list[set[str]], functions: set[str]) -> None:
    check_node(e, scopes, functions)
    for _, child in nodes(e):
        check_node(child, scopes, functions)


def check_node(e: object, scopes: list[set[str]], functions: set[str]) -> None:
    if isinstance(e, t.Var) and not any(e.name in scope for scope in scopes):
        raise Invalid(f"{e.name} is not in scope")
    if isinstance(e, t.Call) and e.function not in functions:
        raise Invalid(f"{e.function} is not declared")


def meets(e: object, convergent: set[str]) -> bool:
    """True where lanes work together."""
    if isinstance(e, t.Library):
        return e.function.startswith(("simd_", "quad_"))
    return isinstance(e, t.Call) and e.function in convergent


def check_meetings(body: t.Body, convergent: set[str]) -> None:
    """Lanes leave a loop in different rounds. In a block that only leads out of the loop it is nowhere defined which
    of them are together, so no simd function may stand there."""

    def touches(*expressions: t.Expr | None) -> bool:
        return any(
            meets(e, convergent) or any(meets(c, convergent) for _, c in nodes(e)) for e in expressions if e is not None
        )

    def go(body: t.Body, after: bool, at_break: bool, at_continue: bool, loop: bool) -> bool:
        """`after`: the next round can be reached from behind the body; returns the same for its start."""
        for s in reversed(body):
            if isinstance(s, t.Break):
                after = at_break
            elif isinstance(s, t.Continue):
                after = at_continue
            elif isinstance(s, t.Return):
                after = False
            elif isinstance(s, t.If):
                yes = go(s.then, after, at_break, at_continue, loop)
                no = go(s.other, after, at_break, at_continue, loop)
                after = yes or no
            elif isinstance(s, t.Switch):
                fall, any_case = after, False
                for case in reversed(s.cases):
                    fall = go(case.body, fall, after, at_continue, loop)
                    any_case = any_case or fall
                after = any_case or (after and all(None not in case.labels for case in s.cases))
            elif isinstance(s, (t.For, t.While, t.DoWhile)):
                go(s.body, after or not loop, False, after or not loop, True)
            expressions: list[t.Expr | None] = []
            if isinstance(s, (t.If, t.For, t.While, t.DoWhile)):
                expressions = [s.cond]
            elif isinstance(s, t.Switch):
                expressions = [s.value]
            elif not isinstance(s, (t.Break, t.Continue, t.Barrier)):
                expressions = [getattr(s, n, None) for n in ("init", "value", "target", "index")]
            if loop and not after and touches(*expressions):
                raise Invalid("a simd function in a block that only leads out of a loop")
        return after

    go(body, False, False, False, False)
