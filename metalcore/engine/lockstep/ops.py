"""Arithmetic: one scalar instruction -> the same on a scalar (uniform) or on one chunk of lanes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from metalcore.errors import UnsupportedFeature

from .ir import Const, Instr, Type, Value
from .values import scalar_type

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
        "minnum",
        "maxnum",
        "minimum",
        "maximum",
        "minimumnum",
        "maximumnum",
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
    """Pure operations. `form` is "" for a scalar or a chunk number: helpers below take the vector prefix they need."""

    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values = at, at.code, at.values
        self._handlers: dict[str, Callable[[Instr, int | None], str]] = {
            "frem": self._frem,
            "fneg": self._fneg,
            "icmp": self._icmp,
            "fcmp": self._fcmp,
            "select": self._select,
            "freeze": self._freeze,
            "fpext": self._fpext,
            "fptrunc": self._fptrunc,
            "bitcast": self._bitcast,
            "ptrtoint": self._ptrtoint,
            "inttoptr": self._inttoptr,
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

    def ty(self, scalar: str, c: int | None) -> str:
        return scalar if c is None else self.code.vec(scalar)

    def operand(self, instr: Instr, i: int, c: int | None) -> str:
        value = instr.args[i]
        return self.values.scalar(value) if c is None else self.values.chunk(value, c)

    def literal(self, ty: str, text: str, c: int | None) -> str:
        """A constant as an operand of the wanted form."""
        if c is None:
            return text
        return f"splat ({ty} {text})"

    # -- half and bfloat ---------------------------------------------------------------------------
    def widen(self, name: str, ty: Type, c: int | None) -> str:
        """half or bfloat -> float; float and double stay."""
        if ty.kind in ("float", "double"):
            return name
        if ty.kind == "half":
            return self.code.temp(f"fpext {self.ty('half', c)} {name} to {self.ty('float', c)}")
        wide = self.code.temp(f"zext {self.ty('i16', c)} {name} to {self.ty('i32', c)}")
        high = self.code.temp(f"shl {self.ty('i32', c)} {wide}, {self.literal('i32', '16', c)}")
        return self.code.temp(f"bitcast {self.ty('i32', c)} {high} to {self.ty('float', c)}")

    def narrow(self, name: str, ty: Type, c: int | None) -> str:
        """float -> half or bfloat, to nearest even."""
        if ty.kind == "half":
            return self.code.temp(f"fptrunc {self.ty('float', c)} {name} to {self.ty('half', c)}")
        i32 = self.ty("i32", c)
        bits = self.code.temp(f"bitcast {self.ty('float', c)} {name} to {i32}")
        high = self.code.temp(f"lshr {i32} {bits}, {self.literal('i32', '16', c)}")
        odd = self.code.temp(f"and {i32} {high}, {self.literal('i32', '1', c)}")
        bias = self.code.temp(f"add {i32} {odd}, {self.literal('i32', '32767', c)}")
        rounded = self.code.temp(f"add {i32} {bits}, {bias}")
        # A NaN becomes the one with every bit set: to keep its own bits would cost a blend.
        nan = self.code.temp(f"fcmp uno {self.ty('float', c)} {name}, {name}")
        filled = self.code.temp(f"sext {self.ty('i1', c)} {nan} to {i32}")
        chosen = self.code.temp(f"or {i32} {rounded}, {filled}")
        top = self.code.temp(f"lshr {i32} {chosen}, {self.literal('i32', '16', c)}")
        result = self.code.temp(f"trunc {i32} {top} to {self.ty('i16', c)}")
        if c is not None:
            self.values.tops[result] = top
            self.values.rounded[result] = rounded, filled
        return result

    def single(self, name: str, c: int | None) -> str:
        """double -> float rounded to odd: rounding it again to 16 bits is then right."""
        f32, f64, i32 = self.ty("float", c), self.ty("double", c), self.ty("i32", c)
        rounded = self.code.temp(f"fptrunc {f64} {name} to {f32}")
        back = self.code.temp(f"fpext {f32} {rounded} to {f64}")
        inexact = self.code.temp(f"fcmp one {f64} {back}, {name}")
        magnitudes = []
        for value in (back, name):
            self.code.need(f"declare {f64} @llvm.fabs.{self.suffix('double', c)}({f64})")
            magnitudes.append(self.code.temp(f"call {f64} @llvm.fabs.{self.suffix('double', c)}({f64} {value})"))
        above = self.code.temp(f"fcmp ogt {f64} {magnitudes[0]}, {magnitudes[1]}")
        bits = self.code.temp(f"bitcast {f32} {rounded} to {i32}")
        back_by = self.code.temp(f"sext {self.ty('i1', c)} {above} to {i32}")
        truncated = self.code.temp(f"add {i32} {bits}, {back_by}")
        odd = self.code.temp(f"or {i32} {truncated}, {self.literal('i32', '1', c)}")
        chosen = self.code.temp(f"select {self.ty('i1', c)} {inexact}, {i32} {odd}, {i32} {bits}")
        return self.code.temp(f"bitcast {i32} {chosen} to {f32}")

    def round_to_odd(self, a: str, b: str, addend: str, c: int | None) -> str:
        """float(a*b + addend) rounded to odd, where a*b is exact: rounding it again to 16 bits is then right."""
        f32, i32 = self.ty("float", c), self.ty("i32", c)
        product = self.code.temp(f"fmul {f32} {a}, {b}")
        total = self.code.temp(f"fadd {f32} {product}, {addend}")
        back = self.code.temp(f"fsub {f32} {total}, {product}")
        rest = self.code.temp(f"fsub {f32} {total}, {back}")
        left = self.code.temp(f"fsub {f32} {product}, {rest}")
        right = self.code.temp(f"fsub {f32} {addend}, {back}")
        error = self.code.temp(f"fadd {f32} {left}, {right}")
        inexact = self.code.temp(f"fcmp one {f32} {error}, {self.literal('float', '0.0', c)}")
        bits = self.code.temp(f"bitcast {f32} {total} to {i32}")
        error_bits = self.code.temp(f"bitcast {f32} {error} to {i32}")
        differ = self.code.temp(f"xor {i32} {bits}, {error_bits}")
        sign = self.code.temp(
            f"ashr {i32} {differ}, {self.literal('i32', '31', c)}"
        )  # -1 where the error pulls towards zero
        step = self.code.temp(f"or {i32} {sign}, {self.literal('i32', '1', c)}")
        low = self.code.temp(f"and {i32} {bits}, {self.literal('i32', '1', c)}")
        even = self.code.temp(f"icmp eq {i32} {low}, {self.literal('i32', '0', c)}")
        fix = self.code.temp(f"and {self.ty('i1', c)} {even}, {inexact}")
        moved = self.code.temp(f"add {i32} {bits}, {step}")
        chosen = self.code.temp(f"select {self.ty('i1', c)} {fix}, {i32} {moved}, {i32} {bits}")
        return self.code.temp(f"bitcast {i32} {chosen} to {f32}")

    # -- dispatch ----------------------------------------------------------------------------------
    def compute(self, instr: Instr, c: int | None) -> str:
        """Write the operation for a scalar (c is None) or one chunk; the result's name."""
        op = instr.op
        if op == "call":
            return self._intrinsic(instr, c)
        if op == "getelementptr":
            return self.at.memory.gep(instr, c)
        handler = self._handlers.get(op)
        if handler is not None:
            return handler(instr, c)
        if op in ("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr"):
            ty = self.ty(scalar_type(instr.type), c)
            return self.code.temp(f"{op} {ty} {self.operand(instr, 0, c)}, {self.operand(instr, 1, c)}")
        if op in ("fadd", "fsub", "fmul", "fdiv"):
            return self._float(instr, c)
        if op in ("udiv", "sdiv", "urem", "srem"):
            return self._divide(instr, c)
        if op in ("zext", "sext", "trunc"):
            source, target = scalar_type(instr.args[0].type), scalar_type(instr.type)
            return self.code.temp(f"{op} {self.ty(source, c)} {self.operand(instr, 0, c)} to {self.ty(target, c)}")
        raise UnsupportedFeature(f"instruction {op!r} on {instr.type.text}")

    def _float(self, instr: Instr, c: int | None) -> str:
        flags = self.fast_flags(instr)
        a, b = self.operand(instr, 0, c), self.operand(instr, 1, c)
        if instr.type.kind == "float" or instr.type.kind == "double":
            return self.code.temp(f"{instr.op} {flags}{self.ty(instr.type.text, c)} {a}, {b}")
        wide = self.code.temp(
            f"{instr.op} {flags}{self.ty('float', c)} {self.widen(a, instr.type, c)}, {self.widen(b, instr.type, c)}"
        )
        return self.narrow(wide, instr.type, c)

    def _frem(self, instr: Instr, c: int | None) -> str:
        raise UnsupportedFeature("the % operator on floating-point numbers (use fmod)")

    def _fneg(self, instr: Instr, c: int | None) -> str:
        a = self.operand(instr, 0, c)
        if instr.type.kind in ("float", "double"):
            return self.code.temp(f"fneg {self.ty(instr.type.text, c)} {a}")
        return self._sign_bits(a, instr.type, "xor", "-32768", c)

    def _sign_bits(self, a: str, ty: Type, op: str, constant: str, c: int | None) -> str:
        i16 = self.ty("i16", c)
        if ty.kind == "half":
            a = self.code.temp(f"bitcast {self.ty('half', c)} {a} to {i16}")
        result = self.code.temp(f"{op} {i16} {a}, {self.literal('i16', constant, c)}")
        return self.code.temp(f"bitcast {i16} {result} to {self.ty('half', c)}") if ty.kind == "half" else result

    def _icmp(self, instr: Instr, c: int | None) -> str:
        ty = self.ty(scalar_type(instr.args[0].type), c)
        return self.code.temp(
            f"icmp {instr.extra['pred']} {ty} {self.operand(instr, 0, c)}, {self.operand(instr, 1, c)}"
        )

    def _fcmp(self, instr: Instr, c: int | None) -> str:
        ty = instr.args[0].type
        a, b = self.operand(instr, 0, c), self.operand(instr, 1, c)
        wide = self.ty("double" if ty.kind == "double" else "float", c)
        a, b = self.widen(a, ty, c), self.widen(b, ty, c)
        return self.code.temp(f"fcmp {self.fast_flags(instr)}{instr.extra['pred']} {wide} {a}, {b}")

    def _select(self, instr: Instr, c: int | None) -> str:
        ty = self.ty(scalar_type(instr.type), c)
        if c is None or self.values.shape(instr.args[0]).uniform:
            test = f"i1 {self.values.scalar(instr.args[0])}"
        else:
            test = f"{self.code.vec('i1')} {self.values.chunk(instr.args[0], c)}"
        return self.code.temp(f"select {test}, {ty} {self.operand(instr, 1, c)}, {ty} {self.operand(instr, 2, c)}")

    def _freeze(self, instr: Instr, c: int | None) -> str:
        return self.code.temp(f"freeze {self.ty(scalar_type(instr.type), c)} {self.operand(instr, 0, c)}")

    def _fpext(self, instr: Instr, c: int | None) -> str:
        wide = self.widen(self.operand(instr, 0, c), instr.args[0].type, c)
        if instr.type.kind == "double":
            return self.code.temp(f"fpext {self.ty('float', c)} {wide} to {self.ty('double', c)}")
        return wide

    def _fptrunc(self, instr: Instr, c: int | None) -> str:
        a = self.operand(instr, 0, c)
        if instr.type.kind == "float":
            return self.code.temp(f"fptrunc {self.ty('double', c)} {a} to {self.ty('float', c)}")
        if instr.args[0].type.kind == "double":
            a = self.single(a, c)
        return self.narrow(a, instr.type, c)

    def _bitcast(self, instr: Instr, c: int | None) -> str:
        source, target = instr.args[0].type, instr.type
        if source.kind == "vector" or target.kind == "vector":
            raise UnsupportedFeature(f"bitcast from {source.text} to {target.text}")
        if scalar_type(source) == scalar_type(target):
            return self.operand(instr, 0, c)
        return self.code.temp(
            f"bitcast {self.ty(scalar_type(source), c)} {self.operand(instr, 0, c)} "
            f"to {self.ty(scalar_type(target), c)}"
        )

    def _ptrtoint(self, instr: Instr, c: int | None) -> str:
        return self.code.temp(
            f"ptrtoint {self.ty('ptr', c)} {self.operand(instr, 0, c)} to {self.ty(instr.type.text, c)}"
        )

    def _inttoptr(self, instr: Instr, c: int | None) -> str:
        source = instr.args[0].type.text
        return self.code.temp(f"inttoptr {self.ty(source, c)} {self.operand(instr, 0, c)} to {self.ty('ptr', c)}")

    def _int_to_float(self, instr: Instr, c: int | None) -> str:
        source = instr.args[0].type
        a = self.operand(instr, 0, c)
        if source.bits < 32:
            extend = "zext" if instr.op == "uitofp" else "sext"
            a = self.code.temp(f"{extend} {self.ty(source.text, c)} {a} to {self.ty('i32', c)}")
            source_text = "i32"
        else:
            source_text = source.text
        if instr.type.kind == "double":
            return self.code.temp(f"{instr.op} {self.ty(source_text, c)} {a} to {self.ty('double', c)}")
        wide = self.code.temp(f"{instr.op} {self.ty(source_text, c)} {a} to {self.ty('float', c)}")
        if instr.type.kind == "float":
            return wide
        if source.bits >= 32:
            wide = self._odd_from_int(wide, a, instr.op, source_text, c)
        return self.narrow(wide, instr.type, c)

    def _odd_from_int(self, rounded: str, value: str, op: str, source: str, c: int | None) -> str:
        """Integer -> float rounded to odd, so that rounding once more to 16 bits is right."""
        back_op = "fptoui" if op == "uitofp" else "fptosi"
        i32, ity = self.ty("i32", c), self.ty(source, c)
        bits = self.code.temp(f"bitcast {self.ty('float', c)} {rounded} to {i32}")
        high = self.code.temp(
            f"call {ity} @llvm.{back_op}.sat.{self.suffix(source, c)}.{self.suffix('float', c)}"
            f"({self.ty('float', c)} {rounded})"
        )
        floats = self.ty("float", c)
        self.code.need(
            f"declare {ity} @llvm.{back_op}.sat.{self.suffix(source, c)}.{self.suffix('float', c)}({floats})"
        )
        inexact = self.code.temp(f"icmp ne {ity} {high}, {value}")
        compare = "ugt" if op == "uitofp" else "sgt"
        above = self.code.temp(f"icmp {compare} {ity} {high}, {value}")
        negative = self.code.temp(f"icmp slt {i32} {bits}, {self.literal('i32', '0', c)}")
        towards = self.code.temp(f"xor {self.ty('i1', c)} {above}, {negative}")
        step = self.code.temp(
            f"select {self.ty('i1', c)} {towards}, {i32} {self.literal('i32', '-1', c)}, "
            f"{i32} {self.literal('i32', '1', c)}"
        )
        low = self.code.temp(f"and {i32} {bits}, {self.literal('i32', '1', c)}")
        even = self.code.temp(f"icmp eq {i32} {low}, {self.literal('i32', '0', c)}")
        fix = self.code.temp(f"and {self.ty('i1', c)} {even}, {inexact}")
        moved = self.code.temp(f"add {i32} {bits}, {step}")
        chosen = self.code.temp(f"select {self.ty('i1', c)} {fix}, {i32} {moved}, {i32} {bits}")
        return self.code.temp(f"bitcast {i32} {chosen} to {self.ty('float', c)}")

    def _float_to_int(self, instr: Instr, c: int | None) -> str:
        source, bits = instr.args[0].type, instr.type.bits
        a = self.widen(self.operand(instr, 0, c), source, c)
        real = "double" if source.kind == "double" else "float"
        wide = instr.type.text if bits >= 32 else "i32"
        op = instr.op if bits >= 32 else "fptosi"
        name = f"llvm.{op}.sat.{self.suffix(wide, c)}.{self.suffix(real, c)}"
        self.code.need(f"declare {self.ty(wide, c)} @{name}({self.ty(real, c)})")
        result = self.code.temp(f"call {self.ty(wide, c)} @{name}({self.ty(real, c)} {a})")
        if bits < 32:
            result = self.code.temp(f"trunc {self.ty('i32', c)} {result} to {self.ty(instr.type.text, c)}")
        return result

    def suffix(self, ty: str, c: int | None) -> str:
        short = {"float": "f32", "half": "f16", "double": "f64"}.get(ty, ty)
        return short if c is None else f"v{self.code.width}{short}"

    # -- division ----------------------------------------------------------------------------------
    def _divide(self, instr: Instr, c: int | None) -> str:
        """x / 0 is 0 and x % 0 is x; INT_MIN / -1 wraps. Idle lanes may hold anything, so nothing may trap."""
        divisor = instr.args[1]
        constant = divisor.value if isinstance(divisor, Const) else None
        a, b = self.operand(instr, 0, c), self.operand(instr, 1, c)
        ty = self.ty(instr.type.text, c)
        if constant not in (None, 0) and not (constant == -1 and instr.op[0] == "s"):
            return self.code.temp(f"{instr.op} {ty} {a}, {b}")
        safe = is_safe_divisor(divisor, instr.op[0] == "s")
        if c is None:
            if safe:
                return self.code.temp(f"{instr.op} {ty} {a}, {b}")
            return divide_code(self.code.temp, instr.op, instr.type.text, a, b)
        if instr.type.bits > 32:
            return self._divide_lanes(instr, a, b)
        return self._divide_by_double(instr, a, b, c, safe)

    def _divide_lanes(self, instr: Instr, a: str, b: str) -> str:
        """64 bits: the machine divides one lane at a time, in a function of its own because that is much code."""
        ty = instr.type.text
        name = f"mc.{instr.op}.v{self.code.width}{ty}"
        self.code.helpers[name] = division_function(name, instr.op, ty, self.code.width)
        vec = self.code.vec(ty)
        return self.code.temp(f"call {vec} @{name}({vec} {a}, {vec} {b})")

    def _divide_by_double(self, instr: Instr, a: str, b: str, c: int, safe: bool) -> str:
        """Up to 32 bits: the double quotient, truncated, is exact."""
        ty, signed = instr.type.text, instr.op[0] == "s"
        vec, doubles = self.code.vec(ty), self.code.vec("double")
        i32 = self.code.vec("i32")
        if instr.type.bits < 32:
            extend = "sext" if signed else "zext"
            wa, wb = (self.code.temp(f"{extend} {vec} {x} to {i32}") for x in (a, b))
            signed = True
        else:
            wa, wb = a, b
        to = "sitofp" if signed else "uitofp"
        x, y = (self.code.temp(f"{to} {i32} {v} to {doubles}") for v in (wa, wb))
        q = self.code.temp(f"fdiv {doubles} {x}, {y}")
        if signed:
            quotient = self._truncated(q, safe)
        else:
            # Unsigned: halve the range by hand, the machine converts signed numbers only.
            big = self.code.temp(f"fcmp oge {doubles} {q}, splat (double 2147483648.0)")
            less = self.code.temp(f"fsub {doubles} {q}, splat (double 2147483648.0)")
            part = self.code.temp(f"select {self.code.vec('i1')} {big}, {doubles} {less}, {doubles} {q}")
            low = self._truncated(part, safe)
            top = self.code.temp(
                f"select {self.code.vec('i1')} {big}, {i32} splat (i32 -2147483648), {i32} zeroinitializer"
            )
            quotient = self.code.temp(f"xor {i32} {low}, {top}")
        if signed and instr.type.bits == 32 and not safe:
            # INT_MIN / -1 is 2^31 as a double, which saturates; wrap it.
            minus = self.code.temp(f"icmp eq {i32} {wb}, splat (i32 -1)")
            negated = self.code.temp(f"sub {i32} zeroinitializer, {wa}")
            quotient = self.code.temp(f"select {self.code.vec('i1')} {minus}, {i32} {negated}, {i32} {quotient}")
        if not safe:
            zero = self.code.temp(f"icmp eq {i32} {wb}, zeroinitializer")
            quotient = self.code.temp(f"select {self.code.vec('i1')} {zero}, {i32} zeroinitializer, {i32} {quotient}")
        if instr.op.endswith("rem"):
            product = self.code.temp(f"mul {i32} {quotient}, {wb}")
            quotient = self.code.temp(f"sub {i32} {wa}, {product}")
        if instr.type.bits < 32:
            quotient = self.code.temp(f"trunc {i32} {quotient} to {vec}")
        return quotient

    def _truncated(self, q: str, safe: bool) -> str:
        """Doubles to 32-bit numbers; a quotient by a safe divisor fits."""
        i32, doubles = self.code.vec("i32"), self.code.vec("double")
        if safe:
            return self.code.temp(f"fptosi {doubles} {q} to {i32}")
        name = f"llvm.fptosi.sat.v{self.code.width}i32.v{self.code.width}f64"
        self.code.need(f"declare {i32} @{name}({doubles})")
        return self.code.temp(f"call {i32} @{name}({doubles} {q})")

    # -- intrinsics --------------------------------------------------------------------------------
    def _intrinsic(self, instr: Instr, c: int | None) -> str:
        match = re.match(r"llvm\.([a-z.]+?)(\.[vif]?\w*\d+.*|\.bf16)?$", instr.callee)
        base = match.group(1) if match else instr.callee
        if base in _FLOAT_INTRINSICS:
            return self._float_intrinsic(instr, base, c)
        if base in _INT_INTRINSICS:
            ty = self.ty(instr.type.text, c)
            name = f"llvm.{base}.{self.suffix(instr.type.text, c)}"
            has_flag = base in ("abs", "ctlz", "cttz")  # what a bad operand gives: not poison
            args = [f"{ty} {self.operand(instr, i, c)}" for i in range(len(instr.args) - has_flag)]
            types = [ty] * len(args)
            if has_flag:
                args.append("i1 false")
                types.append("i1")
            self.code.need(f"declare {ty} @{name}({', '.join(types)})")
            return self.code.temp(f"call {ty} @{name}({', '.join(args)})")
        if base.endswith(".with.overflow") and base.split(".")[0] in _OVERFLOW:
            ty = self.ty(instr.args[0].type.text, c)
            pair = f"{{ {ty}, {self.ty('i1', c)} }}"
            name = f"llvm.{base}.{self.suffix(instr.args[0].type.text, c)}"
            self.code.need(f"declare {pair} @{name}({ty}, {ty})")
            return self.code.temp(
                f"call {pair} @{name}({ty} {self.operand(instr, 0, c)}, {ty} {self.operand(instr, 1, c)})"
            )
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

    def _three_way(self, instr: Instr, sign: str, c: int | None) -> str:
        ty = self.ty(instr.args[0].type.text, c)
        a, b = self.operand(instr, 0, c), self.operand(instr, 1, c)
        less = self.code.temp(f"icmp {sign}lt {ty} {a}, {b}")
        more = self.code.temp(f"icmp {sign}gt {ty} {a}, {b}")
        out = self.ty(instr.type.text, c)
        up = self.code.temp(f"zext {self.ty('i1', c)} {more} to {out}")
        down = self.code.temp(f"sext {self.ty('i1', c)} {less} to {out}")
        return self.code.temp(f"or {out} {up}, {down}")

    def _is_fpclass(self, instr: Instr, c: int | None) -> str:
        source = instr.args[0].type
        a = self.operand(instr, 0, c)
        tests = instr.args[1]
        assert isinstance(tests, Const) and tests.value is not None
        ty = source.text
        if source.kind == "bfloat":  # float has the same exponents, so every class is kept
            a, ty = self.widen(a, source, c), "float"
        name = f"llvm.is.fpclass.{self.suffix(ty, c)}"
        self.code.need(f"declare {self.ty('i1', c)} @{name}({self.ty(ty, c)}, i32 immarg)")
        return self.code.temp(f"call {self.ty('i1', c)} @{name}({self.ty(ty, c)} {a}, i32 {tests.value})")

    def _float_intrinsic(self, instr: Instr, base: str, c: int | None) -> str:
        ty = instr.type
        if base == "fmuladd":
            base = "fma"  # contraction is always a true fused operation
        names = [self.operand(instr, i, c) for i in range(len(instr.args))]
        if ty.kind in ("half", "bfloat"):
            if base == "fabs":
                return self._sign_bits(names[0], ty, "and", "32767", c)
            if base == "fma":
                a, b, addend = (self.widen(n, ty, c) for n in names)
                return self.narrow(self.round_to_odd(a, b, addend, c), ty, c)
            names = [self.widen(n, ty, c) for n in names]
        real = "double" if ty.kind == "double" else "float"
        wide = self.ty(real, c)
        name = f"llvm.{base}.{self.suffix(real, c)}"
        self.code.need(f"declare {wide} @{name}({', '.join([wide] * len(names))})")
        result = self.code.temp(
            f"call {self.fast_flags(instr)}{wide} @{name}({', '.join(f'{wide} {n}' for n in names)})"
        )
        return self.narrow(result, ty, c) if ty.kind in ("half", "bfloat") else result


def is_safe_divisor(value: Value, signed: bool) -> bool:
    """Whether a divisor is never 0, nor -1 where that matters: codegen/defined.py has made it so, as LLVM spells it."""
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


def divide_code(temp: Callable[[str], str], op: str, ty: str, a: str, b: str) -> str:
    """Scalar division that never traps."""
    signed = op[0] == "s"
    zero = temp(f"icmp eq {ty} {b}, 0")
    safe = temp(f"select i1 {zero}, {ty} 1, {ty} {b}")
    minus = ""
    if signed:
        minus = temp(f"icmp eq {ty} {b}, -1")
        safe = temp(f"select i1 {minus}, {ty} 1, {ty} {safe}")
    result = temp(f"{op} {ty} {a}, {safe}")
    if signed:
        negated = temp(f"sub {ty} 0, {a}") if op == "sdiv" else "0"
        result = temp(f"select i1 {minus}, {ty} {negated}, {ty} {result}")
    at_zero = "0" if op.endswith("div") else a
    return temp(f"select i1 {zero}, {ty} {at_zero}, {ty} {result}")


def division_function(name: str, op: str, ty: str, width: int) -> str:
    """A vector division lane by lane."""
    vec = f"<{width} x {ty}>"
    lines = [f"define internal {vec} @{name}({vec} %a, {vec} %b) noinline nounwind {{"]

    def temp(text: str) -> str:
        lines.append(f"  %t{len(lines)} = {text}")
        return f"%t{len(lines) - 1}"

    result = "poison"
    for i in range(width):
        x, y = (temp(f"freeze {ty} {temp(f'extractelement {vec} {v}, i64 {i}')}") for v in ("%a", "%b"))
        result = temp(f"insertelement {vec} {result}, {ty} {divide_code(temp, op, ty, x, y)}, i64 {i}")
    return "\n".join([*lines, f"  ret {vec} {result}", "}"])
