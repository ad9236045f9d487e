"""The one place that decides which tests an access needs.

An access is proven where the range of its offset, counted from the start of the lane's own array, is known when the
kernel is compiled and lies inside. Everything else is tested when it runs, and a pattern of addresses also has to be
one: no lane of an index may have wrapped around (`wrapping.py`), and an index that is scaled up for an interleaved
array must not lose its upper bits. With `keep_tests` nothing is taken as proven.
"""

from __future__ import annotations

from metalcore.engine.ir import Const, Instr, Module, Type, Value, gep_terms
from metalcore.engine.model import LANES

from .private import private_stride
from .roots import Root, Roots
from .shapes import Shapes

_ROOM = 62  # bits of a byte offset, all lanes counted
SMALL_BITS = 40  # of an index that is tested: elements have far fewer bytes than the 17 bits that are left
FAR = 0x2A3B5C7D1E2F4050  # bytes that lead out of every array, also several times over
_SMALL_STEP = 1 << 10  # a counter with such steps does not leave 57 bits in a lifetime


class Bounds:
    def __init__(
        self, module: Module, shapes: Shapes, roots: Roots, value_sizes: dict[int, int], keep_tests: bool
    ) -> None:
        self.module, self.shapes, self.roots = module, shapes, roots
        self.ranges = shapes.ranges
        self.value_sizes, self.keep_tests = value_sizes, keep_tests

    # -- memory ------------------------------------------------------------------------------------
    def extent(self, root: Root) -> int | None:
        """Bytes of one lane's array, of a threadgroup variable, a table or a value; None: known when it runs."""
        if root.kind == "private":
            return self._allocated(root).size
        if root.kind in ("shared", "table"):
            return self.module.globals[root.name].value_type.size
        return self.value_sizes.get(root.slot) if root.kind == "buffer" else None

    def lane_stride(self, root: Root) -> int:
        """Bytes from one lane's array to the next one's; 0 where all lanes have the same memory or share rows."""
        if root.kind != "private" or root in self.roots.interleave:
            return 0
        return private_stride(self._allocated(root).size)

    def private_bytes(self, root: Root) -> int:
        """Bytes of the arrays of all lanes."""
        stride = self.lane_stride(root)
        return LANES * (stride or max(1, self._allocated(root).size))

    def _allocated(self, root: Root) -> Type:
        allocated = self.roots.allocas[root].extra["allocated"]
        assert isinstance(allocated, Type)
        return allocated

    # -- decisions ---------------------------------------------------------------------------------
    def proves(self, pointer: Value, size: int, roots: frozenset[Root]) -> bool:
        """Is every lane's access surely inside of its own array?"""
        if self.keep_tests or len(roots) != 1 or self.shapes.wrapping.may_wrap(pointer):
            return False
        extent = self.extent(next(iter(roots)))
        reach = self.ranges.offset_range(pointer)
        return extent is not None and reach is not None and reach[0] >= 0 and reach[1] + size <= extent

    def shows_wrap(self, pointer: Value, roots: frozenset[Root]) -> bool:
        """Does a lane whose index wrapped fail the test of bounds anyway? It does where it then lies in front of the
        array's start: one index, counted from there."""
        if self.keep_tests or len(roots) != 1:
            return False
        constant, terms = 0, []
        while isinstance(pointer, Instr) and pointer.op == "getelementptr":
            for scale, index in gep_terms(pointer):
                if isinstance(index, int):
                    constant += index
                else:
                    terms.append((scale, index))
            pointer = pointer.args[0]
        if len(terms) != 1 or not self._is_start(pointer):
            return False
        scale, index = terms[0]
        return isinstance(index, Instr) and index.op == "zext" and 0 <= constant < scale

    @staticmethod
    def _is_start(pointer: Value) -> bool:
        return not isinstance(pointer, Instr) or pointer.op in ("alloca", "call")

    def is_small(self, index: Value, scale: int) -> bool:
        """Does an index keep all its bits when it is scaled, `scale` bytes for each?"""
        bits = None if self.keep_tests else self._bits(index, 0)
        return bits is not None and bits + scale.bit_length() <= _ROOM

    def _bits(self, value: Value, depth: int) -> int | None:
        """Bits that an integer's magnitude needs at most."""
        if isinstance(value, Const):
            return None if value.value is None else abs(value.value).bit_length()
        if not isinstance(value, Instr) or depth > 8:
            return None
        if value.type.bits <= 32:
            return 32
        known = self.ranges.of(value)
        if known is not None:
            return known[1].bit_length()
        if value.op == "phi":
            return self._counter_bits(value, depth)
        if value.op in ("zext", "sext"):
            return 32 if value.args[0].type.bits <= 32 else None
        parts = [self._bits(v, depth + 1) for v in value.args]
        wide = [b for b in parts if b is not None]
        if len(wide) < len(parts):
            return min(wide) if value.op == "and" and wide and _is_masked(value) else None
        if value.op in ("add", "sub", "or"):
            return max(wide) + 1
        if value.op == "mul":
            return sum(wide)
        if value.op == "shl" and isinstance(value.args[1], Const):
            return wide[0] + abs(value.args[1].value or 0)
        return None

    def _counter_bits(self, phi: Instr, depth: int) -> int | None:
        """A counter that starts small and takes small steps."""
        most = 0
        for value in phi.args:
            if isinstance(value, Instr) and value.op == "add" and value.args[0] is phi:
                step = value.args[1]
                if not isinstance(step, Const) or step.value is None or abs(step.value) > _SMALL_STEP:
                    return None
                continue
            bits = self._bits(value, depth + 1)
            if bits is None:
                return None
            most = max(most, bits)
        return max(most, 40) + 1


def _is_masked(value: Instr) -> bool:
    return any(isinstance(v, Const) and (v.value or -1) >= 0 for v in value.args)
