"""Functions across the lanes of a simdgroup: reductions, scans, shuffles, votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import I32, I64, Const, Instr, Value, integer
from metalcore.errors import UnsupportedFeature

from .externals import EXTERNALS, Reduction
from .operands import Operand, constant, zero
from .shape import LANE

if TYPE_CHECKING:
    from .emitters import Emitters

_PLAIN = ("fadd", "fmul", "add", "mul", "and", "or", "xor")


class Simd:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values = at, at.code, at.values

    # -- small helpers -----------------------------------------------------------------------------
    def combine(self, op: str, a: Operand, b: Operand) -> Operand:
        if op in _PLAIN:
            return self.code.binary(op, a, b)
        if op in ("maximum", "minimum"):
            return self._extreme(op, a, b)
        return self.code.intrinsic(op, a, b)

    def _extreme(self, op: str, a: Operand, b: Operand) -> Operand:
        """One machine instruction, and NaN where either is NaN; which zero wins is left open."""
        if self.at.plan.machine.has_extremes:
            return self.code.intrinsic(op, a, b)
        bits = a.type.with_item(integer(a.type.bits))
        better = self.code.fcmp("ogt" if op == "maximum" else "olt", a, b)
        chosen = self.code.select(better, a, b)
        nan = self.code.fcmp("uno", a, b)
        filled = self.code.sext(nan, bits)
        number = self.code.bitcast(chosen, bits)
        return self.code.bitcast(self.code.or_(number, filled), a.type)

    def active(self, chunks: list[Operand], identity: Operand) -> list[Operand]:
        """Idle lanes contribute nothing."""
        if self.values.mask is None:
            return chunks
        return [self.code.select(m, x, identity) for m, x in zip(self.values.mask, chunks, strict=True)]

    # -- entry -------------------------------------------------------------------------------------
    def simd_call(self, instr: Instr) -> None:
        external = EXTERNALS[instr.callee]
        reduction = external.reduction
        if external.emitter == "matrix":
            self.at.matrix.matrix_call(instr, *external.name.removeprefix("simdgroup_").split("_"))
        elif external.decided_by is not None and self.values.shape(instr).uniform:
            self._broadcast(instr, watched=external.emitter == "shuffle")
        elif external.emitter == "shuffle":
            self._shuffle(instr, external.kind)
        elif external.emitter == "take":
            self._shuffle(instr, "shuffle", watched=False)
        elif external.emitter == "broadcast":
            self._broadcast(instr)
        elif external.emitter == "first":
            self.values.define_scalar(instr, self._lane_of(instr.args[0], self._first_lane()))
        elif external.emitter == "vote":
            self._vote(instr, external.kind)
        elif external.emitter == "reduce" and reduction is not None:
            self._reduce(instr, reduction)
        else:
            assert reduction is not None
            self._scan(instr, external.emitter == "exclusive scan", reduction)

    def _reduce(self, instr: Instr, by: Reduction) -> None:
        parts = self.active(self.values.chunks(instr.args[0]), constant(self.code.vec(by.type), by.identity))
        while len(parts) > 1:
            parts = [self.combine(by.op, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        width, part = self.code.width, parts[0]
        while width > 1:
            half = width // 2
            low, high = self.code.shuffle(part, range(half)), self.code.shuffle(part, range(half, width))
            part, width = self.combine(by.op, low, high), half
        self.values.define_scalar(instr, self.code.extract(part, 0))

    def _scan(self, instr: Instr, exclusive: bool, by: Reduction) -> None:
        """Within each chunk by doubling steps; then each chunk takes the total of those before it.

        Lanes move inside of quarters of four; where halves are added it is the last lane of the lower one, for all of
        the upper. Registers are made of parts of four lanes, and moves between those are slow.
        """
        width, fill = self.code.width, constant(self.code.vec(by.type), by.identity)
        before: Operand | None = None
        for c, part in enumerate(self.active(self.values.chunks(instr.args[0]), fill)):
            step = 1
            while step < width:
                part = self.combine(by.op, self._lower(part, fill, step), part)
                step *= 2
            shifted = self._shift(part, fill) if exclusive else part
            total = self.code.shuffle(part, [width - 1] * width)  # which waits for no other chunk
            self.values.define_chunk(instr, c, shifted if before is None else self.combine(by.op, before, shifted))
            before = total if before is None else self.combine(by.op, before, total)

    def _lower(self, part: Operand, fill: Operand, step: int) -> Operand:
        """What each lane adds in a step; the identity where it is complete."""
        width = self.code.width
        if step < 4:
            return self.code.shuffle(part, [i - step if i % 4 >= step else width + i for i in range(width)], fill)
        if width == 8:  # in two moves: for one LLVM takes three, and waits for a register that it does not need
            upper = self.code.fenced(self.code.shuffle(part, [8, 9, 10, 11, 0, 1, 2, 3], fill))
            return self.code.shuffle(upper, [3, 3, 3, 3, 7, 7, 7, 7])
        return self.code.shuffle(part, [i // step * step - 1 if i & step else width + i for i in range(width)], fill)

    def _shift(self, part: Operand, fill: Operand) -> Operand:
        """Lane i of the result is lane i - 1, and the identity where there is none."""
        return self.code.shuffle(part, [i - 1 if i else self.code.width for i in range(self.code.width)], fill)

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
            whole = self.code.concat(self.values.chunks(instr.args[0]))
            other = self.code.concat(self.values.chunks(instr.args[1])) if kind.startswith("fill") else None
            for c, name in enumerate(self.code.split(self.code.shuffle(whole, picks, other))):
                self.values.define_chunk(instr, c, name)
            return
        data = self.at.slow.scratch("shuffle", 8)
        self.at.slow.spill_chunks(data, 4, self.values.chunks(instr.args[0]))
        if kind.startswith("fill"):
            second = self.code.gep(data, 128)
            self.at.slow.spill_chunks(second, 4, self.values.chunks(instr.args[1]))
        sources = [self._dynamic_source(kind, self.values.chunk(amount, c), c, modulo) for c in range(self.code.count)]
        if watched:
            self.at.watch.watch_shuffle(instr, sources)
        for c, source in enumerate(sources):
            wide = self.code.zext(source, self.code.vec(I64))
            pointers = self.code.gep(data, wide, I32)
            self.values.define_chunk(instr, c, self.at.gathers.gather(pointers, I32, 4, None))

    def _dynamic_source(self, kind: str, amount: Operand, c: int, modulo: int) -> Operand:
        lane = self.code.lane_constants(I32, LANE, c)
        if kind == "shuffle":
            return self.code.and_(amount, 31)
        if kind == "xor":
            mixed = self.code.xor(amount, lane)
            return self.code.and_(mixed, 31)
        if kind.startswith("rotate"):
            moved = self.code.binary("sub" if kind == "rotate_up" else "add", lane, amount)
            return self.code.and_(moved, 31)
        up = kind.endswith("up")
        moved = self.code.binary("sub" if up else "add", lane, amount)
        block = self.code.and_(lane, -modulo)
        inner = self.code.sub(moved, block)
        ok = self.code.icmp("ult", inner, modulo)
        small = self.code.icmp("ult", amount, modulo)
        ok = self.code.and_(ok, small)
        if kind.startswith("fill"):
            wrapped = self.code.and_(inner, modulo - 1)
            filled = self.code.add(wrapped, block)
            filled = self.code.add(filled, 32)
            return self.code.select(ok, moved, filled)
        return self.code.select(ok, moved, lane)

    def _lane_of(self, value: Value, lane: Operand | int) -> Operand:
        """One lane of a 32-bit value as a scalar; `lane` is a number, or computed."""
        if self.values.shape(value).uniform:
            return self.values.scalar(value)
        if isinstance(lane, int):
            return self.code.extract(self.values.chunk(value, lane // self.code.width), lane % self.code.width)
        data = self.at.slow.scratch("shuffle", 8)
        self.at.slow.spill_chunks(data, 4, self.values.chunks(value))
        wide = self.code.zext(lane, I64)
        at = self.code.gep(data, wide, I32)
        return self.code.load(I32, at)

    def _broadcast(self, instr: Instr, watched: bool = True) -> None:
        lane = instr.args[1]
        known = self.values.shape(lane).known
        if known is not None:
            source: Operand | int = known[0] & 31
            if watched:
                self.at.watch.watch_fixed_shuffle(instr, [known[0] & 31] * len(LANE))
        else:
            raw = (
                self.values.scalar(lane) if self.values.shape(lane).uniform else self._lane_of(lane, self._first_lane())
            )
            source = self.code.and_(raw, 31)
            if watched:
                self.at.watch.watch_shuffle(instr, [self.values.splat(source)] * self.code.count)
        self.values.define_scalar(instr, self._lane_of(instr.args[0], source))

    def _first_lane(self) -> Operand | int:
        return self.at.memory.first_lane() if self.values.mask is not None else 0

    def _vote(self, instr: Instr, name: str) -> None:
        if name == "active_threads_mask":
            self.values.define_scalar(instr, self.code.zext(self.code.bits(self.values.mask), I64))
            return
        if name == "is_first":
            lane = self.values.splat(self.at.memory.first_lane())
            for c in range(self.code.count):
                hit = self.code.icmp("eq", lane, self.code.lane_constants(I32, LANE, c))
                self.values.define_chunk(instr, c, self.code.zext(hit, self.code.vec(I32)))
            return
        tests = []
        for c in range(self.code.count):
            hit = self.code.icmp("ne", self.values.chunk(instr.args[0], c), zero(self.code.vec(I32)))
            hit = self.code.freeze(hit)
            if self.values.mask is not None:
                if name == "all":
                    idle = self.code.not_(self.values.mask[c])
                    hit = self.code.or_(hit, idle)
                else:
                    hit = self.code.and_(hit, self.values.mask[c])
            tests.append(hit)
        if name == "ballot":
            self.values.define_scalar(instr, self.code.zext(self.code.bits(tests), I64))
        elif name in ("any", "all"):
            result = self.code.any(tests) if name == "any" else self.code.all(tests)
            self.values.define_scalar(instr, self.code.zext(result, I32))
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
