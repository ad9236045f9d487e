"""Integer division: x / 0 is 0 and x % 0 is x; INT_MIN / -1 wraps. Idle lanes hold anything, so nothing may trap."""

from __future__ import annotations

from metalcore.engine.ir import DOUBLE, I32, Const, Instr, Type, Value, vector

from .builder import Builder
from .halves import saturated
from .operands import Operand, constant, poison, zero


def is_safe_divisor(value: Value, signed: bool) -> bool:
    """Whether a divisor is never 0, nor -1 where that matters: optimiser/defined.py made it so, as LLVM spells it."""
    if not isinstance(value, Instr):
        return False
    numbers = [a.value for a in value.args if isinstance(a, Const)]
    least = numbers[0] if numbers and numbers[0] is not None else 0
    if value.op == "call":
        return least >= 1 and value.callee.startswith(("llvm.smax.",) if signed else ("llvm.smax.", "llvm.umax."))
    test = value.args[0] if value.op == "select" else None
    if not isinstance(test, Instr) or test.op != "icmp" or test.extra["pred"] != "ult" or least != 1:
        return False
    added, two = test.args
    return (
        isinstance(two, Const)
        and two.value == 2
        and isinstance(added, Instr)
        and added.op == "add"
        and added.args[0] is value.args[2]
        and isinstance(added.args[1], Const)
        and added.args[1].value == 1
        and isinstance(value.args[1], Const)
    )


def divide(code: Builder, op: str, a: Operand, b: Operand) -> Operand:
    """Of scalars."""
    nothing = constant(a.type, 0)
    by_zero = code.icmp("eq", b, 0)
    safe = code.select(by_zero, 1, b)
    if op[0] == "s":
        by_minus = code.icmp("eq", b, -1)
        result = code.binary(op, a, code.select(by_minus, 1, safe))
        result = code.select(by_minus, code.sub(0, a) if op == "sdiv" else nothing, result)
    else:
        result = code.binary(op, a, safe)
    return code.select(by_zero, nothing if op.endswith("div") else a, result)


def division_function(name: str, op: str, ty: Type) -> str:
    """A vector division lane by lane."""
    code = Builder()
    result = poison(ty)
    for i in range(ty.length):
        x, y = (code.freeze(code.extract(Operand(side, ty), i)) for side in ("%a", "%b"))
        result = code.insert(result, divide(code, op, x, y), i)
    code.ret(result)
    head = f"define internal {ty} @{name}({ty} %a, {ty} %b) noinline nounwind {{"
    return "\n".join([head, *code.text(), "}"])


def divide_by_double(code: Builder, op: str, a: Operand, b: Operand, safe: bool) -> Operand:
    """Lanes of up to 32 bits: the double quotient, truncated, is exact."""
    ty, count, signed = a.type, a.type.length, op[0] == "s"
    is_narrow = ty.bits < 32
    i32, doubles = vector(count, I32), vector(count, DOUBLE)
    if is_narrow:
        a, b = (code.cast("sext" if signed else "zext", x, i32) for x in (a, b))
        signed = True
    x, y = (code.cast("sitofp" if signed else "uitofp", v, doubles) for v in (a, b))
    q = code.fdiv(x, y)
    if signed:
        quotient = _truncated(code, q, safe)
    else:
        # Unsigned: halve the range by hand, the machine converts signed numbers only.
        big = code.fcmp("oge", q, 2147483648.0)
        less = code.fsub(q, 2147483648.0)
        low = _truncated(code, code.select(big, less, q), safe)
        quotient = code.xor(low, code.select(big, -2147483648, zero(i32)))
    if signed and not is_narrow and not safe:
        # INT_MIN / -1 is 2^31 as a double, which saturates; wrap it.
        by_minus = code.icmp("eq", b, -1)
        quotient = code.select(by_minus, code.sub(zero(i32), a), quotient)
    if not safe:
        quotient = code.select(code.icmp("eq", b, zero(i32)), zero(i32), quotient)
    if op.endswith("rem"):
        quotient = code.sub(a, code.mul(quotient, b))
    return code.trunc(quotient, ty) if is_narrow else quotient


def _truncated(code: Builder, q: Operand, safe: bool) -> Operand:
    """Doubles to 32-bit numbers; a quotient by a safe divisor fits."""
    to = q.type.with_item(I32)
    return code.cast("fptosi", q, to) if safe else saturated(code, "fptosi", q, to)
