"""Accesses of large kernels as calls: one function for each kind of access, shared by all of them.

Written where it stands, an access that is tested under a mask takes some 150 lines: addresses, tests, gathers, the call
of the runtime where a test fails. LLVM takes a tenth of a millisecond for each, and more where a function is long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.abi import LANES, LOAD, STORE
from metalcore.engine.ir import I16, I32, I64, PTR, VOID, Instr, Type, array, integer, struct, vector

from .addresses import Address
from .builder import Builder
from .frame import FIRST_THREAD, LAUNCH, WORKER, parameters
from .gathers import gather_at_once, scatter_at_once, to_active
from .halves import to_bfloat
from .operands import FALSE, Operand, constant, constants, poison, zero
from .support import KEEPS, function

if TYPE_CHECKING:
    from .emitters import Emitters

_SITE, _BITS, _LOW, _SIZE = (
    Operand(f"%{n}", t) for n, t in (("site", I32), ("bits", I32), ("low", I64), ("size", I64))
)
_BASE, _OFFSETS = Operand("%base", PTR), Operand("%offsets", PTR)
_ONE = ("uniform", "one")  # at one address: where a test has failed, and with the test
_GIVEN = (LAUNCH, WORKER, FIRST_THREAD, _SITE, _BITS, _LOW, _SIZE)


class Outlined:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.plan, self.roots = at, at.code, at.values, at.plan, at.roots

    def takes(self, instr: Instr, where: Address) -> bool:
        """In large kernels, where two numbers are the bounds of every lane."""
        if not self.plan.is_large or instr.op not in ("load", "store") or len(where.roots) != 1:
            return False
        root = next(iter(where.roots))
        is_chosen = where.pointer in self.roots.origins
        return not is_chosen and root.kind != "unknown" and not self.plan.bounds.lane_stride(root)

    def access(self, instr: Instr, where: Address, ty: Type, align: int) -> list[Operand]:
        """A tested load or store under a mask."""
        if where.offsets is None or where.bases or self.values.may_wrap(where.pointer):
            addresses = [self.at.addresses.chunk(where, c) for c in range(self.code.count)]
            return self._call("access", instr, where, ty, align, addresses)
        table = Operand(self.plan.offset_table(where.offsets), PTR)
        return self._call("pattern", instr, where, ty, align, [where.base, table])

    def slow(self, instr: Instr, where: Address, ty: Type) -> list[Operand]:
        """What is done where a test failed: the runtime does what is in bounds and reports the rest."""
        addresses = [self.at.addresses.chunk(where, c) for c in range(self.code.count)]
        return self._call("slow", instr, where, ty, 1, addresses)

    def uniform(self, instr: Instr, where: Address, ty: Type, value: Operand | None = None) -> list[Operand]:
        """The same for an access that all lanes make at one address."""
        values = [value] if value is not None else []
        return self._call("uniform", instr, where, ty, 1, [where.base], values)

    def to_bfloat(self, value: Operand) -> Operand:
        """Rounding to 16 bits is eleven lines."""
        name, ty = f"mc.bfloat.{value.type.suffix}", value.type.with_item(I16)
        if name not in self.code.helpers:
            code, given = Builder(), Operand("%value", value.type)
            code.ret(to_bfloat(code, given)[0])
            self.code.helpers[name] = function(code, name, ty, parameters(given), "noinline nounwind")
        return self.code.call(name, ty, value)

    def takes_one(self, instr: Instr, where: Address) -> bool:
        """Whether an access under a mask, at one address, needs a test and no more than two numbers for it."""
        if self.values.mask is None or not self.plan.checked or not self.takes(instr, where):
            return False
        return self.at.inside.needs_bounds(where)

    def one(self, instr: Instr, where: Address, ty: Type, align: int, value: Operand | None = None) -> list[Operand]:
        """A tested load or store of all lanes of a mask, at one address."""
        return self._call("one", instr, where, ty, align, [where.base], [value] if value is not None else [])

    def _call(
        self,
        form: str,
        instr: Instr,
        where: Address,
        ty: Type,
        align: int,
        places: list[Operand],
        values: list[Operand] | None = None,
    ) -> list[Operand]:
        store = instr.op == "store"
        writer = Writer(self.code.width, ty, where.size, align, store)
        for each in {form, "uniform" if form in _ONE else "slow"}:
            if writer.name(each) not in self.code.helpers:
                self.code.helpers[writer.name(each)] = writer.function(each)
        self.code.declarations |= writer.declarations
        (root,) = where.roots
        size = self.at.addresses.root_size(root)
        site = constant(I32, self.plan.site(instr, where, STORE if store else LOAD))
        bounds = self.at.inside.root_number(root), size if isinstance(size, Operand) else constant(I64, size)
        self.plan.uses_slow = True
        if values is None:
            values = self.values.chunks(instr.args[0]) if store else []
        bits = self.values.bits_aside() if form == "uniform" else self.values.mask_bits()
        given = (LAUNCH, WORKER, self.at.turns.own(FIRST_THREAD), site, bits, *bounds, *places, *values)
        result = VOID if store else ty if form in _ONE else writer.result
        got = self.code.call(writer.name(form), result, *given)
        if store or form in _ONE:
            return [] if store else [got]
        return [self.code.extractvalue(got, c) for c in range(self.code.count)]


class Writer:
    """The functions for one type, size and alignment, to load or to store."""

    def __init__(self, width: int, ty: Type, size: int, align: int, store: bool) -> None:
        self.width, self.ty, self.size, self.align, self.store = width, ty, size, align, store
        self.count = LANES // width
        self.result = VOID if store else struct(*[vector(width, ty)] * self.count)
        self.addresses = [Operand(f"%a{c}", vector(width, PTR)) for c in range(self.count)]
        self.values = [Operand(f"%v{c}", vector(width, ty)) for c in range(self.count)] if store else []
        self.declarations: dict[str, str] = {}

    def name(self, form: str) -> str:
        what = f"mc.{form}.{'store' if self.store else 'load'}.{self.ty}"
        return what if form in ("slow", "uniform") else f"{what}.align{self.align}"

    def function(self, form: str) -> str:
        code = Builder()
        code.place("entry")
        if form in _ONE:
            return self._one(code) if form == "one" else self._uniform(code)
        if form == "slow":
            self._slow(code)
        else:
            self._tested(code, form == "pattern")
        places = (_BASE, _OFFSETS) if form == "pattern" else tuple(self.addresses)
        self.declarations |= code.declarations
        given = parameters(*_GIVEN, *places, *self.values)
        return function(code, self.name(form), self.result, given, f"noinline {'cold ' * (form == 'slow')}nounwind")

    def _tested(self, code: Builder, is_pattern: bool) -> None:
        """Are all lanes of the mask in bounds? Then they go one by one, idle ones to or from a harmless place."""
        addresses = self.addresses
        if is_pattern:
            numbers = vector(self.width, I64)
            parts = [code.load(numbers, code.gep(_OFFSETS, c * self.width * 8), 8) for c in range(self.count)]
            addresses = [code.gep(_BASE, part) for part in parts]
        limit = code.intrinsic("usub.sat", code.add(_SIZE, 1), constant(I64, self.size))
        limits, lows, every = (code.splat(x, self.width) for x in (limit, _LOW, _BITS))
        masks, bad = [], None
        for c, part in enumerate(addresses):
            probes = [(1 << lane) - (1 << 32 if lane == 31 else 0) for lane in self._lanes(c)]
            hit = code.and_(every, constants(I32, probes))
            mask = code.icmp("ne", hit, zero(hit.type))
            far = code.icmp("uge", code.sub(code.ptrtoint(part, lows.type), lows), limits)
            miss = code.and_(far, mask)
            masks.append(mask)
            bad = miss if bad is None else code.or_(bad, miss)
        assert bad is not None
        code.cond_br(code.icmp("eq", code.bitcast(bad, integer(self.width)), 0), "in", "out", likely=True)
        code.place("in")
        active = [to_active(code, a, m, self.store) for a, m in zip(addresses, masks, strict=True)]
        if self.store:
            for place, value in zip(active, self.values, strict=True):
                scatter_at_once(code, place, value, self.align, None)
            code.ret()
        else:
            self._give(code, [gather_at_once(code, place, self.ty, self.align, None) for place in active])
        code.place("out")
        got = code.call(self.name("slow"), self.result, *_GIVEN, *addresses, *self.values)
        code.ret(None if self.store else got)

    def _one(self, code: Builder) -> str:
        """Is the address in bounds? All lanes do the same there."""
        value, one = Operand("%v", self.ty), Operand("%one", PTR)
        limit = code.intrinsic("usub.sat", code.add(_SIZE, 1), constant(I64, self.size))
        offset = code.sub(code.ptrtoint(one, I64), _LOW)
        code.cond_br(code.icmp("ult", offset, limit), "in", "out", likely=True)
        code.place("in")
        if self.store:
            code.store(value, one, self.align)
        code.ret(None if self.store else code.load(self.ty, one, self.align))
        code.place("out")
        given, result = [value] if self.store else [], VOID if self.store else self.ty
        got = code.call(self.name("uniform"), result, *_GIVEN, one, *given)
        code.ret(None if self.store else got)
        self.declarations |= code.declarations
        return function(code, self.name("one"), result, parameters(*_GIVEN, one, *given), "noinline nounwind")

    def _uniform(self, code: Builder) -> str:
        """All lanes do the same: it is done and reported for the first one."""
        value, one = Operand("%v", self.ty), Operand("%one", PTR)
        bits = code.and_(_BITS, code.sub(0, _BITS))
        lane = code.zext(code.intrinsic("cttz", bits, FALSE), I64)
        lanes, data = self._scratch(code)
        spot = code.gep(data, code.mul(lane, self.size))
        code.store(one, code.gep(lanes, lane, PTR))
        code.store(value if self.store else zero(self.ty), spot, 1)
        self._hand_over(code, bits, lanes, data)
        code.ret(None if self.store else code.load(self.ty, spot, 1))
        self.declarations |= code.declarations
        given = parameters(*_GIVEN, one, *([value] if self.store else []))
        name = self.name("uniform")
        return function(code, name, VOID if self.store else self.ty, given, "noinline cold nounwind")

    def _scratch(self, code: Builder) -> tuple[Operand, Operand]:
        return code.alloca(array(LANES * 8, integer(8)), 64), code.alloca(array(LANES * 16, integer(8)), 64)

    def _hand_over(self, code: Builder, bits: Operand, lanes: Operand, data: Operand) -> None:
        bounds = code.alloca(array(3, I64), 16)
        for field, value in enumerate((_LOW, code.add(_LOW, _SIZE), constant(I64, 0))):
            code.store(value, code.gep(bounds, field, I64))
        size, kind = constant(I32, self.size), constant(I32, STORE if self.store else LOAD)
        given = (LAUNCH, WORKER, _SITE, size, kind, bits, FIRST_THREAD, lanes, constant(I64, 1), bounds, data)
        code.call("mc.slow", VOID, *given, how=KEEPS)

    def _slow(self, code: Builder) -> None:
        lanes, data = self._scratch(code)
        for c, part in enumerate(self.addresses):
            code.store(part, code.gep(lanes, c * self.width * 8), 8)
        spots = [code.gep(data, c * self.width * self.size) for c in range(self.count)]
        for value, spot in zip(self.values, spots, strict=False):
            code.store(value, spot, self.size)
        self._hand_over(code, _BITS, lanes, data)
        if self.store:
            code.ret()
        else:
            self._give(code, [code.load(vector(self.width, self.ty), spot, self.size) for spot in spots])

    def _give(self, code: Builder, parts: list[Operand]) -> None:
        whole = poison(self.result)
        for c, part in enumerate(parts):
            whole = code.insertvalue(whole, part, c)
        code.ret(whole)

    def _lanes(self, c: int) -> range:
        return range(c * self.width, (c + 1) * self.width)
