"""8x8 operands of products that lanes load by themselves: two elements each, as the hardware spreads a matrix.

Kernels that keep fragments in registers of their own load them so. Where only products of the same block need them, and
the pattern of addresses is that of a matrix whose rows or columns lie in memory, lanes get nothing: the matrix is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from metalcore.engine.ir import Block, Instr, Value, anchor_of

from .homes import is_mma
from .roots import Roots
from .same import may_be_written
from .shape import LANE
from .shapes import Shapes

# Lane l of an 8x8 matrix holds elements (ROW[l], COL[l]) and (ROW[l], COL[l] + 1).
ROW = tuple(((lane // 4) & 4) + (lane // 2) % 4 for lane in LANE)
COL = tuple(((lane // 4) & 2) * 2 + (lane % 2) * 2 for lane in LANE)
Users = dict[Instr, list[Instr]]


@dataclass(frozen=True)
class Fragment:
    """Eight lines of eight elements; `apart` bytes from one to the next."""

    loads: tuple[Instr, Instr]  # of the first and of the second element
    start: int  # of the first line, from the base of the first load's pointer
    apart: int
    has_columns: bool  # lines are columns
    steps: tuple[Instr, ...]  # what makes floats of the elements
    elements: tuple[Value, Value]  # what products get
    last: Instr  # of the products
    sides: frozenset[int]  # 0: left, 2: right


class Fragments:
    def __init__(self, shapes: Shapes, roots: Roots, users: Users, proves: Callable[[Instr], bool]) -> None:
        """*proves*: whether a load needs no test of bounds."""
        self.shapes, self.roots, self.users, self.proves = shapes, roots, users, proves

    def of(self, block: Block) -> list[Fragment]:
        at = {instr: number for number, instr in enumerate(block.instrs)}
        found: dict[tuple[Value, Value], Fragment | None] = {}
        for product in block.instrs:
            if is_mma(product):
                for side in (0, 2):
                    elements = product.args[side], product.args[side + 1]
                    if elements not in found:
                        found[elements] = self._fragment(elements, block, at)
        return [fragment for fragment in found.values() if fragment is not None]

    def _fragment(self, elements: tuple[Value, Value], block: Block, at: dict[Instr, int]) -> Fragment | None:
        first, second = (self._load(element, block) for element in elements)
        if first is None or second is None or first is second or first.type is not second.type:
            return None
        lines = self._lines(first, second, block)
        uses = self._uses(elements, (first, second), at)
        if lines is None or uses is None:
            return None
        low, high = sorted((at[first], at[second]))
        if low != at[first] or may_be_written(block.instrs[low:high]):
            return None
        steps = tuple(e for e, load in zip(elements, (first, second), strict=True) if e is not load)
        sides = frozenset(side for _, side in uses)
        last = max((product for product, _ in uses), key=at.__getitem__)
        return Fragment((first, second), *lines, tuple(s for s in steps if isinstance(s, Instr)), elements, last, sides)

    def _load(self, element: Value, block: Block) -> Instr | None:
        """The load of the block that an element comes from, where neither may fail."""
        load = element.args[0] if isinstance(element, Instr) and element.op == "fpext" else element
        if not isinstance(load, Instr) or load.op != "load" or load.block is not block or load.extra.get("atomic"):
            return None
        pointer = load.args[0]
        is_private = any(root.kind in ("private", "unknown") for root in self.roots.of_address(pointer))
        if is_private or self.shapes.wrapping.may_wrap(pointer) or not self.proves(load):
            return None
        return load

    def _lines(self, first: Instr, second: Instr, block: Block) -> tuple[int, int, bool] | None:
        """Start and distance of the lines, and whether they are columns."""
        offsets, size = self.shapes.at(first.args[0], block).offsets, first.type.size
        anchor, start = anchor_of(first.args[0])
        other, beside = anchor_of(second.args[0])
        if offsets is None or other is not anchor or self.shapes.at(second.args[0], block).offsets != offsets:
            return None
        row, column = offsets[2] - offsets[0], beside - start
        if any(offsets[lane] != offsets[0] + ROW[lane] * row + COL[lane] * column for lane in LANE):
            return None
        if column == size and row >= 8 * size:
            return offsets[0], row, False
        return (offsets[0], column, True) if row == size and column >= 8 * size else None

    def _uses(
        self, elements: Sequence[Value], loads: Sequence[Instr], at: dict[Instr, int]
    ) -> list[tuple[Instr, int]] | None:
        """Products, and on which side the matrix stands; None where anything else needs an element."""
        found: list[tuple[Instr, int]] = []
        for e, (element, load) in enumerate(zip(elements, loads, strict=True)):
            assert isinstance(element, Instr)
            if element is not load and self.users.get(load) != [element]:
                return None
            for user in self.users.get(element, []):
                if user not in at or not is_mma(user):
                    return None
                for i, arg in enumerate(user.args):
                    if arg is element:
                        if i >= 4 or i % 2 != e or user.args[i ^ 1] is not elements[1 - e]:
                            return None
                        found.append((user, i - e))
        return found
