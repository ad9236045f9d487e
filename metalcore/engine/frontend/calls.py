"""The call graph of unoptimised IR, and recursion, which Metal does not have.

Real Metal code still calls itself where a compiler sees the end of it: in tail position (MLX's LoopedElemToLoc), or
with an argument that rules the next call out (PyTorch's bessel_j1_forward(-x)). The first becomes a loop by itself.
The second is unrolled a few levels deep; when the optimiser finds that the last level is never reached, there is no
recursion left. Everything else is refused.
"""

from __future__ import annotations

import re

from metalcore.engine.frontend.diagnostics import Sources, at
from metalcore.engine.frontend.limits import check_inlined
from metalcore.engine.ir import parse
from metalcore.errors import CompileError

LEVELS = 2
_LAST = "__mc_recursion."
_FUNCTION = re.compile(
    r'^define [^\n]*?(@"[^"]*"|@[\w.$]+)\([^\n]*?(?: !dbg !(\d+))? \{\n(.*?)^}\n', re.MULTILINE | re.DOTALL
)
_SYMBOL = re.compile(r'@"[^"]*"|@[\w.$]+')


def resolve_recursion(ir: str, sources: Sources) -> str:
    """The IR without recursion; raises CompileError where a function can reach itself again and again."""
    check_inlined(parse(ir))
    bodies = {match[1]: match for match in _FUNCTION.finditer(ir)}
    graph = {name: [s for s in set(_SYMBOL.findall(m[3])) if s in bodies] for name, m in bodies.items()}
    for name, callees in graph.items():
        if name in callees and _only_tail_calls(name, bodies[name][3]):
            callees.remove(name)
    cycle = _cycle(graph)
    if cycle is None:
        return ir
    from metalcore.engine.codegen.llvm import optimise_scalar  # llvmlite: only where there is something to prove

    optimised = optimise_scalar(_unrolled(ir, bodies, _recursive(graph)))
    if _LAST in optimised:
        raise _error(ir, cycle, {name: m[2] for name, m in bodies.items()}, sources)
    return optimised


def _recursive(graph: dict[str, list[str]]) -> list[str]:
    """The functions that can reach themselves."""
    found = []
    for name, callees in graph.items():
        seen: set[str] = set()
        todo = list(callees)
        while todo:
            callee = todo.pop()
            if callee not in seen:
                seen.add(callee)
                todo += graph[callee]
        if name in seen:
            found.append(name)
    return found


def _unrolled(ir: str, bodies: dict[str, re.Match[str]], names: list[str]) -> str:
    """Each recursive function LEVELS more times, each copy calling the next; the last one calls an unknown function."""
    added = []
    for name in names:
        head, body = bodies[name][0].split("\n", 1)
        ir = ir.replace(bodies[name][0], head + "\n" + _calls_level(body, names, 1))
        for level in range(1, LEVELS + 1):
            copy = re.sub(rf"{re.escape(name)}(?=\()", _level(name, level), head)
            copy = re.sub(r"^define (?:dso_local |internal |linkonce_odr |weak_odr )*", "define internal ", copy)
            copy = re.sub(r" comdat(?:\([^)]*\))?| !dbg !\d+", "", copy)
            # Debug lines belong to one function only: the copies have none.
            added.append(copy + "\n" + re.sub(r", !dbg !\d+", "", _calls_level(body, names, level + 1)))
        result = re.match(r"define (?:dso_local |internal |linkonce_odr |weak_odr )*([^@]*)@", head)
        assert result is not None
        added.append(f"declare {result[1].strip()} {_level(name, LEVELS + 1)}(...)\n")
    return ir + "\n" + "".join(added)


def _level(name: str, level: int) -> str:
    plain = name.strip('@"')
    return f'@"{_LAST}{plain}"' if level > LEVELS else f'@"{plain}.level{level}"'


def _calls_level(body: str, names: list[str], level: int) -> str:
    for name in names:
        if level <= LEVELS:
            body = re.sub(rf"{re.escape(name)}(?![\w.$])", _level(name, level), body)
        else:
            last = _level(name, level)
            body = re.sub(rf"call ([^@\n]*){re.escape(name)}\(", lambda m, last=last: f"call {m[1]}(...) {last}(", body)  # type: ignore[misc]
    return body


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
        kept = result is not None and "store" in line and f" {result}, ptr %retval" in line
        if line.startswith("ret "):
            return True
        if branch:
            i = labels.get(branch[1], len(lines)) + 1
        elif not line or kept or "@llvm.lifetime.end" in line or re.match(r"%\d+ = load .*, ptr %retval", line):
            i += 1
        else:
            return False
    return False


def _cycle(graph: dict[str, list[str]]) -> list[str] | None:
    """Functions that call each other in a ring, found without recursion of our own."""
    done: set[str] = set()
    for root in graph:
        path: list[str] = [root] if root not in done else []
        stack = [(name, iter(graph[name])) for name in path]
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
