"""NaNs and infinities that are made from finite values. Compiled in on request.

An operation of the user's code is judged by its operands. What a function of our headers does inside is its own affair:
only its result is judged, by what went into the function.
"""

from __future__ import annotations

import re

from metalcore.engine.checks.program import Line, Program
from metalcore.engine.lockstep.ir import Block, Instr, Value

_EXPONENT = {
    "float": (32, 0x7F800000),
    "double": (64, 0x7FF0000000000000),
    "half": (16, 0x7C00),
    "bfloat": (16, 0x7F80),
}
_OPS = ("fadd", "fsub", "fmul", "fdiv", "frem", "fptrunc")
_MOST_STEPS = 400


def add(program: Program) -> None:
    _Finite(program).run()


class _Finite:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.dominators = _dominators(program.module.function.blocks)
        self.calls = _calls(program.kernel.ir)

    def run(self) -> None:
        lines = {instr: line for line, instr in self.program.pairs}
        leaving = {arg for _, user in self.program.pairs for arg in user.args if self._leaves(arg, user)}
        for line, instr in self.program.pairs:
            if instr.type.kind not in _EXPONENT:
                continue
            if instr in leaving:
                if instr.op == "phi":  # nothing may stand between two of them
                    assert instr.block is not None
                    to = lines[next(i for i in instr.block.instrs if i.op != "phi" and i in lines)].before
                else:
                    to = line.after
                self._check(line, to, instr, [v for v in self._inputs(instr) if self._reaches(v, instr)])
            elif instr.op in _OPS and not self._is_inside(instr):
                self._check(line, line.after, instr, [arg for arg in instr.args if isinstance(arg, Instr)])

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

    def _check(self, line: Line, to: list[str], made: Instr, inputs: list[Instr]) -> None:
        test = self._is_not_finite(line, to, made)
        for value in inputs:
            if value.type.kind not in _EXPONENT:
                continue
            bad, good, both = self._is_not_finite(line, to, value), self.program.temp(), self.program.temp()
            to += [f"  {good} = xor i1 {bad}, true{line.debug}", f"  {both} = and i1 {test}, {good}{line.debug}"]
            test = both
        number = self.program.place("not-finite", line)
        to.append(f"  call void @__mc_report_if(i1 {test}, i32 {number}){line.debug}")

    def _is_not_finite(self, line: Line, to: list[str], value: Value) -> str:
        bits, exponent = _EXPONENT[value.type.kind]
        assert isinstance(value, Instr)
        number, masked, test = (self.program.temp() for _ in range(3))
        to += [
            f"  {number} = bitcast {value.type.text} {value.name} to i{bits}{line.debug}",
            f"  {masked} = and i{bits} {number}, {exponent}{line.debug}",
            f"  {test} = icmp eq i{bits} {masked}, {exponent}{line.debug}",
        ]
        return test


_DEFINED = re.compile(r'^define .*?(@"[^"]*"|@[-\w.$]+)\(', re.M)
_CALLED = re.compile(r'call [^@\n]*(@"[^"]*"|@[-\w.$]+)\(.*!dbg !(\d+)')
_LOCATION = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+), column: (\d+)", re.M)


def _calls(raw: str) -> set[tuple[int, int]]:
    """Where functions of ours are called: they have no lines of their own, so what they do is found there."""
    own = {m[1] for m in _DEFINED.finditer(raw) if " !dbg " not in raw[m.start() : raw.index("\n", m.end())]}
    places = {m[1]: (int(m[2]), int(m[3])) for m in _LOCATION.finditer(raw)}
    return {places[m[2]] for m in _CALLED.finditer(raw) if m[1] in own and m[2] in places}


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
