"""The smaller or the larger of a number and a signalling NaN, which is the number.

x86 finds it by a comparison, whatever the NaN. Arm has an instruction for it that makes a NaN of a signalling one,
which therefore has to be made a quiet one before. No arithmetic makes signalling ones.
"""

from __future__ import annotations

from metalcore.engine.ir import Const, Instr, Value

from .builder import Builder
from .operands import Operand

# LLVM's operations, and those that are written for them.
EXTREMES = {"minnum": "minnum", "maxnum": "maxnum", "minimumnum": "minnum", "maximumnum": "maxnum"}

_INFINITIES = {f"0x{sign}FF0000000000000" for sign in "7F"} | {"0xH7C00", "0xHFC00", "0xR7F80", "0xRFF80"}
# Bits that are moved; fpext counts as such: LLVM puts it behind what is made of it.
_MOVES = frozenset(("load", "bitcast", "fneg", "fpext", "extractvalue", "call"))
_BITS = ("llvm.fabs.", "llvm.copysign.")


def may_signal(value: Value, seen: set[Value] | None = None) -> bool:
    """Whether a floating-point value may be a signalling NaN."""
    if isinstance(value, Const):
        return value.text.startswith("0x") and value.text not in _INFINITIES  # no other numbers look so in LLVM's text
    if not isinstance(value, Instr):
        return True
    if value.op not in ("phi", "select"):
        return value.op in _MOVES and (not value.callee.startswith("llvm.") or value.callee.startswith(_BITS))
    seen = seen or set()
    if value in seen:
        return False
    seen.add(value)
    return any(may_signal(arg, seen) for arg in value.args[value.op == "select" :])


def quieted(code: Builder, instr: Instr, names: list[Operand]) -> list[Operand]:
    """The operands of an instruction, quiet where one may be a signalling NaN."""
    may = (may_signal(value) for value in instr.args)
    return [code.intrinsic("canonicalize", name) if m else name for name, m in zip(names, may, strict=False)]
