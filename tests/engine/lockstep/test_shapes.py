"""Shape analysis: what is uniform, what is a pattern over the lanes, what varies; and which control flow diverges."""

from __future__ import annotations

import pytest

from metalcore.engine.ir import Instr, Module, flat
from metalcore.engine.lockstep.cfg import Graph, canonicalise
from metalcore.engine.lockstep.ids import id_shapes
from metalcore.engine.lockstep.roots import Roots
from metalcore.engine.lockstep.shape import LANE, Shape
from metalcore.engine.lockstep.shapes import Shapes

HEAD = """
declare ptr @__mc_arg(i32)
declare i32 @__mc_thread_position_in_grid(i32)
declare i32 @__mc_thread_position_in_threadgroup(i32)
declare i32 @__mc_thread_index_in_simdgroup(i32)
"""


def analyse(body: str, layout: str = "line") -> tuple[Module, Graph, Shapes]:
    module = flat(f"{HEAD}\ndefine void @__mc_entry() {{\n{body}\n}}\n")
    canonicalise(module.function)
    graph = Graph(module.function)
    return module, graph, Shapes(module, graph, Roots(module), id_shapes(layout))


def shape_of(body: str, name: str, layout: str = "line") -> Shape:
    module, _, shapes = analyse(body, layout)
    found = [i for b in module.function.blocks for i in b.instrs if i.name == f"%{name}"]
    assert len(found) == 1, f"no value %{name}"
    return shapes.get(found[0])


GRID = "entry:\n  %i = call i32 @__mc_thread_position_in_grid(i32 0)\n"
LANE_ID = "entry:\n  %l = call i32 @__mc_thread_index_in_simdgroup(i32 0)\n"


@pytest.mark.parametrize(
    ("code", "offsets"),
    [
        ("  %v = add i32 %i, 7", LANE),
        ("  %v = mul i32 %i, 12", tuple(12 * lane for lane in LANE)),
        ("  %v = shl i32 %i, 2", tuple(4 * lane for lane in LANE)),
        ("  %v = sub i32 100, %i", tuple(-lane for lane in LANE)),
        ("  %v = zext i32 %i to i64", LANE),
    ],
)
def test_lines_stay_lines(code: str, offsets: tuple[int, ...]) -> None:
    assert shape_of(f"{GRID}{code}\n  ret void", "v").offsets == offsets


@pytest.mark.parametrize(
    ("code", "lanes"),
    [
        ("  %v = and i32 %l, 7", [lane & 7 for lane in LANE]),
        ("  %v = lshr i32 %l, 2", [lane >> 2 for lane in LANE]),
        ("  %v = udiv i32 %l, 5", [lane // 5 for lane in LANE]),
        ("  %v = xor i32 %l, 1", [lane ^ 1 for lane in LANE]),
        ("  %v = srem i32 %l, 6", [lane % 6 for lane in LANE]),
    ],
)
def test_the_lane_number_folds(code: str, lanes: list[int]) -> None:
    assert list(shape_of(f"{LANE_ID}{code}\n  ret void", "v").known or ()) == lanes


def test_the_index_in_a_group_divides_by_the_simdgroup() -> None:
    body = "entry:\n  %i = call i32 @__mc_thread_position_in_threadgroup(i32 0)\n  {}\n  ret void"
    assert shape_of(body.format("%v = lshr i32 %i, 5"), "v").uniform
    assert shape_of(body.format("%v = and i32 %i, 31"), "v").known == LANE
    assert shape_of(body.format("%v = lshr i32 %i, 6"), "v").varying


def test_a_grid_position_times_a_runtime_number_varies() -> None:
    body = (
        f"{GRID}  %p = call ptr @__mc_arg(i32 0)\n  %n = load i32, ptr %p, align 4\n  %v = mul i32 %i, %n\n  ret void"
    )
    assert shape_of(body, "n").uniform
    assert shape_of(body, "v").varying


def test_tiles_have_constant_columns() -> None:
    body = "entry:\n  %v = call i32 @__mc_thread_position_in_threadgroup(i32 {})\n  ret void"
    assert shape_of(body.format(0), "v", "tile:16").known == tuple(lane % 16 for lane in LANE)
    assert shape_of(body.format(1), "v", "tile:16").offsets == tuple(lane // 16 for lane in LANE)
    assert shape_of(body.format(1), "v", "rows").uniform
    assert shape_of(body.format(0), "v", "any").varying


LOOP = """entry:
  %i = call i32 @__mc_thread_position_in_grid(i32 0)
  %p = call ptr @__mc_arg(i32 0)
  %n = load i32, ptr %p, align 4
  br label %loop
loop:
  %k = phi i32 [ {start}, %entry ], [ %next, %loop ]
  %next = add i32 %k, 32
  %c = icmp ult i32 %next, %n
  br i1 %c, label %loop, label %done
done:
  %after = add i32 %k, 1
  ret void"""


def test_a_uniform_loop_keeps_its_counter_scalar() -> None:
    _, _, shapes = analyse(LOOP.format(start="0"))
    assert not shapes.divergence.loops
    assert shape_of(LOOP.format(start="0"), "k").uniform
    assert shape_of(LOOP.format(start="0"), "after").uniform


def test_a_counter_stays_a_line_in_a_divergent_loop_and_varies_behind_it() -> None:
    body = LOOP.format(start="%i")
    _, _, shapes = analyse(body)
    assert len(shapes.divergence.loops) == 1
    assert shape_of(body, "k").offsets == LANE
    assert shape_of(body, "after").varying


def test_a_value_that_joins_divergent_paths_varies() -> None:
    body = f"""{GRID}  %c = icmp ult i32 %i, 5
  br i1 %c, label %a, label %b
a:
  br label %b
b:
  %v = phi i32 [ 1, %a ], [ 2, %entry ]
  ret void"""
    assert shape_of(body, "v").varying


def test_a_uniform_loop_inside_a_divergent_branch_stays_uniform() -> None:
    body = f"""{GRID}  %c = icmp ult i32 %i, 5
  br i1 %c, label %loop, label %end
loop:
  %k = phi i32 [ 0, %entry ], [ %next, %loop ]
  %next = add i32 %k, 1
  %more = icmp ult i32 %next, 10
  br i1 %more, label %loop, label %end
end:
  ret void"""
    _, _, shapes = analyse(body)
    assert shape_of(body, "k").uniform
    assert not shapes.divergence.loops


def test_private_arrays_are_kept_lane_by_lane_and_uniform_rows_are_rows() -> None:
    body = f"""{GRID}  %a = alloca [8 x float], align 4
  %q = getelementptr float, ptr %a, i64 3
  store float 1.0, ptr %q, align 4
  %v = load float, ptr %q, align 4
  ret void"""
    module, _, shapes = analyse(body)
    roots = Roots(module)
    assert list(roots.interleave.values()) == [4]
    assert shape_of(body, "q").uniform
    assert shape_of(body, "v").varying, "each lane has its own copy"
    assert shapes.divergence.branches == set()


def test_every_value_of_a_kernel_has_a_shape() -> None:
    module, _, shapes = analyse(LOOP.format(start="%i"))
    values: list[Instr] = [i for b in module.function.blocks for i in b.instrs if i.name]
    assert all(v in shapes.of for v in values)
