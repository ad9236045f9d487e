"""The call graph of unoptimised IR, and recursion, which Metal does not have.

Real Metal code still calls itself where a compiler sees the end of it: in tail position (MLX's LoopedElemToLoc), or
with an argument that rules the next call out (PyTorch's bessel_j1_forward(-x)). The first becomes a loop by itself.
The second is unrolled a few levels deep; when the optimiser finds that the last level is never reached, there is no
recursion left. Everything else is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from metalcore.engine.frontend.diagnostics import Sources, at
from metalcore.engine.frontend.limits import call_counts, check_inlined
from metalcore.engine.ir import DebugLines, Function, Instr, Module, copy_of, parse, quoted, rename_function
from metalcore.errors import CompileError

LEVELS = 2
_LAST = "__mc_recursion."
_RESULT = "%retval"  # what clang calls the variable that a function returns


def resolve_recursion(module: Module, sources: Sources) -> Module:
    """The module without recursion; raises CompileError where a function can reach itself again and again."""
    counts = call_counts(module)
    check_inlined(module, counts)
    graph = {name: list(callees) for name, callees in counts.items()}
    for name, callees in graph.items():
        if name in callees and _only_tail_calls(module.functions[name]):
            callees.remove(name)
    cycle = _cycle(graph)
    if cycle is None:
        return module
    from metalcore.engine.optimiser.llvm import optimise_scalar  # llvmlite: only where there is something to prove

    _unroll(module, _recursive(graph))
    optimised = parse(optimise_scalar(module))
    if any(name.startswith(_LAST) for name in optimised.functions):
        raise _error(module, cycle, sources)
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


def _unroll(module: Module, names: list[str]) -> None:
    """Each recursive function LEVELS more times, each copy calling the next; the last one calls an unknown function."""
    for name in names:
        function = module.functions[name]
        copies = [copy_of(module, function, _level(name, level)) for level in range(1, LEVELS + 1)]
        for level, each in enumerate((function, *copies)):
            _call_level(each, names, level + 1)
            module.functions[each.name] = each
        last = f"@{quoted(_level(name, LEVELS + 1))}"
        attributes = list(function.returned_attributes)
        module.declare(Function(last, function.returned, [], returned_attributes=attributes, is_variadic=True))


def _level(name: str, level: int) -> str:
    return f"{_LAST}{name}" if level > LEVELS else f"{name}.level{level}"


def _call_level(function: Function, names: list[str], level: int) -> None:
    for name in names:
        for instr in list(function.naming(name)):
            if level <= LEVELS:
                rename_function(instr, name, _level(name, level))
            elif instr.callee == name:
                instr.changed().extra.update(callee=_level(name, level), signature="(...)")


def _only_tail_calls(function: Function) -> bool:
    """Whether nothing happens between each call of a function in its own body and the return."""
    calls = function.naming(function.name)
    return all(call.callee == function.name and _returns_at_once(function, call) for call in calls)


def _returns_at_once(function: Function, call: Instr) -> bool:
    for instr in _following(function, call):
        if instr.op == "ret":
            return True
        kept = instr.op == "store" and instr.args[0] is call and _is_result(instr.args[1])
        taken = instr.op == "load" and _is_result(instr.args[0])
        if not (kept or taken or instr.callee.startswith("llvm.lifetime.end")):
            return False
    return False


def _following(function: Function, instr: Instr) -> Iterator[Instr]:
    """What is done behind an instruction, through branches that have one way; each block once."""
    block, seen = instr.block, set()
    start = block.instrs.index(instr) + 1 if block is not None else 0
    while block is not None and block not in seen:
        seen.add(block)
        *others, last = block.instrs[start:]
        yield from others
        block, start = (last.targets[0], 0) if last.op == "br" and len(last.targets) == 1 else (None, 0)
        if block is None:
            yield last


def _is_result(value: object) -> bool:
    return isinstance(value, Instr) and value.name == _RESULT


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


def _error(module: Module, cycle: list[str], sources: Sources) -> CompileError:
    lines, names, place = DebugLines(module.metadata), [], ("", 0)
    for symbol in cycle:
        scope = lines.scope(module.functions[symbol].debug)
        names.append(scope.name if scope else symbol)
        if scope and not place[0]:
            place = (scope.file, scope.line)
    ring = " -> ".join([*names, names[0]])
    return at(place[0] or sources.main, place[1], f"recursion is not supported in Metal: {ring}", sources)
