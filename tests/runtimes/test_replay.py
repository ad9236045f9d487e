"""Plans remembered and repeated: in C in the usual mode, in Python otherwise."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import metalcore  # noqa: E402
from metalcore.errors import IndexRangeError  # noqa: E402
from metalcore.ops import find  # noqa: E402
from metalcore.runtimes.cpu import torch_cpu  # noqa: E402
from metalcore.runtimes.kernel import Kernel, Out  # noqa: E402
from metalcore.runtimes.replay import Remembered  # noqa: E402
from metalcore.torch.gradient import remembered as remembered_stage  # noqa: E402

SILU = Kernel("silu", "silu_forward")
calls: list[tuple[Any, ...]] = []


def plan(run: Any, x: Any, factor: Any = None) -> tuple[Any, ...]:
    """silu, and a note that Python was here."""
    calls.append((x.shape, factor))
    arguments = dict(x=x, y=Out(tuple(x.shape), "float32"), count=x.numel())
    return tuple(run.launch(SILU, ("float32", 1), (), arguments, (1, 1), (32, 1)))


def plan_of_copy(run: Any, x: Any) -> tuple[Any, ...]:
    """silu of an array as it lies in rows."""
    return plan(run, run.contiguous(x))


@pytest.fixture
def remembered() -> Remembered:
    calls.clear()
    return Remembered(plan, torch_cpu())


def right(found: Any, x: Any) -> bool:
    return len(found) == 1 and torch.allclose(found[0], torch.nn.functional.silu(x), atol=1e-6)


def test_a_known_call_runs_no_plan(remembered: Remembered) -> None:
    for _ in range(3):
        x = torch.randn(31)
        assert right(remembered(x), x)
    assert len(calls) == 1
    assert remembered._repeat(1, torch.randn(31)) is not None
    assert remembered._repeat(1, torch.randn(30)) is None


def test_more_shapes_than_are_looked_at_first(remembered: Remembered) -> None:
    for size in (*range(1, 9), *range(8, 0, -1), 3, 7):
        x = torch.randn(size)
        assert right(remembered(x), x)
    assert len(calls) == 8


def test_what_makes_a_call_another_one(remembered: Remembered) -> None:
    x = torch.randn(4, 4)
    given = [(x,), (x.flatten(),), (x, 1), (x, 2.5), (x, "1"), (x, [True]), (x, [False]), (x, None)]
    for _ in range(2):
        for arguments in given:
            assert right(remembered(*arguments), arguments[0])
        assert len(calls) == len(given)
    assert remembered._repeat(1, x, None) is not None
    for other in (True, 1.0, "2", [True, True], x):
        assert remembered._repeat(1, x, other) is None


def test_a_list_that_its_owner_changes(remembered: Remembered) -> None:
    x, wanted = torch.randn(5), [True]
    remembered(x, wanted)
    wanted[0] = False
    remembered(x, wanted)
    assert len(calls) == 2


def test_references_are_given_back(remembered: Remembered) -> None:
    x = torch.randn(16)
    remembered(x)
    before = sys.getrefcount(x), sys.getrefcount(x.dtype)
    for _ in range(1000):
        (y,) = remembered(x)
    assert (sys.getrefcount(x), sys.getrefcount(x.dtype)) == before
    assert sys.getrefcount(y) == 2


def test_a_mode_is_heeded(remembered: Remembered) -> None:
    x = torch.randn(8)
    remembered(x)
    with metalcore.mode("sanitize") as report:
        assert right(remembered(x), x)
    assert not report.findings
    assert right(remembered(x), x)


def test_errors_that_a_kernel_noted() -> None:
    table = torch.ones(3)
    for index in (5, 4, 2, -1):
        if index == 2:
            assert metalcore.gather(table, 0, torch.tensor([2])).tolist() == [1.0]
            continue
        with pytest.raises(IndexRangeError, match=f"index has {index} at place 0"):
            metalcore.gather(table, 0, torch.tensor([index]))


def test_threads_with_many_shapes(remembered: Remembered) -> None:
    def one(size: int) -> bool:
        x = torch.randn(size)
        return right(remembered(x), x)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, [1 + i % 7 for i in range(400)]))


def test_views_are_copied_again() -> None:
    """One shape, many ways to lie in memory: the copy is a step that C repeats."""
    calls.clear()
    remembered = Remembered(plan_of_copy, torch_cpu())
    views = [torch.randn(1, 1).expand(6, 4), torch.randn(4, 6).t(), torch.randn(6, 9)[:, ::2][:, :4]]
    for x in views * 2:
        assert not x.is_contiguous() and right(remembered(x), x)
    assert len(calls) == 1
    for x in views:
        (found,) = remembered._repeat(1, x)
        assert found.is_contiguous() and right((found,), x)
    assert remembered._repeat(1, torch.randn(6, 4)) is None  # lies in rows: another plan
    with metalcore.mode("checked"):  # repeated by Python
        assert right(remembered(views[0]), views[0])
    assert len(calls) == 1


def test_a_view_that_a_kernel_gets_as_it_is() -> None:
    """Without a copy its strides would matter, and calls are not told apart by them."""
    calls.clear()
    remembered = Remembered(plan, torch_cpu())
    for _ in range(2):
        remembered(torch.randn(4, 4)[:, ::2])
    assert len(calls) == 2


def test_references_of_copies_are_given_back() -> None:
    remembered = Remembered(plan_of_copy, torch_cpu())
    x = torch.randn(1).expand(16)
    remembered(x)
    before = sys.getrefcount(x)
    for _ in range(100):
        (y,) = remembered(x)
    assert sys.getrefcount(x) == before and sys.getrefcount(y) == 2


def test_the_gradient_of_a_sum_is_repeated() -> None:
    """sum().backward() gives a gradient of one element, seen in every place."""
    op = find("rms_norm")
    assert op.backward is not None
    back = remembered_stage(op.backward, "rms_norm_backward")
    weight = torch.randn(24, requires_grad=True)
    for _ in range(3):
        x = torch.randn(5, 24, requires_grad=True)
        ours = torch.autograd.grad(metalcore.rms_norm(x, (24,), weight, 1e-6).sum(), (x, weight))
        theirs = torch.autograd.grad(torch.nn.functional.rms_norm(x, (24,), weight, 1e-6).sum(), (x, weight))
        for found, expected in zip(ours, theirs, strict=True):
            assert torch.allclose(found, expected, atol=1e-5)
    grad, power = torch.ones(()).expand(5, 24), (x.detach() ** 2).mean(-1)
    arguments = (grad, x.detach(), weight.detach(), power, 1, [True, True])
    known = back._repeat(1, *arguments)
    assert known is not None and known[0].shape == x.shape
