"""What is left of the choices of own_arrays.py behind the optimiser: lockstep makes them itself."""

from __future__ import annotations

from metalcore.engine.ir import I64, Const, Instr, Module, Value, make
from metalcore.engine.optimiser.own_arrays import KEPT, PAST, SAME

_CARRIED = frozenset(("getelementptr", "add", "sub", "mul", "shl", "or"))


def settle(module: Module) -> None:
    """Optimised IR without the choices that lockstep makes itself."""
    if not {PAST, KEPT} & module.functions.keys():
        return
    past: set[Value] = set()  # computed from an offset of ours
    for instr in module.function.instructions():
        if instr.op[0] == "#":
            continue
        if instr.callee in (PAST, KEPT):
            if instr.callee == PAST:
                past.add(instr)
            instr.become(make.binary("add", instr.args[0], make.number(I64, 0)))
        elif instr.callee == SAME:
            instr.become(make.offset(instr.args[0], 0))
        elif past and instr.name and not past.isdisjoint(instr.args):
            _settle(instr, past)
    for name in (PAST, KEPT, SAME):
        module.functions.pop(name, None)


def _settle(instr: Instr, past: set[Value]) -> None:
    """An instruction that reads an offset of ours."""
    if instr.op != "select" or instr.type.text not in ("ptr", "i64"):
        if instr.op in _CARRIED:
            past.add(instr)
        return
    arms = [arm for arm in instr.args[1:] if arm not in past]
    if len(arms) != 1:
        past.add(instr)
        return
    arm = arms[0]
    if not isinstance(arm, Instr) or _is_at_constant(arm):
        return  # LLVM has used what the choice says: it is part of the result
    instr.become(make.offset(arm, 0) if instr.type.kind == "ptr" else make.binary("add", arm, make.number(I64, 0)))


def _is_at_constant(value: Instr) -> bool:
    return not value.name or (value.op == "getelementptr" and isinstance(value.args[1], Const))
