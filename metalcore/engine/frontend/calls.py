"""The call graph of unoptimised IR: recursion is refused, as Metal does.

A function that calls itself as its very last act is a loop to the compiler, Apple's and ours; MLX has one.
"""

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
    for name, callees in graph.items():
        if name in callees and _only_tail_calls(name, bodies[name][1]):
            callees.remove(name)
    cycle = _cycle(graph)
    if cycle is not None:
        raise _error(ir, cycle, {name: debug for name, (debug, _) in bodies.items()}, sources)


def _only_tail_calls(name: str, body: str) -> bool:
    """Whether nothing happens between each call of *name* in its own body and the return."""
    lines = body.splitlines()
    labels = {m[1]: i for i, line in enumerate(lines) if (m := re.match(r'("[^"]*"|[\w.$-]+):', line))}
    for start, line in enumerate(lines):
        if name not in _SYMBOL.findall(line):
            continue
        call = re.match(r"  (?:(%[\w.]+) = )?(?:tail )?call ", line)
        if call is None or not _returns_at_once(lines, labels, start + 1, call[1]):
            return False
    return True


def _returns_at_once(lines: list[str], labels: dict[str, int], i: int, result: str | None) -> bool:
    for _ in range(len(lines)):
        line = lines[i].strip() if i < len(lines) else "}"
        branch = re.match(r"br label %([^,]+)", line)
        if line.startswith("ret "):
            return True
        if branch:
            i = labels.get(branch[1], len(lines)) + 1
        elif (
            not line
            or "@llvm.lifetime.end" in line
            or (result and "store" in line and f" {result}, ptr %retval" in line)
        ) or re.match(r"%\d+ = load .*, ptr %retval", line):
            i += 1
        else:
            return False
    return False


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
