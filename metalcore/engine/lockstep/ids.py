"""Thread positions: their shapes for a group layout, and the code that computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import FLOAT, I32, Const, Instr
from metalcore.errors import UnsupportedFeature

from .builder import Builder
from .frame import FIRST, FIRST_THREAD, GROUP, LAUNCH, SIMDGROUP, SIZE, of_launch
from .operands import Operand, constant
from .shape import LANE, UNIFORM, VARYING, ZERO, Shape, pattern

if TYPE_CHECKING:
    from .emitters import Emitters

_UNIFORM_NAMES = (
    "threadgroup_position_in_grid",
    "threads_per_threadgroup",
    "threads_per_grid",
    "threadgroups_per_grid",
    "dispatch_threads_per_threadgroup",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "threads_per_simdgroup",
    "quadgroups_per_threadgroup",
    "dispatch_quadgroups_per_threadgroup",
)
_OWN_NAMES = (
    "simdgroup_index_in_threadgroup",
    "quadgroup_index_in_threadgroup",
    "thread_index_in_threadgroup",
    "thread_position_in_threadgroup",
    "thread_position_in_grid",
)


def id_shapes(layout: str, single: bool = False) -> dict[tuple[str, int], Shape]:
    """Shape of each thread attribute for a group layout (see engine.model.Variant)."""
    shapes = {(name, dim): UNIFORM for name in _UNIFORM_NAMES for dim in range(3)}
    shapes["threads_per_simdgroup", 0] = Shape(ZERO, 32, 32)
    shapes["thread_index_in_simdgroup", 0] = pattern(LANE, 0, 1 << 30)
    shapes["thread_index_in_threadgroup", 0] = pattern(LANE, None, 32)
    shapes["thread_index_in_quadgroup", 0] = pattern(tuple(lane % 4 for lane in LANE), 0, 1 << 30)
    shapes["quadgroup_index_in_threadgroup", 0] = pattern(tuple(lane // 4 for lane in LANE), None, 8)
    if single:  # the group is one simdgroup
        shapes["simdgroups_per_threadgroup", 0] = Shape(ZERO, 1)
        shapes["simdgroup_index_in_threadgroup", 0] = Shape(ZERO, 0, 1 << 30)
    local: list[Shape]
    zero = Shape(ZERO, 0, 1 << 30)
    if layout == "line":
        local = [pattern(LANE, None, 32), zero, zero]
    elif layout == "rows":
        local = [pattern(LANE, None, 32), UNIFORM, UNIFORM]
    elif layout.startswith("tile:"):
        width = int(layout[5:])
        local = [
            pattern(tuple(lane % width for lane in LANE), 0, 1 << 30),
            pattern(tuple(lane // width for lane in LANE), None, 32 // width),
            zero,
        ]
    else:
        local = [VARYING] * 3
    for dim, shape in enumerate(local):
        shapes["thread_position_in_threadgroup", dim] = shape
        shapes["thread_position_in_grid", dim] = VARYING if shape.varying else Shape(shape.offsets, None, 1)
    return shapes


class Ids:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.shapes, self.plan = at, at.code, at.values, at.shapes, at.plan
        self.top: Builder = at.code.entry  # what positions are written to

    def thread_id(self, instr: Instr, name: str) -> None:
        dim_value = instr.args[0] if instr.args else None
        if not isinstance(dim_value, Const) or dim_value.value is None:
            raise UnsupportedFeature(f"unknown builtin {instr.callee}")
        dim = dim_value.value
        if (name, dim) not in self.plan.ids:
            raise UnsupportedFeature(f"thread attribute {name}")
        if not self.shapes.get(instr).varying:
            self.values.define_scalar(instr, self.once((name, dim)))
            return
        for c in range(self.code.count):
            self.values.define_chunk(instr, c, self.once((name, dim, c)))

    def once(self, key: tuple[object, ...]) -> Operand:
        """A thread position, computed at the top of the function and kept; where simdgroups take turns, in place."""
        if self.plan.is_cut and not self.at.turns.is_one and key[0] in _OWN_NAMES:
            return self._make(key, self.code)
        if key not in self.code.entry_values:
            self.code.entry_values[key] = self._make(key, self.code.entry)
        return self.code.entry_values[key]

    def _make(self, key: tuple[object, ...], top: Builder) -> Operand:
        before, self.top = self.top, top
        made = self._id_lane(*key) if len(key) == 3 else self._id(*key)  # type: ignore[arg-type]
        self.top = before
        return made

    def _launch_u32(self, offset: int) -> Operand:
        at = self.top.gep(LAUNCH, offset)
        return self.top.load(I32, at, invariant=True)

    def _id(self, name: str, dim: int) -> Operand:
        if name == "threadgroup_position_in_grid":
            return GROUP[dim]
        if name == "threads_per_threadgroup":
            return SIZE[dim]
        if name == "threads_per_grid":
            return self._launch_u32(of_launch("grid") + 4 * dim)
        if name == "threadgroups_per_grid":
            return self._launch_u32(of_launch("groups") + 4 * dim)
        if name == "dispatch_threads_per_threadgroup":
            return self._launch_u32(of_launch("group") + 4 * dim)
        if name == "simdgroup_index_in_threadgroup":
            return constant(I32, 0) if self.plan.single else self.at.turns.own(SIMDGROUP)
        if name == "simdgroups_per_threadgroup" and self.plan.single:
            return constant(I32, 1)
        if name in ("simdgroups_per_threadgroup", "quadgroups_per_threadgroup"):
            wide = 32 if name[0] == "s" else 4
            area = self.top.mul(SIZE[0], SIZE[1])
            total = self.top.mul(area, SIZE[2])
            more = self.top.add(total, wide - 1)
            return self.top.udiv(more, wide)
        if name in ("dispatch_simdgroups_per_threadgroup", "dispatch_quadgroups_per_threadgroup"):
            wide = 32 if "simd" in name else 4
            w, h, d = (self._launch_u32(of_launch("group") + 4 * i) for i in range(3))
            area = self.top.mul(w, h)
            total = self.top.mul(area, d)
            more = self.top.add(total, wide - 1)
            return self.top.udiv(more, wide)
        if name == "threads_per_simdgroup":
            return constant(I32, 32)
        if name in ("thread_index_in_simdgroup", "thread_index_in_quadgroup"):
            return constant(I32, 0)
        if name == "thread_index_in_threadgroup":
            return self.at.turns.own(FIRST_THREAD)
        if name == "quadgroup_index_in_threadgroup":
            return self.top.mul(self.at.turns.own(SIMDGROUP), 8)
        if name == "thread_position_in_threadgroup":
            return self._local(dim)
        if name == "thread_position_in_grid":
            group = self.once(("dispatch_threads_per_threadgroup", dim))
            start = self.top.mul(GROUP[dim], group)
            local = self.once(("thread_position_in_threadgroup", dim))
            return self.top.add(start, local)
        raise UnsupportedFeature(f"thread attribute {name}")

    def _local(self, dim: int) -> Operand:
        layout = self.plan.layout
        if layout == "line":
            return self.at.turns.own(FIRST_THREAD) if dim == 0 else constant(I32, 0)
        if layout.startswith("tile:"):
            width = int(layout[5:])
            return self.top.mul(self.at.turns.own(SIMDGROUP), 32 // width) if dim == 1 else constant(I32, 0)
        return self.at.turns.own(FIRST[dim])

    def _splat(self, one: Operand) -> Operand:
        return self.top.splat(one, self.code.width)

    def _id_lane(self, name: str, dim: int, c: int) -> Operand:
        """Layout "any": x, y and z of each lane by division of its index."""
        if name == "thread_position_in_grid":
            group = self.once(("dispatch_threads_per_threadgroup", dim))
            start = self.top.mul(GROUP[dim], group)
            local = self.once(("thread_position_in_threadgroup", dim, c))
            return self.top.add(self._splat(start), local)
        index = self.top.add(self._splat(self.at.turns.own(FIRST_THREAD)), self.code.lane_constants(I32, LANE, c))
        row = self._small_divide(index, SIZE[0])
        if dim == 0:
            start = self.top.mul(row, self._splat(SIZE[0]))
            return self.top.sub(index, start)
        plane = self._small_divide(row, SIZE[1])
        if dim == 2:
            return plane
        start = self.top.mul(plane, self._splat(SIZE[1]))
        return self.top.sub(row, start)

    def _small_divide(self, index: Operand, by: Operand) -> Operand:
        """Indices are below 1,024: a float quotient of index + 0.5 truncates to the right number."""
        floats = self.code.vec(FLOAT)
        x = self.top.cast("uitofp", index, floats)
        x = self.top.fadd(x, 0.5)
        y = self.top.cast("uitofp", self._splat(by), floats)
        q = self.top.fdiv(x, y)
        return self.top.cast("fptosi", q, self.code.vec(I32))
