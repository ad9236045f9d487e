"""The call graph of unoptimised IR: recursion is refused, as Metal does."""

from __future__ import annotations

import re

from metalcore.engine.frontend.diagnostics import Sources, at
from metalcore.errors import CompileError

_FUNCTION = re.compile(
    r'^define [^\n]*?(@"[^"]*"|@[\w.$]+)\([^\n]*?(?: !dbg !(\d+))? \{\n(.*?)^}', re.MULTILINE | re.DOTALL
)
_SYMBOL = re.compile(r'@"[^"]*"|@[\w.$]+')


def check_recursion(ir: str, sources: Sources) -> None:
    """Raise CompileError where a function can reach itself."""
    bodies = {name: (debug, body) for name, debug, body in _FUNCTION.findall(ir)}
    graph = {name: [s for s in set(_SYMBOL.findall(body)) if s in bodies] for name, (_, body) in bodies.items()}
    cycle = _cycle(graph)
    if cycle is not None:
        raise _error(ir, cycle, {name: debug for name, (debug, _) in bodies.items()}, sources)


def _cycle(graph: dict[str, list[str]]) -> list[str] | None:
    """Functions that call each other in a ring, found without recursion of our own."""
    done: set[str] = set()
    for root in graph:
        path: list[str] = []
        stack = [(root, iter(graph[root]))] if root not in done else []
        path.extend(name for name, _ in stack)
        while stack:
            name, callees = stack[-1]
            callee = next(callees, None)
            if callee is None:
                done.add(name)
                stack.pop()
                path.pop()
            elif callee in path:
                return path[path.index(callee) :]
            elif callee not in done:
                stack.append((callee, iter(graph[callee])))
                path.append(callee)
    return None


def _error(ir: str, cycle: list[str], debug: dict[str, str], sources: Sources) -> CompileError:
    names, place = [], ("", 0)
    for symbol in cycle:
        scope = re.search(
            rf'^!{debug[symbol]} = .*?DISubprogram\(name: "([^"]*)".*?file: !(\d+), line: (\d+)', ir, re.MULTILINE
        )
        if scope is None:
            names.append(symbol)
            continue
        names.append(scope[1])
        file = re.search(rf'^!{scope[2]} = !DIFile\(filename: "([^"]*)"', ir, re.MULTILINE)
        place = place if place[0] else (file[1] if file else "", int(scope[3]))
    ring = " -> ".join([*names, names[0]])
    return at(place[0] or sources.main, place[1], f"recursion is not supported in Metal: {ring}", sources)
