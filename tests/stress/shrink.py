"""Makes a failing kernel small: deletes statements, opens up control flow, replaces expressions, cuts the launch.

The caller says with `fails(kernel)` whether a candidate still shows the same fault. It is asked only about kernels that
keep the rules of `validate`; that they are defined is for the interpreter to find out, before the engine is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tests.stress import tree as t
from tests.stress.types import BOOL, Array, Pointer, Scalar, Struct, Type, Vector
from tests.stress.validate import Invalid, validate
from tests.stress.walk import EXPRESSIONS, STATEMENTS, Path, delete, get, mentions, nodes, put

LAUNCHES = (
    ((1, 1, 1), (1, 1, 1)),
    ((1, 1, 1), (32, 1, 1)),
    ((2, 1, 1), (32, 1, 1)),
    ((4, 1, 1), (32, 1, 1)),
    ((32, 1, 1), (32, 1, 1)),
    ((33, 1, 1), (64, 1, 1)),
    ((64, 1, 1), (64, 1, 1)),
    ((2, 2, 1), (2, 2, 1)),
    ((5, 7, 1), (5, 7, 1)),
    ((8, 4, 1), (8, 4, 1)),
)


class Shrinker:
    def __init__(self, kernel: t.Kernel, fails: Callable[[t.Kernel], bool], tell: Callable[[str], None]) -> None:
        self.kernel = kernel
        self.fails = fails
        self.tell = tell
        self.asked = 0
        self.tried: set[int] = set()

    def attempt(self, candidate: t.Kernel) -> bool:
        """Takes the candidate if it still fails."""
        key = hash(candidate)
        if key in self.tried:
            return False
        self.tried.add(key)
        try:
            validate(candidate)
        except Invalid:
            return False
        self.asked += 1
        if not self.fails(candidate):
            return False
        self.kernel = candidate
        self.tell(f"{size(candidate)} nodes left after {self.asked} trials")
        return True

    def run(self) -> t.Kernel:
        while True:
            before = self.kernel
            self.cut_launch()
            self.delete_statements()
            self.attempt(tidy(self.kernel))
            self.open_statements()
            self.zero_expressions()
            self.simplify_expressions()
            self.attempt(tidy(self.kernel))
            self.drop_functions()
            self.drop_parameters()
            if self.kernel == before:
                return self.kernel

    def drop_functions(self) -> None:
        """One at a time: the fault may be in a function that nothing calls any more."""
        for i in reversed(range(len(self.kernel.functions))):
            functions = self.kernel.functions
            self.attempt(replace(self.kernel, functions=functions[:i] + functions[i + 1 :]))
        self.attempt(tidy(self.kernel, keep_functions=True))

    def cut_launch(self) -> None:
        now = self.kernel
        for threads, group in LAUNCHES:
            fewer = threads[0] * threads[1] < now.threads[0] * now.threads[1]
            if fewer and self.attempt(relaunched(self.kernel, threads, group)):
                return

    def delete_statements(self) -> None:
        """Halves, quarters and so on of all statements, the last ones first, then single ones."""
        chunk = max(1, len(self.statements()) // 2)
        while True:
            end = len(self.statements())
            while end > 0:
                paths = self.statements()
                end = min(end, len(paths))
                start = max(0, end - chunk)
                self.attempt(delete(self.kernel, set(paths[start:end])))
                end = start
            if chunk == 1:
                return
            chunk //= 2

    def statements(self) -> list[Path]:
        return [path for path, node in nodes(self.kernel) if isinstance(node, (*STATEMENTS, t.Case))]

    def open_statements(self) -> None:
        """Puts the inside of an if, loop or switch in its place; a longer form gives way to a shorter one."""
        changed = True
        while changed:
            changed = False
            for path, node in list(nodes(self.kernel)):
                if any(self.attempt(put(self.kernel, path, new)) for new in insides(node)):
                    changed = True
                    break

    def zero_expressions(self) -> None:
        """Whole expressions of many statements become 0 at once, then of fewer and fewer."""
        roots = self.roots()
        chunk = max(1, len(roots) // 2)
        while chunk >= 1:
            for start in range(0, len(roots), chunk):
                candidate = self.kernel
                for path in roots[start : start + chunk]:
                    nothing = zero(get(candidate, path).type)
                    candidate = put(candidate, path, nothing) if nothing is not None else candidate
                self.attempt(candidate)
            chunk //= 2

    def roots(self) -> list[Path]:
        """Expressions that stand right in a statement."""
        found = []
        for path, node in nodes(self.kernel):
            if isinstance(node, STATEMENTS):
                for name in ("init", "value", "cond", "start"):
                    e = getattr(node, name, None)
                    if isinstance(e, EXPRESSIONS) and not isinstance(e, t.Lit):
                        found.append((*path, (name, None)))
        return found

    def simplify_expressions(self) -> None:
        """The outermost expressions first, so that large parts go in one step."""
        tried: set[tuple[Path, Any]] = set()
        while True:
            for path, node in list(nodes(self.kernel)):
                if not isinstance(node, EXPRESSIONS) or path[-1][0] == "target" or (path, node) in tried:
                    continue
                tried.add((path, node))
                if any(self.attempt(put(self.kernel, path, new)) for new in simpler(node)):
                    break
            else:
                return

    def drop_parameters(self) -> None:
        """Parameters of helpers, one at a time, and fields of structs."""
        for function in self.kernel.functions:
            for i in reversed(range(len(function.parameters))):
                self.attempt(without_parameter(self.kernel, function.name, i))


def size(kernel: t.Kernel) -> int:
    return sum(1 for _ in nodes(kernel))


def relaunched(kernel: t.Kernel, threads: tuple[int, int, int], group: tuple[int, int, int]) -> t.Kernel:
    """Another grid. Output buffers keep their size: a row of a 2-D grid keeps its old width there."""
    count = group[0] * group[1]
    shared = tuple((n, a if atomic else Array(a.element, max(count, 1)), atomic) for n, a, atomic in kernel.shared)
    return replace(kernel, threads=threads, group_size=group, shared=shared)


def insides(node: Any) -> Iterator[t.Body]:
    if isinstance(node, t.If):
        yield node.then
        if node.other:
            yield node.other
            yield (replace(node, other=()),)
    elif isinstance(node, t.For):
        yield (t.Decl(node.type, node.name, node.start), *node.body)
        yield node.body
    elif isinstance(node, (t.While, t.DoWhile)):
        yield node.body
    elif isinstance(node, t.Switch):
        for case in node.cases:
            yield tuple(s for s in case.body if not isinstance(s, t.Break))


def zero(type_: Type) -> t.Expr | None:
    """The plainest value of a type."""
    if isinstance(type_, Scalar):
        if type_ == BOOL:
            return t.Lit(BOOL, False)
        return t.Lit(type_, type_.dtype.type(0) if type_.is_float else 0)
    if isinstance(type_, Vector):
        inner = zero(type_.element)
        return t.Cast(type_, inner) if inner else None
    return None


def simpler(e: t.Expr) -> Iterator[t.Expr]:
    """Constants, then parts of the expression that have its type, then parts with a cast around."""
    literal = isinstance(e, t.Lit) or (isinstance(e, t.Cast) and isinstance(e.a, t.Lit))
    nothing = zero(e.type)
    if nothing is not None and e != nothing:
        yield nothing
    if isinstance(e.type, Scalar) and not literal:
        yield t.Lit(BOOL, True) if e.type == BOOL else t.Lit(e.type, e.type.dtype.type(1) if e.type.is_float else 1)
    if isinstance(e, t.Lit):
        if e.type.is_int and abs(e.value) > 1:
            yield t.Lit(e.type, e.value // 2)
        return
    parts = [child for _, child in nodes(e) if isinstance(child, EXPRESSIONS)]
    for part in parts:
        if part.type == e.type and not isinstance(e.type, Pointer):
            yield part
    for part in parts[:4]:
        if isinstance(part.type, Scalar) and isinstance(e.type, Scalar) and part.type != e.type:
            fits = not part.type.is_float or e.type.is_float or e.type == BOOL
            if fits and not (isinstance(e, t.Cast) and e.a == part):
                yield t.Cast(e.type, part)
    if isinstance(e, t.Ternary) and isinstance(e.type, Pointer):
        yield e.a
        yield e.b


def tidy(kernel: t.Kernel, keep_functions: bool = False) -> t.Kernel:
    """Without the functions, structs, tables, buffers and attributes that nothing uses."""
    while True:
        used = mentions(kernel)
        functions = tuple(f for f in kernel.functions if keep_functions or f.name in used)
        after = replace(
            kernel,
            functions=functions,
            tables=tuple(table for table in kernel.tables if table.name in used),
            buffers=tuple(b for b in kernel.buffers if b.name in used),
            attributes=tuple(a for a in kernel.attributes if a.name in used),
            shared=tuple(s for s in kernel.shared if s[0] in used),
            structs=tuple(s for s in kernel.structs if s in types_of(kernel)),
        )
        if after == kernel:
            return kernel
        kernel = after


def types_of(kernel: t.Kernel) -> set[Struct]:
    found = {getattr(node, "type", None) for _, node in nodes(kernel)}
    found |= {pt for f in kernel.functions for _, pt in f.parameters}
    return {s for s in found if isinstance(s, Struct)}


def without_parameter(kernel: t.Kernel, name: str, index: int) -> t.Kernel:
    functions = tuple(
        replace(f, parameters=(*f.parameters[:index], *f.parameters[index + 1 :])) if f.name == name else f
        for f in kernel.functions
    )
    kernel = replace(kernel, functions=functions)
    for path, node in reversed(list(nodes(kernel))):
        if isinstance(node, t.Call) and node.function == name:
            call = get(kernel, path)
            kernel = put(kernel, path, replace(call, args=(*call.args[:index], *call.args[index + 1 :])))
    return kernel


def shrink(
    kernel: t.Kernel, fails: Callable[[t.Kernel], bool], tell: Callable[[str], None] = lambda text: None
) -> t.Kernel:
    with np.errstate(all="ignore"):
        return Shrinker(kernel, fails, tell).run()
