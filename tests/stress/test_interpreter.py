"""Control flow, simd functions and memory of the interpreter, on small trees with results worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.stress import tree as t
from tests.stress.arith import Undefined
from tests.stress.launch import run
from tests.stress.types import BOOL, CHAR, INT, UCHAR, UINT, USHORT, Array, Pointer, Scalar, Struct, Vector

TID = t.Var(UINT, "tid")
LANE = t.Var(UINT, "lane")
X = t.Var(UINT, "x")


def lit(value: int, type_: Scalar = UINT) -> t.Lit:
    return t.Lit(type_, value)


def op(name: str, a: t.Expr, b: t.Expr | int) -> t.Binary:
    return t.binary(name, a, lit(b) if isinstance(b, int) else b)


def add(value: t.Expr | int) -> t.Assign:
    return t.Assign(X, "+=", lit(value) if isinstance(value, int) else value)


def results(
    *body: t.Stmt,
    threads: int = 4,
    group: int = 32,
    start: int = 0,
    value: t.Expr = X,
    functions: tuple[t.Function, ...] = (),
    shared: tuple[tuple[str, Array, bool], ...] = (),
) -> list[int]:
    """`uint x = start; body; out[gid] = value;` for a line of threads; returns out."""
    gid = t.Var(UINT, "gid")
    out = t.Index(UINT, t.Var(Pointer(UINT), "out"), gid)
    kernel = t.Kernel(
        seed=0,
        structs=(),
        tables=(),
        functions=functions,
        buffers=(t.Buffer("out", UINT, "output", threads),),
        attributes=(
            t.Attribute(UINT, "gid", "thread_position_in_grid"),
            t.Attribute(UINT, "tid", "thread_index_in_threadgroup"),
            t.Attribute(UINT, "lane", "thread_index_in_simdgroup"),
        ),
        shared=shared,
        body=(t.Decl(UINT, "x", lit(start)), *body, t.Assign(out, "=", value)),
        threads=(threads, 1, 1),
        group_size=(group, 1, 1),
    )
    answer: list[int] = run(kernel, {"out": np.full(threads, 999, np.uint32)})["out"].tolist()
    return answer


def simd(name: str, *args: t.Expr, type_: Scalar = UINT) -> t.Library:
    return t.Library(type_, f"simd_{name}", args)


def loop(body: tuple[t.Stmt, ...], bound: t.Expr) -> t.For:
    return t.For(UINT, "i", lit(0), op("<", t.Var(UINT, "i"), bound), 1, body)


I = t.Var(UINT, "i")  # noqa: E741


def test_branches_take_their_own_lanes() -> None:
    branch = t.If(op("<", TID, 2), (add(10),), (add(20),))
    assert results(branch) == [10, 10, 20, 20]


def test_loops_with_different_trip_counts() -> None:
    assert results(loop((add(I),), TID)) == [0, 0, 1, 3]


def test_break_leaves_only_its_lanes() -> None:
    body = (t.If(op("==", I, TID), (t.Break(),)), add(1))
    assert results(loop(body, lit(3))) == [0, 1, 2, 3]


def test_continue_skips_the_rest_but_not_the_step() -> None:
    body = (t.If(op("==", I, TID), (t.Continue(),)), add(I))
    assert results(loop(body, lit(4))) == [6, 5, 4, 3]


def test_do_while_runs_once() -> None:
    assert results(t.DoWhile((add(1),), op("<", X, TID))) == [1, 1, 2, 3]


def test_switch_falls_through_and_breaks() -> None:
    cases = (t.Case((0,), (add(1),)), t.Case((1,), (add(10), t.Break())), t.Case((None,), (add(100),)))
    assert results(t.Switch(TID, cases)) == [11, 10, 100, 100]


def test_default_in_the_middle_of_a_switch() -> None:
    cases = (t.Case((None,), (add(1),)), t.Case((2, 3), (add(10),)))
    assert results(t.Switch(TID, cases)) == [11, 11, 10, 10]


def test_break_in_a_switch_in_a_loop_leaves_the_switch() -> None:
    switch = t.Switch(TID, (t.Case((1,), (t.Break(),)), t.Case((2,), (t.Continue(),)), t.Case((3,), (add(5),))))
    assert results(loop((switch, add(1)), lit(2))) == [2, 2, 0, 12]


def test_return_ends_a_thread() -> None:
    assert results(t.If(op("==", TID, 1), (t.Return(),)), add(1)) == [1, 999, 1, 1]


def test_helper_returns_early_in_some_lanes() -> None:
    a = t.Var(UINT, "a")
    body = (t.If(op("<", a, 2), (t.Return(lit(7)),)), t.Return(op("*", a, 2)))
    function = t.Function(UINT, "f", (("a", UINT),), body)
    assert results(add(t.Call(UINT, "f", (TID,))), functions=(function,)) == [7, 7, 4, 6]


def test_simd_sum_counts_active_lanes_of_a_partial_group() -> None:
    assert results(add(simd("sum", lit(1))), threads=33) == [32] * 32 + [1]
    inside = t.If(op("<", TID, 3), (add(simd("sum", TID)),))
    assert results(inside) == [3, 3, 3, 0]


def test_simd_sum_in_a_loop_that_lanes_leave() -> None:
    assert results(loop((add(simd("sum", lit(1))),), TID)) == [0, 3, 5, 6]


def test_simd_after_continue_sees_the_others() -> None:
    body = (t.If(op("==", I, TID), (t.Continue(),)), add(simd("sum", lit(1))))
    assert results(loop(body, lit(2))) == [3, 3, 6, 6]


def test_lanes_that_fall_through_meet_those_of_the_next_case() -> None:
    cases = (t.Case((0,), ()), t.Case((1,), (add(simd("sum", lit(1))), t.Break())))
    assert results(t.Switch(TID, cases)) == [2, 2, 0, 0]


def test_narrow_sums_wrap() -> None:
    total = t.Decl(UCHAR, "s", simd("sum", t.Cast(UCHAR, lit(100)), type_=UCHAR))
    assert results(total, value=t.Var(UCHAR, "s")) == [144] * 4


def test_prefix_sums_skip_inactive_lanes() -> None:
    odd = op("==", op("&", TID, 1), 1)
    assert results(t.If(odd, (add(simd("prefix_exclusive_sum", TID)),)), threads=6) == [0, 0, 0, 1, 0, 4]
    assert results(t.If(odd, (add(simd("prefix_inclusive_sum", TID)),)), threads=6) == [0, 1, 0, 4, 0, 9]


def test_votes() -> None:
    high = op(">", TID, 1)
    assert results(add(simd("ballot", high))) == [0b1100] * 4
    assert results(t.If(high, (add(simd("ballot", t.Lit(BOOL, True))),))) == [0, 0, 0b1100, 0b1100]
    assert results(add(t.Cast(UINT, simd("all", high, type_=BOOL)))) == [0] * 4
    assert results(t.If(high, (add(t.Cast(UINT, simd("all", high, type_=BOOL))),))) == [0, 0, 1, 1]
    assert results(t.If(high, (add(simd("broadcast_first", TID)),))) == [0, 0, 2, 2]


def test_shuffles() -> None:
    full = {"threads": 32}
    assert results(add(simd("shuffle_xor", TID, lit(1, USHORT))))[:4] == [1, 0, 3, 2]
    assert results(add(simd("shuffle_up", TID, lit(2, USHORT))))[:4] == [0, 1, 0, 1]
    assert results(add(simd("shuffle_down", TID, lit(30, USHORT))), **full)[:4] == [30, 31, 2, 3]  # type: ignore[arg-type]
    assert results(add(simd("shuffle_rotate_down", TID, lit(30, USHORT))), **full)[:4] == [30, 31, 0, 1]  # type: ignore[arg-type]
    with pytest.raises(Undefined):
        results(t.Decl(UINT, "y", simd("shuffle", TID, lit(9, USHORT))), add(t.Var(UINT, "y")))


def test_quads() -> None:
    assert results(add(t.Library(UINT, "quad_sum", (TID,))), threads=6) == [6, 6, 6, 6, 9, 9]


def slot(index: t.Expr) -> t.Index:
    return t.Index(UINT, t.Var(Array(UINT, 64), "sh"), index)


SHARED = (("sh", Array(UINT, 64), False),)


def test_barrier_lets_threads_of_other_simdgroups_see_a_store() -> None:
    other = op("%", op("+", TID, 1), 64)
    body = (t.Assign(slot(TID), "=", op("*", TID, 3)), t.Barrier(1), add(slot(other)))
    assert results(*body, threads=64, group=64, shared=SHARED) == [(i + 1) % 64 * 3 for i in range(64)]


def test_missing_barrier_is_a_race() -> None:
    body = (t.Assign(slot(TID), "=", TID), add(slot(op("%", op("+", TID, 1), 64))))
    with pytest.raises(Undefined, match="written by"):
        results(*body, threads=64, group=64, shared=SHARED)


def test_divergent_barrier_is_caught() -> None:
    with pytest.raises(Undefined, match="do not reach"):
        results(t.If(op("<", TID, 2), (t.Barrier(1),)))


def test_barrier_after_an_early_return() -> None:
    body = (t.Assign(slot(TID), "=", TID), t.If(op("==", TID, 1), (t.Return(),)), t.Barrier(1), add(slot(lit(1))))
    assert results(*body, shared=SHARED) == [1, 999, 1, 1]


def test_atomics_add_up() -> None:
    shared = (("c", Array(UINT, 1), True),)
    c = t.Var(Array(UINT, 1), "c")
    zero = t.If(op("==", TID, 0), (t.Atomic("store", c, lit(0), lit(0)),))
    load = t.Library(UINT, "atomic_load", (t.Index(UINT, c, lit(0)),))
    body = (zero, t.Barrier(1), t.Atomic("add", c, lit(0), TID), t.Barrier(2), add(load))
    assert results(*body, threads=64, group=64, shared=shared) == [2016] * 64
    with pytest.raises(Undefined, match="no order"):
        results(zero, t.Atomic("add", c, lit(0), TID), shared=shared)


def test_private_arrays_belong_to_their_lane() -> None:
    array = t.Var(Array(INT, 2), "arr")
    body = (
        t.Decl(array.type, "arr", t.Construct(array.type, (lit(5, INT), lit(6, INT)))),
        t.Assign(t.Index(INT, array, op("&", TID, 1)), "+=", t.Cast(INT, TID)),
        add(t.Cast(UINT, t.Index(INT, array, lit(1)))),
    )
    assert results(*body) == [6, 7, 6, 9]


def test_swizzled_store_and_struct_fields() -> None:
    pair = Vector(UINT, 2)
    struct = Struct("S", (("a", UINT), ("v", pair)))
    s = t.Var(struct, "s")
    v = t.Member(pair, s, "v")
    body = (
        t.Decl(struct, "s", t.Construct(struct, (lit(1), t.Construct(pair, (lit(2), lit(3)))))),
        t.Assign(t.Swizzle(pair, v, "yx"), "=", t.Construct(pair, (TID, lit(9)))),
        add(op("+", op("*", t.Swizzle(UINT, v, "x"), 100), t.Swizzle(UINT, v, "y"))),
    )
    assert results(*body) == [900, 901, 902, 903]


def test_narrow_variables_wrap_when_assigned() -> None:
    c = t.Var(CHAR, "c")
    body = (t.Decl(CHAR, "c", lit(127, INT)), t.Assign(c, "+=", lit(1, INT)), add(t.Cast(UINT, c)))
    assert results(*body) == [2**32 - 128] * 4


def test_edge_groups_and_attributes_of_two_dimensions() -> None:
    pair = Vector(UINT, 2)
    gid, size = t.Var(pair, "gid"), t.Var(pair, "size")
    me = op("+", op("*", t.Swizzle(UINT, gid, "y"), 5), t.Swizzle(UINT, gid, "x"))
    value = op("+", op("*", t.Swizzle(UINT, size, "x"), 100), op("+", op("*", t.Swizzle(UINT, size, "y"), 10), TID))
    kernel = t.Kernel(
        0,
        (),
        (),
        (),
        (t.Buffer("out", UINT, "output", 15),),
        (
            t.Attribute(pair, "gid", "thread_position_in_grid"),
            t.Attribute(pair, "size", "threads_per_threadgroup"),
            t.Attribute(UINT, "tid", "thread_index_in_threadgroup"),
        ),
        (),
        (t.Assign(t.Index(UINT, t.Var(Pointer(UINT), "out"), me), "=", value),),
        (5, 3, 1),
        (4, 2, 1),
    )
    out: np.ndarray[Any, Any] = run(kernel, {"out": np.zeros(15, np.uint32)})["out"]
    assert out.reshape(3, 5).tolist() == [
        [420, 421, 422, 423, 120],
        [424, 425, 426, 427, 121],
        [410, 411, 412, 413, 110],
    ]


def test_ternary_and_logic_evaluate_only_what_they_need() -> None:
    safe = t.Ternary(UINT, op("==", TID, 0), lit(5), op("/", lit(12), TID))
    assert results(add(safe)) == [5, 12, 6, 4]
    guarded = t.binary("&&", op("!=", TID, 0), op(">", op("/", lit(12), TID), 5))
    assert results(add(t.Cast(UINT, guarded))) == [0, 1, 1, 0]


def test_endless_loops_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.stress.launch.STEPS", 1000)
    with pytest.raises(Undefined, match="too long"):
        results(t.While(t.Lit(BOOL, True), ()))
