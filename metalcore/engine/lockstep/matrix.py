"""8x8 matrices spread over a simdgroup: load, store, multiply-accumulate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metalcore.engine.ir import FLOAT, I16, I32, I64, VOID, Const, Instr, Value, array, integer, vector

from .frame import OWN
from .homes import HOME_BYTES, Home
from .memory import LOAD, STORE, Address
from .operands import FALSE, Operand, poison, zero
from .shapes import LANE

if TYPE_CHECKING:
    from .emitters import Emitters

# Lane l of an 8x8 matrix holds elements (ROW[l], COL[l]) and (ROW[l], COL[l] + 1).
ROW = tuple(((lane // 4) & 4) + (lane // 2) % 4 for lane in LANE)
COL = tuple(((lane // 4) & 2) * 2 + (lane % 2) * 2 for lane in LANE)
_FRAGMENT = array(8, vector(8, FLOAT))  # a matrix in memory: both elements of each of four chunks
HOLDER = {(ROW[lane], COL[lane] + e): (lane, e) for lane in LANE for e in (0, 1)}


class Matrix:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.roots, self.plan = at, at.code, at.values, at.roots, at.plan
        self._home_names: dict[Home, Operand] = {}

    def matrix_call(self, instr: Instr, name: str, suffix: str) -> None:
        if name == "mma":
            self._multiply(instr)
        elif name == "load":
            self._load(instr, 4 if suffix == "b32" else 2)
        else:
            self._store(instr, 4 if suffix == "b32" else 2)

    def _pick(
        self, parts: tuple[Sequence[Operand], Sequence[Operand]], sources: Sequence[tuple[int, int]], c: int
    ) -> Operand:
        """For each lane of chunk c, element `e` of lane `l` of a matrix, as (l, e)."""
        mine = sources[c * self.code.width : (c + 1) * self.code.width]
        homes = {(lane // self.code.width, e) for lane, e in mine}
        if len(homes) == 1:
            home, e = homes.pop()
            picks = tuple(lane % self.code.width for lane, _ in mine)
            key = ("picked", (picks, parts[e][home].text))
            if key not in self.values.splats:
                self.values.splats[key] = self.code.shuffle(parts[e][home], picks)
            return self.values.splats[key]
        result = poison(parts[0][0].type)
        for i, (lane, e) in enumerate(mine):
            one = self.code.extract(parts[e][lane // self.code.width], lane % self.code.width)
            result = self.code.insert(result, one, i)
        return result

    def _multiply(self, instr: Instr) -> None:
        if self.code.width == 8:
            self._mma_call(instr)
        else:
            self._mma_inline(instr)

    def _fragment(self, first: Value, second: Value) -> Operand:
        """An operand in memory, chunk by chunk, both elements of each."""
        key = ("fragment", (first, second))
        found = self.values.splats.get(key)
        if found is None:
            found = self.code.slot(key, _FRAGMENT, align=64)
            for c in range(self.code.count):
                for e, value in enumerate((first, second)):
                    at = self.at.memory.pointer_at(found, 32 * (2 * c + e))
                    self.code.store(self.values.chunk(value, c), at, 32)
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
                    self.code.store(self.values.chunk(value, c), at, 32)
        self.code.call("mc.mma", VOID, home, a, b, how="fastcc ")
        if instr not in self.plan.homes:
            for c in range(self.code.count):
                first, second = (
                    self.code.load(_FRAGMENT.item, self.at.memory.pointer_at(home, 32 * (2 * c + e)), 32)
                    for e in (0, 1)
                )
                self.values.pairs[instr, c] = (first, second)
                self.at.lanes.define_pair(instr, c)

    def home_of(self, instr: Instr) -> Operand:
        """Memory in which sums stay from one multiplication to the next."""
        home = self.plan.homes.get(instr)
        return self._home_names[home] if home is not None else self.code.slot("home", _FRAGMENT, align=64)

    def _new_home(self, home: Home) -> Operand:
        """Where simdgroups take turns, in each one's own part of what is kept."""
        if self.plan.is_cut:
            name = self.code.entry.gep(OWN, self.at.cuts.room(home, HOME_BYTES))
        else:
            name = self.code.slot(("home", home), _FRAGMENT, align=64)
        self._home_names[home] = name
        return name

    def place_homes(self) -> None:
        """Values that share a home have their slots in it; to be done before any code is written."""
        for home in dict.fromkeys(self.plan.homes.values()):
            name = self._new_home(home)
            for value in home.values:
                for c in range(self.code.count):
                    at = self.code.entry.gep(name, 32 * (2 * c + home.element[value]))
                    self.code.slots[value, c] = (at, _FRAGMENT.item)

    def _mma_inline(self, instr: Instr) -> None:
        a, b = ((self.values.chunks(instr.args[i]), self.values.chunks(instr.args[i + 1])) for i in (0, 2))
        totals = [[self.values.chunk(instr.args[4 + e], c) for e in (0, 1)] for c in range(self.code.count)]
        for k in range(8):  # k outermost: the eight sums stay in registers
            for c in range(self.code.count):
                left = self._pick(a, [HOLDER[ROW[lane], k] for lane in LANE], c)
                for e in (0, 1):
                    right = self._pick(b, [HOLDER[k, COL[lane] + e] for lane in LANE], c)
                    totals[c][e] = self.code.intrinsic("fma", left, right, totals[c][e])
        for c in range(self.code.count):
            self.values.pairs[instr, c] = (totals[c][0], totals[c][1])
            self.at.lanes.define_pair(instr, c)

    def _load(self, instr: Instr, size: int) -> None:
        ty = integer(size * 8)
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
            self.code.cond_br(ok, fast, slow, likely=True)
            self.code.place(slow)
            saved = self.at.lanes.snapshot()
            self._matrix_lanes(instr, size, None)
            self.code.jump(done)
            self.at.lanes.restore(saved)
            self.code.place(fast)
        base, stride = self.values.scalar(instr.args[0]), self.values.scalar(instr.args[1])
        rows: dict[int, Operand] = {}
        for c in range(self.code.count):
            lanes = range(c * self.code.width, (c + 1) * self.code.width)
            parts = [poison(self.code.vec(ty))] * 2
            if not flip:
                # Rows 0 2 1 3: shuffles within the halves of a register then put the lanes in order.
                quads = sorted({(ROW[lane], COL[lane] // 4 * 4) for lane in lanes}, key=lambda q: (q[0] % 2, q))
                loaded = {
                    q: self.code.load(vector(4, ty), self._row_pointer(rows, base, stride, q[0], size, q[1]), size)
                    for q in quads
                }
                whole = self.code.concat([loaded[q] for q in quads])
                for e in (0, 1):
                    picks = [quads.index((ROW[lane], COL[lane] // 4 * 4)) * 4 + COL[lane] % 4 + e for lane in lanes]
                    parts[e] = self.code.shuffle(whole, picks)
            else:
                for e in (0, 1):
                    for i, lane in enumerate(lanes):
                        pointer = self._row_pointer(rows, base, stride, COL[lane] + e, size, ROW[lane])
                        one = self.code.load(ty, pointer, size)
                        parts[e] = self.code.insert(parts[e], one, i)
            if size == 2:
                parts = [self.code.zext(p, self.code.vec(I32)) for p in parts]
            self.values.pairs[instr, c] = (parts[0], parts[1])
            self.at.lanes.define_pair(instr, c)
        if done:
            self.code.jump(done)
            self.code.place(done)
            self.at.lanes.restore(saved)
            for c in range(self.code.count):
                self.values.pairs.pop((instr, c), None)

    def _row_pointer(
        self, rows: dict[int, Operand], base: Operand, stride: Operand, row: int, size: int, column: int
    ) -> Operand:
        if row not in rows:
            at = self.code.mul(stride, row * size)
            rows[row] = self.code.gep(base, at)
        return self.at.memory.pointer_at(rows[row], column * size)

    def _matrix_inside(self, instr: Instr, where: Address, size: int) -> Operand:
        """Scalar test of a whole 8x8 block: [p, p + 7 * stride + 8) elements."""
        base, stride = where.base, self.values.scalar(instr.args[1])
        number = self.code.ptrtoint(base)
        far = self.code.mul(stride, 7 * size)
        small = self.code.icmp("ult", stride, 1 << 56)
        result = FALSE
        origin = self.roots.origins.get(where.pointer)
        for root in sorted(where.roots, key=str):
            if root.kind == "unknown" or (origin is not None and not self.values.shape(origin).uniform):
                continue
            offset = self.code.sub(number, self.at.memory.root_number(root))
            low = self.code.icmp("ult", offset, self.at.memory.limit(root, 8 * size))
            end = self.code.add(offset, far)
            high = self.code.icmp("ult", end, self.at.memory.limit(root, 8 * size))
            both = self.code.and_(low, high)
            both = self.at.memory.only_from(where, root, self.code.and_(both, small))
            result = self.code.or_(result, both)
        return result

    def _matrix_lanes(self, instr: Instr, size: int, store: int | None, watched: bool = False) -> None:
        """Each lane on its own: the general form, and the one that reports bad accesses."""
        ty = integer(size * 8)
        transpose = instr.args[2]
        for e in (0, 1):
            addresses = []
            for c in range(self.code.count):
                row = self.code.lane_constants(I64, ROW, c)
                column = self.code.lane_constants(I64, [x + e for x in COL], c)
                if isinstance(transpose, Const):
                    outer, inner = (column, row) if transpose.value else (row, column)
                else:
                    test = self.code.icmp("ne", self.values.chunk(transpose, c), zero(self.code.vec(I32)))
                    outer = self.code.select(test, column, row)
                    inner = self.code.select(test, row, column)
                at = self.code.mul(self.values.chunk(instr.args[1], c), outer)
                at = self.code.add(at, inner)
                at = self.code.mul(at, size)
                addresses.append(self.code.gep(self.values.chunk(instr.args[0], c), at))
            if watched and self.plan.sanitized:
                where = self.at.memory.address(instr.args[0], size)
                self.at.watch.watch_lanes(instr, where, addresses, LOAD if store is None else STORE)
            if store is None:
                got = self.at.lanes.access_lanes(instr, instr.args[0], addresses, ty, size, LOAD, None)
                for c in range(self.code.count):
                    name = got[c] if size == 4 else self.code.zext(got[c], self.code.vec(I32))
                    self.values.pairs[instr, c] = (name, name) if e == 0 else (self.values.pairs[instr, c][0], name)
            else:
                values = [self.values.chunk(instr.args[store + e], c) for c in range(self.code.count)]
                if size == 2:
                    values = [self.code.trunc(v, self.code.vec(I16)) for v in values]
                self.at.lanes.access_lanes(instr, instr.args[0], addresses, ty, size, STORE, values)
        if store is None:
            for c in range(self.code.count):
                self.at.lanes.define_pair(instr, c)

    def _store(self, instr: Instr, size: int) -> None:
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
            self.code.cond_br(ok, fast, slow, likely=True)
            self.code.place(slow)
            saved = self.at.lanes.snapshot()
            self._matrix_lanes(instr, size, 3)
            self.code.jump(done)
            self.at.lanes.restore(saved)
            self.code.place(fast)
        base, stride = self.values.scalar(instr.args[0]), self.values.scalar(instr.args[1])
        rows: dict[int, Operand] = {}
        for c in range(self.code.count):
            lanes = list(range(c * self.code.width, (c + 1) * self.code.width))
            halves = [self.values.chunk(instr.args[3], c), self.values.chunk(instr.args[4], c)]
            if size == 2:
                halves = [self.code.trunc(h, self.code.vec(I16)) for h in halves]
            for quad in sorted({(ROW[lane], COL[lane] // 4 * 4) for lane in lanes}):
                picks = []
                for column in range(quad[1], quad[1] + 4):
                    lane, e = HOLDER[quad[0], column]
                    picks.append(lane - c * self.code.width + e * self.code.width)
                row = self.code.shuffle(halves[0], picks, halves[1])
                self.code.store(row, self._row_pointer(rows, base, stride, quad[0], size, quad[1]), size)
        if done:
            self.code.jump(done)
            self.code.place(done)
            self.at.lanes.restore(saved)
