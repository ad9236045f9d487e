"""Arithmetic: one scalar instruction -> the same on a scalar (uniform) or on one chunk of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from metalcore.engine.ir import FLOAT, I1, I16, I32, Const, Instr, Type, struct
from metalcore.errors import UnsupportedFeature

from .division import divide, divide_by_double, division_function, is_safe_divisor
from .extremes import between_extremes
from .halves import float_to_odd, fma_to_odd, int_to_odd, saturated, to_bfloat, to_half, widen
from .operands import FALSE, Operand, constant
from .signalling import EXTREMES, quieted
from .types import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters

_KEEP_FAST = ("reassoc", "nsz", "arcp", "contract", "afn")  # nnan and ninf would make poison of idle lanes
_FLOAT_INTRINSICS = frozenset(
    [
        "fma",
        "fmuladd",
        "sqrt",
        "fabs",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "nearbyint",
        "round",
        "roundeven",
        "copysign",
        "minimum",
        "maximum",
        "canonicalize",
    ]
)
_INT_INTRINSICS = frozenset(
    [
        "umin",
        "umax",
        "smin",
        "smax",
        "abs",
        "ctlz",
        "cttz",
        "ctpop",
        "bitreverse",
        "bswap",
        "fshl",
        "fshr",
        "uadd.sat",
        "usub.sat",
        "sadd.sat",
        "ssub.sat",
        "ushl.sat",
        "sshl.sat",
    ]
)
_OVERFLOW = frozenset(["uadd", "usub", "umul", "sadd", "ssub", "smul"])


class Ops:
    """Pure operations. *c* is the number of a chunk, or None for a scalar."""

    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values = at, at.code, at.values
        self._handlers: dict[str, Callable[[Instr, int | None], Operand]] = {
            "frem": self._frem,
            "fneg": self._fneg,
            "icmp": self._icmp,
            "fcmp": self._fcmp,
            "select": self._select,
            "freeze": self._freeze,
            "fpext": self._fpext,
            "fptrunc": self._fptrunc,
            "bitcast": self._bitcast,
            "uitofp": self._int_to_float,
            "sitofp": self._int_to_float,
            "fptoui": self._float_to_int,
            "fptosi": self._float_to_int,
        }

    def fast_flags(self, instr: Instr) -> str:
        text = str(instr.extra.get("fast", ""))
        if not text:
            return ""
        words = text.split()
        if "fast" in words:
            return " ".join(_KEEP_FAST) + " "
        kept = [w for w in words if w in _KEEP_FAST]
        return " ".join(kept) + " " if kept else ""

    def operand(self, instr: Instr, i: int, c: int | None) -> Operand:
        value = instr.args[i]
        return self.values.scalar(value) if c is None else self.values.chunk(value, c)

    def result_type(self, instr: Instr, c: int | None) -> Type:
        ty = scalar_type(instr.type)
        return ty if c is None else self.code.vec(ty)

    # -- half and bfloat ---------------------------------------------------------------------------
    def is_native(self, ty: Type) -> bool:
        """Whether the machine has arithmetic on these."""
        return ty.kind in ("float", "double") or (ty.kind == "half" and self.at.plan.machine.has_half)

    def narrow(self, value: Operand, ty: Type) -> Operand:
        """float -> half or bfloat, to nearest even."""
        if ty.kind == "half":
            return to_half(self.code, value)
        if self.at.plan.calls_rounding and value.type.is_vector:
            return self.at.outlined.to_bfloat(value)
        result, top, rounded, filled = to_bfloat(self.code, value)
        if value.type.is_vector:
            self.values.tops[result] = top
            self.values.rounded[result] = rounded, filled
        return result

    # -- dispatch ----------------------------------------------------------------------------------
    def compute(self, instr: Instr, c: int | None) -> Operand:
        """Write the operation for a scalar (c is None) or one chunk; the result's name."""
        op = instr.op
        if op == "call":
            return self._intrinsic(instr, c)
        if op == "getelementptr":
            return self.at.addresses.gep(instr, c)
        handler = self._handlers.get(op)
        if handler is not None:
            return handler(instr, c)
        if op in ("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr"):
            return self.code.binary(op, self.operand(instr, 0, c), self.operand(instr, 1, c))
        if op in ("fadd", "fsub", "fmul", "fdiv"):
            return self._float(instr, c)
        if op in ("udiv", "sdiv", "urem", "srem"):
            return self._divide(instr, c)
        if op in ("zext", "sext", "trunc", "ptrtoint", "inttoptr"):
            return self.code.cast(op, self.operand(instr, 0, c), self.result_type(instr, c))
        raise UnsupportedFeature(f"instruction {op!r} on {instr.type.text}")

    def _float(self, instr: Instr, c: int | None) -> Operand:
        flags = self.fast_flags(instr)
        a, b = (self.operand(instr, i, c) for i in (0, 1))
        if self.is_native(instr.type):
            return self.code.binary(instr.op, a, b, flags)
        a, b = (widen(self.code, x, instr.type) for x in (a, b))
        return self.narrow(self.code.binary(instr.op, a, b, flags), instr.type)

    def _frem(self, instr: Instr, c: int | None) -> Operand:
        raise UnsupportedFeature("the % operator on floating-point numbers (use fmod)")

    def _fneg(self, instr: Instr, c: int | None) -> Operand:
        a = self.operand(instr, 0, c)
        if instr.type.kind in ("float", "double"):
            return self.code.fneg(a)
        return self._sign_bits(a, instr.type, "xor", -32768)

    def _sign_bits(self, a: Operand, ty: Type, op: str, number: int) -> Operand:
        result = self.code.binary(op, self.code.bitcast(a, a.type.with_item(I16)), number)
        return self.code.bitcast(result, result.type if ty is I16 else a.type)

    def _icmp(self, instr: Instr, c: int | None) -> Operand:
        return self.code.icmp(str(instr.extra["pred"]), self.operand(instr, 0, c), self.operand(instr, 1, c))

    def _fcmp(self, instr: Instr, c: int | None) -> Operand:
        a, b = (self.operand(instr, i, c) for i in (0, 1))
        if not self.is_native(instr.args[0].type):
            a, b = (widen(self.code, x, instr.args[0].type) for x in (a, b))
        return self.code.fcmp(str(instr.extra["pred"]), a, b, self.fast_flags(instr))

    def _select(self, instr: Instr, c: int | None) -> Operand:
        if c is not None and instr.extra.get("is_between_extremes"):
            chosen = between_extremes(self.at, instr, c)
            if chosen is not None:
                return chosen
        is_one = c is None or self.values.shape(instr.args[0]).uniform
        test = self.operand(instr, 0, None if is_one else c)
        result = self.code.select(test, self.operand(instr, 1, c), self.operand(instr, 2, c))
        return self.code.fenced(result) if c is not None and instr.extra.get("is_extreme") else result

    def _freeze(self, instr: Instr, c: int | None) -> Operand:
        return self.code.freeze(self.operand(instr, 0, c))

    def _fpext(self, instr: Instr, c: int | None) -> Operand:
        wide = widen(self.code, self.operand(instr, 0, c), instr.args[0].type)
        return self.code.cast("fpext", wide, self.result_type(instr, c)) if instr.type.kind == "double" else wide

    def _fptrunc(self, instr: Instr, c: int | None) -> Operand:
        a = self.operand(instr, 0, c)
        if instr.type.kind == "float":
            return self.code.cast("fptrunc", a, self.result_type(instr, c))
        if instr.args[0].type.kind == "double":
            a = float_to_odd(self.code, a)
        return self.narrow(a, instr.type)

    def _bitcast(self, instr: Instr, c: int | None) -> Operand:
        source, target = instr.args[0].type, instr.type
        if source.kind == "vector" or target.kind == "vector":
            raise UnsupportedFeature(f"bitcast from {source.text} to {target.text}")
        return self.code.bitcast(self.operand(instr, 0, c), self.result_type(instr, c))

    def _int_to_float(self, instr: Instr, c: int | None) -> Operand:
        a = self.operand(instr, 0, c)
        is_narrow = a.type.bits < 32
        if is_narrow:
            a = self.code.cast("zext" if instr.op == "uitofp" else "sext", a, a.type.with_item(I32))
        if instr.type.kind in ("float", "double"):
            return self.code.cast(instr.op, a, self.result_type(instr, c))
        wide = self.code.cast(instr.op, a, a.type.with_item(FLOAT))
        if not is_narrow:
            wide = int_to_odd(self.code, wide, a, instr.op)
        return self.narrow(wide, instr.type)

    def _float_to_int(self, instr: Instr, c: int | None) -> Operand:
        a = widen(self.code, self.operand(instr, 0, c), instr.args[0].type)
        ty = self.result_type(instr, c)
        if ty.bits >= 32:
            return saturated(self.code, instr.op, a, ty)
        return self.code.trunc(saturated(self.code, "fptosi", a, ty.with_item(I32)), ty)

    def _divide(self, instr: Instr, c: int | None) -> Operand:
        divisor = instr.args[1]
        number = divisor.value if isinstance(divisor, Const) else None
        a, b = self.operand(instr, 0, c), self.operand(instr, 1, c)
        if number not in (None, 0) and not (number == -1 and instr.op[0] == "s"):
            return self.code.binary(instr.op, a, b)
        safe = is_safe_divisor(divisor, instr.op[0] == "s")
        if c is None:
            return self.code.binary(instr.op, a, b) if safe else divide(self.code, instr.op, a, b)
        if instr.type.bits <= 32:
            return divide_by_double(self.code, instr.op, a, b, safe)
        # 64 bits: the machine divides one lane at a time, in a function of its own because that is much code.
        name = f"mc.{instr.op}.{a.type.suffix}"
        self.code.helpers[name] = division_function(name, instr.op, a.type)
        return self.code.call(name, a.type, a, b)

    # -- intrinsics --------------------------------------------------------------------------------
    def _intrinsic(self, instr: Instr, c: int | None) -> Operand:
        base = ".".join(word for word in instr.callee.removeprefix("llvm.").split(".") if not _is_type(word))
        if base in _FLOAT_INTRINSICS or base in EXTREMES:
            return self._float_intrinsic(instr, base, c)
        if base in _INT_INTRINSICS:
            has_flag = base in ("abs", "ctlz", "cttz")  # what a bad operand gives: not poison
            args = [self.operand(instr, i, c) for i in range(len(instr.args) - has_flag)]
            return self.code.intrinsic(base, *args, *([FALSE] if has_flag else []))
        if base.endswith(".with.overflow") and base.split(".")[0] in _OVERFLOW:
            a, b = self.operand(instr, 0, c), self.operand(instr, 1, c)
            pair = struct(a.type, a.type.with_item(I1))
            return self.code.call(f"llvm.{base}.{a.type.suffix}", pair, a, b)
        if base in ("fptosi.sat", "fptoui.sat"):
            instr.op = base.split(".")[0]
            return self._float_to_int(instr, c)
        if base == "is.fpclass":
            return self._is_fpclass(instr, c)
        if base in ("scmp", "ucmp"):
            return self._three_way(instr, base[0], c)
        if base == "ldexp":
            raise UnsupportedFeature("llvm.ldexp")
        if instr.callee.startswith("llvm.load.relative"):
            raise UnsupportedFeature("a constant table of pointers")
        if base == "expect":
            return self.operand(instr, 0, c)
        raise UnsupportedFeature(f"call of {instr.callee}")

    def _three_way(self, instr: Instr, sign: str, c: int | None) -> Operand:
        a, b, ty = self.operand(instr, 0, c), self.operand(instr, 1, c), self.result_type(instr, c)
        less = self.code.icmp(f"{sign}lt", a, b)
        more = self.code.icmp(f"{sign}gt", a, b)
        up = self.code.zext(more, ty)
        return self.code.or_(up, self.code.sext(less, ty))

    def _is_fpclass(self, instr: Instr, c: int | None) -> Operand:
        source, tests = instr.args[0].type, instr.args[1]
        assert isinstance(tests, Const) and tests.value is not None
        a = self.operand(instr, 0, c)
        if source.kind == "bfloat":  # float has the same exponents, so every class is kept
            a = widen(self.code, a, source)
        name = f"llvm.is.fpclass.{a.type.suffix}"
        return self.code.call(name, a.type.with_item(I1), a, constant(I32, tests.value))

    def _float_intrinsic(self, instr: Instr, base: str, c: int | None) -> Operand:
        ty = instr.type
        if base == "fmuladd":
            base = "fma"  # contraction is always a true fused operation
        names = [self.operand(instr, i, c) for i in range(len(instr.args))]
        is_native = self.is_native(ty)
        if not is_native:
            if base == "fabs":
                return self._sign_bits(names[0], ty, "and", 32767)
            if base == "copysign":
                size = self._sign_bits(names[0], I16, "and", 32767)
                sign = self._sign_bits(names[1], I16, "and", -32768)
                return self.code.bitcast(self.code.or_(size, sign), names[0].type)
            names = [widen(self.code, n, ty) for n in names]
            if base == "fma":
                return self.narrow(fma_to_odd(self.code, *names), ty)
        if base in EXTREMES:
            base = EXTREMES[base]
            if self.at.plan.machine.has_extremes:
                names = quieted(self.code, instr, names)
        result = self.code.intrinsic(base, *names, how=self.fast_flags(instr))
        return result if is_native else self.narrow(result, ty)


def _is_type(word: str) -> bool:
    """Of an intrinsic's name: `f32` of `llvm.fma.f32`."""
    return word == "bf16" or (word[0] in "if" and word[1:].isdigit())
