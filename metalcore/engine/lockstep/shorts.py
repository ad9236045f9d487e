"""Numbers of 16 bits that are known to be small, as numbers of 32 bits.

Kernels keep positions in a tile as `short`. Cut to 16 bits and extended again they are no pattern over the lanes any
more, and their range is not known. Where what is cut off is known to be zero, nothing is cut off: what is made of
thread positions stays a pattern, and an index into a tile is seen to be inside.
"""

from __future__ import annotations

from collections import Counter

from metalcore.engine.abi import SIMDGROUPS
from metalcore.engine.ir import I32, Builder, Const, Edits, Function, Instr, Names, Type, Value

from .ranges import Ranges

# What gives the same small number in 32 bits; of numbers that are not negative, division is that without a sign.
_SAME = {op: op for op in ("add", "mul", "shl", "or", "and", "lshr", "udiv", "urem")}
_SAME |= {"sdiv": "udiv", "srem": "urem"}


def widen_shorts(function: Function, prefix: str, most_simdgroups: int = SIMDGROUPS) -> None:
    """Changes extensions of narrow numbers, and shifts up and down again that do the same. *prefix*: of new names."""
    shorts = _Shorts(function, prefix, Ranges(None, most_simdgroups))
    for block in function.blocks:
        for instr in block.instrs:
            if instr.op in ("sext", "zext") and instr.type.bits in (32, 64):
                shorts.extension(instr)
            elif instr.op == "ashr" and instr.type.bits in (32, 64):
                shorts.shift_back(instr)
    shorts.apply()


class _Shorts:
    def __init__(self, function: Function, prefix: str, ranges: Ranges) -> None:
        self.function, self.ranges = function, ranges
        self.edits = Edits(function, Names(prefix))
        self.same: dict[Value, Value] = {}  # what stands for a value from now on
        self.wide: dict[Instr, Value | None] = {}  # the 32-bit form of narrow numbers

    def apply(self) -> None:
        self.edits.apply()
        uses: Counter[Value] = Counter()
        for block in self.function.blocks:
            for instr in block.instrs:
                instr.args = [self.same.get(arg, arg) for arg in instr.args]
                uses.update(instr.args)
        unread = [v for v in (*self.same, *self.wide) if isinstance(v, Instr) and not uses[v] and v.op != "phi"]
        while unread:
            instr = unread.pop()
            self.edits.remove(instr)
            uses.subtract(instr.args)
            unread += [v for v in {*instr.args} if v in self.wide and isinstance(v, Instr) and not uses[v]]
        self.edits.apply()

    def extension(self, instr: Instr) -> None:
        narrow = instr.args[0]
        wide = self._wide(narrow) if isinstance(narrow, Instr) and 8 <= narrow.type.bits < 32 else None
        if wide is None:
            return
        if instr.type is wide.type:
            self.same[instr] = wide
        else:
            instr.op, instr.args, instr.extra = "zext", [wide], {"flags": ["nneg"]}

    def shift_back(self, instr: Instr) -> None:
        """(x << 48) >> 47 with the sign is the low 16 bits of x, extended, times two."""
        up, down = instr.args
        if not isinstance(up, Instr) or not isinstance(down, Const) or down.value is None:
            return
        if up.op == "shl" and isinstance(up.args[1], Const) and up.args[1].value is not None:
            rest = up.args[1].value - down.value
            if rest >= 0 and self._is_below(up.args[0], instr.type.bits - up.args[1].value - 1):
                instr.op, instr.args, instr.extra = "shl", [up.args[0], Const(instr.type, str(rest))], {}
        elif up.op == "add":
            low = self._lowered(up, down.value, self.edits.after(up))
            if low is not None and self._is_below(low, instr.type.bits - down.value - 1):
                self.same[instr] = low

    def _lowered(self, value: Value, by: int, build: Builder) -> Value | None:
        """A sum of numbers that were shifted to the left, as it was before."""
        if not isinstance(value, Instr) or value.op not in ("add", "shl"):
            return None
        if value.op == "add":
            first, second = (self._lowered(arg, by, build) for arg in value.args)
            return None if first is None or second is None else build(Instr("add", value.type, [first, second]))
        up = value.args[1]
        if not isinstance(up, Const) or up.value is None or not by <= up.value < value.type.bits:
            return None
        return build(Instr("shl", value.type, [value.args[0], Const(value.type, str(up.value - by))]))

    def _wide(self, value: Value) -> Value | None:
        """The same number in 32 bits, where it is surely not negative in its own."""
        if isinstance(value, Const):
            number = value.value
            is_small = number is not None and 0 <= number < 1 << (value.type.bits - 1)
            return Const(I32, str(number)) if is_small else None
        if not isinstance(value, Instr):
            return None
        if value not in self.wide:
            self.wide[value] = None
            self.wide[value] = self._widened(value)
        return self.wide[value]

    def _widened(self, value: Instr) -> Value | None:
        side = value.type.bits - 1
        if value.op == "trunc":
            whole = self.same.get(value.args[0], value.args[0])
            if whole.type.bits not in (32, 64) or not self._is_below(whole, side):
                return None
            return whole if whole.type is I32 else self._behind(value, "trunc", I32, [whole])
        if value.op not in _SAME:
            return None
        parts = [part for arg in value.args if (part := self._wide(arg)) is not None]
        if len(parts) < 2 or not self._is_below(Instr(_SAME[value.op], I32, parts), side):
            return None
        return self._behind(value, _SAME[value.op], I32, parts)

    def _is_below(self, value: Value, bits: int) -> bool:
        """Is it at least 0 and less than a power of two?"""
        known = self.ranges.of(value)
        return known is not None and known[0] >= 0 and known[1] < 1 << bits

    def _behind(self, value: Instr, op: str, ty: Type, args: list[Value]) -> Instr:
        return self.edits.after(value)(Instr(op, ty, args))
