"""Thread positions: their shapes for a group layout, and the code that computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.errors import UnsupportedFeature

from .ir import Const, Instr
from .memory import LAUNCH_GRID, LAUNCH_GROUP, LAUNCH_GROUPS
from .shapes import LANE, UNIFORM, VARYING, ZERO, Shape, pattern

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


def id_shapes(layout: str, single: bool = False) -> dict[tuple[str, int], Shape]:
    """Shape of each thread attribute for a group layout (see codegen.variant)."""
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
        self.code, self.values, self.shapes, self.plan = at.code, at.values, at.shapes, at.plan

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

    def once(self, key: tuple[object, ...]) -> str:
        """A thread position, computed at the top of the function and kept."""
        if key not in self.code.entry_values:
            self.code.entry_values[key] = self._id_lane(*key) if len(key) == 3 else self._id(*key)  # type: ignore[arg-type]
        return self.code.entry_values[key]

    def _launch_u32(self, offset: int) -> str:
        at = self.code.at_entry(f"getelementptr i8, ptr %L, i64 {offset}")
        return self.code.at_entry(f"load i32, ptr {at}, !invariant.load !0")

    def _id(self, name: str, dim: int) -> str:
        if name == "threadgroup_position_in_grid":
            return ("%gx", "%gy", "%gz")[dim]
        if name == "threads_per_threadgroup":
            return ("%w", "%h", "%d")[dim]
        if name == "threads_per_grid":
            return self._launch_u32(LAUNCH_GRID + 4 * dim)
        if name == "threadgroups_per_grid":
            return self._launch_u32(LAUNCH_GROUPS + 4 * dim)
        if name == "dispatch_threads_per_threadgroup":
            return self._launch_u32(LAUNCH_GROUP + 4 * dim)
        if name == "simdgroup_index_in_threadgroup":
            return "0" if self.plan.single else "%sg"
        if name == "simdgroups_per_threadgroup" and self.plan.single:
            return "1"
        if name in ("simdgroups_per_threadgroup", "quadgroups_per_threadgroup"):
            wide = 32 if name[0] == "s" else 4
            area = self.code.at_entry("mul i32 %w, %h")
            total = self.code.at_entry(f"mul i32 {area}, %d")
            more = self.code.at_entry(f"add i32 {total}, {wide - 1}")
            return self.code.at_entry(f"udiv i32 {more}, {wide}")
        if name in ("dispatch_simdgroups_per_threadgroup", "dispatch_quadgroups_per_threadgroup"):
            wide = 32 if "simd" in name else 4
            w, h, d = (self._launch_u32(LAUNCH_GROUP + 4 * i) for i in range(3))
            area = self.code.at_entry(f"mul i32 {w}, {h}")
            total = self.code.at_entry(f"mul i32 {area}, {d}")
            more = self.code.at_entry(f"add i32 {total}, {wide - 1}")
            return self.code.at_entry(f"udiv i32 {more}, {wide}")
        if name == "threads_per_simdgroup":
            return "32"
        if name in ("thread_index_in_simdgroup", "thread_index_in_quadgroup"):
            return "0"
        if name == "thread_index_in_threadgroup":
            return "%first_thread"
        if name == "quadgroup_index_in_threadgroup":
            return self.code.at_entry("mul i32 %sg, 8")
        if name == "thread_position_in_threadgroup":
            return self._local(dim)
        if name == "thread_position_in_grid":
            group = self.once(("dispatch_threads_per_threadgroup", dim))
            start = self.code.at_entry(f"mul i32 {('%gx', '%gy', '%gz')[dim]}, {group}")
            local = self.once(("thread_position_in_threadgroup", dim))
            return self.code.at_entry(f"add i32 {start}, {local}")
        raise UnsupportedFeature(f"thread attribute {name}")

    def _local(self, dim: int) -> str:
        layout = self.plan.layout
        if layout == "line":
            return "%first_thread" if dim == 0 else "0"
        if layout.startswith("tile:"):
            width = int(layout[5:])
            return self.code.at_entry(f"mul i32 %sg, {32 // width}") if dim == 1 else "0"
        return ("%lx", "%ly", "%lz")[dim]

    def _entry_splat(self, ty: str, name: str) -> str:
        vec = self.code.vec
        one = self.code.at_entry(f"insertelement {vec(ty)} poison, {ty} {name}, i64 0")
        return self.code.at_entry(f"shufflevector {vec(ty)} {one}, {vec(ty)} poison, {vec('i32')} zeroinitializer")

    def _id_lane(self, name: str, dim: int, c: int) -> str:
        """Layout "any": x, y and z of each lane by division of its index."""
        vec = self.code.vec("i32")
        if name == "thread_position_in_grid":
            group = self.once(("dispatch_threads_per_threadgroup", dim))
            start = self.code.at_entry(f"mul i32 {('%gx', '%gy', '%gz')[dim]}, {group}")
            local = self.once(("thread_position_in_threadgroup", dim, c))
            return self.code.at_entry(f"add {vec} {self._entry_splat('i32', start)}, {local}")
        index = self.code.at_entry(
            f"add {vec} {self._entry_splat('i32', '%first_thread')}, {self.code.lane_constants('i32', LANE, c)}"
        )
        row = self._small_divide(index, "%w")
        if dim == 0:
            start = self.code.at_entry(f"mul {vec} {row}, {self._entry_splat('i32', '%w')}")
            return self.code.at_entry(f"sub {vec} {index}, {start}")
        plane = self._small_divide(row, "%h")
        if dim == 2:
            return plane
        start = self.code.at_entry(f"mul {vec} {plane}, {self._entry_splat('i32', '%h')}")
        return self.code.at_entry(f"sub {vec} {row}, {start}")

    def _small_divide(self, index: str, by: str) -> str:
        """Indices are below 1,024: a float quotient of index + 0.5 truncates to the right number."""
        vec, floats = self.code.vec("i32"), self.code.vec("float")
        x = self.code.at_entry(f"uitofp {vec} {index} to {floats}")
        x = self.code.at_entry(f"fadd {floats} {x}, splat (float 0.5)")
        y = self.code.at_entry(f"uitofp {vec} {self._entry_splat('i32', by)} to {floats}")
        q = self.code.at_entry(f"fdiv {floats} {x}, {y}")
        return self.code.at_entry(f"fptosi {floats} {q} to {vec}")
