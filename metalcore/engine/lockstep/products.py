"""Products of 8x8 matrices, and the sums that stay in memory between them.

On registers of eight floats a matrix is eight rows in memory: where the kernel has them, else in a place of its own.
Lanes hold two elements each, as the headers say. Rows are made of them, or taken apart, only where somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from metalcore.engine.ir import FLOAT, I8, I16, I64, PTR, VOID, Const, Instr, Type, Value, array, integer, vector

from .builder import Builder
from .fragments import COL, ROW
from .frame import OWN, parameters
from .halves import widen
from .homes import HOME_BYTES, Home
from .operands import Operand, constant, poison
from .shape import LANE
from .support import function
from .types import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters

HOLDER = {(ROW[lane], COL[lane] + e): (lane, e) for lane in LANE for e in (0, 1)}
_ROW = vector(8, FLOAT)
_ROWS = array(8, _ROW)
_ROW_BYTES = 32
_FAR_APART = 512  # bytes from row to row that a copy may have


class Products:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.plan = at, at.code, at.values, at.plan
        self._places: dict[Home, Operand] = {}

    def multiply(self, instr: Instr) -> None:
        if self.code.width != 8:
            self._inline(instr)
        elif instr not in self.plan.factors.made:
            second = self.plan.factors.second.get(instr)
            self._call([instr] if second is None else [instr, second])

    def _call(self, products: list[Instr]) -> None:
        """A function of its own keeps eight sums in registers; inlined, the scheduler spills them at every step."""
        left = self._left(products[0])
        rights = [self._factor(product, 2) for product in products]
        places = [self._sums(product, number) for number, product in enumerate(products)]
        form = "lanes" if len(left) == 1 else "columns" if self._has_columns(products[0]) else "rows"
        name = f"mc.mma{len(products)}.{form}"
        self.code.helpers[name], declared = product_function(name, len(products), form, self.plan.machine.has_pairs)
        self.code.declarations.update(declared)
        self.code.call(name, VOID, *places, *left, *(part for right in rights for part in right), how="fastcc ")
        for product, place in zip(products, places, strict=True):
            if product in self.plan.homes:
                self._forget(self.plan.homes[product])
            else:
                for c in range(self.code.count):
                    first, second = self._lanes(place, c)
                    self.values.pairs[product, c] = (first, second)
                    self.at.lanes.define_pair(product, c)

    def _has_columns(self, product: Instr) -> bool:
        """Whether what lies in memory are columns of the left side."""
        load = self.plan.factors.loads.get(product.args[0])
        fragment = self.plan.factors.fragments.get(load) if load is not None else None
        return fragment is not None and fragment.has_columns and fragment.sides == {0}

    # -- factors -----------------------------------------------------------------------------------
    def _left(self, product: Instr) -> tuple[Operand, ...]:
        """Its elements are read one by one: no rows are made of what lanes hold."""
        elements = product.args[0], product.args[1]
        if elements[0] in self.plan.factors.loads:
            return self._factor(product, 0)
        key = ("lanes", elements)
        found = self.values.splats.get(key)
        if found is None:
            found = self.values.splats[key] = self.code.slot(key, _ROWS, align=64)
            for e, element in enumerate(elements):
                for c, chunk in enumerate(self.values.chunks(element)):
                    self.code.store(chunk, self.at.addresses.pointer_at(found, 32 * (2 * c + e)), 32)
        return (found,)

    def _factor(self, product: Instr, i: int) -> tuple[Operand, Operand]:
        """Where its rows lie, and how many bytes apart."""
        elements = product.args[i], product.args[i + 1]
        load = self.plan.factors.loads.get(elements[0])
        if load is not None:
            apart = self._distance(load)
            known = self.code.load_slot((load, "apart"), I64) if apart is None else constant(I64, apart)
            return self.code.load_slot((load, "rows"), PTR), known
        key = ("matrix", elements)
        found = self.values.splats.get(key)
        if found is None:
            found = self.values.splats[key] = self.code.slot(key, _ROWS, align=64)
            self._keep(found, [self.values.chunks(element) for element in elements])
        return found, constant(I64, _ROW_BYTES)

    def _distance(self, load: Instr) -> int | None:
        """Bytes from row to row of what is read for it, where that is known: those of a copy are as far apart."""
        if load in self.plan.factors.copied:
            return _ROW_BYTES
        if load in self.plan.factors.fragments:
            return self.plan.factors.fragments[load].apart
        stride = load.args[1].value if isinstance(load.args[1], Const) else None
        return 4 * stride if stride is not None and _ROW_BYTES <= 4 * stride <= _FAR_APART else None

    def take_rows(self, load: Instr, at: Operand, apart: Operand) -> None:
        """Products will read a matrix where it lies."""
        self.code.keep((load, "rows"), at)
        if self._distance(load) is None:
            self.code.keep((load, "apart"), apart)

    def take_fragment(self, load: Instr) -> None:
        """Of a matrix that lanes load by themselves."""
        fragment = self.plan.factors.fragments[load]
        base = self.at.addresses.pointer_at(self.values.scalar(load.args[0]), fragment.start)
        if load not in self.plan.factors.copied:
            self.take_rows(load, base, constant(I64, fragment.apart))
            return

        def quad(line: int, place: int) -> Operand:
            return self.at.addresses.pointer_at(base, line * fragment.apart + place * load.type.size)

        self.take_copy(load, quad, fragment.has_columns and 2 in fragment.sides)

    def take_copy(self, load: Instr, quad: Callable[[int, int], Operand], is_transposed: bool) -> None:
        """They will read a copy of its rows, widened, or of its columns. *quad*: as of `lanes_of`."""
        kind = self.plan.factors.kinds[load]
        item = integer(8 * kind.size) if kind.kind == "bfloat" else scalar_type(kind)

        def loaded(row: int, column: int) -> Operand:
            return self._widened(self.code.load(vector(4, item), quad(row, column), kind.size), kind)

        if is_transposed:
            rows = []
            for column in (0, 4):
                both = [self.code.concat([loaded(row, column), loaded(row + 4, column)]) for row in range(4)]
                rows += self.code.transpose_quads(both)
        else:
            wide = (self.code.load(vector(8, item), quad(row, 0), kind.size) for row in range(8))
            rows = [self._widened(row, kind) for row in wide]
        self._take(load, rows)

    def take_lanes(self, load: Instr) -> None:
        """They will read one that was loaded lane by lane."""
        kind = self.plan.factors.kinds[load]
        elements: list[list[Operand]] = [[], []]
        for c in range(self.code.count):
            for e, word in enumerate(self.values.pairs.pop((load, c))):
                bits = self.code.trunc(word, self.code.vec(I16)) if kind.size == 2 else word
                wide = bits if kind.kind == "bfloat" else self.code.bitcast(bits, self.code.vec(scalar_type(kind)))
                elements[e].append(self._widened(wide, kind))
        self._take(load, self._rows(elements))

    def _widened(self, value: Operand, kind: Type) -> Operand:
        return value if kind.kind == "float" else widen(self.code, value, kind)

    def _take(self, load: Instr, rows: Sequence[Operand]) -> None:
        apart = self._distance(load) or _ROW_BYTES
        place = self.code.slot((load, "matrix"), array(7 * apart + _ROW_BYTES, I8), align=64)
        for number, row in enumerate(rows):
            self.code.store(row, self.at.addresses.pointer_at(place, apart * number), 4)
        self.take_rows(load, place, constant(I64, apart))

    # -- sums --------------------------------------------------------------------------------------
    def place_homes(self) -> None:
        """Before any code is written. Where simdgroups take turns, in each one's own part of what is kept."""
        for home in dict.fromkeys(self.plan.homes.values()):
            if self.plan.is_cut:
                place = self.code.entry.gep(OWN, self.at.cuts.room(home, HOME_BYTES))
            else:
                place = self.code.slot(("home", home), _ROWS, align=64)
            self._places[home] = place
            for phi in [value for value in home.values if value.op == "phi"]:
                self.code.slots[phi, "sums"] = (place, _ROWS)

    def _sums(self, product: Instr, number: int) -> Operand:
        """Memory in which the sums are before a product and behind it."""
        home = self.plan.homes.get(product)
        place = self._places[home] if home is not None else self.code.slot(("sums", number), _ROWS, align=64)
        if home is None or any(self.plan.homes.get(value) is not home for value in product.args[4:]):
            self._keep(place, [self.values.chunks(value) for value in product.args[4:]])
        return place

    def lanes_at_home(self, value: Instr, c: int) -> Operand:
        """A chunk of a value that has a home."""
        home = self.plan.homes[value]
        if ("at home", (home, c, 0)) not in self.values.splats:
            for e, lanes in enumerate(self._lanes(self._places[home], c)):
                self.values.splats["at home", (home, c, e)] = lanes
        return self.values.splats["at home", (home, c, home.element[value])]

    def _forget(self, home: Home) -> None:
        """What was read of it is not what it has now."""
        for c in range(self.code.count):
            for e in (0, 1):
                self.values.splats.pop(("at home", (home, c, e)), None)

    def keep_at_home(self, moves: Mapping[Instr, Sequence[Operand]]) -> None:
        """All chunks of values that have homes."""
        for home in dict.fromkeys(self.plan.homes[value] for value in moves):
            new = {home.element[value]: chunks for value, chunks in moves.items() if self.plan.homes[value] is home}
            place = self._places[home]
            for e in {0, 1} - set(new):
                new[e] = [self._lanes(place, c)[e] for c in range(self.code.count)]
            self._keep(place, [new[0], new[1]])
            self._forget(home)

    def is_at_home(self, phi: Instr, value: Value) -> bool:
        """Whether a value is where the phi wants it."""
        home = self.plan.homes.get(phi)
        return home is not None and home is self.plan.homes.get(value)

    # -- rows and lanes ----------------------------------------------------------------------------
    def _lanes(self, place: Operand, c: int) -> tuple[Operand, Operand]:
        def quad(row: int, column: int) -> Operand:
            return self.at.addresses.pointer_at(place, 32 * row + 4 * column)

        return self.lanes_of(quad, c, FLOAT)

    def lanes_of(self, quad: Callable[[int, int], Operand], c: int, item: Type) -> tuple[Operand, Operand]:
        """Both elements of a chunk's lanes. *quad*: the address of four elements of a row, from a column on."""
        lanes = range(c * self.code.width, (c + 1) * self.code.width)
        # Rows 0 2 1 3: shuffles within the halves of a register then put the lanes in order.
        places = sorted({(ROW[lane], COL[lane] // 4 * 4) for lane in lanes}, key=lambda q: (q[0] % 2, q))
        whole = self.code.concat([self.code.load(vector(4, item), quad(*place), item.bits // 8) for place in places])
        starts = [places.index((ROW[lane], COL[lane] // 4 * 4)) * 4 + COL[lane] % 4 for lane in lanes]
        return self.code.shuffle(whole, starts), self.code.shuffle(whole, [start + 1 for start in starts])

    def _keep(self, place: Operand, elements: Sequence[Sequence[Operand]]) -> None:
        """Chunks of both elements as rows."""
        for row, value in enumerate(self._rows(elements)):
            self.code.store(value, self.at.addresses.pointer_at(place, 32 * row), 32)

    def _rows(self, elements: Sequence[Sequence[Operand]]) -> list[Operand]:
        first = elements[0][0]
        texts = {chunk.text for chunks in elements for chunk in chunks}
        if len(texts) == 1 and first.text.startswith(("zeroinitializer", "splat")):
            return [first] * 8
        rows = []
        for row in range(8):
            halves = []
            for column in (0, 4):
                lane, _ = HOLDER[row, column]
                c, start = divmod(lane, 8)
                picks = [start, start + 8, start + 1, start + 9]
                halves.append(self.code.shuffle(elements[0][c], picks, elements[1][c]))
            rows.append(self.code.concat(halves))
        return rows

    # -- other registers ---------------------------------------------------------------------------
    def _inline(self, instr: Instr) -> None:
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


@lru_cache(maxsize=6)
def product_function(name: str, count: int, form: str, has_pairs: bool = False) -> tuple[str, dict[str, str]]:
    """8x8x8 multiply-accumulate in place of one or two sums with the same left side, and what it declares.

    c row i += a[i][k] * b row k. Eight registers of sums at a time: one matrix, the halves of two, or two whole ones
    where a register holds a row of both. The left side has "rows" or "columns" some bytes apart, or "lanes", chunk
    behind chunk, both elements of each.
    """
    code = Builder("%m")
    sums = [Operand(f"%c{n}", PTR) for n in range(count)]
    left, left_apart = Operand("%a", PTR), Operand("%a.apart", I64)
    rights = [(Operand(f"%b{n}", PTR), Operand(f"%b{n}.apart", I64)) for n in range(count)]
    a_lines = [] if form == "lanes" else _row_addresses(code, left, left_apart)
    b_rows = [_row_addresses(code, *right) for right in rights]
    each = count if has_pairs else 1  # rows in a register
    for rows in [range(i, i + 8 * each // count) for i in range(0, 8, 8 * each // count)]:
        places = {
            (i, n): [code.gep(sums[m], 32 * i) for m in range(n, n + each)] for i in rows for n in range(0, count, each)
        }
        totals = {key: code.concat([code.load(_ROW, at, 32) for at in place]) for key, place in places.items()}
        for k in range(8):
            values = {
                n: code.concat([code.load(_ROW, b_rows[m][k], 4) for m in range(n, n + each)])
                for n in range(0, count, each)
            }
            for i in rows:
                line, column = (k, i) if form == "columns" else (i, k)
                at = code.gep(left, _in_lanes(i, k)) if form == "lanes" else code.gep(a_lines[line], 4 * column)
                factor = code.splat(code.load(FLOAT, at, 4), 8 * each)
                for n, value in values.items():
                    totals[i, n] = code.intrinsic("fma", factor, value, totals[i, n])
        for key, place in places.items():
            for m, at in enumerate(place):
                row = totals[key] if each == 1 else code.shuffle(totals[key], range(8 * m, 8 * m + 8))
                code.store(row, at, 32)
    code.ret()
    lefts = [left] if form == "lanes" else [left, left_apart]
    given = parameters(*sums, *lefts, *(part for right in rights for part in right))
    return function(code, name, VOID, given, "noinline nounwind", "fastcc "), dict(code.declarations)


def _row_addresses(code: Builder, at: Operand, apart: Operand) -> list[Operand]:
    """Of eight rows: from the first and the fifth one, so that few registers hold them all."""
    steps = [None, apart, code.shl(apart, 1), code.mul(apart, 3)]
    starts = [at, code.gep(at, code.shl(apart, 2))]
    return [start if step is None else code.gep(start, step) for start in starts for step in steps]


def _in_lanes(row: int, column: int) -> int:
    """Where an element lies among chunks of eight lanes."""
    lane, e = HOLDER[row, column]
    return 32 * (2 * (lane // 8) + e) + 4 * (lane % 8)
