"""Functions across the lanes of a simdgroup: reductions, scans, shuffles, votes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from metalcore.errors import UnsupportedFeature

from .ir import Const, Instr, Value
from .shapes import LANE

if TYPE_CHECKING:
    from .emitters import Emitters

_REDUCE = {
    "sum_f32": ("fadd", "float", "0.0"),
    "product_f32": ("fmul", "float", "1.0"),
    "sum_f64": ("fadd", "double", "0.0"),
    "product_f64": ("fmul", "double", "1.0"),
    "sum_i32": ("add", "i32", "0"),
    "sum_u32": ("add", "i32", "0"),
    "product_i32": ("mul", "i32", "1"),
    "product_u32": ("mul", "i32", "1"),
    "min_i32": ("smin", "i32", "2147483647"),
    "max_i32": ("smax", "i32", "-2147483648"),
    "min_u32": ("umin", "i32", "-1"),
    "max_u32": ("umax", "i32", "0"),
    "min_f32": ("minimum", "float", "0x7FF0000000000000"),
    "max_f32": ("maximum", "float", "0xFFF0000000000000"),
    "min_f64": ("minimum", "double", "0x7FF0000000000000"),
    "max_f64": ("maximum", "double", "0xFFF0000000000000"),
    "and_u32": ("and", "i32", "-1"),
    "or_u32": ("or", "i32", "0"),
    "xor_u32": ("xor", "i32", "0"),
}
_PLAIN = ("fadd", "fmul", "add", "mul", "and", "or", "xor")


class Simd:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values = at, at.code, at.values

    # -- small helpers -----------------------------------------------------------------------------
    def combine(self, op: str, ty: str, a: str, b: str) -> str:
        """op on two vectors (or scalars) of LLVM type ty."""
        if op in _PLAIN:
            return self.code.temp(f"{op} {ty} {a}, {b}")
        if op in ("maximum", "minimum"):
            return self._extreme(op, ty, a, b)
        short = (
            ty.replace("<", "v").replace(" x ", "").replace(">", "").replace("float", "f32").replace("double", "f64")
        )
        self.code.need(f"declare {ty} @llvm.{op}.{short}({ty}, {ty})")
        return self.code.temp(f"call {ty} @llvm.{op}.{short}({ty} {a}, {ty} {b})")

    def _extreme(self, op: str, ty: str, a: str, b: str) -> str:
        """One machine instruction, and NaN (every bit set) where either is NaN; which zero wins is left open."""
        flags, bits = (re.sub("float|double", word, ty) for word in ("i1", "i64" if "double" in ty else "i32"))
        better = self.code.temp(f"fcmp {'ogt' if op == 'maximum' else 'olt'} {ty} {a}, {b}")
        chosen = self.code.temp(f"select {flags} {better}, {ty} {a}, {ty} {b}")
        nan = self.code.temp(f"fcmp uno {ty} {a}, {b}")
        filled = self.code.temp(f"sext {flags} {nan} to {bits}")
        number = self.code.temp(f"bitcast {ty} {chosen} to {bits}")
        return self.code.temp(f"bitcast {bits} {self.code.temp(f'or {bits} {number}, {filled}')} to {ty}")

    def active(self, chunks: Sequence[str], ty: str, identity: str) -> list[str]:
        """Idle lanes contribute nothing."""
        temp, vec = self.code.temp, self.code.vec
        if self.values.mask is None:
            return list(chunks)
        return [
            temp(f"select {vec('i1')} {m}, {vec(ty)} {x}, {vec(ty)} splat ({ty} {identity})")
            for m, x in zip(self.values.mask, chunks, strict=True)
        ]

    def permute(self, whole: str, ty: str, picks: Sequence[int], other: str = "poison") -> str:
        text = ", ".join(f"i32 {p}" for p in picks)
        return self.code.temp(f"shufflevector <32 x {ty}> {whole}, <32 x {ty}> {other}, <32 x i32> <{text}>")

    # -- entry -------------------------------------------------------------------------------------
    def simd_call(self, instr: Instr) -> None:
        name = instr.callee[5:]
        if name.startswith("simdgroup_"):
            self.at.matrix.matrix_call(instr, *name.removeprefix("simdgroup_").split("_"))
            return
        name = name[5:]
        if name in _REDUCE:
            self._reduce(instr, *_REDUCE[name])
        elif name.startswith("prefix_"):
            kind, rest = name[7:16], name[17:]
            self._scan(instr, kind == "exclusive", *_REDUCE[rest])
        elif name in (
            "shuffle",
            "shuffle_xor",
            "shuffle_up",
            "shuffle_down",
            "shuffle_rotate_up",
            "shuffle_rotate_down",
            "rotate_up",
            "rotate_down",
            "fill_up",
            "fill_down",
        ):
            self._shuffle(instr, name.removeprefix("shuffle_") if name != "shuffle" else name)
        elif name == "take":
            self._shuffle(instr, "shuffle", watched=False)
        elif name == "broadcast":
            self._broadcast(instr)
        elif name == "broadcast_first":
            self.values.define_scalar(instr, self._lane_of(instr.args[0], self.at.memory.first_lane()))
        else:
            self._vote(instr, name)

    def _reduce(self, instr: Instr, op: str, ty: str, identity: str) -> None:
        parts = self.active(self.values.chunks(instr.args[0]), ty, identity)
        while len(parts) > 1:
            parts = [self.combine(op, self.code.vec(ty), a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        width, part = self.code.width, parts[0]
        while width > 1:
            half = width // 2
            low = ", ".join(f"i32 {i}" for i in range(half))
            high = ", ".join(f"i32 {i + half}" for i in range(half))
            vec = f"<{width} x {ty}>"
            a = self.code.temp(f"shufflevector {vec} {part}, {vec} poison, <{half} x i32> <{low}>")
            b = self.code.temp(f"shufflevector {vec} {part}, {vec} poison, <{half} x i32> <{high}>")
            part, width = self.combine(op, f"<{half} x {ty}>", a, b), half
        self.values.define_scalar(instr, self.code.temp(f"extractelement <1 x {ty}> {part}, i64 0"))

    def _scan(self, instr: Instr, exclusive: bool, op: str, ty: str, identity: str) -> None:
        """Within each chunk by doubling steps; then each chunk takes the total of those before it."""
        vec, width = self.code.vec(ty), self.code.width
        fill = f"splat ({ty} {identity})"
        before = ""
        last = ", ".join([f"i32 {width - 1}"] * width)
        for c, part in enumerate(self.active(self.values.chunks(instr.args[0]), ty, identity)):
            step = 1
            while step < width:
                moved = self._shift(part, fill, ty, step)
                part = self.combine(op, vec, moved, part)
                step *= 2
            shifted = self._shift(part, fill, ty, 1) if exclusive else part
            if before:
                part, shifted = (self.combine(op, vec, before, x) for x in (part, shifted))
            self.values.define_chunk(instr, c, shifted)
            before = self.code.temp(f"shufflevector {vec} {part}, {vec} poison, {self.code.vec('i32')} <{last}>")

    def _shift(self, part: str, fill: str, ty: str, step: int) -> str:
        """Lane i of the result is lane i - step, and the identity where there is none."""
        picks = ", ".join(f"i32 {i - step if i >= step else self.code.width + i}" for i in range(self.code.width))
        return self.code.temp(
            f"shufflevector {self.code.vec(ty)} {part}, {self.code.vec(ty)} {fill}, {self.code.vec('i32')} <{picks}>"
        )

    # -- shuffles ----------------------------------------------------------------------------------
    def _shuffle(self, instr: Instr, kind: str, watched: bool = True) -> None:
        amount = instr.args[2] if kind.startswith("fill") else instr.args[1]
        known = self.values.shape(amount).known
        modulo = 32
        if kind.startswith("fill"):
            size = instr.args[3]
            if not isinstance(size, Const) or size.value not in (2, 4, 8, 16, 32):
                raise UnsupportedFeature("simd_shuffle_and_fill with a modulo that is not a constant power of two")
            modulo = size.value
        if known is not None:
            picks = [_source_lane(kind, lane, known[lane] & 0xFFFFFFFF, modulo) for lane in LANE]
            if watched:
                self.at.watch.watch_fixed_shuffle(instr, picks)
            whole = self.code.join(self.values.chunks(instr.args[0]), "i32")
            other = self.code.join(self.values.chunks(instr.args[1]), "i32") if kind.startswith("fill") else "poison"
            for c, name in enumerate(self.code.split(self.permute(whole, "i32", picks, other), "i32")):
                self.values.define_chunk(instr, c, name)
            return
        data = self.at.memory.scratch("shuffle", 8)
        self.at.memory.spill_chunks(data, "i32", 4, self.values.chunks(instr.args[0]))
        if kind.startswith("fill"):
            second = self.code.temp(f"getelementptr i8, ptr {data}, i64 128")
            self.at.memory.spill_chunks(second, "i32", 4, self.values.chunks(instr.args[1]))
        sources = [self._dynamic_source(kind, self.values.chunk(amount, c), c, modulo) for c in range(self.code.count)]
        if watched:
            self.at.watch.watch_shuffle(instr, sources)
        for c, source in enumerate(sources):
            wide = self.code.temp(f"zext {self.code.vec('i32')} {source} to {self.code.vec('i64')}")
            pointers = self.code.temp(f"getelementptr i32, ptr {data}, {self.code.vec('i64')} {wide}")
            self.values.define_chunk(instr, c, self.at.gathers.gather(pointers, "i32", 4, None))

    def _dynamic_source(self, kind: str, amount: str, c: int, modulo: int) -> str:
        vec = self.code.vec("i32")
        lane = self.code.lane_constants("i32", LANE, c)
        if kind == "shuffle":
            return self.code.temp(f"and {vec} {amount}, splat (i32 31)")
        if kind == "xor":
            mixed = self.code.temp(f"xor {vec} {amount}, {lane}")
            return self.code.temp(f"and {vec} {mixed}, splat (i32 31)")
        if kind.startswith("rotate"):
            moved = self.code.temp(f"{'sub' if kind == 'rotate_up' else 'add'} {vec} {lane}, {amount}")
            return self.code.temp(f"and {vec} {moved}, splat (i32 31)")
        up = kind.endswith("up")
        moved = self.code.temp(f"{'sub' if up else 'add'} {vec} {lane}, {amount}")
        block = self.code.temp(f"and {vec} {lane}, splat (i32 {-modulo})")
        inner = self.code.temp(f"sub {vec} {moved}, {block}")
        ok = self.code.temp(f"icmp ult {vec} {inner}, splat (i32 {modulo})")
        small = self.code.temp(f"icmp ult {vec} {amount}, splat (i32 {modulo})")
        ok = self.code.temp(f"and {self.code.vec('i1')} {ok}, {small}")
        if kind.startswith("fill"):
            wrapped = self.code.temp(f"and {vec} {inner}, splat (i32 {modulo - 1})")
            filled = self.code.temp(f"add {vec} {wrapped}, {block}")
            filled = self.code.temp(f"add {vec} {filled}, splat (i32 32)")
            return self.code.temp(f"select {self.code.vec('i1')} {ok}, {vec} {moved}, {vec} {filled}")
        return self.code.temp(f"select {self.code.vec('i1')} {ok}, {vec} {moved}, {vec} {lane}")

    def _lane_of(self, value: Value, lane: str) -> str:
        """One lane of a 32-bit value as a scalar; `lane` is a number or a name."""
        if self.values.shape(value).uniform:
            return self.values.scalar(value)
        if lane.isdigit():
            number = int(lane)
            part = self.values.chunk(value, number // self.code.width)
            return self.code.temp(f"extractelement {self.code.vec('i32')} {part}, i64 {number % self.code.width}")
        data = self.at.memory.scratch("shuffle", 8)
        self.at.memory.spill_chunks(data, "i32", 4, self.values.chunks(value))
        wide = self.code.temp(f"zext i32 {lane} to i64")
        at = self.code.temp(f"getelementptr i32, ptr {data}, i64 {wide}")
        return self.code.temp(f"load i32, ptr {at}")

    def _broadcast(self, instr: Instr) -> None:
        lane = instr.args[1]
        known = self.values.shape(lane).known
        if known is not None:
            name = str(known[0] & 31)
            self.at.watch.watch_fixed_shuffle(instr, [known[0] & 31] * len(LANE))
        else:
            raw = (
                self.values.scalar(lane)
                if self.values.shape(lane).uniform
                else self._lane_of(lane, self.at.memory.first_lane())
            )
            name = self.code.temp(f"and i32 {raw}, 31")
            self.at.watch.watch_shuffle(instr, [self.values.splat("i32", name)] * self.code.count)
        self.values.define_scalar(instr, self._lane_of(instr.args[0], name))

    def _vote(self, instr: Instr, name: str) -> None:
        if name == "active_threads_mask":
            self.values.define_scalar(instr, self.code.temp(f"zext i32 {self.code.bits(self.values.mask)} to i64"))
            return
        if name == "is_first":
            lane = self.values.splat("i32", self.at.memory.first_lane())
            for c in range(self.code.count):
                hit = self.code.temp(
                    f"icmp eq {self.code.vec('i32')} {lane}, {self.code.lane_constants('i32', LANE, c)}"
                )
                self.values.define_chunk(
                    instr, c, self.code.temp(f"zext {self.code.vec('i1')} {hit} to {self.code.vec('i32')}")
                )
            return
        tests = []
        for c in range(self.code.count):
            hit = self.code.temp(
                f"icmp ne {self.code.vec('i32')} {self.values.chunk(instr.args[0], c)}, zeroinitializer"
            )
            hit = self.code.temp(f"freeze {self.code.vec('i1')} {hit}")
            if self.values.mask is not None:
                if name == "all":
                    idle = self.code.temp(f"xor {self.code.vec('i1')} {self.values.mask[c]}, splat (i1 true)")
                    hit = self.code.temp(f"or {self.code.vec('i1')} {hit}, {idle}")
                else:
                    hit = self.code.temp(f"and {self.code.vec('i1')} {hit}, {self.values.mask[c]}")
            tests.append(hit)
        if name == "ballot":
            self.values.define_scalar(instr, self.code.temp(f"zext i32 {self.code.bits(tests)} to i64"))
        elif name in ("any", "all"):
            result = self.code.any(tests) if name == "any" else self.code.all(tests)
            self.values.define_scalar(instr, self.code.temp(f"zext i1 {result} to i32"))
        else:
            raise UnsupportedFeature(f"simdgroup function {name}")


def _source_lane(kind: str, lane: int, amount: int, modulo: int) -> int:
    """Which lane a shuffle reads, 32 and more meaning the fill operand."""
    if kind == "shuffle":
        return amount & 31
    if kind == "xor":
        return (lane ^ amount) & 31
    if kind == "rotate_up":
        return (lane - amount) & 31
    if kind == "rotate_down":
        return (lane + amount) & 31
    up = kind.endswith("up")
    source = lane - amount if up else lane + amount
    start = lane // modulo * modulo
    inside = start <= source < start + modulo
    if inside:
        return source
    if kind.startswith("fill"):
        return 32 + start + (source - start) % modulo
    return lane
