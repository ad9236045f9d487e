"""float-float-fast-math: sums that are zero to an algebraist and the rounding error to a computer."""

from __future__ import annotations

from metalcore.engine.ir import Const, Instr, Value
from metalcore.lint.context import Context
from metalcore.lint.program import Program

_DEPTH = 8
Form = dict[object, int]  # how often each term occurs


def check(context: Context, program: Program) -> None:
    """An expression of sums, under flags that allow reordering, whose terms all cancel: two-sum, Kahan, two-product."""
    forms: dict[Instr, tuple[Form, int]] = {}
    for instr in program.instructions():
        if not _is_sum(instr):
            continue
        form, steps = _form(instr, 1, forms, _DEPTH)
        if form or steps < 2 or not _may_reorder(instr):
            continue
        place = program.place(instr)
        if place is None or _is_librarys(program, instr):
            continue
        text = "fast math may replace this by zero: it is the rounding error of a sum or product"
        context.findings.add("float-float-fast-math", place, text, program.kernel.host_name)


def _is_sum(instr: Instr) -> bool:
    return instr.op in ("fadd", "fsub") or _is_fma(instr)


def _is_fma(instr: Instr) -> bool:
    return instr.op == "call" and instr.callee.startswith(("llvm.fma.", "llvm.fmuladd."))


def _is_librarys(program: Program, instr: Instr) -> bool:
    """Whether a function of the Metal library computes this: all its parts then have the place of the one call."""
    parts = [arg for arg in instr.args if isinstance(arg, Instr) and (_is_sum(arg) or arg.op in ("fmul", "fneg"))]
    return all(program.place(part) == program.place(instr) for part in parts)


def _may_reorder(instr: Instr) -> bool:
    """Whether the flags of a sum let the compiler reorder it; fma is the library's, and its operands tell instead."""
    told = [arg for arg in instr.args if isinstance(arg, Instr)] if _is_fma(instr) else [instr]
    return any(flag in ("reassoc", "fast") for each in told for flag in _flags(each))


def _flags(instr: Instr) -> list[str]:
    flags = instr.extra.get("flags")
    return flags if isinstance(flags, list) else []


def _form(value: Value, sign: int, forms: dict[Instr, tuple[Form, int]], depth: int) -> tuple[Form, int]:
    """The terms of a sum without those that cancel, and the number of operations."""
    if isinstance(value, Const) or not isinstance(value, Instr) or depth == 0:
        key: object = ("constant", value.text) if isinstance(value, Const) else value
        return {key: sign}, 0
    if value in forms:
        form, steps = forms[value]
        return {term: count * sign for term, count in form.items()}, steps
    if value.op == "fneg":
        return _form(value.args[0], -sign, forms, depth)
    if value.op == "fmul":
        return {_product(value.args[0], value.args[1]): sign}, 0
    if value.op in ("fadd", "fsub"):
        left, right = value.args
        second = 1 if value.op == "fadd" else -1
        form, steps = _sum(_form(left, 1, forms, depth - 1), _form(right, second, forms, depth - 1))
    elif _is_fma(value):
        product = ({_product(value.args[0], value.args[1]): 1}, 1)
        form, steps = _sum(product, _form(value.args[2], 1, forms, depth - 1))
    else:
        return {value: sign}, 0
    forms[value] = (form, steps)
    return {term: count * sign for term, count in form.items()}, steps


def _sum(a: tuple[Form, int], b: tuple[Form, int]) -> tuple[Form, int]:
    form = dict(a[0])
    for term, count in b[0].items():
        form[term] = form.get(term, 0) + count
    return {term: count for term, count in form.items() if count}, a[1] + b[1] + 1


def _product(a: Value, b: Value) -> object:
    return ("product", frozenset((_key(a), _key(b))))


def _key(value: Value) -> object:
    return value.text if isinstance(value, Const) else id(value)
