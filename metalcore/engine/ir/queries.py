"""Questions about instructions that many stages ask."""

from __future__ import annotations

from metalcore.engine.ir.tokens import words
from metalcore.engine.ir.types import Type
from metalcore.engine.ir.values import Const, Global, Instr, Value

_IGNORED = (
    "llvm.lifetime",
    "llvm.assume",
    "llvm.dbg",
    "llvm.experimental.noalias",
    "llvm.invariant",
    "llvm.donothing",
    "llvm.sideeffect",
    "llvm.pseudoprobe",
)


def is_ignored(instr: Instr) -> bool:
    """A call that only tells LLVM something."""
    return instr.op == "call" and instr.callee.startswith(_IGNORED)


def is_barrier(instr: Instr) -> bool:
    return instr.op == "call" and instr.callee == "__mc_threadgroup_barrier"


def type_of(instr: Instr, what: str) -> Type:
    """A type that an instruction names beside that of its result: "source", "stored", "allocated"."""
    found = instr.extra[what]
    assert isinstance(found, Type)
    return found


def gep_terms(instr: Instr) -> list[tuple[int, Value | int]]:
    """A getelementptr as byte offset terms: (1, constant) once, then (scale, index) for each other index."""
    ty = type_of(instr, "source")
    constant = 0
    terms: list[tuple[int, Value | int]] = []
    for position, index in enumerate(instr.args[1:]):
        if position == 0:
            scale = ty.size
        elif ty.kind == "struct":
            assert isinstance(index, Const) and index.value is not None
            constant += ty.offset(index.value)
            ty = ty.items[index.value]
            continue
        else:
            ty = ty.items[0]
            scale = ty.size
        if isinstance(index, Const):
            constant += scale * (index.value or 0)
        else:
            terms.append((scale, index))
    terms.insert(0, (1, constant))
    return terms


def anchor_of(pointer: Value) -> tuple[Value, int]:
    """A pointer without its constant offset."""
    offset = 0
    while isinstance(pointer, Instr) and pointer.op == "getelementptr":
        terms = gep_terms(pointer)
        if len(terms) > 1:
            break
        assert isinstance(terms[0][1], int)
        offset += terms[0][1]
        pointer = pointer.args[0]
    return pointer, offset


def is_alike(table: Global) -> bool:
    """Whether all elements of a table have one value, as LLVM sees it."""
    tokens = words(table.value)
    if tokens[-1:] == ["zeroinitializer"]:
        return True
    first = ""  # of text nothing is said
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        is_value = token[0] in "-0123456789" or token in ("true", "false", "undef", "poison")
        if not is_value or following == "x":
            continue
        if first and token != first:
            return False
        first = token
    return True
