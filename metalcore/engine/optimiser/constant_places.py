"""Constant addresses: `getelementptr (...)` as an operand, also one inside of another."""

from __future__ import annotations

from collections.abc import Container

from metalcore.engine.ir import Global, Instr, Value, gep_terms


def place_of(value: Value, variables: Container[Value]) -> tuple[Global, int] | None:
    """The variable that a constant address is computed from, and its distance from there in bytes.

    Example: of `getelementptr (i32, ptr @t, i64 2)` it is `(@t, 8)`.
    """
    if isinstance(value, Global):
        return (value, 0) if value in variables else None
    if not isinstance(value, Instr) or value.name or value.op != "getelementptr":
        return None
    found = place_of(value.args[0], variables)
    terms = gep_terms(value)
    if found is None or len(terms) > 1:
        return None
    assert isinstance(terms[0][1], int)
    return found[0], found[1] + terms[0][1]
