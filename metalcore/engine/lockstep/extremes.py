"""Which of two numbers a lane keeps: the smaller or the larger one, as the machine finds them.

`(a < b) == keeps_smaller ? a : b` is how sorting networks are written. Said as it stands, each step waits for a test
that becomes a mask, is mixed with another mask and picks. The smaller and the larger one are an instruction each, and
what picks between them is known long before. A fence keeps LLVM from making one test of it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import I1, I32, Block, Instr, Type, Value

from .operands import Operand, constants

if TYPE_CHECKING:
    from .emitters import Emitters

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
    terms = terms_of(test)
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
    choice.extra["is_between_extremes"] = True
    return made


def terms_of(test: Value, block: Block | None = None) -> list[Value]:
    """Of an exclusive or of booleans; of what is made in a block alone."""
    terms: list[Value] = []
    todo = [test]
    while todo:
        value = todo.pop()
        is_taken_apart = isinstance(value, Instr) and value.op == "xor" and block in (None, value.block)
        if is_taken_apart and isinstance(value, Instr) and len(terms) + len(todo) < _LONGEST:
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


def between_extremes(at: Emitters, choice: Instr, c: int) -> Operand | None:
    """A chunk of a choice whose test mixes known lanes with what is the same for all lanes; None of any other.

    Where a chunk's lanes choose alike, one test decides. Else AVX-512 chooses by bits: a constant gets into a mask
    register by way of a general one, which costs as much as finding an extreme.
    """
    code, values = at.code, at.values
    test = _mixed(at, choice, c)
    if test is None:
        return None
    lanes, others = test
    crossed, straight = values.chunk(choice.args[1], c), values.chunk(choice.args[2], c)
    if len(set(lanes)) == 1:
        first, second = (straight, crossed) if lanes[0] else (crossed, straight)
        return second if others is None else code.select(others, first, second)
    if not code.has_masks:
        return None
    mask = code.fenced(constants(I32, [-lane for lane in lanes]))
    if others is not None:
        mask = code.xor(mask, code.splat(code.sext(others, I32), code.width))
    first, second = (code.bitcast(value, mask.type) for value in (crossed, straight))
    bits = code.xor(second, code.and_(code.xor(first, second), mask))
    return code.fenced(code.bitcast(bits, crossed.type))  # or LLVM would compare and choose integers from here on


def _mixed(at: Emitters, choice: Instr, c: int) -> tuple[list[int], Operand | None] | None:
    """The test of a choice as an exclusive or of known lanes and of what is the same for all of them."""
    lanes, others = [0] * at.code.width, None
    for term in terms_of(choice.args[0], choice.block):
        known = at.shapes.known_test(term) if isinstance(term, Instr) and term.op == "icmp" else None
        if known is not None:
            own = known[c * at.code.width : (c + 1) * at.code.width]
            lanes = [a ^ b for a, b in zip(lanes, own, strict=True)]
        elif at.values.shape(term).uniform:
            one = at.values.scalar(term)
            others = one if others is None else at.code.xor(others, one)
        else:
            return None
    return lanes, others
