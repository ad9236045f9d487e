"""Which of two numbers a lane keeps: the smaller or the larger one, as the machine finds them.

`(a < b) == keeps_smaller ? a : b` is how sorting networks are written. Said as it stands, each step waits for a test
that becomes a mask, is mixed with another mask and picks. The smaller and the larger one are an instruction each, and
what picks between them is known long before. A fence keeps LLVM from making one test of it again.
"""

from __future__ import annotations

from metalcore.engine.ir import I1, Block, Instr, Type, Value

_LONGEST = 8  # terms of a test
_INVERSE = {"uge": "olt", "ule": "ogt"}
_ORDERS = ("olt", "ogt", *_INVERSE)


def choose_between_extremes(blocks: list[Block]) -> None:
    """select(a < b ^ rest, a, b) -> select(rest, a < b ? b : a, a < b ? a : b)"""
    for block in blocks:
        out: list[Instr] = []
        for instr in block.instrs:
            if instr.op == "select" and instr.type.kind == "float":
                out += _rewritten(instr)
            out.append(instr)
        block.instrs = out


def _rewritten(choice: Instr) -> list[Instr]:
    """Changes a choice; what it needs before."""
    test, a, b = choice.args
    terms = _terms(test)
    order = next((term for term in terms if _compares(term, a, b)), None)
    if order is None or len(terms) < 2:
        return []
    terms.remove(order)
    assert isinstance(order, Instr)
    made: list[Instr] = []

    def add(op: str, ty: Type, args: list[Value], what: str, extra: dict[str, object]) -> Instr:
        made.append(Instr(op, ty, args, f"{choice.name}.{what}", extra))
        made[-1].line, made[-1].block = choice.line, choice.block
        return made[-1]

    rest: Value = terms[0]
    for number, term in enumerate(terms[1:]):
        rest = add("xor", I1, [rest, term], f"rest{number}", {})
    pred = str(order.extra["pred"])
    if pred in _INVERSE:
        order = add("fcmp", I1, order.args, "order", {**order.extra, "pred": _INVERSE[pred]})
        a, b = b, a
    straight = add("select", choice.type, [order, a, b], "straight", {**choice.extra, "is_extreme": True})
    crossed = add("select", choice.type, [order, b, a], "crossed", {**choice.extra, "is_extreme": True})
    choice.args = [rest, crossed, straight]
    return made


def _terms(test: Value) -> list[Value]:
    """Of an exclusive or of booleans."""
    terms: list[Value] = []
    todo = [test]
    while todo:
        value = todo.pop()
        if isinstance(value, Instr) and value.op == "xor" and len(terms) + len(todo) < _LONGEST:
            todo += reversed(value.args)
        else:
            terms.append(value)
    return terms


def _compares(term: Value, a: Value, b: Value) -> bool:
    """Whether it orders the two so that one instruction finds the smaller and one the larger one, NaN and -0 too."""
    if not isinstance(term, Instr) or term.op != "fcmp" or term.extra["pred"] not in _ORDERS:
        return False
    first, second = term.args
    return (first is a and second is b) or (first is b and second is a)
