"""Integer arithmetic on shapes: lane by lane where all is known, by alignment of the base where it is not."""

from __future__ import annotations

from metalcore.engine.ir import Instr

from .shape import VARYING, Shape, lowest_bit, wrap


def bits_of(op: str, a: Shape, constant: int, bits: int) -> Shape:
    """Division, remainder, masks and shifts by a power of two, where the base has the alignment for it."""
    assert a.offsets is not None
    if min(a.offsets) < 0 or max(a.offsets) >= min(a.align, 1 << bits):  # a lane's number may have wrapped
        return VARYING
    if op == "and":
        constant &= (1 << bits) - 1
        low = constant + 1
        if low & constant == 0 and low <= a.align:
            values = [o & constant for o in a.offsets]
            return Shape(tuple(v - values[0] for v in values), values[0], lowest_bit(values[0]))
        high = (~constant & ((1 << bits) - 1)) + 1
        if high & (high - 1) == 0 and high <= a.align:
            return Shape(tuple(o & -high for o in a.offsets), None, a.align)
        return VARYING
    if op == "urem" and constant > 0 and constant & (constant - 1) == 0 and constant <= a.align:
        values = [o % constant for o in a.offsets]
        return Shape(tuple(v - values[0] for v in values), values[0], lowest_bit(values[0]))
    shift = constant if op == "lshr" else constant.bit_length() - 1 if op == "udiv" and constant > 0 else -1
    if op == "udiv" and constant & (constant - 1):
        return VARYING
    if 0 <= shift < bits and 1 << shift <= a.align:
        return Shape(tuple(o >> shift for o in a.offsets), None, max(1, a.align >> shift))
    return VARYING


def align_of(op: str, shapes: list[Shape]) -> int:
    if op == "mul":
        return min(1 << 30, shapes[0].align * shapes[1].align)
    if op == "shl" and shapes[1].base is not None and 0 <= shapes[1].base < 31:
        return min(1 << 30, shapes[0].align << shapes[1].base)
    if op in ("add", "sub", "or", "xor"):
        return min(shapes[0].align, shapes[1].align)
    if op == "and":
        return max(shapes[0].align, shapes[1].align)
    if op in ("zext", "sext", "trunc", "freeze"):
        return shapes[0].align
    return 1


def fold(instr: Instr, lanes: list[list[int]]) -> list[int] | None:
    """Evaluate an integer operation lane by lane."""
    op, bits = instr.op, instr.args[0].type.bits or 64
    mask = (1 << bits) - 1
    out: list[int] = []
    for values in zip(*lanes, strict=True):
        a = values[0]
        b = values[1] if len(values) > 1 else 0
        ua, ub, sa, sb = a & mask, b & mask, wrap(a, bits), wrap(b, bits)
        if op in ("udiv", "urem", "sdiv", "srem") and ub == 0:
            return None
        if op in ("shl", "lshr", "ashr") and ub >= bits:
            return None
        if op == "add":
            out.append(a + b)
        elif op == "sub":
            out.append(a - b)
        elif op == "mul":
            out.append(a * b)
        elif op == "and":
            out.append(ua & ub)
        elif op == "or":
            out.append(ua | ub)
        elif op == "xor":
            out.append(ua ^ ub)
        elif op == "shl":
            out.append(ua << ub)
        elif op == "lshr":
            out.append(ua >> ub)
        elif op == "ashr":
            out.append(sa >> ub)
        elif op == "udiv":
            out.append(ua // ub)
        elif op == "urem":
            out.append(ua % ub)
        elif op in ("sdiv", "srem"):
            quotient = abs(sa) // abs(sb) * (1 if (sa < 0) == (sb < 0) else -1)
            out.append(quotient if op == "sdiv" else sa - quotient * sb)
        elif op == "zext":
            out.append(ua)
        elif op in ("sext", "trunc", "freeze"):
            out.append(sa)
        else:
            return None
    return out
