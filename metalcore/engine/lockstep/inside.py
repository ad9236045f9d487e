"""Tests of bounds: whether all that an access touches lies inside of what it may touch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from metalcore.engine.ir.types import I64

from .addresses import Address
from .frame import ALL_INSIDE
from .operands import FALSE, TRUE, Operand, constant, zero
from .roots import Root
from .shape import LANE

if TYPE_CHECKING:
    from .emitters import Emitters


Test = Callable[[], Operand]  # writes a test


class Inside:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.roots, self.plan = at, at.code, at.values, at.roots, at.plan

    def limit(self, root: Root, span: int) -> Operand:
        """First byte offset that is too large for an access of `span` bytes."""
        size = self.at.addresses.root_size(root)
        if isinstance(size, int):
            return constant(I64, max(0, size + 1 - span))
        key = (root, "limit", span)
        if key not in self.code.entry_values:
            more = self.code.entry.add(size, 1)
            self.code.entry_values[key] = self.code.entry.intrinsic("usub.sat", more, constant(I64, span))
        return self.code.entry_values[key]

    def holds(self, where: Address) -> Operand | None:
        """Scalar test that every lane of a uniform or pattern access is in bounds; None where it surely is."""
        assert where.offsets is not None
        if any(r.kind == "unknown" for r in where.roots):
            return FALSE
        if self.plan.bounds.proves(where.pointer, where.size, where.roots):
            return None
        return self.record(where)

    def branch(self, where: Address, fast: str, slow: str) -> bool:
        """Go on at one of two labels: are all lanes of an access in bounds? False: they surely are, it goes on here."""
        if self.plan.bounds.proves(where.pointer, where.size, where.roots) or self.at.proofs.shows(where):
            return False
        is_covered = self.at.proofs.covers(where)
        later = [lambda: self.record(where)] if is_covered else []
        self.branch_on([] if is_covered else [self.record(where)], later, fast, slow)
        return True

    def needs_bounds(self, where: Address) -> bool:
        """Whether an access at one address needs a test, and a comparison with the root's bounds is all of it."""
        is_shown = self.plan.bounds.proves(where.pointer, where.size, where.roots) or self.at.proofs.shows(where)
        return not is_shown and not self.at.proofs.covers(where) and not self.values.may_wrap(where.pointer)

    def branch_on(self, tests: Sequence[Operand], later: Sequence[Test], fast: str, slow: str) -> None:
        """Go on at one of two labels. *later*: tests that are made only where the size of the group is not enough."""
        ok = self._all(tests)
        if later:
            assert self.values.block is not None
            self.at.proofs.asked.add(self.values.block)
            short, exact = self.code.new_label("short"), self.code.new_label("exact")
            self.code.cond_br(ALL_INSIDE, short, exact, likely=True)
            saved = self.at.lanes.snapshot()
            self.code.place(exact)
            self.code.cond_br(self._all([*tests, *(test() for test in later)]), fast, slow, likely=True)
            self.at.lanes.restore(saved)
            self.code.place(short)
        if tests:
            self.code.cond_br(ok, fast, slow, likely=True)
        else:
            self.code.jump(fast)

    def _all(self, tests: Sequence[Operand]) -> Operand:
        total = tests[0] if tests else TRUE
        for test in tests[1:]:
            total = self.code.and_(total, test)
        return total

    def record(self, where: Address) -> Operand:
        assert where.offsets is not None
        if any(r.kind == "unknown" for r in where.roots):
            return FALSE
        parts = [(where.base, where.offsets, LANE)]
        if where.bases:
            slices = [slice(c * self.code.width, (c + 1) * self.code.width) for c in range(self.code.count)]
            parts = [(where.base_of(c), where.offsets[own], LANE[own]) for c, own in enumerate(slices)]
        tests = [self._range_inside(where, *part) for part in parts]
        return self._all([*tests, *self.guards(where)])

    def _range_inside(self, where: Address, base: Operand, offsets: Sequence[int], lanes: Sequence[int]) -> Operand:
        """Do lanes at base + offset lie in the root they came from? Each lane has its own part of a private array."""
        origin = self.roots.origins.get(where.pointer)
        if origin is not None and not self.values.shape(origin).uniform:
            return FALSE  # lane by lane
        number = self.code.ptrtoint(base)
        result: Operand | None = None
        for root in sorted(where.roots, key=str):
            stride = self.plan.bounds.lane_stride(root)
            own = [offset - lane * stride for offset, lane in zip(offsets, lanes, strict=True)]
            low, high = min(own), max(own)
            first = self.code.add(number, low) if low else number
            offset = self.code.sub(first, self.root_number(root))
            hit = self.code.icmp("ult", offset, self.limit(root, high - low + where.size))
            hit = self.only_from(where, root, hit)
            result = self.code.or_(result, hit) if result is not None else hit
        assert result is not None
        return result

    def only_from(self, where: Address, root: Root, hit: Operand, c: int | None = None) -> Operand:
        """A test of one root's bounds, for pointers that may come from several: true only where it is this one."""
        if where.pointer not in self.roots.origins:
            return hit
        own = self.comes_from(where, root, c)
        return self.code.and_(hit, own)

    def comes_from(self, where: Address, root: Root, c: int | None) -> Operand:
        origin, number = self.roots.origins[where.pointer], self.roots.number(root)
        if c is None:
            return self.code.icmp("eq", self.values.scalar(origin), number)
        return self.code.icmp("eq", self.values.chunk(origin, c), number)

    def guards(self, where: Address) -> list[Operand]:
        """Scalar tests that the pattern of an access is one: see bounds.py."""
        return [] if self.plan.bounds.shows_wrap(where.pointer, where.roots) else self.pattern_guards(where)

    def pattern_guards(self, where: Address) -> list[Operand]:
        return self.at.chunked.chunk_guards(where.pointer) if where.bases else self.at.guards.wrap_guards(where.pointer)

    def lanes(self, where: Address, addresses: list[Operand]) -> list[Operand]:
        """Lane by lane, a mask of those in bounds."""
        out = []
        for c in range(self.code.count):
            number = self.code.ptrtoint(addresses[c], self.code.vec(I64))
            result: Operand | None = None
            for root in sorted(where.roots, key=str):
                if root.kind == "unknown":
                    continue
                base = self.values.splat(self.root_number(root))
                offset = self.code.sub(number, base)
                stride = self.plan.bounds.lane_stride(root)
                if stride:
                    starts = self.code.lane_constants(I64, [lane * stride for lane in LANE], c)
                    offset = self.code.sub(offset, starts)
                limit = self.limit(root, where.size)
                is_known = isinstance(self.at.addresses.root_size(root), int)
                bound = constant(number.type, limit.text) if is_known else self.values.splat(limit)
                hit = self.code.icmp("ult", offset, bound)
                hit = self.only_from(where, root, hit, c)
                result = self.code.or_(result, hit) if result is not None else hit
            out.append(result if result is not None else zero(self.code.mask))
        return out

    def root_number(self, root: Root) -> Operand:
        key = (root, "number")
        if key not in self.code.entry_values:
            base = self.at.addresses.root_base(root)
            self.code.entry_values[key] = self.code.entry.ptrtoint(base)
        return self.code.entry_values[key]
