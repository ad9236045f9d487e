"""Which of several arrays a pointer points into.

Where a pointer is chosen (a select or a phi of pointers into different memory), a number is chosen beside it: that of
the array which the pointer came from. An access is in bounds where it is inside of that array, not of any of them.
"""

from __future__ import annotations

from metalcore.engine.ir import Block, Const, Instr, Value, integer

from .roots import Roots

_NUMBER = integer(32)
_NOWHERE = -1  # null points into nothing
_SAME = ("getelementptr", "freeze", "bitcast", "addrspacecast")


def add_origins(blocks: list[Block], roots: Roots) -> None:
    """Fill `roots.origins` for pointers that are accessed. Accesses get the numbers as operands: they live as long."""
    made: dict[Value, Instr] = {}
    lost: set[Value] = set()
    for block in blocks:
        for instr in block.instrs[:]:
            at = accessed(instr)
            if at is None or len(roots.get(instr.args[at])) < 2:
                continue
            choice = _choice(instr.args[at], roots)
            if choice not in made and choice not in lost:
                chosen = _choices(choice, roots)
                if chosen is None:
                    lost.add(choice)
                else:
                    _add(chosen, roots, made)
            if choice in made:
                roots.origins[instr.args[at]] = made[choice]
                instr.args.append(made[choice])


def accessed(instr: Instr) -> int | None:
    """The operand of an instruction that is the address of memory it touches."""
    if instr.op == "store":
        return 1
    if instr.op in ("load", "atomicrmw", "cmpxchg") or instr.callee.startswith("__mc_simdgroup_"):
        return 0 if instr.args and instr.args[0].type.kind == "ptr" else None
    return None


def _choice(pointer: Value, roots: Roots) -> Value:
    """Where it was chosen into which memory a pointer points."""
    while len(roots.get(pointer)) > 1 and isinstance(pointer, Instr):
        if pointer.op not in _SAME and not pointer.callee.startswith("llvm.ptrmask"):
            break
        pointer = pointer.args[0]
    return pointer


def _choices(first: Value, roots: Roots) -> list[Instr] | None:
    """A choice and all those that it depends on; None where something else takes part."""
    found: dict[Instr, None] = {}
    todo = [first]
    while todo:
        value = todo.pop()
        if len(roots.get(value)) < 2 or value in found:
            continue
        if not isinstance(value, Instr) or value.op not in ("select", "phi"):
            return None
        found[value] = None
        todo += [_choice(v, roots) for v in value.args[value.op == "select" :]]
    return list(found)


def _add(chosen: list[Instr], roots: Roots, made: dict[Value, Instr]) -> None:
    """The number beside each choice."""
    fresh = [value for value in chosen if value not in made]
    for value in fresh:
        name, block = f"%mc.origin.{len(made)}", value.block
        assert block is not None
        made[value] = Instr(value.op, _NUMBER, [], name, {}, list(value.targets), value.line, block)
        block.instrs.insert(block.instrs.index(value) + 1, made[value])
    for value in fresh:
        tests = value.args[: value.op == "select"]
        made[value].args = [*tests, *(_number(v, roots, made) for v in value.args[len(tests) :])]


def _number(pointer: Value, roots: Roots, made: dict[Value, Instr]) -> Value:
    own = roots.get(pointer)
    if len(own) > 1:
        return made[_choice(pointer, roots)]
    return Const(_NUMBER, str(roots.number(next(iter(own))) if own else _NOWHERE))
