"""64-bit numbers made from 32-bit indices that may wrap around between two lanes.

The pattern of an extended index is kept as if it did not wrap. Where the mode checks bounds, a scalar test (a *guard*)
says whether that was right for the lanes at hand; if not, addresses are computed again lane by lane. Without checks a
wrapped lane is outside of every buffer either way, so that only a kernel which is wrong already can tell; a launch with
a buffer so large that this does not hold (`reach`) takes machine code without such patterns.

As numbers, such values are always computed lane by lane from their operands. A phi has no operands to read again: it is
no pattern where one of its values may wrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import Const, Function, Instr, Value, gep_terms

from .ranges import Ranges

if TYPE_CHECKING:
    from .shapes import Shapes

# What keeps the pattern of an operand.
_CARRIES = ("add", "sub", "mul", "shl", "or", "select", "freeze", "getelementptr", "ptrtoint", "inttoptr", "bitcast")
_EXTENSIONS = {"zext": "nuw", "sext": "nsw"}  # and the flag that says that an operation does not wrap
_NEAR = 1 << 20  # constants below this do not bring an index that wrapped back into a buffer
_UNKNOWN = (1 << 64) - 1
_FAR = 1 << 56  # times the size of an element, numbers below this do not pass the end of 64 bits
MOST_SPREAD = 1 << 31  # lanes further apart than this may wrap more than once


class Wrapping:
    def __init__(self, function: Function, shapes: Shapes, is_kept: bool, ranges: Ranges) -> None:
        """*ranges*: what is known without shapes."""
        self.shapes, self.function = shapes, function
        self.is_kept = is_kept  # False: an index that may wrap is no pattern at all
        self._memo: dict[Instr, bool] | None = None
        self._ranges = ranges

    def settle(self, ranges: Ranges) -> None:
        """Shapes do not change any more."""
        self._memo, self._ranges = {}, ranges

    def may_wrap(self, value: Value) -> bool:
        """Is it a pattern that holds only where no lane of it wraps around?"""
        if not isinstance(value, Instr):
            return False
        if self._memo is None:
            return self._may_wrap(value)
        if value not in self._memo:
            self._memo[value] = self._may_wrap(value)
        return self._memo[value]

    def _may_wrap(self, value: Instr) -> bool:
        if value.type.kind == "int" and value.type.bits != 64:
            return False
        shape = self.shapes.get(value)
        if shape.varying or shape.uniform or shape.base is not None:
            return False
        if value.op in _EXTENSIONS:
            return not self.is_exact(value)
        return value.op in _CARRIES and any(self.may_wrap(v) for v in value.args)

    def extensions(self, value: Value) -> list[Instr]:
        """The indices that a pattern which may wrap is made from."""
        found: dict[Instr, None] = {}
        todo = [value]
        while todo:
            at = todo.pop()
            if isinstance(at, Instr) and at not in found and self.may_wrap(at):
                if at.op in _EXTENSIONS:
                    found[at] = None
                else:
                    todo += at.args
        return list(found)

    def is_exact(self, extension: Instr) -> bool:
        """Do all lanes surely stay on their side of 2^32 (or 2^31)?"""
        operand = extension.args[0]
        known = self._ranges.of(operand)
        offsets = self.shapes.get(operand).offsets
        if known is not None and offsets is not None:
            side = 1 << (operand.type.bits - (extension.op == "sext"))
            if known[1] - known[0] + max(offsets) - min(offsets) < side and known[1] < side:
                return True
        return self._stays(operand, _EXTENSIONS[extension.op])

    def _stays(self, value: Value, flag: str) -> bool:
        shape = self.shapes.get(value)
        if shape.uniform or shape.base is not None or not isinstance(value, Instr):
            return True
        if value.op == "call":
            return True  # a thread's position
        if value.block in self.shapes.divergence.partial:
            return False  # what LLVM says of an operation holds for the lanes that get there
        flags = value.extra.get("flags")
        stays = isinstance(flags, list) and (flag in flags or "disjoint" in flags)
        return stays and all(self._stays(v, flag) for v in value.args)

    def keeps_pattern(self, extension: Instr, offsets: tuple[int, ...]) -> bool:
        """May an extended pattern count as one? Not where its lanes are so far apart that they wrap several times."""
        if self.is_exact(extension):
            return True
        return self.is_kept and max(offsets) - min(offsets) < MOST_SPREAD

    def stays_outside(self, instr: Instr, wrapped: list[bool] | None = None) -> bool:
        """Is a lane that wrapped still out of every buffer after this 64-bit operation?"""
        wrapped = wrapped or [self.may_wrap(v) for v in instr.args]
        if not any(wrapped) or instr.op in ("select", "freeze"):
            return True
        if instr.op == "getelementptr":
            return _constant_part(instr) >= -_NEAR and self._stays_near(instr)
        if instr.op in ("mul", "shl"):
            factor = instr.args[1]
            return wrapped[0] and isinstance(factor, Const) and 0 < (factor.value or 0) < _NEAR
        if instr.op == "sub":
            return not wrapped[1] and isinstance(instr.args[1], Const) and abs(instr.args[1].value or 0) <= _NEAR
        if instr.op in ("add", "or"):
            return all(is_wrapped or _is_not_negative(v) for v, is_wrapped in zip(instr.args, wrapped, strict=True))
        return False

    def _stays_near(self, pointer: Value) -> bool:
        """Is a pointer computed by steps that lead nowhere around the end of 64 bits? One that the source computes
        stays in its array (`inbounds`); LLVM also makes several of one index."""
        while isinstance(pointer, Instr) and pointer.op == "getelementptr":
            indices = [index for _, index in gep_terms(pointer) if not isinstance(index, int)]
            flags = pointer.extra.get("flags")
            is_inside = isinstance(flags, list) and "inbounds" in flags
            if not is_inside and not all(self.may_wrap(index) or _magnitude(index) < _FAR for index in indices):
                return False
            pointer = pointer.args[0]
        return True

    def reach(self) -> int:
        """Bytes that a buffer may have before an index that wrapped could lie inside of it; 0: any number."""
        found = [0]
        for block in self.function.blocks:
            for instr in block.instrs:
                if instr.op == "getelementptr":
                    found += [
                        scale * self._elements_away(index)
                        for scale, index in gep_terms(instr)
                        if not isinstance(index, int) and self.may_wrap(index)
                    ]
        return min(found[1:], default=0)

    def _elements_away(self, index: Value) -> int:
        """How far from its array's start a lane that wrapped is at least."""
        away = []
        for extension in self.extensions(index):
            offsets = self.shapes.get(extension.args[0]).offsets
            assert offsets is not None
            side = 1 << (32 if extension.op == "zext" else 31)
            away.append(side - (max(offsets) - min(offsets)) - 2 * _NEAR)
        return max(1, min(away))


def _constant_part(pointer: Value) -> int:
    """Sum of the constant offsets of a pointer, as far as they are seen."""
    total = 0
    while isinstance(pointer, Instr) and pointer.op == "getelementptr":
        total += sum(index for _, index in gep_terms(pointer) if isinstance(index, int))
        pointer = pointer.args[0]
    return total


def _is_not_negative(value: Value) -> bool:
    """Is a 64-bit number at least (nearly) 0, and so small that no address made with it wraps around?"""
    if isinstance(value, Const):
        return value.value is not None and -_NEAR <= value.value < _FAR
    return _most(value, nearly=True) < _FAR


def _most(value: Value, depth: int = 0, *, nearly: bool = False) -> int:
    """A number that an unsigned 64-bit value surely does not exceed; *nearly*: unless it is a little below 0."""
    if isinstance(value, Const):
        return _UNKNOWN if value.value is None else value.value & _UNKNOWN
    if not isinstance(value, Instr) or depth > 8:
        return _UNKNOWN
    if value.op == "zext":
        return (1 << value.args[0].type.bits) - 1
    is_sum = nearly and value.op == "add"
    most = [_most(v, depth + 1, nearly=is_sum) for v in value.args]
    if value.op in ("select", "freeze"):
        found = max(most[1:] or most)
    elif value.op == "and":
        found = min(most)
    elif value.op == "or":  # no bit above those of both
        found = (1 << max(most).bit_length()) - 1
    elif value.op == "add":
        is_less = is_sum and isinstance(value.args[1], Const) and most[1] > _UNKNOWN - _NEAR
        found = most[0] + (0 if is_less else most[1])
    elif value.op == "mul":
        found = most[0] * most[1]
    elif value.op in ("shl", "lshr", "udiv") and isinstance(value.args[1], Const):
        found = most[0] << min(most[1], 64) if value.op == "shl" else most[0] >> (most[1] if value.op == "lshr" else 0)
    else:
        found = most[0] if value.op in ("lshr", "udiv") else _UNKNOWN
    return min(found, _UNKNOWN)


def _magnitude(value: Value, depth: int = 0) -> int:
    """A number that a signed 64-bit value surely does not exceed, nor its negative."""
    if isinstance(value, Const):
        return _UNKNOWN if value.value is None else abs(value.value)
    if isinstance(value, Instr) and depth <= 8:
        sizes = [_magnitude(v, depth + 1) for v in value.args] if value.op in ("add", "sub", "mul", "select") else []
        if value.op == "sext":
            return 1 << (value.args[0].type.bits - 1)
        if value.op in ("add", "sub"):
            return sizes[0] + sizes[1]
        if value.op == "mul":
            return sizes[0] * sizes[1]
        if value.op == "select":
            return max(sizes[1:])
        if value.op == "shl" and isinstance(value.args[1], Const):
            return _magnitude(value.args[0], depth + 1) << min(value.args[1].value or 0, 64)
    return _most(value)
