"""The oracle, the guard pages and the worker do what the hostile tests rely on."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.hostile import elements as el
from tests.hostile import numbers as nb
from tests.hostile import tree as h
from tests.hostile.case import MODES, Host, expect
from tests.hostile.generate import FAMILIES, generate, machine_code
from tests.hostile.guarded import PAGE, Guarded, Pages
from tests.hostile.make_launch import make_launch
from tests.hostile.oracle import Redraw
from tests.hostile.printer import msl
from tests.hostile.shape import Launch, Shape
from tests.hostile.shrink import shrink
from tests.hostile.worker import Worker
from tests.stress import tree as t
from tests.stress.types import INT, LONG, SHORT, UCHAR, UINT, ULONG, Scalar

ME = t.Var(UINT, "me")


def words(*values: int) -> nb.Words:
    return np.array([v & ((1 << 64) - 1) for v in values], np.uint64)


@pytest.mark.parametrize(
    ("op", "kind", "a", "b", "want", "undefined"),
    [
        ("+", UINT, 0xFFFFFFFF, 2, 1, False),
        ("-", UINT, 3, 5, 0xFFFFFFFE, False),
        ("*", UINT, 0x40000001, 8, 8, False),
        ("*", ULONG, 1 << 63, 2, 0, False),
        ("+", INT, 0x7FFFFFFF, 1, -0x80000000, True),
        ("*", INT, -3, 5, -15, False),
        ("*", LONG, 1 << 62, 2, -(1 << 63), True),
        ("-", LONG, -(1 << 63), 1, (1 << 63) - 1, True),
        ("%", UINT, 7, 0, 7, True),
        ("/", UINT, 7, 0, 0, True),
        ("<", INT, -1, 1, 1, False),
        ("<", UINT, 0xFFFFFFFF, 1, 0, False),
    ],
)
def test_arithmetic(op: str, kind: Scalar, a: int, b: int, want: int, undefined: bool) -> None:
    value, bad = nb.binary(op, kind, words(a), words(b))
    assert value.tolist() == words(want).tolist()
    assert bool(bad is not None and bad[0]) == undefined


def test_numbers_are_cut_to_their_type() -> None:
    assert nb.wrap(UCHAR, words(300, -1)).tolist() == [44, 255]
    assert nb.wrap(SHORT, words(0x18000)).tolist() == words(-0x8000).tolist()
    assert nb.shift("<<", UINT, words(1), words(33))[0].tolist() == [2]


@pytest.mark.parametrize("element", [*el.SCALARS, *el.VECTORS, *el.PACKED, *el.RECORDS], ids=lambda e: e.name)
def test_elements_hold_no_nan_and_all_of_them_count(element: el.Element) -> None:
    made = el.make(element, words(7, 0xFFFFFFFF, 0x7F800001))
    assert made.shape == (3, element.size)
    for kind, at in element.parts:
        part = np.ascontiguousarray(made[:, at : at + kind.bits // 8]).view(kind.dtype)
        assert not (part != part).any()
        changed = made.copy()
        changed[:, at] ^= 1
        assert (el.fold(element, changed) != el.fold(element, made)).all()


def kernel_of(*body: h.Stmt, arrays: tuple[h.Array, ...], dims: int = 1) -> h.Kernel:
    return h.Kernel(1, "device", dims, arrays, body)


def outcome(
    kernel: h.Kernel, threads: tuple[int, int, int], params: dict[int, int]
) -> tuple[Host, dict[str, int], list[int]]:
    launch = Launch(Shape(threads, (32, 1, 1)), 1, params=params, fixed=True)
    host = Host(kernel, launch, Pages())
    found = expect(kernel, launch, host)
    return host, found.outside, found.memory["o"].view(np.uint32).tolist()


def test_reads_past_the_end_give_zero() -> None:
    x = h.Array("x0", "device", el.UINT_ELEMENT, 5)
    index = h.binary("+", ME, h.Param(UINT, 0, "index"))
    kernel = kernel_of(h.Load(h.Access("x0", el.UINT_ELEMENT, index)), arrays=(x,))
    host, outside, o = outcome(kernel, (6, 1, 1), {0: 2})
    data = host.contents["x0"].view(np.uint32).tolist()
    assert outside == {"x0": 3} and o == [data[2], data[3], data[4], 0, 0, 0]
    assert outcome(kernel, (3, 1, 1), {0: 2})[1] == {}
    assert outcome(kernel, (3, 1, 1), {0: 0xFFFFFFFF})[1] == {"x0": 1}  # -1, 0, 1


def test_private_views_are_bytes() -> None:
    a = h.Array("a0", "private", el.UINT_ELEMENT, 2, True)
    store = h.Store(h.Access("a0", el.UCHAR_ELEMENT, t.Lit(UINT, 7), "bytes"), t.Lit(UINT, 0xAB))
    load = h.Load(h.Access("a0", el.UINT_ELEMENT, h.binary("+", ME, t.Lit(UINT, 3)), "bytes"))
    _, outside, o = outcome(kernel_of(store, load, arrays=(a,)), (3, 1, 1), {})
    memory = [np.array([0 + me * 5, 77 + me * 5], np.uint32) for me in range(3)]
    for m in memory:
        m.view(np.uint8)[7] = 0xAB
    read = [int(m.view(np.uint8)[3 + me : 7 + me].view(np.uint32)[0]) if me < 2 else 0 for me, m in enumerate(memory)]
    mixed = [((r * 33 + int(m[0])) * 33 + int(m[1])) & 0xFFFFFFFF for r, m in zip(read, memory, strict=True)]
    assert outside == {"a0": 1} and o == mixed


def test_a_race_is_drawn_anew() -> None:
    x = h.Array("x0", "device", el.UINT_ELEMENT, 5, True)
    store = h.Store(h.Access("x0", el.UINT_ELEMENT, t.Lit(UINT, 1)), ME)
    with pytest.raises(Redraw):
        outcome(kernel_of(store, arrays=(x,)), (2, 1, 1), {})


def test_places_in_clipped_groups() -> None:
    places = Shape((5, 3, 1), (4, 2, 1)).places
    assert places["tid"].tolist() == [0, 1, 2, 3, 0, 4, 5, 6, 7, 1, 0, 1, 2, 3, 0]
    assert places["grp"].tolist() == [0] * 4 + [1] + [0] * 4 + [1] + [2] * 4 + [3]
    assert places["gt"].tolist() == [8] * 4 + [2] + [8] * 4 + [2] + [4] * 4 + [1]


def test_canaries_are_seen_and_guard_pages_are_there() -> None:
    pages = Guarded(100)
    array = pages.place(np.arange(100, dtype=np.uint8), "end")
    assert (array.ctypes.data + 100) % PAGE == 0 and pages.touched() == 0
    ctypes.memset(array.ctypes.data - 1, 0, 1)
    assert pages.touched() == 1
    start = pages.place(np.zeros(8, np.uint8), "start")
    assert start.ctypes.data % PAGE == 0 and pages.touched() == 0
    code = (
        "import numpy as np, ctypes; from tests.hostile.guarded import Guarded\n"
        "a = Guarded(100).place(np.zeros(100, np.uint8), 'end'); print('there', flush=True)\n"
        "ctypes.string_at(a.ctypes.data + 100, 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "there\n" and done.returncode == -signal.SIGSEGV


@pytest.mark.parametrize("family", FAMILIES)
def test_launches_of_one_kernel_share_their_machine_code(family: str) -> None:
    """And the same seed gives the same text and the same launch."""
    kernel = generate(7, family)
    assert msl(kernel) == msl(generate(7, family))
    first = make_launch(kernel, 0, Pages())
    again = make_launch(kernel, 0, Pages())
    assert (first is None) == (again is None)
    if first and again:
        assert first[0].params == again[0].params and first[0].owns == again[0].owns
        assert (first[2].memory["o"] == again[2].memory["o"]).all()
        second = make_launch(kernel, 1, Pages())
        assert second is None or machine_code(first[0].shape) == machine_code(second[0].shape)


def test_a_lost_process_is_one_failure() -> None:
    worker = Worker()
    kinds = []
    for _, _, _, verdict in worker.seed(1013, 3, MODES[:1]):
        kinds.append(verdict.kind)
        if len(kinds) == 1:
            assert worker.child.process is not None
            os.kill(worker.child.process.pid, signal.SIGKILL)
    worker.close()
    assert kinds.count("crash") <= 1 and kinds[0] == kinds[-1] == "good"


def test_shrinking_keeps_what_fails() -> None:
    x = h.Array("x0", "device", el.UINT_ELEMENT, 5)
    a = h.Array("a1", "private", el.UINT_ELEMENT, 5, True)
    bad = h.Load(h.Access("x0", el.UINT_ELEMENT, h.binary("+", ME, h.Param(UINT, 0, "index"))))
    good = h.Load(h.Access("a1", el.UINT_ELEMENT, t.Lit(UINT, 1)))
    loop = h.For(UINT, "j", t.Lit(UINT, 0), h.binary("<", t.Var(UINT, "j"), t.Lit(UINT, 3)), 1, (good, bad))
    kernel = kernel_of(good, h.If(h.binary("<", ME, t.Lit(UINT, 40)), (loop, good)), arrays=(x, a))
    launch = Launch(Shape((64, 1, 1), (64, 1, 1)), 1, params={0: 3})

    def fails(case: tuple[h.Kernel, Launch]) -> bool:
        launch = case[1]
        return bool(expect(case[0], launch, Host(case[0], launch, Pages())).outside)

    small, shape = shrink((kernel, launch), fails, 20.0)
    assert len(small.body) == 1 and isinstance(small.body[0], h.Load) and [s.name for s in small.arrays] == ["x0"]
    assert shape.shape.total <= 32
