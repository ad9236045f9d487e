"""8x8 matrices spread over a simdgroup: load, store, multiply-accumulate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .ir import Const, Instr, Value
from .memory import LOAD, STORE, Address
from .shapes import LANE

if TYPE_CHECKING:
    from .emitters import Emitters

# Lane l of an 8x8 matrix holds elements (ROW[l], COL[l]) and (ROW[l], COL[l] + 1).
ROW = tuple(((lane // 4) & 4) + (lane // 2) % 4 for lane in LANE)
COL = tuple(((lane // 4) & 2) * 2 + (lane % 2) * 2 for lane in LANE)
HOLDER = {(ROW[lane], COL[lane] + e): (lane, e) for lane in LANE for e in (0, 1)}


class Matrix:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.roots, self.plan = at, at.code, at.values, at.roots, at.plan

    def matrix_call(self, instr: Instr, name: str, suffix: str) -> None:
        if name == "mma":
            self._multiply(instr)
        elif name == "load":
            self._load(instr, 4 if suffix == "b32" else 2)
        else:
            self._store(instr, 4 if suffix == "b32" else 2)

    def _pick(
        self, parts: tuple[Sequence[str], Sequence[str]], ty: str, sources: Sequence[tuple[int, int]], c: int
    ) -> str:
        """For each lane of chunk c, element `e` of lane `l` of a matrix, as (l, e)."""
        temp, vec = self.code.temp, self.code.vec
        mine = sources[c * self.code.width : (c + 1) * self.code.width]
        homes = {(lane // self.code.width, e) for lane, e in mine}
        if len(homes) == 1:
            home, e = homes.pop()
            picks = ", ".join(f"i32 {lane % self.code.width}" for lane, _ in mine)
            key = (picks, parts[e][home])
            if key not in self.values.splats:
                self.values.splats[key] = temp(
                    f"shufflevector {vec(ty)} {parts[e][home]}, {vec(ty)} poison, {vec('i32')} <{picks}>"
                )
            return self.values.splats[key]
        result = "poison"
        for i, (lane, e) in enumerate(mine):
            one = temp(f"extractelement {vec(ty)} {parts[e][lane // self.code.width]}, i64 {lane % self.code.width}")
            result = temp(f"insertelement {vec(ty)} {result}, {ty} {one}, i64 {i}")
        return result

    def _multiply(self, instr: Instr) -> None:
        if self.code.width == 8:
            self._mma_call(instr)
        else:
            self._mma_inline(instr)

    def _fragment(self, first: Value, second: Value) -> str:
        """An operand in memory, chunk by chunk, both elements of each."""
        key = ("fragment", (first, second))
        found = self.values.splats.get(key)
        if found is None:
            found = self.code.slot(key, "[8 x <8 x float>]", align=64)
            for c in range(self.code.count):
                for e, value in enumerate((first, second)):
                    at = self.at.memory.pointer_at(found, 32 * (2 * c + e))
                    self.code.emit(f"store <8 x float> {self.values.chunk(value, c)}, ptr {at}, align 32")
            self.values.splats[key] = found
        return found

    def _mma_call(self, instr: Instr) -> None:
        """A function of its own keeps the eight sums in registers; inlined, the scheduler spills them at every step."""
        a, b = self._fragment(instr.args[0], instr.args[1]), self._fragment(instr.args[2], instr.args[3])
        self.plan.uses_mma = True
        home = self.home_of(instr)
        for e in (0, 1):
            value = instr.args[4 + e]
            if instr not in self.plan.homes or self.plan.homes.get(value) is not self.plan.homes[instr]:
                for c in range(self.code.count):
                    at = self.at.memory.pointer_at(home, 32 * (2 * c + e))
                    self.code.emit(f"store <8 x float> {self.values.chunk(value, c)}, ptr {at}, align 32")
        self.code.emit(f"call fastcc void @mc.mma(ptr {home}, ptr {a}, ptr {b})")
        if instr not in self.plan.homes:
            for c in range(self.code.count):
                first, second = (
                    self.code.temp(
                        f"load <8 x float>, ptr {self.at.memory.pointer_at(home, 32 * (2 * c + e))}, align 32"
                    )
                    for e in (0, 1)
                )
                self.values.pairs[instr, c] = (first, second)
                self.at.lanes.define_pair(instr, c)

    def home_of(self, instr: Instr) -> str:
        """Memory in which sums stay from one multiplication to the next."""
        return self.code.slot(("home", self.plan.homes.get(instr)), "[8 x <8 x float>]", align=64)

    def place_homes(self) -> None:
        """Values that share a home have their slots in it; to be done before any code is written."""
        for home in dict.fromkeys(self.plan.homes.values()):
            name = self.code.slot(("home", home), "[8 x <8 x float>]", align=64)
            for value in home.values:
                for c in range(self.code.count):
                    at = self.code.at_entry(f"getelementptr i8, ptr {name}, i64 {32 * (2 * c + home.element[value])}")
                    self.code.slots[value, c] = (at, "<8 x float>")

    def _mma_inline(self, instr: Instr) -> None:
        a, b = ((self.values.chunks(instr.args[i]), self.values.chunks(instr.args[i + 1])) for i in (0, 2))
        vec = self.code.vec("float")
        self.code.need(f"declare {vec} @llvm.fma.v{self.code.width}f32({vec}, {vec}, {vec})")
        totals = [[self.values.chunk(instr.args[4 + e], c) for e in (0, 1)] for c in range(self.code.count)]
        for k in range(8):  # k outermost: the eight sums stay in registers
            for c in range(self.code.count):
                left = self._pick(a, "float", [HOLDER[ROW[lane], k] for lane in LANE], c)
                for e in (0, 1):
                    right = self._pick(b, "float", [HOLDER[k, COL[lane] + e] for lane in LANE], c)
                    totals[c][e] = self.code.temp(
                        f"call {vec} @llvm.fma.v{self.code.width}f32({vec} {left}, {vec} {right}, {vec} {totals[c][e]})"
                    )
        for c in range(self.code.count):
            self.values.pairs[instr, c] = (totals[c][0], totals[c][1])
            self.at.lanes.define_pair(instr, c)

    def _load(self, instr: Instr, size: int) -> None:
        temp, vec = self.code.temp, self.code.vec
        ty = f"i{size * 8}"
        transpose = instr.args[2]
        flip = bool(transpose.value) if isinstance(transpose, Const) else None
        uniform = (
            self.values.shape(instr.args[0]).uniform and self.values.shape(instr.args[1]).uniform and flip is not None
        )
        where = self.at.memory.address(instr.args[0], size)
        if not uniform or where.private:
            self._matrix_lanes(instr, size, None, watched=True)
            return
        if self.plan.sanitized:
            self.at.watch.watch_matrix(instr, where, size, LOAD, bool(flip))
        ok = self._matrix_inside(instr, where, size) if self.plan.checked else None
        done = ""
        if ok is not None:
            fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
            self.values.crossing.add(instr)
            self.code.emit(f"br i1 {ok}, label %{fast}, label %{slow}, !prof !1")
            self.code.place(slow)
            saved = self.at.lanes.snapshot()
            self._matrix_lanes(instr, size, None)
            self.code.jump(done)
            self.at.lanes.restore(saved)
            self.code.place(fast)
        base, stride = self.values.scalar(instr.args[0]), self.values.scalar(instr.args[1])
        rows: dict[int, str] = {}
        for c in range(self.code.count):
            lanes = range(c * self.code.width, (c + 1) * self.code.width)
            parts = ["poison", "poison"]
            if not flip:
                # Rows 0 2 1 3: shuffles within the halves of a register then put the lanes in order.
                quads = sorted({(ROW[lane], COL[lane] // 4 * 4) for lane in lanes}, key=lambda q: (q[0] % 2, q))
                loaded = {
                    q: temp(
                        f"load <4 x {ty}>, ptr {self._row_pointer(rows, base, stride, q[0], size, q[1])}, align {size}"
                    )
                    for q in quads
                }
                whole, width = self.concat([loaded[q] for q in quads], ty, 4)
                for e in (0, 1):
                    picks = [quads.index((ROW[lane], COL[lane] // 4 * 4)) * 4 + COL[lane] % 4 + e for lane in lanes]
                    text = ", ".join(f"i32 {p}" for p in picks)
                    parts[e] = temp(
                        f"shufflevector <{width} x {ty}> {whole}, <{width} x {ty}> poison, {vec('i32')} <{text}>"
                    )
            else:
                for e in (0, 1):
                    for i, lane in enumerate(lanes):
                        pointer = self._row_pointer(rows, base, stride, COL[lane] + e, size, ROW[lane])
                        one = temp(f"load {ty}, ptr {pointer}, align {size}")
                        parts[e] = temp(f"insertelement {vec(ty)} {parts[e]}, {ty} {one}, i64 {i}")
            if size == 2:
                parts = [temp(f"zext {vec('i16')} {p} to {vec('i32')}") for p in parts]
            self.values.pairs[instr, c] = (parts[0], parts[1])
            self.at.lanes.define_pair(instr, c)
        if done:
            self.code.jump(done)
            self.code.place(done)
            self.at.lanes.restore(saved)
            for c in range(self.code.count):
                self.values.pairs.pop((instr, c), None)

    def concat(self, parts: list[str], ty: str, width: int) -> tuple[str, int]:
        while len(parts) > 1:
            text = ", ".join(f"i32 {i}" for i in range(2 * width))
            parts = [
                self.code.temp(
                    f"shufflevector <{width} x {ty}> {x}, <{width} x {ty}> {y}, <{2 * width} x i32> <{text}>"
                )
                for x, y in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        return parts[0], width

    def _row_pointer(self, rows: dict[int, str], base: str, stride: str, row: int, size: int, column: int) -> str:
        if row not in rows:
            at = self.code.temp(f"mul i64 {stride}, {row * size}")
            rows[row] = self.code.temp(f"getelementptr i8, ptr {base}, i64 {at}")
        return self.at.memory.pointer_at(rows[row], column * size)

    def _matrix_inside(self, instr: Instr, where: Address, size: int) -> str:
        """Scalar test of a whole 8x8 block: [p, p + 7 * stride + 8) elements."""
        base, stride = where.base, self.values.scalar(instr.args[1])
        number = self.code.temp(f"ptrtoint ptr {base} to i64")
        far = self.code.temp(f"mul i64 {stride}, {7 * size}")
        small = self.code.temp(f"icmp ult i64 {stride}, {1 << 56}")
        result = "false"
        origin = self.roots.origins.get(where.pointer)
        for root in sorted(where.roots, key=str):
            if root.kind == "unknown" or (origin is not None and not self.values.shape(origin).uniform):
                continue
            offset = self.code.temp(f"sub i64 {number}, {self.at.memory.root_number(root)}")
            low = self.code.temp(f"icmp ult i64 {offset}, {self.at.memory.limit(root, 8 * size)}")
            end = self.code.temp(f"add i64 {offset}, {far}")
            high = self.code.temp(f"icmp ult i64 {end}, {self.at.memory.limit(root, 8 * size)}")
            both = self.code.temp(f"and i1 {low}, {high}")
            both = self.at.memory.only_from(where, root, self.code.temp(f"and i1 {both}, {small}"))
            result = self.code.temp(f"or i1 {result}, {both}")
        return result

    def _matrix_lanes(self, instr: Instr, size: int, store: int | None, watched: bool = False) -> None:
        """Each lane on its own: the general form, and the one that reports bad accesses."""
        ty = f"i{size * 8}"
        transpose = instr.args[2]
        for e in (0, 1):
            addresses = []
            for c in range(self.code.count):
                i64, i1 = self.code.vec("i64"), self.code.vec("i1")
                row = self.code.lane_constants("i64", ROW, c)
                column = self.code.lane_constants("i64", [x + e for x in COL], c)
                if isinstance(transpose, Const):
                    outer, inner = (column, row) if transpose.value else (row, column)
                else:
                    test = self.code.temp(
                        f"icmp ne {self.code.vec('i32')} {self.values.chunk(transpose, c)}, zeroinitializer"
                    )
                    outer = self.code.temp(f"select {i1} {test}, {i64} {column}, {i64} {row}")
                    inner = self.code.temp(f"select {i1} {test}, {i64} {row}, {i64} {column}")
                at = self.code.temp(f"mul {i64} {self.values.chunk(instr.args[1], c)}, {outer}")
                at = self.code.temp(f"add {i64} {at}, {inner}")
                at = self.code.temp(f"mul {i64} {at}, splat (i64 {size})")
                addresses.append(
                    self.code.temp(
                        f"getelementptr i8, {self.code.vec('ptr')} {self.values.chunk(instr.args[0], c)}, {i64} {at}"
                    )
                )
            if watched and self.plan.sanitized:
                where = self.at.memory.address(instr.args[0], size)
                self.at.watch.watch_lanes(instr, where, addresses, LOAD if store is None else STORE)
            if store is None:
                got = self.at.lanes.access_lanes(instr, instr.args[0], addresses, ty, size, LOAD, None)
                for c in range(self.code.count):
                    name = (
                        got[c]
                        if size == 4
                        else self.code.temp(f"zext {self.code.vec('i16')} {got[c]} to {self.code.vec('i32')}")
                    )
                    old = self.values.pairs.get((instr, c), ("", ""))
                    self.values.pairs[instr, c] = (name, old[1]) if e == 0 else (old[0], name)
            else:
                values = [self.values.chunk(instr.args[store + e], c) for c in range(self.code.count)]
                if size == 2:
                    values = [
                        self.code.temp(f"trunc {self.code.vec('i32')} {v} to {self.code.vec('i16')}") for v in values
                    ]
                self.at.lanes.access_lanes(instr, instr.args[0], addresses, ty, size, STORE, values)
        if store is None:
            for c in range(self.code.count):
                self.at.lanes.define_pair(instr, c)

    def _store(self, instr: Instr, size: int) -> None:
        temp, vec = self.code.temp, self.code.vec
        ty = f"i{size * 8}"
        transpose = instr.args[2]
        where = self.at.memory.address(instr.args[0], size)
        uniform = self.values.shape(instr.args[0]).uniform and self.values.shape(instr.args[1]).uniform
        if (
            not uniform
            or not isinstance(transpose, Const)
            or transpose.value
            or where.private
            or self.values.mask is not None
        ):
            self._matrix_lanes(instr, size, 3, watched=True)
            return
        if self.plan.sanitized:
            self.at.watch.watch_matrix(instr, where, size, STORE, False)
        ok = self._matrix_inside(instr, where, size) if self.plan.checked else None
        done = ""
        if ok is not None:
            fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
            for i in (3, 4):
                self.values.chunks(instr.args[i])
            self.code.emit(f"br i1 {ok}, label %{fast}, label %{slow}, !prof !1")
            self.code.place(slow)
            saved = self.at.lanes.snapshot()
            self._matrix_lanes(instr, size, 3)
            self.code.jump(done)
            self.at.lanes.restore(saved)
            self.code.place(fast)
        base, stride = self.values.scalar(instr.args[0]), self.values.scalar(instr.args[1])
        rows: dict[int, str] = {}
        for c in range(self.code.count):
            lanes = list(range(c * self.code.width, (c + 1) * self.code.width))
            halves = [self.values.chunk(instr.args[3], c), self.values.chunk(instr.args[4], c)]
            if size == 2:
                halves = [temp(f"trunc {vec('i32')} {h} to {vec('i16')}") for h in halves]
            for quad in sorted({(ROW[lane], COL[lane] // 4 * 4) for lane in lanes}):
                picks = []
                for column in range(quad[1], quad[1] + 4):
                    lane, e = HOLDER[quad[0], column]
                    picks.append(lane - c * self.code.width + e * self.code.width)
                text = ", ".join(f"i32 {p}" for p in picks)
                row = temp(f"shufflevector {vec(ty)} {halves[0]}, {vec(ty)} {halves[1]}, <4 x i32> <{text}>")
                self.code.emit(
                    f"store <4 x {ty}> {row}, ptr {self._row_pointer(rows, base, stride, quad[0], size, quad[1])}, "
                    f"align {size}"
                )
        if done:
            self.code.jump(done)
            self.code.place(done)
            self.at.lanes.restore(saved)
