"""Every function of linear algebra as torch sees it: opcheck, torch.compile, dtypes, layouts, overrides, bad input."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.ops import find, nouns
from metalcore.torch.replacement import resolve
from tests.linalg.cases import CASES, UNTRIED, USUAL, Case, N, general, positive

every = pytest.mark.parametrize(
    "case", [pytest.param(c, id=n, marks=[] if n in USUAL else [pytest.mark.sweep]) for n, c in CASES.items()]
)
all_of_them = pytest.mark.parametrize("case", [pytest.param(c, id=n) for n, c in CASES.items()])
WITH_OWN_TESTS = ("orthogonalize", "complete_basis", "polar", "newton_schulz")


def same(found: Any, expected: Any, tolerance: float = 2e-5) -> None:
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        scale = max(1.0, float(b.abs().max())) if b.numel() else 1.0
        torch.testing.assert_close(a, b.to(a.dtype), rtol=tolerance, atol=tolerance * scale)


def test_every_function_is_tried() -> None:
    assert set(UNTRIED) <= set(WITH_OWN_TESTS)


@all_of_them
def test_it_agrees_with_torch(case: Case) -> None:
    exact = case.reference(*case.inputs(torch.float64))
    tensors = case.inputs()
    found = case.ours(*tensors)
    same(found, exact)
    assert [f.dtype for f in found] == [r.dtype for r in case.reference(*tensors)]
    assert [tuple(f.shape) for f in found] == [tuple(e.shape) for e in exact]


@all_of_them
def test_layouts_do_not_matter(case: Case) -> None:
    tensors = case.inputs()
    expected = case.ours(*tensors)
    moved = [t.mT.contiguous().mT if t.ndim > 1 else t for t in tensors]
    spread = [torch.stack([t, t], -1)[..., 0] for t in tensors]
    assert any(not t.is_contiguous() for t in spread)
    for given in (moved, spread):
        found = case.ours(*given)
        assert all(torch.equal(f, e) for f, e in zip(found, expected, strict=True))


@every
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_goes_in_and_comes_out(case: Case, dtype: torch.dtype) -> None:
    halves = case.inputs(dtype)
    wide = case.ours(*(t.float() if t.is_floating_point() else t for t in halves))
    found = case.ours(*halves)
    for f, w in zip(found, wide, strict=True):
        assert f.dtype == (dtype if w.is_floating_point() else w.dtype)
    same([f.float() for f in found], wide, 0.02 if dtype == torch.float16 else 0.1)


@every
def test_opcheck(case: Case) -> None:
    noun = f"linalg_{case.name}"
    if noun not in nouns("linalg"):
        pytest.skip("is made of other ops")
    overload = getattr(torch.ops.metalcore, noun).default
    seen: list[tuple[Any, ...]] = []

    class Note(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is overload:
                seen.append(args)
            return func(*args, **(kwargs or {}))

    with torch.no_grad(), Note():
        case.ours(*case.inputs())
    op = find(noun)
    given = tuple(
        a.detach().requires_grad_(n in op.gradients) if isinstance(a, torch.Tensor) else a
        for n, a in zip(op.forward.schema.names, seen[0], strict=False)
    )
    assert set(torch.library.opcheck(overload, given).values()) == {"SUCCESS"}


@every
def test_compile_in_one_graph(case: Case) -> None:
    tensors = case.inputs()
    expected = case.ours(*tensors)
    torch.compiler.reset()
    found = torch.compile(case.ours, fullgraph=True, backend="aot_eager")(*tensors)
    same(found, expected)


@every
def test_overrides_come_and_go(case: Case) -> None:
    name = case.theirs or f"linalg.{case.name}"
    from metalcore.torch.overrides import overridable

    if f"torch.{name}" not in overridable().values():
        pytest.skip("takes no function's place")
    original = getattr(*resolve(f"torch.{name}"))
    tensors = case.inputs()
    expected = case.reference(*tensors)
    with metalcore.overrides(f"torch.{name}"), metalcore.explain() as log:
        assert getattr(*resolve(f"torch.{name}")) is not original
        found = case.reference(*tensors)
        assert [entry.by_torch for entry in log] and not any(entry.by_torch for entry in log), log
        double = case.reference(*case.inputs(torch.float64))  # torch's own
    same(found, expected)
    assert double[0].dtype == torch.float64 or not double[0].is_floating_point()
    assert getattr(*resolve(f"torch.{name}")) is original


def test_overrides_leave_to_torch_what_it_alone_does() -> None:
    A = positive().float()
    out = torch.empty_like(A)
    with metalcore.overrides("linalg.cholesky", "linalg.qr"), metalcore.explain() as log:
        torch.linalg.cholesky(A, out=out)
        torch.linalg.qr(torch.complex(A, A))
        with pytest.raises(RuntimeError, match="Half"):
            torch.linalg.qr(A.half())
    assert all(entry.by_torch for entry in log) and len(log) == 3
    assert "out" in log[0].reason and "complex64" in log[1].reason and "float16" in log[2].reason
    same((out,), (torch.linalg.cholesky(A),))
    with metalcore.overrides("linalg.cholesky"), pytest.raises(torch.linalg.LinAlgError, match="Batch element 1"):
        torch.linalg.cholesky(torch.stack([A[0], -A[0]]))
    with pytest.raises(ArgumentError, match=r"no override named 'linalg.nothing'"):
        metalcore.enable_pytorch_overrides("linalg.nothing")


SQUARE = ("cholesky", "cholesky_ex", "lu_solve", "solve", "inv", "inv_ex", "det", "slogdet", "eigh", "eigvalsh")


@all_of_them
def test_bad_input(case: Case) -> None:
    first, *rest = case.inputs()
    with pytest.raises(ArgumentError, match="complex"):
        case.plain(first.to(torch.complex64), *rest)
    with pytest.raises(ArgumentError, match=r"int64|floating"):
        case.plain(first.to(torch.int64), *rest)
    if case.name not in ("norm", "vector_norm", "matmul"):
        with pytest.raises(ArgumentError):
            case.plain(first.reshape(-1), *rest)
    if case.name in SQUARE:
        with pytest.raises(ArgumentError, match="square"):
            case.plain(torch.cat([first, first], -1), *rest)
    if case.name in ("solve", "lu_solve", "cholesky_solve", "solve_triangular", "ormqr", "lstsq"):
        with pytest.raises(ArgumentError):
            case.plain(torch.cat([first, first, first]), *rest)  # 6 matrices for 2
        with pytest.raises(ArgumentError):
            case.plain(first, *rest[:-1], torch.ones(2, N + 4, 2))


@all_of_them
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_end(case: Case, value: float) -> None:
    """An error, or a result: never an endless loop, and nothing of one matrix in another's result."""
    first, *rest = case.inputs()
    first = first.clone()
    first[0, 1, 0] = value
    try:
        found = case.ours(first, *rest)
    except (torch.linalg.LinAlgError, RuntimeError):
        return
    if case.name in ("norm", "vector_norm"):
        assert not torch.isfinite(found[0]).all()
        return
    clean = case.ours(*case.inputs())
    assert all(torch.isfinite(f[1]).all() for f in found if f.ndim and f.is_floating_point())
    same([f[1] for f in found if f.ndim], [c[1] for c in clean if c.ndim])


def test_shapes_without_elements() -> None:
    linalg = metalcore.linalg
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
        A = torch.zeros(shape)
        assert linalg.cholesky(A).shape == shape
        assert [t.shape for t in linalg.qr(A)] == [t.shape for t in torch.linalg.qr(A)]
        assert [t.shape for t in linalg.eigh(A)] == [t.shape for t in torch.linalg.eigh(A)]
        assert linalg.det(A).tolist() == torch.linalg.det(A).tolist()
    wide = torch.zeros(0, 5)
    assert [t.shape for t in linalg.qr(wide)] == [t.shape for t in torch.linalg.qr(wide)]


@pytest.mark.sweep
@pytest.mark.parametrize("name", [n for n in USUAL if n in CASES])
def test_vmap(name: str) -> None:
    case = CASES[name]
    tensors = case.inputs()
    stacked = [torch.stack([t, t.flip(0)]) for t in tensors]
    found = torch.func.vmap(case.ours)(*stacked)
    once, other = case.ours(*tensors), case.ours(*(t.flip(0) for t in tensors))
    same(found, [torch.stack(pair) for pair in zip(once, other, strict=True)])


def test_general_matrices_are_far_from_singular() -> None:
    assert torch.linalg.cond(general()).max() < 50
