"""8x8 matrices spread over a simdgroup: load and store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from metalcore.engine.abi import LOAD, STORE
from metalcore.engine.ir import I16, I32, I64, Const, Instr, integer

from .addresses import Address
from .fragments import COL, ROW
from .operands import FALSE, Operand, poison, zero
from .products import HOLDER

if TYPE_CHECKING:
    from .emitters import Emitters


class Matrix:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.roots, self.plan = at, at.code, at.values, at.roots, at.plan

    def matrix_call(self, instr: Instr, name: str, suffix: str) -> None:
        if name == "mma":
            self.at.products.multiply(instr)
        elif name == "load":
            self._load(instr, 4 if suffix == "b32" else 2)
        else:
            self._store(instr, 4 if suffix == "b32" else 2)

    def _load(self, instr: Instr, size: int) -> None:
        ty = integer(size * 8)
        transpose = instr.args[2]
        flip = bool(transpose.value) if isinstance(transpose, Const) else None
        uniform = (
            self.values.shape(instr.args[0]).uniform and self.values.shape(instr.args[1]).uniform and flip is not None
        )
        where = self.at.addresses.of(instr.args[0], size)
        if not uniform or where.private:
            self._matrix_lanes(instr, size, None)
            return
        if self.plan.sanitized:
            self.at.watch.watch_matrix(instr, where, size, LOAD, bool(flip))
        ok = self._matrix_inside(instr, where, size) if self.plan.checked else None
        if instr in self.plan.factors.kinds:
            self._load_rows(instr, size, ok)
            return
        done = ""
        if ok is not None:
            fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
            self.values.crossing.add(instr)
            self.code.cond_br(ok, fast, slow, likely=True)
            self.code.place(slow)
            saved = self.at.lanes.snapshot()
            self._matrix_lanes(instr, size, None, is_outside=True)
            self.code.jump(done)
            self.at.lanes.restore(saved)
            self.code.place(fast)
        base, stride = self.values.scalar(instr.args[0]), self.values.scalar(instr.args[1])
        rows: dict[int, Operand] = {}
        at = partial(self._row_pointer, rows, base, stride, size)
        for c in range(self.code.count):
            lanes = range(c * self.code.width, (c + 1) * self.code.width)
            parts = [poison(self.code.vec(ty))] * 2
            if not flip:
                parts = list(self.at.products.lanes_of(at, c, ty))
            else:
                for e in (0, 1):
                    for i, lane in enumerate(lanes):
                        one = self.code.load(ty, at(COL[lane] + e, ROW[lane]), size)
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

    def _load_rows(self, instr: Instr, size: int, ok: Operand | None) -> None:
        """Products read the rows where they lie, or a copy; lane by lane is loaded what is not in bounds."""
        done = ""
        if ok is not None:
            fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
            self.code.cond_br(ok, fast, slow, likely=True)
            self.code.place(slow)
            saved = self.at.lanes.snapshot()
            self._matrix_lanes(instr, size, None, is_outside=True)
            self.at.products.take_lanes(instr)
            self.code.jump(done)
            self.at.lanes.restore(saved)
            self.code.place(fast)
        base, stride, transpose = self.values.scalar(instr.args[0]), self.values.scalar(instr.args[1]), instr.args[2]
        if instr in self.plan.factors.copied:
            rows: dict[int, Operand] = {}
            quad = partial(self._row_pointer, rows, base, stride, size)
            self.at.products.take_copy(instr, quad, isinstance(transpose, Const) and bool(transpose.value))
        else:
            self.at.products.take_rows(instr, base, self.code.mul(stride, size))
        if done:
            self.code.jump(done)
            self.at.lanes.restore(saved)
            self.code.place(done)

    def _row_pointer(
        self, rows: dict[int, Operand], base: Operand, stride: Operand, size: int, row: int, column: int
    ) -> Operand:
        if row not in rows:
            at = self.code.mul(stride, row * size)
            rows[row] = self.code.gep(base, at)
        return self.at.addresses.pointer_at(rows[row], column * size)

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
            offset = self.code.sub(number, self.at.inside.root_number(root))
            low = self.code.icmp("ult", offset, self.at.inside.limit(root, 8 * size))
            end = self.code.add(offset, far)
            high = self.code.icmp("ult", end, self.at.inside.limit(root, 8 * size))
            both = self.code.and_(low, high)
            both = self.at.inside.only_from(where, root, self.code.and_(both, small))
            result = self.code.or_(result, both)
        return result

    def _matrix_lanes(self, instr: Instr, size: int, store: int | None, is_outside: bool = False) -> None:
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
            if not is_outside and self.plan.sanitized:
                where = self.at.addresses.of(instr.args[0], size)
                self.at.watch.watch_lanes(instr, where, addresses, LOAD if store is None else STORE)
            if store is None:
                got = self.at.lanes.access_lanes(instr, instr.args[0], addresses, ty, size, LOAD, None, is_outside)
                for c in range(self.code.count):
                    name = got[c] if size == 4 else self.code.zext(got[c], self.code.vec(I32))
                    self.values.pairs[instr, c] = (name, name) if e == 0 else (self.values.pairs[instr, c][0], name)
            else:
                values = [self.values.chunk(instr.args[store + e], c) for c in range(self.code.count)]
                if size == 2:
                    values = [self.code.trunc(v, self.code.vec(I16)) for v in values]
                self.at.lanes.access_lanes(instr, instr.args[0], addresses, ty, size, STORE, values, is_outside)
        if store is None:
            for c in range(self.code.count):
                self.at.lanes.define_pair(instr, c)

    def _store(self, instr: Instr, size: int) -> None:
        transpose = instr.args[2]
        where = self.at.addresses.of(instr.args[0], size)
        uniform = self.values.shape(instr.args[0]).uniform and self.values.shape(instr.args[1]).uniform
        if (
            not uniform
            or not isinstance(transpose, Const)
            or transpose.value
            or where.private
            or self.values.mask is not None
        ):
            self._matrix_lanes(instr, size, 3)
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
            self._matrix_lanes(instr, size, 3, is_outside=True)
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
                self.code.store(row, self._row_pointer(rows, base, stride, size, *quad), size)
        if done:
            self.code.jump(done)
            self.code.place(done)
            self.at.lanes.restore(saved)
