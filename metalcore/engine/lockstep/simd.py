"""Functions across the lanes of a simdgroup: reductions, scans, shuffles, votes, 8x8 matrices, atomics."""

from __future__ import annotations

from collections.abc import Sequence

from metalcore.errors import UnsupportedFeature

from .ir import Const, Instr, Type, Value
from .memory import ATOMIC, LOAD, STORE, Memory
from .shapes import LANE, LANES
from .values import scalar_type

_REDUCE = {
    "sum_f32": ("fadd", "float", "0.0"), "product_f32": ("fmul", "float", "1.0"),
    "sum_i32": ("add", "i32", "0"), "sum_u32": ("add", "i32", "0"),
    "product_i32": ("mul", "i32", "1"), "product_u32": ("mul", "i32", "1"),
    "min_i32": ("smin", "i32", "2147483647"), "max_i32": ("smax", "i32", "-2147483648"),
    "min_u32": ("umin", "i32", "-1"), "max_u32": ("umax", "i32", "0"),
    "min_f32": ("minimum", "float", "0x7FF0000000000000"), "max_f32": ("maximum", "float", "0xFFF0000000000000"),
    "and_u32": ("and", "i32", "-1"), "or_u32": ("or", "i32", "0"), "xor_u32": ("xor", "i32", "0"),
}
_PLAIN = ("fadd", "fmul", "add", "mul", "and", "or", "xor")

# Lane l of an 8x8 matrix holds elements (ROW[l], COL[l]) and (ROW[l], COL[l] + 1).
ROW = tuple(((lane // 4) & 4) + (lane // 2) % 4 for lane in LANE)
COL = tuple(((lane // 4) & 2) * 2 + (lane % 2) * 2 for lane in LANE)
HOLDER = {(ROW[lane], COL[lane] + e): (lane, e) for lane in LANE for e in (0, 1)}


class Simd(Memory):
    # -- small helpers -----------------------------------------------------------------------------
    def combine(self, op: str, ty: str, a: str, b: str) -> str:
        """op on two vectors (or scalars) of LLVM type ty."""
        if op in _PLAIN:
            return self.temp(f"{op} {ty} {a}, {b}")
        short = ty.replace("<", "v").replace(" x ", "").replace(">", "").replace("float", "f32")
        self.need(f"declare {ty} @llvm.{op}.{short}({ty}, {ty})")
        return self.temp(f"call {ty} @llvm.{op}.{short}({ty} {a}, {ty} {b})")

    def active(self, chunks: Sequence[str], ty: str, identity: str) -> list[str]:
        """Idle lanes contribute nothing."""
        if self.mask is None:
            return list(chunks)
        return [self.temp(f"select {self.vec('i1')} {m}, {self.vec(ty)} {x}, {self.vec(ty)} splat ({ty} {identity})")
                for m, x in zip(self.mask, chunks, strict=True)]

    def permute(self, whole: str, ty: str, picks: Sequence[int], other: str = "poison") -> str:
        text = ", ".join(f"i32 {p}" for p in picks)
        return self.temp(f"shufflevector <32 x {ty}> {whole}, <32 x {ty}> {other}, <32 x i32> <{text}>")

    # -- entry -------------------------------------------------------------------------------------
    def simd_call(self, instr: Instr) -> None:
        name = instr.callee[5:]
        if name.startswith("simdgroup_"):
            getattr(self, "_" + name.rsplit("_", 1)[0])(instr, name.rsplit("_", 1)[1])
            return
        name = name[5:]
        if name in _REDUCE:
            self._reduce(instr, *_REDUCE[name])
        elif name.startswith("prefix_"):
            kind, rest = name[7:16], name[17:]
            self._scan(instr, kind == "exclusive", *_REDUCE[rest])
        elif name in ("shuffle", "shuffle_xor", "shuffle_up", "shuffle_down", "shuffle_rotate_up", "shuffle_rotate_down",
                      "rotate_up", "rotate_down", "fill_up", "fill_down"):
            self._shuffle(instr, name.removeprefix("shuffle_") if name != "shuffle" else name)
        elif name == "broadcast":
            self._broadcast(instr)
        elif name == "broadcast_first":
            self.define_scalar(instr, self._lane_of(instr.args[0], self.first_lane()))
        else:
            self._vote(instr, name)

    def _reduce(self, instr: Instr, op: str, ty: str, identity: str) -> None:
        parts = self.active(self.chunks(instr.args[0]), ty, identity)
        while len(parts) > 1:
            parts = [self.combine(op, self.vec(ty), a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        width, part = self.width, parts[0]
        while width > 1:
            half = width // 2
            low = ", ".join(f"i32 {i}" for i in range(half))
            high = ", ".join(f"i32 {i + half}" for i in range(half))
            vec = f"<{width} x {ty}>"
            a = self.temp(f"shufflevector {vec} {part}, {vec} poison, <{half} x i32> <{low}>")
            b = self.temp(f"shufflevector {vec} {part}, {vec} poison, <{half} x i32> <{high}>")
            part, width = self.combine(op, f"<{half} x {ty}>", a, b), half
        self.define_scalar(instr, self.temp(f"extractelement <1 x {ty}> {part}, i64 0"))

    def _scan(self, instr: Instr, exclusive: bool, op: str, ty: str, identity: str) -> None:
        whole = self.join(self.active(self.chunks(instr.args[0]), ty, identity), ty)
        fill = f"splat ({ty} {identity})"
        for step in (1, 2, 4, 8, 16):
            moved = self.permute(whole, ty, [lane - step if lane >= step else 32 + lane for lane in LANE], fill)
            whole = self.combine(op, f"<32 x {ty}>", moved, whole)
        if exclusive:
            whole = self.permute(whole, ty, [lane - 1 if lane else 32 for lane in LANE], fill)
        for c, name in enumerate(self.split(whole, ty)):
            self.define_chunk(instr, c, name)

    # -- shuffles ----------------------------------------------------------------------------------
    def _shuffle(self, instr: Instr, kind: str) -> None:
        amount = instr.args[2] if kind.startswith("fill") else instr.args[1]
        known = self.shape(amount).known
        modulo = 32
        if kind.startswith("fill"):
            size = instr.args[3]
            if not isinstance(size, Const) or size.value not in (2, 4, 8, 16, 32):
                raise UnsupportedFeature("simd_shuffle_and_fill with a modulo that is not a constant power of two")
            modulo = size.value
        if known is not None:
            picks = [_source_lane(kind, lane, known[lane] & 0xFFFFFFFF, modulo) for lane in LANE]
            whole = self.join(self.chunks(instr.args[0]), "i32")
            other = self.join(self.chunks(instr.args[1]), "i32") if kind.startswith("fill") else "poison"
            for c, name in enumerate(self.split(self.permute(whole, "i32", picks, other), "i32")):
                self.define_chunk(instr, c, name)
            return
        data = self.scratch("shuffle", 8)
        self.spill_chunks(data, "i32", 4, self.chunks(instr.args[0]))
        if kind.startswith("fill"):
            second = self.temp(f"getelementptr i8, ptr {data}, i64 128")
            self.spill_chunks(second, "i32", 4, self.chunks(instr.args[1]))
        for c in range(self.count):
            source = self._dynamic_source(kind, self.chunk(amount, c), c, modulo)
            wide = self.temp(f"zext {self.vec('i32')} {source} to {self.vec('i64')}")
            pointers = self.temp(f"getelementptr i32, ptr {data}, {self.vec('i64')} {wide}")
            self.define_chunk(instr, c, self.gather(pointers, "i32", 4, None))

    def _dynamic_source(self, kind: str, amount: str, c: int, modulo: int) -> str:
        vec = self.vec("i32")
        lane = self.lane_constants("i32", LANE, c)
        if kind == "shuffle":
            return self.temp(f"and {vec} {amount}, splat (i32 31)")
        if kind == "xor":
            mixed = self.temp(f"xor {vec} {amount}, {lane}")
            return self.temp(f"and {vec} {mixed}, splat (i32 31)")
        if kind.startswith("rotate"):
            moved = self.temp(f"{'sub' if kind == 'rotate_up' else 'add'} {vec} {lane}, {amount}")
            return self.temp(f"and {vec} {moved}, splat (i32 31)")
        up = kind.endswith("up")
        moved = self.temp(f"{'sub' if up else 'add'} {vec} {lane}, {amount}")
        block = self.temp(f"and {vec} {lane}, splat (i32 {-modulo})")
        inner = self.temp(f"sub {vec} {moved}, {block}")
        ok = self.temp(f"icmp ult {vec} {inner}, splat (i32 {modulo})")
        small = self.temp(f"icmp ult {vec} {amount}, splat (i32 {modulo})")
        ok = self.temp(f"and {self.vec('i1')} {ok}, {small}")
        if kind.startswith("fill"):
            wrapped = self.temp(f"and {vec} {inner}, splat (i32 {modulo - 1})")
            filled = self.temp(f"add {vec} {wrapped}, {block}")
            filled = self.temp(f"add {vec} {filled}, splat (i32 32)")
            return self.temp(f"select {self.vec('i1')} {ok}, {vec} {moved}, {vec} {filled}")
        return self.temp(f"select {self.vec('i1')} {ok}, {vec} {moved}, {vec} {lane}")

    def _lane_of(self, value: object, lane: str) -> str:
        """One lane of a 32-bit value as a scalar; `lane` is a number or a name."""
        from .ir import Global

        assert not isinstance(value, Global)
        if self.shape(value).uniform:  # type: ignore[arg-type]
            return self.scalar(value)  # type: ignore[arg-type]
        if lane.isdigit():
            number = int(lane)
            part = self.chunk(value, number // self.width)  # type: ignore[arg-type]
            return self.temp(f"extractelement {self.vec('i32')} {part}, i64 {number % self.width}")
        data = self.scratch("shuffle", 8)
        self.spill_chunks(data, "i32", 4, self.chunks(value))  # type: ignore[arg-type]
        wide = self.temp(f"zext i32 {lane} to i64")
        at = self.temp(f"getelementptr i32, ptr {data}, i64 {wide}")
        return self.temp(f"load i32, ptr {at}")

    def _broadcast(self, instr: Instr) -> None:
        lane = instr.args[1]
        known = self.shape(lane).known
        if known is not None:
            name = str(known[0] & 31)
        else:
            raw = self.scalar(lane) if self.shape(lane).uniform else self._lane_of(lane, self.first_lane())
            name = self.temp(f"and i32 {raw}, 31")
        self.define_scalar(instr, self._lane_of(instr.args[0], name))

    def _vote(self, instr: Instr, name: str) -> None:
        if name == "active_threads_mask":
            self.define_scalar(instr, self.temp(f"zext i32 {self.bits(self.mask)} to i64"))
            return
        if name == "is_first":
            lane = self.splat("i32", self.first_lane())
            for c in range(self.count):
                hit = self.temp(f"icmp eq {self.vec('i32')} {lane}, {self.lane_constants('i32', LANE, c)}")
                self.define_chunk(instr, c, self.temp(f"zext {self.vec('i1')} {hit} to {self.vec('i32')}"))
            return
        tests = []
        for c in range(self.count):
            hit = self.temp(f"icmp ne {self.vec('i32')} {self.chunk(instr.args[0], c)}, zeroinitializer")
            hit = self.temp(f"freeze {self.vec('i1')} {hit}")
            if self.mask is not None:
                if name == "all":
                    idle = self.temp(f"xor {self.vec('i1')} {self.mask[c]}, splat (i1 true)")
                    hit = self.temp(f"or {self.vec('i1')} {hit}, {idle}")
                else:
                    hit = self.temp(f"and {self.vec('i1')} {hit}, {self.mask[c]}")
            tests.append(hit)
        if name == "ballot":
            self.define_scalar(instr, self.temp(f"zext i32 {self.bits(tests)} to i64"))
        elif name in ("any", "all"):
            result = self.any(tests) if name == "any" else self.all(tests)
            self.define_scalar(instr, self.temp(f"zext i1 {result} to i32"))
        else:
            raise UnsupportedFeature(f"simdgroup function {name}")

    # -- 8x8 matrices ------------------------------------------------------------------------------
    def _pick(self, parts: tuple[Sequence[str], Sequence[str]], ty: str, sources: Sequence[tuple[int, int]], c: int) -> str:
        """For each lane of chunk c, element `e` of lane `l` of a matrix, as (l, e)."""
        mine = sources[c * self.width : (c + 1) * self.width]
        homes = {(lane // self.width, e) for lane, e in mine}
        if len(homes) == 1:
            home, e = homes.pop()
            picks = ", ".join(f"i32 {lane % self.width}" for lane, _ in mine)
            key = (picks, parts[e][home])
            if key not in self.splats:
                self.splats[key] = self.temp(
                    f"shufflevector {self.vec(ty)} {parts[e][home]}, {self.vec(ty)} poison, {self.vec('i32')} <{picks}>")
            return self.splats[key]
        result = "poison"
        for i, (lane, e) in enumerate(mine):
            one = self.temp(f"extractelement {self.vec(ty)} {parts[e][lane // self.width]}, i64 {lane % self.width}")
            result = self.temp(f"insertelement {self.vec(ty)} {result}, {ty} {one}, i64 {i}")
        return result

    def _simdgroup_mma(self, instr: Instr, _suffix: str) -> None:
        if self.width == 8:
            self._mma_call(instr)
        else:
            self._mma_inline(instr)

    def _fragment(self, first: Value, second: Value) -> str:
        """An operand in memory, chunk by chunk, both elements of each."""
        key = ("fragment", (first, second))
        found = self.splats.get(key)
        if found is None:
            found = self.slot(key, "[8 x <8 x float>]", align=64)
            for c in range(self.count):
                for e, value in enumerate((first, second)):
                    at = self.pointer_at(found, 32 * (2 * c + e))
                    self.emit(f"store <8 x float> {self.chunk(value, c)}, ptr {at}, align 32")
            self.splats[key] = found
        return found

    def _mma_call(self, instr: Instr) -> None:
        """A function of its own keeps the eight sums in registers; inlined, the scheduler spills them at every step."""
        a, b = self._fragment(instr.args[0], instr.args[1]), self._fragment(instr.args[2], instr.args[3])
        self.plan.uses_mma = True
        sums = ", ".join(f"<8 x float> {self.chunk(instr.args[4 + e], c)}" for c in range(4) for e in (0, 1))
        eight = "{ " + ", ".join(["<8 x float>"] * 8) + " }"
        result = self.temp(f"call fastcc {eight} @mc.mma({sums}, ptr {a}, ptr {b})")
        for c in range(4):
            first, second = (self.temp(f"extractvalue {eight} {result}, {2 * c + e}") for e in (0, 1))
            self.pairs[instr, c] = (first, second)
            self.define_pair(instr, c)

    def _mma_inline(self, instr: Instr) -> None:
        a, b = ((self.chunks(instr.args[i]), self.chunks(instr.args[i + 1])) for i in (0, 2))
        vec = self.vec("float")
        self.need(f"declare {vec} @llvm.fma.v{self.width}f32({vec}, {vec}, {vec})")
        totals = [[self.chunk(instr.args[4 + e], c) for e in (0, 1)] for c in range(self.count)]
        for k in range(8):  # k outermost: the eight sums stay in registers
            for c in range(self.count):
                left = self._pick(a, "float", [HOLDER[ROW[lane], k] for lane in LANE], c)
                for e in (0, 1):
                    right = self._pick(b, "float", [HOLDER[k, COL[lane] + e] for lane in LANE], c)
                    totals[c][e] = self.temp(
                        f"call {vec} @llvm.fma.v{self.width}f32({vec} {left}, {vec} {right}, {vec} {totals[c][e]})")
        for c in range(self.count):
            self.pairs[instr, c] = (totals[c][0], totals[c][1])
            self.define_pair(instr, c)

    def define_pair(self, instr: Instr, c: int) -> None:
        """Results that are pairs live as two values; their users are extractvalue instructions."""
        if instr in self.crossing:
            for e in (0, 1):
                self.store_vector((instr, "pair", e, c), pair_type(instr, e), self.pairs[instr, c][e])

    def pair_element(self, instr: Instr, e: int, c: int) -> str:
        found = self.pairs.get((instr, c))
        if found is not None:
            return found[e]
        return self.load_vector((instr, "pair", e, c), pair_type(instr, e))

    def _simdgroup_load(self, instr: Instr, suffix: str) -> None:
        size = 4 if suffix == "b32" else 2
        ty = f"i{size * 8}"
        transpose = instr.args[2]
        flip = bool(transpose.value) if isinstance(transpose, Const) else None
        uniform = self.shape(instr.args[0]).uniform and self.shape(instr.args[1]).uniform and flip is not None
        where = self.address(instr.args[0], size)
        if not uniform or where.private:
            self._matrix_lanes(instr, size, None)
            return
        ok = self._matrix_inside(instr, where, size) if self.plan.checked else None
        done = ""
        if ok is not None:
            fast, slow, done = (self.new_label(x) for x in ("in", "out", "done"))
            self.crossing.add(instr)
            self.emit(f"br i1 {ok}, label %{fast}, label %{slow}, !prof !1")
            self.place(slow)
            saved = self.snapshot()
            self._matrix_lanes(instr, size, None)
            self.jump(done)
            self.restore(saved)
            self.place(fast)
        base, stride = self.scalar(instr.args[0]), self.scalar(instr.args[1])
        rows: dict[int, str] = {}
        for c in range(self.count):
            lanes = range(c * self.width, (c + 1) * self.width)
            parts = ["poison", "poison"]
            if not flip:
                quads = sorted({(ROW[lane], COL[lane] // 4 * 4) for lane in lanes})
                loaded = {q: self.temp(f"load <4 x {ty}>, ptr {self._row_pointer(rows, base, stride, q[0], size, q[1])}, "
                                       f"align {size}") for q in quads}
                whole, width = self._concat([loaded[q] for q in quads], ty, 4)
                for e in (0, 1):
                    picks = [quads.index((ROW[lane], COL[lane] // 4 * 4)) * 4 + COL[lane] % 4 + e for lane in lanes]
                    text = ", ".join(f"i32 {p}" for p in picks)
                    parts[e] = self.temp(f"shufflevector <{width} x {ty}> {whole}, <{width} x {ty}> poison, "
                                         f"{self.vec('i32')} <{text}>")
            else:
                for e in (0, 1):
                    for i, lane in enumerate(lanes):
                        pointer = self._row_pointer(rows, base, stride, COL[lane] + e, size, ROW[lane])
                        one = self.temp(f"load {ty}, ptr {pointer}, align {size}")
                        parts[e] = self.temp(f"insertelement {self.vec(ty)} {parts[e]}, {ty} {one}, i64 {i}")
            if size == 2:
                parts = [self.temp(f"zext {self.vec('i16')} {p} to {self.vec('i32')}") for p in parts]
            self.pairs[instr, c] = (parts[0], parts[1])
            self.define_pair(instr, c)
        if done:
            self.jump(done)
            self.place(done)
            self.restore(saved)
            for c in range(self.count):
                self.pairs.pop((instr, c), None)

    def _concat(self, parts: list[str], ty: str, width: int) -> tuple[str, int]:
        while len(parts) > 1:
            text = ", ".join(f"i32 {i}" for i in range(2 * width))
            parts = [self.temp(f"shufflevector <{width} x {ty}> {x}, <{width} x {ty}> {y}, <{2 * width} x i32> <{text}>")
                     for x, y in zip(parts[::2], parts[1::2], strict=True)]
            width *= 2
        return parts[0], width

    def _row_pointer(self, rows: dict[int, str], base: str, stride: str, row: int, size: int, column: int) -> str:
        if row not in rows:
            at = self.temp(f"mul i64 {stride}, {row * size}")
            rows[row] = self.temp(f"getelementptr i8, ptr {base}, i64 {at}")
        return self.pointer_at(rows[row], column * size)

    def _matrix_inside(self, instr: Instr, where: object, size: int) -> str:
        """Scalar test of a whole 8x8 block: [p, p + 7 * stride + 8) elements."""
        from .memory import Address

        assert isinstance(where, Address)
        base, stride = where.base, self.scalar(instr.args[1])
        number = self.temp(f"ptrtoint ptr {base} to i64")
        far = self.temp(f"mul i64 {stride}, {7 * size}")
        small = self.temp(f"icmp ult i64 {stride}, 1152921504606846976")
        result = "false"
        for root in sorted(where.roots, key=str):
            if root.kind == "unknown":
                continue
            offset = self.temp(f"sub i64 {number}, {self.root_number(root)}")
            low = self.temp(f"icmp ult i64 {offset}, {self.limit(root, 8 * size)}")
            end = self.temp(f"add i64 {offset}, {far}")
            high = self.temp(f"icmp ult i64 {end}, {self.limit(root, 8 * size)}")
            both = self.temp(f"and i1 {low}, {high}")
            both = self.temp(f"and i1 {both}, {small}")
            result = self.temp(f"or i1 {result}, {both}")
        return result

    def _matrix_lanes(self, instr: Instr, size: int, store: int | None) -> None:
        """Each lane on its own: the general form, and the one that reports bad accesses."""
        ty = f"i{size * 8}"
        transpose = instr.args[2]
        for e in (0, 1):
            addresses = []
            for c in range(self.count):
                i64, i1 = self.vec("i64"), self.vec("i1")
                row = self.lane_constants("i64", ROW, c)
                column = self.lane_constants("i64", [x + e for x in COL], c)
                if isinstance(transpose, Const):
                    outer, inner = (column, row) if transpose.value else (row, column)
                else:
                    test = self.temp(f"icmp ne {self.vec('i32')} {self.chunk(transpose, c)}, zeroinitializer")
                    outer = self.temp(f"select {i1} {test}, {i64} {column}, {i64} {row}")
                    inner = self.temp(f"select {i1} {test}, {i64} {row}, {i64} {column}")
                at = self.temp(f"mul {i64} {self.chunk(instr.args[1], c)}, {outer}")
                at = self.temp(f"add {i64} {at}, {inner}")
                at = self.temp(f"mul {i64} {at}, splat (i64 {size})")
                addresses.append(self.temp(f"getelementptr i8, {self.vec('ptr')} {self.chunk(instr.args[0], c)}, {i64} {at}"))
            if store is None:
                got = self.access_lanes(instr, instr.args[0], addresses, ty, size, LOAD, None)
                for c in range(self.count):
                    name = got[c] if size == 4 else self.temp(f"zext {self.vec('i16')} {got[c]} to {self.vec('i32')}")
                    old = self.pairs.get((instr, c), ("", ""))
                    self.pairs[instr, c] = (name, old[1]) if e == 0 else (old[0], name)
            else:
                values = [self.chunk(instr.args[store + e], c) for c in range(self.count)]
                if size == 2:
                    values = [self.temp(f"trunc {self.vec('i32')} {v} to {self.vec('i16')}") for v in values]
                self.access_lanes(instr, instr.args[0], addresses, ty, size, STORE, values)
        if store is None:
            for c in range(self.count):
                self.define_pair(instr, c)

    def _simdgroup_store(self, instr: Instr, suffix: str) -> None:
        size = 4 if suffix == "b32" else 2
        ty = f"i{size * 8}"
        transpose = instr.args[2]
        where = self.address(instr.args[0], size)
        uniform = self.shape(instr.args[0]).uniform and self.shape(instr.args[1]).uniform
        if not uniform or not isinstance(transpose, Const) or transpose.value or where.private or self.mask is not None:
            self._matrix_lanes(instr, size, 3)
            return
        ok = self._matrix_inside(instr, where, size) if self.plan.checked else None
        done = ""
        if ok is not None:
            fast, slow, done = (self.new_label(x) for x in ("in", "out", "done"))
            for i in (3, 4):
                self.chunks(instr.args[i])
            self.emit(f"br i1 {ok}, label %{fast}, label %{slow}, !prof !1")
            self.place(slow)
            saved = self.snapshot()
            self._matrix_lanes(instr, size, 3)
            self.jump(done)
            self.restore(saved)
            self.place(fast)
        base, stride = self.scalar(instr.args[0]), self.scalar(instr.args[1])
        rows: dict[int, str] = {}
        for c in range(self.count):
            lanes = list(range(c * self.width, (c + 1) * self.width))
            halves = [self.chunk(instr.args[3], c), self.chunk(instr.args[4], c)]
            if size == 2:
                halves = [self.temp(f"trunc {self.vec('i32')} {h} to {self.vec('i16')}") for h in halves]
            for quad in sorted({(ROW[lane], COL[lane] // 4 * 4) for lane in lanes}):
                picks = []
                for column in range(quad[1], quad[1] + 4):
                    lane, e = HOLDER[quad[0], column]
                    picks.append(lane - c * self.width + e * self.width)
                text = ", ".join(f"i32 {p}" for p in picks)
                row = self.temp(f"shufflevector {self.vec(ty)} {halves[0]}, {self.vec(ty)} {halves[1]}, <4 x i32> <{text}>")
                self.emit(f"store <4 x {ty}> {row}, ptr {self._row_pointer(rows, base, stride, quad[0], size, quad[1])}, "
                          f"align {size}")
        if done:
            self.jump(done)
            self.place(done)
            self.restore(saved)

    # -- lane-by-lane memory -----------------------------------------------------------------------
    def access_lanes(self, instr: Instr, pointer: object, addresses: list[str], ty: str, size: int, kind: int,
                     values: list[str] | None) -> list[str]:
        """A gather or scatter of 32 addresses under the current mask, checked where the mode asks for it."""
        where = self.address(pointer, size)  # type: ignore[arg-type]
        align = int(str(instr.extra.get("align", size if instr.op == "call" else 1)))
        mask = self.mask

        def direct() -> list[str]:
            out = []
            for c in range(self.count):
                m = mask[c] if mask is not None else None
                if values is None:
                    out.append(self.gather(addresses[c], ty, align, m))
                else:
                    self.scatter_lanes(addresses[c], values[c], ty, align, m)
            return out

        if not self.plan.checked:
            return direct()
        reach = self.plan.ranges.offset_range(pointer) if instr.op in ("load", "store") else None  # type: ignore[arg-type]
        if reach is not None and len(where.roots) == 1:
            root = next(iter(where.roots))
            limit = self.root_size(root)
            times = LANES if root in self.roots.interleave else 1
            if isinstance(limit, int) and reach[0] >= 0 and reach[1] * times + size <= limit and root.kind != "buffer":
                return direct()
        inside = self.inside_lanes(where, addresses)
        if mask is not None:
            tests = []
            for c in range(self.count):
                idle = self.temp(f"xor {self.vec('i1')} {mask[c]}, splat (i1 true)")
                tests.append(self.temp(f"or {self.vec('i1')} {inside[c]}, {idle}"))
        else:
            tests = inside
        ok = self.all(tests)
        fast, slow, done = (self.new_label(x) for x in ("in", "out", "done"))
        bits = self.bits(mask)
        self.emit(f"br i1 {ok}, label %{fast}, label %{slow}, !prof !1")
        saved = self.snapshot()
        self.place(fast)
        got = direct()
        for c, name in enumerate(got):
            self.store_slot(("gathered", ty, c), self.vec(ty), name)
        self.jump(done)
        self.restore(saved)
        self.place(slow)
        data, lanes = self.scratch("data", 16), self.scratch("addresses", 8)
        self.spill_chunks(lanes, "ptr", 8, addresses)
        if values is not None:
            self.spill_chunks(data, ty, size, values)
        self.call_slow(instr, where, kind, lanes, data, bits)
        if values is None:
            for c in range(self.count):
                self.store_slot(("gathered", ty, c), self.vec(ty), self.reload_chunk(data, ty, size, c))
        self.jump(done)
        self.restore(saved)
        self.place(done)
        if values is not None:
            return []
        return [self.load_slot(("gathered", ty, c), self.vec(ty)) for c in range(self.count)]

    # -- atomics -----------------------------------------------------------------------------------
    def atomic(self, instr: Instr) -> None:
        """One lane after the other, in lane order: always makes progress."""
        operands = {"atomicrmw": [1], "cmpxchg": [1, 2], "store": [0], "load": []}[instr.op]
        pointer = instr.args[1] if instr.op == "store" else instr.args[0]
        if instr.op == "store":
            stored = instr.extra["stored"]
            assert isinstance(stored, Type)
            value_type = stored
        else:
            value_type = instr.type.items[0] if instr.op == "cmpxchg" else instr.type
        ty, size = scalar_type(value_type), value_type.size
        where = self.address(pointer, size)
        lanes = self.spill_addresses(where)
        places = []
        for n, i in enumerate(operands):
            place = self.scratch(f"operand{n}", 8)
            self.spill_chunks(place, ty, size, self.chunks(instr.args[i]))
            places.append(place)
        result, flags = self.scratch("result", 8), self.scratch("flags", 1)
        bits = self.bits(self.mask)
        if self.plan.checked:
            bits = self._atomic_bounds(instr, where, lanes, bits)
        loop, body, done = (self.new_label(x) for x in ("lanes", "lane", "lanes.done"))
        rest = self.slot("atomic.rest", "i32")
        self.emit(f"store i32 {bits}, ptr {rest}")
        self.jump(loop)
        self.place(loop)
        left = self.temp(f"load i32, ptr {rest}")
        more = self.temp(f"icmp ne i32 {left}, 0")
        self.emit(f"br i1 {more}, label %{body}, label %{done}")
        self.place(body)
        self.need("declare i32 @llvm.cttz.i32(i32, i1 immarg)")
        lane = self.temp(f"call i32 @llvm.cttz.i32(i32 {left}, i1 true)")
        minus = self.temp(f"sub i32 {left}, 1")
        self.emit(f"store i32 {self.temp(f'and i32 {left}, {minus}')}, ptr {rest}")
        wide = self.temp(f"zext i32 {lane} to i64")
        at = self.temp(f"load ptr, ptr {self.temp(f'getelementptr ptr, ptr {lanes}, i64 {wide}')}")
        values = [self.temp(f"load {ty}, ptr {self.temp(f'getelementptr {ty}, ptr {p}, i64 {wide}')}") for p in places]
        spot = self.temp(f"getelementptr {ty}, ptr {result}, i64 {wide}")
        if instr.op == "atomicrmw":
            old = self._rmw(str(instr.extra["rmw"]), value_type, at, values[0])
            self.emit(f"store {ty} {old}, ptr {spot}")
        elif instr.op == "cmpxchg":
            pair = self.temp(f"cmpxchg ptr {at}, {ty} {values[0]}, {ty} {values[1]} monotonic monotonic")
            self.emit(f"store {ty} {self.temp(f'extractvalue {{ {ty}, i1 }} {pair}, 0')}, ptr {spot}")
            flag = self.temp(f"extractvalue {{ {ty}, i1 }} {pair}, 1")
            flag = self.temp(f"zext i1 {flag} to i8")
            self.emit(f"store i8 {flag}, ptr {self.temp(f'getelementptr i8, ptr {flags}, i64 {wide}')}")
        elif instr.op == "store":
            self.emit(f"store atomic {ty} {values[0]}, ptr {at} monotonic, align {size}")
        else:
            self.emit(f"store {ty} {self.temp(f'load atomic {ty}, ptr {at} monotonic, align {size}')}, ptr {spot}")
        self.jump(loop)
        self.place(done)
        if instr.op == "store" or not instr.name:
            return
        for c in range(self.count):
            name = self.reload_chunk(result, ty, size, c)
            if instr.op == "cmpxchg":
                flag = self.reload_chunk(flags, "i8", 1, c)
                flag = self.temp(f"icmp ne {self.vec('i8')} {flag}, zeroinitializer")
                self.pairs[instr, c] = (name, flag)
                if instr in self.crossing:
                    self.store_vector((instr, "pair", 0, c), value_type, name)
                    self.store_vector((instr, "pair", 1, c), instr.type.items[1], flag)
            else:
                self.define_chunk(instr, c, name)

    def _rmw(self, op: str, ty: Type, at: str, value: str) -> str:
        if ty.kind in ("half", "bfloat"):
            raise UnsupportedFeature(f"atomic arithmetic on {ty.text}")
        return self.temp(f"atomicrmw {op} ptr {at}, {ty.text} {value} monotonic")

    def _atomic_bounds(self, instr: Instr, where: object, lanes: str, bits: str) -> str:
        """Lanes out of bounds are reported and left out; their result is 0."""
        from .memory import Address

        assert isinstance(where, Address)
        if any(r.kind == "unknown" for r in where.roots):
            raise UnsupportedFeature("an atomic operation through a pointer that was loaded from memory (checked mode)")
        if where.offsets is not None:
            test = self.inside(where)
            if test is None:
                return bits
            good_bits = self.temp(f"select i1 {test}, i32 -1, i32 0") if where.uniform else ""
        else:
            good_bits = ""
        if not good_bits:
            addresses = [self.reload_chunk(lanes, "ptr", 8, c) for c in range(self.count)]
            good_bits = self.bits([self.temp(f"freeze {self.vec('i1')} {m}") for m in self.inside_lanes(where, addresses)])
        good = self.temp(f"and i32 {bits}, {good_bits}")
        bad = self.temp(f"icmp ne i32 {good}, {bits}")
        slow, done = self.new_label("out"), self.new_label("done")
        self.emit(f"br i1 {bad}, label %{slow}, label %{done}, !prof !2")
        self.place(slow)
        result = self.scratch("result", 8)
        self.emit(f"call void @llvm.memset.p0.i64(ptr {result}, i8 0, i64 {LANES * 8}, i1 false)")
        self.need("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)")
        self.call_slow(instr, where, ATOMIC, lanes, "null", bits)
        self.jump(done)
        self.place(done)
        return good

    # -- saved names -------------------------------------------------------------------------------
    def snapshot(self) -> tuple[dict[object, str], ...]:
        return dict(self.scalars), dict(self.vectors), dict(self.splats)  # type: ignore[return-value]

    def restore(self, saved: tuple[dict[object, str], ...]) -> None:
        """Back to the names known at a branch: those of one side do not reach the other."""
        self.scalars, self.vectors, self.splats = (dict(s) for s in saved)  # type: ignore[assignment]


def pair_type(instr: Instr, e: int) -> Type:
    return instr.type.items[0] if instr.type.kind == "array" else instr.type.items[e]


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
