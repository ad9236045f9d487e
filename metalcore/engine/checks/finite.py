"""NaNs and infinities that are made from finite values. Compiled in on request.

An operation of the user's code is judged by its operands. What a function of our headers does inside is its own affair:
only its result is judged, by what went into the function.
"""

from __future__ import annotations

from metalcore.engine.checks.program import Program, hook
from metalcore.engine.ir import I1, I16, I32, I64, Block, Builder, DebugLines, Instr, Module, Value, make

_EXPONENT = {
    "float": make.number(I32, 0x7F800000),
    "double": make.number(I64, 0x7FF0000000000000),
    "half": make.number(I16, 0x7C00),
    "bfloat": make.number(I16, 0x7F80),
}
_OPS = ("fadd", "fsub", "fmul", "fdiv", "frem", "fptrunc")
_MOST_STEPS = 400


def add(program: Program) -> None:
    _Finite(program).run()


class _Finite:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.dominators = _dominators(program.module.function.blocks)
        self.calls = _calls(program.raw)

    def run(self) -> None:
        known = set(self.program.instrs)
        leaving = {arg for user in self.program.instrs for arg in user.args if self._leaves(arg, user)}
        for instr in self.program.instrs:
            if instr.type.kind not in _EXPONENT:
                continue
            if instr in leaving:
                inputs = [v for v in self._inputs(instr) if self._reaches(v, instr)]
                if instr.op == "phi":  # nothing may stand between two of them
                    assert instr.block is not None
                    first = next(i for i in instr.block.instrs if i.op != "phi" and i in known)
                    self._check(self.program.before(first, instr.line), instr, inputs)
                else:
                    self._check(self.program.after(instr), instr, inputs)
            elif instr.op in _OPS and not self._is_inside(instr):
                self._check(self.program.after(instr), instr, [arg for arg in instr.args if isinstance(arg, Instr)])

    def _leaves(self, value: Value, user: Instr) -> bool:
        """Whether a value goes from a function of ours to code outside of it."""
        if not isinstance(value, Instr) or not self._is_inside(value):
            return False
        places = self.program.module.locations
        return (user.op == "phi" and not user.line) or places.get(value.line) != places.get(user.line)

    def _is_inside(self, instr: Instr) -> bool:
        """Whether it is part of a function of ours."""
        place = self.program.module.locations.get(instr.line)
        return place is not None and (place.line, place.column) in self.calls and instr.op != "load"

    def _inputs(self, result: Instr) -> list[Instr]:
        """What went into the function that made a value."""
        places = self.program.module.locations
        found: dict[Instr, None] = {}
        seen: set[Instr] = set()
        queue = [result]
        while queue and len(seen) < _MOST_STEPS:
            for arg in queue.pop().args:
                if not isinstance(arg, Instr) or arg in seen:
                    continue
                seen.add(arg)
                if self._is_inside(arg) and places.get(arg.line) == places.get(result.line):
                    queue.append(arg)
                elif arg.type.kind in _EXPONENT:
                    found[arg] = None
        return list(found)

    def _reaches(self, value: Instr, user: Instr) -> bool:
        assert value.block is not None and user.block is not None
        if value.block is user.block:
            return self.program.order[value] < self.program.order[user]
        return value.block in self.dominators[user.block]

    def _check(self, build: Builder, made: Instr, inputs: list[Instr]) -> None:
        test = _is_not_finite(build, made)
        for value in inputs:
            if value.type.kind not in _EXPONENT:
                continue
            good = build(make.binary("xor", _is_not_finite(build, value), make.number(I1, 1)))
            test = build(make.binary("and", test, good))
        build(hook("__mc_report_if", test, self.program.place("not-finite", made)))


def _is_not_finite(build: Builder, value: Instr) -> Instr:
    exponent = _EXPONENT[value.type.kind]
    number = build(make.cast("bitcast", value, exponent.type))
    return build(make.compare("eq", build(make.binary("and", number, exponent)), exponent))


def _calls(raw: Module) -> set[tuple[int, int]]:
    """Where functions of ours are called: they have no lines of their own, so what they do is found there."""
    own = {f.name for f in raw.defined() if not any(word.startswith("!dbg") for word in f.suffix)}
    lines = DebugLines(raw.metadata)
    found = set()
    for function in raw.defined():
        for instr in function.instructions():
            if instr.op == "call" and instr.callee in own and instr.line:
                found |= {(place.line, place.column) for place in (next(lines.frames(instr.line), None),) if place}
    return found


def _dominators(blocks: list[Block]) -> dict[Block, set[Block]]:
    """For each block, those that every way to it passes."""
    every = set(blocks)
    found = {block: ({block} if block is blocks[0] else every) for block in blocks}
    changed = True
    while changed:
        changed = False
        for block in blocks[1:]:
            before = [found[pred] for pred in block.preds]
            new = (set.intersection(*before) if before else set()) | {block}
            if new != found[block]:
                found[block], changed = new, True
    return found
