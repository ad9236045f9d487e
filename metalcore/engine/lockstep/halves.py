"""half and bfloat: computed in float, rounded once. Of scalars and of vectors alike."""

from __future__ import annotations

from metalcore.engine.ir import DOUBLE, FLOAT, HALF, I16, I32, Type

from .builder import Builder
from .operands import Operand, constant


def widen(code: Builder, value: Operand, ty: Type) -> Operand:
    """half or bfloat -> float; float and double stay."""
    if ty.kind in ("float", "double"):
        return value
    if ty.kind == "half":
        return code.cast("fpext", value, value.type.with_item(FLOAT))
    high = code.shl(code.zext(value, value.type.with_item(I32)), 16)
    return code.bitcast(high, value.type.with_item(FLOAT))


def to_half(code: Builder, value: Operand) -> Operand:
    return code.cast("fptrunc", value, value.type.with_item(HALF))


def to_bfloat(code: Builder, value: Operand) -> tuple[Operand, Operand, Operand, Operand]:
    """float -> the 16 bits of a bfloat, to nearest even; and on the way there: the upper half of what, rounded to what,
    and all ones for a NaN."""
    bits = code.bitcast(value, value.type.with_item(I32))
    odd = code.and_(code.lshr(bits, 16), 1)
    rounded = code.add(bits, code.add(odd, 32767))
    # A NaN becomes the one with every bit set: to keep its own bits would cost a blend.
    filled = code.sext(code.fcmp("uno", value, value), bits.type)
    top = code.lshr(code.or_(rounded, filled), 16)
    return code.trunc(top, bits.type.with_item(I16)), top, rounded, filled


def float_to_odd(code: Builder, value: Operand) -> Operand:
    """double -> float rounded to odd: rounding it again to 16 bits is then right."""
    rounded = code.cast("fptrunc", value, value.type.with_item(FLOAT))
    back = code.cast("fpext", rounded, value.type.with_item(DOUBLE))
    inexact = code.fcmp("one", back, value)
    above = code.fcmp("ogt", code.intrinsic("fabs", back), code.intrinsic("fabs", value))
    bits = code.bitcast(rounded, value.type.with_item(I32))
    truncated = code.add(bits, code.sext(above, bits.type))
    return code.bitcast(code.select(inexact, code.or_(truncated, 1), bits), rounded.type)


def fma_to_odd(code: Builder, a: Operand, b: Operand, addend: Operand) -> Operand:
    """float(a*b + addend) rounded to odd, where a*b is exact: rounding it again to 16 bits is then right."""
    product = code.fmul(a, b)
    total = code.fadd(product, addend)
    back = code.fsub(total, product)
    rest = code.fsub(total, back)
    left = code.fsub(product, rest)
    right = code.fsub(addend, back)
    error = code.fadd(left, right)
    inexact = code.fcmp("one", error, 0.0)
    bits = code.bitcast(total, total.type.with_item(I32))
    differ = code.xor(bits, code.bitcast(error, bits.type))
    step = code.or_(code.ashr(differ, 31), 1)  # -1 where the error pulls towards zero
    return _one_step(code, bits, step, inexact)


def int_to_odd(code: Builder, rounded: Operand, value: Operand, op: str) -> Operand:
    """Integer -> float (*rounded* to nearest) rounded to odd, so that rounding once more to 16 bits is right."""
    signed = op == "sitofp"
    bits = code.bitcast(rounded, rounded.type.with_item(I32))
    high = saturated(code, "fptosi" if signed else "fptoui", rounded, value.type)
    inexact = code.icmp("ne", high, value)
    above = code.icmp("sgt" if signed else "ugt", high, value)
    towards = code.xor(above, code.icmp("slt", bits, 0))
    step = code.select(towards, constant(bits.type, -1), 1)
    return _one_step(code, bits, step, inexact)


def _one_step(code: Builder, bits: Operand, step: Operand, inexact: Operand) -> Operand:
    """To the odd neighbour, where the number is even and not exact."""
    even = code.icmp("eq", code.and_(bits, 1), 0)
    fix = code.and_(even, inexact)
    return code.bitcast(code.select(fix, code.add(bits, step), bits), bits.type.with_item(FLOAT))


def saturated(code: Builder, op: str, value: Operand, to: Type) -> Operand:
    """float or double -> the nearest integer that there is; 0 for a NaN."""
    return code.call(f"llvm.{op}.sat.{to.suffix}.{value.type.suffix}", to, value)
