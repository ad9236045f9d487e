"""Addresses that are plain within each chunk of lanes.

In a 16x16 group a row index times a runtime width is neither uniform nor a pattern, but over eight neighbouring lanes
it is one number. Such an address becomes one scalar per chunk and constant offsets inside it, found by looking at the
expression behind it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from metalcore.engine.ir import I64, Const, Instr, Value, gep_terms
from metalcore.engine.model import LANES

from .guards import signed32
from .operands import Operand
from .shape import ZERO
from .types import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters

_FLAT_OPS = frozenset(["mul", "and", "or", "xor", "shl", "lshr", "ashr", "udiv", "urem", "sdiv", "srem"])
_DEPTH = 12


@lru_cache(maxsize=1024)
def _relative(offsets: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Of each lane, from the first one of its chunk."""
    return tuple(offset - offsets[i // width * width] for i, offset in enumerate(offsets))


class Chunked:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.shapes = at, at.code, at.values, at.shapes

    def chunk_offsets(self, value: Value, depth: int = 0) -> tuple[int, ...] | None:
        """Offsets of each lane from the first lane of its chunk; None where they are not constants."""
        shape = self.values.shape(value)
        if shape.offsets is not None:
            return _relative(shape.offsets, self.code.width)
        assert self.values.block is not None
        if (
            not isinstance(value, Instr)
            or depth > _DEPTH
            or self.shapes.leaves_divergent_loop(value, self.values.block)
        ):
            return None
        op, args = value.op, value.args
        if op == "getelementptr":
            return self._gep_offsets(value, depth)
        if op in ("zext", "sext", "trunc", "freeze"):
            inner = self.chunk_offsets(args[0], depth + 1)
            if inner is None or (inner != ZERO and min(value.type.bits, args[0].type.bits) < 32):
                return None
            is_index = op in ("zext", "sext") and inner != ZERO
            return inner if not is_index or self.shapes.wrapping.keeps_pattern(value, inner) else None
        if op not in _FLAT_OPS and op not in ("add", "sub"):
            return None
        a, b = self.chunk_offsets(args[0], depth + 1), self.chunk_offsets(args[1], depth + 1)
        if a is None or b is None:
            return None
        if a == ZERO and b == ZERO:
            return ZERO
        if value.type.bits == 64 and not self._stays_outside(value):
            return None
        flags = value.extra.get("flags")
        if op == "add" or (op == "or" and isinstance(flags, list) and "disjoint" in flags):
            return tuple(x + y for x, y in zip(a, b, strict=True))
        if op == "sub":
            return tuple(x - y for x, y in zip(a, b, strict=True))
        constant = args[1].value if isinstance(args[1], Const) else None
        if constant is not None and op == "mul":
            return tuple(x * constant for x in a)
        if constant is not None and op == "shl" and 0 <= constant < value.type.bits:
            return tuple(x << constant for x in a)
        return None

    def _gep_offsets(self, value: Instr, depth: int) -> tuple[int, ...] | None:
        total = self.chunk_offsets(value.args[0], depth + 1)
        if total is None or not self._stays_outside(value):
            return None
        for scale, index in gep_terms(value):
            if isinstance(index, int):
                continue
            inner = self.chunk_offsets(index, depth + 1)
            if inner is None:
                return None
            total = tuple(x + y * scale for x, y in zip(total, inner, strict=True))
        return total

    def chunk_base(self, value: Value, c: int) -> Operand:
        """The value of the first lane of chunk c, as a scalar."""
        shape = self.values.shape(value)
        if isinstance(value, Const) or shape.uniform:
            return self.values.scalar(value)
        first = c * self.code.width
        if shape.offsets is not None:
            offset = shape.offsets[first]
            name = self.values.scalar(value)
            if not offset:
                return name
            if value.type.kind == "ptr":
                return self.code.gep(name, offset)
            return self.code.add(name, offset)
        assert isinstance(value, Instr)
        key = ("lane", (value, c))
        found = self.values.splats.get(key)
        if found is None:
            found = self._chunk_base(value, c)
            self.values.splats[key] = found
        return found

    def _chunk_base(self, value: Instr, c: int) -> Operand:
        if value.block is not self.values.block:
            return self.code.extract(self.values.chunk(value, c), 0)
        op, args = value.op, value.args
        if op == "getelementptr":
            pointer = self.chunk_base(args[0], c)
            for scale, index in gep_terms(value):
                if isinstance(index, int):
                    pointer = self.code.gep(pointer, index) if index else pointer
                    continue
                name = self.chunk_base(index, c)
                if index.type.bits < 64:
                    name = self.code.sext(name, I64)
                scaled = self.code.mul(name, scale) if scale != 1 else name
                pointer = self.code.gep(pointer, scaled)
            return pointer
        if op in ("zext", "sext", "trunc", "freeze"):
            name = self.chunk_base(args[0], c)
            if op == "freeze":
                return self.code.freeze(name)
            own = self._own(self.chunk_offsets(value) or ZERO, c)
            end = {"zext": max(own), "sext": min(own)}.get(op, 0)  # from the highest or lowest lane, as for patterns
            if end:
                name = self.code.add(name, signed32(end))
            wide = self.code.cast(op, name, scalar_type(value.type))
            return self.code.sub(wide, end) if end else wide
        if op in ("udiv", "urem", "sdiv", "srem"):
            return self.code.extract(self.values.chunk(value, c), 0)
        real = "add" if op == "or" and self.chunk_offsets(value) != ZERO else op
        return self.code.binary(real, self.chunk_base(args[0], c), self.chunk_base(args[1], c))

    def _own(self, offsets: tuple[int, ...], c: int) -> tuple[int, ...]:
        return offsets[c * self.code.width : (c + 1) * self.code.width]

    def _stays_outside(self, value: Instr) -> bool:
        return self.shapes.wrapping.stays_outside(value, [bool(self._extensions(v)) for v in value.args])

    def _extensions(self, value: Value) -> list[Instr]:
        """The indices behind a chunk's pattern that may wrap around."""
        found: dict[Instr, None] = {}
        todo = [value]
        while todo:
            at = todo.pop()
            shape = self.values.shape(at)
            if not isinstance(at, Instr) or at in found or shape.uniform:
                continue
            if shape.offsets is not None:
                found.update(dict.fromkeys(self.shapes.wrapping.extensions(at)))
            elif at.op in ("zext", "sext"):
                inner = self.chunk_offsets(at.args[0])
                if inner is not None and inner != ZERO and not self.shapes.wrapping.is_exact(at):
                    found[at] = None
            elif at.op in ("getelementptr", "freeze", "add", "sub", "or", "mul", "shl"):
                todo += at.args
        return list(found)

    def chunk_guards(self, pointer: Value) -> list[Operand]:
        """Scalar tests that no chunk of the indices behind an address has wrapped around."""
        tests = []
        for extension in self._extensions(pointer):
            operand = extension.args[0]
            offsets = self.chunk_offsets(operand)
            assert offsets is not None
            for c in range(self.code.count):
                own = self._own(offsets, c)
                if min(own) != max(own):
                    tests.append(self.at.guards.is_straight(extension, self.chunk_base(operand, c), min(own), max(own)))
        return tests

    def plain_chunks(self, offsets: tuple[int, ...], size: int) -> bool:
        """Is every chunk one row of elements or one element?"""
        for first in range(0, LANES, self.code.width):
            part = offsets[first : first + self.code.width]
            if part != tuple(i * size for i in range(self.code.width)) and any(part):
                return False
        return True
