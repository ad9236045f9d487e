"""Every op as a torch op: opcheck, torch.compile, vmap, autocast, gradients once and not twice, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from metalcore.errors import ArgumentError  # noqa: E402
from metalcore.ops import find, function, nouns  # noqa: E402
from tests.torch.cases import EMPTY, case, outputs  # noqa: E402

DIFFERENTIABLE = [noun for noun in nouns() if find(noun).backward is not None]
every = pytest.mark.parametrize("noun", nouns())
differentiable = pytest.mark.parametrize("noun", DIFFERENTIABLE)


def overload(noun: str) -> Any:
    return getattr(torch.ops.metalcore, noun).default


def same(found: Any, expected: Any) -> None:
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, equal_nan=True, rtol=1e-5, atol=1e-5)


@every
def test_opcheck(noun: str) -> None:
    case(find(noun)).run()  # registers, and compiles the kernels
    arguments = case(find(noun)).schema_arguments()
    result = torch.library.opcheck(overload(noun), arguments)
    assert set(result.values()) == {"SUCCESS"}


@every
def test_opcheck_without_elements(noun: str) -> None:
    arguments = case(find(noun), EMPTY).schema_arguments()
    kinds = ("test_schema", "test_faketensor")
    assert set(torch.library.opcheck(overload(noun), arguments, test_utils=kinds).values()) == {"SUCCESS"}


@every
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.sweep)])
def test_compile_in_one_graph(noun: str, backend: str) -> None:
    ours = case(find(noun), grad=True)
    expected = ours.run()
    run = function(noun)
    torch.compiler.reset()
    compiled = torch.compile(lambda *a, **k: run(*a, **k), fullgraph=True, backend=backend)
    found = ours.run(compiled)
    same(found, expected)
    reached = [i for i, o in enumerate(expected) if o.requires_grad]
    if reached:
        both = [
            torch.autograd.grad([o[i].sum() for i in reached], ours.inputs, allow_unused=True)
            for o in (expected, found)
        ]
        same([g for g in both[1] if g is not None], [g for g in both[0] if g is not None])


@every
def test_vmap_of_the_first_input(noun: str) -> None:
    ours = case(find(noun))
    first, rest = ours.arguments[0], ours.arguments[1:]
    run = function(noun)
    if find(noun).written:
        with pytest.raises(RuntimeError, match=f"metalcore.{noun} cannot run inside torch.func.vmap: it writes"):
            torch.func.vmap(lambda x: run(x, *rest, **ours.named))(torch.stack([first, first]))
        return
    rows = [outputs(run(x, *rest, **ours.named)) for x in (first, first.flip(-1), first)]
    stacked = torch.stack([first, first.flip(-1), first], 0)
    found = torch.func.vmap(lambda x: run(x, *rest, **ours.named))(stacked)
    same(outputs(found), [torch.stack(column) for column in zip(*rows, strict=True)])


def with_gradients(noun: str) -> tuple[Any, list[torch.Tensor]]:
    """A case, and its outputs that have a gradient."""
    ours = case(find(noun), grad=True)
    reached = [o for o in ours.run() if o.requires_grad]
    if not reached:
        pytest.skip("no output has a gradient in this case")
    return ours, reached


@differentiable
def test_gradient_under_vmap_agrees_with_a_loop(noun: str) -> None:
    ours, expected = with_gradients(noun)
    cotangents = [torch.stack([torch.ones_like(o), 2 * torch.ones_like(o)]) for o in expected]
    single = [
        torch.autograd.grad(expected, ours.inputs, [c[i] for c in cotangents], retain_graph=True, allow_unused=True)
        for i in range(2)
    ]
    batched = torch.autograd.grad(expected, ours.inputs, cotangents, is_grads_batched=True, allow_unused=True)
    same(
        [g for g in batched if g is not None],
        [torch.stack(g) for g in zip(*single, strict=True) if g[0] is not None],
    )


@every
def test_autocast(noun: str) -> None:
    """The dtype of the declared rule, and no gradient that comes back in another dtype than its input."""
    op = find(noun)
    if "bfloat16" not in op.dtypes:
        pytest.skip("no bfloat16")
    ours = case(op, dtype="bfloat16", grad=True)
    plain = ours.run()
    with torch.autocast("cpu", torch.bfloat16):
        found = ours.run()
    for a, b in zip(found, plain, strict=True):
        assert a.shape == b.shape
        if b.dtype == torch.bfloat16:
            assert a.dtype == (torch.float32 if op.autocast == "float32" else torch.bfloat16)
    reached = [o for o in found if o.requires_grad]
    if reached:
        grads = torch.autograd.grad([o.sum() for o in reached], ours.inputs, allow_unused=True)
        assert all(g is None or g.dtype == x.dtype for g, x in zip(grads, ours.inputs, strict=True))


@differentiable
def test_a_second_gradient_is_an_error(noun: str) -> None:
    ours, reached = with_gradients(noun)
    weights = [torch.ones_like(o).requires_grad_() for o in reached]
    total = sum((w * o).sum() for w, o in zip(weights, reached, strict=True))
    first = torch.autograd.grad(total, ours.inputs, create_graph=True, allow_unused=True)
    first = [g for g in first if g is not None and g.requires_grad]
    assert first, "the gradient hides that it depends on its inputs"
    with pytest.raises(RuntimeError, match=f"metalcore.{noun} can be differentiated once"):
        sum(g.sum() for g in first).backward()


@differentiable
def test_transforms_of_torch_func(noun: str) -> None:
    """Gradients by torch.func, also mapped; forward mode is refused, not left out."""
    ours = case(find(noun), grad=True)
    first, rest, run = ours.arguments[0], ours.arguments[1:], function(noun)
    if not first.is_floating_point():
        pytest.skip("the first input holds indices")

    def total(x: Any) -> Any:
        found = outputs(run(x, *[r.detach() if isinstance(r, torch.Tensor) else r for r in rest], **ours.named))
        return sum((o.float() ** 2).sum() for o in found if o.is_floating_point())

    x = first.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(total(x), x)
    x = x.detach()
    same([torch.func.grad(total)(x)], [expected])
    same([torch.func.vmap(torch.func.grad(total))(torch.stack([x, x]))], [torch.stack([expected, expected])])
    for refused in (lambda: torch.func.jvp(total, (x,), (x,)), lambda: torch.func.jacfwd(torch.func.grad(total))(x)):
        with pytest.raises(RuntimeError, match=f"metalcore.{noun} has no forward-mode gradient"):
            refused()
    with pytest.raises(RuntimeError, match=f"metalcore.{noun} can be differentiated once"):
        torch.func.grad(lambda t: torch.func.grad(total)(t).sum())(x)


@every
def test_without_gradient_modes_give_the_same(noun: str) -> None:
    ours = case(find(noun), grad=True)
    expected = [o.detach() for o in ours.run()]
    with torch.no_grad():
        found = ours.run()
        same(found, expected)
        assert not any(o.requires_grad for o in found)
    with torch.inference_mode():
        found = case(find(noun)).run()
        same(found, expected)
        assert all(o.is_inference() for o in found)


def test_who_listens_hears_of_public_calls() -> None:
    """A plain call goes round the dispatcher, one under a mode or a profiler does not."""
    from torch.overrides import TorchFunctionMode

    heard: list[str] = []

    class Listener(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            heard.append(str(func))
            return func(*args, **(kwargs or {}))

    ours = case(find("silu"))
    expected = ours.run()
    with Listener():
        same(ours.run(), expected)
    assert "metalcore.silu.default" in heard
    with torch.profiler.profile() as profile:
        same(ours.run(), expected)
    assert "metalcore::silu" in {event.key for event in profile.key_averages()}


@every
def test_threads(noun: str) -> None:
    ours = case(find(noun))
    expected = ours.run()
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: ours.run(), range(12)):
            same(found, expected)


@every
def test_a_dtype_that_no_kernel_has_is_refused(noun: str) -> None:
    ours = case(find(noun))
    first = ours.arguments[0]
    if not first.is_floating_point():
        pytest.skip("the first input holds indices")
    with pytest.raises((ArgumentError, TypeError)):
        function(noun)(first.to(torch.complex64), *ours.arguments[1:], **ours.named)


@differentiable
def test_a_view_with_a_pending_negation(noun: str) -> None:
    """As the imaginary part of a conjugate: a view whose sign is still to be changed, so that its memory holds -x."""
    ours = case(find(noun))
    first = ours.arguments[0]
    if not first.is_floating_point() or first.dim() == 0:
        pytest.skip("the first input is not a tensor of floats")
    lazy = torch._neg_view((-first).contiguous())
    assert lazy.is_neg()
    run = function(noun)
    same(outputs(run(lazy, *ours.arguments[1:], **ours.named)), ours.run())


@differentiable
def test_a_gradient_is_never_cut_silently(noun: str) -> None:
    """An input that the op has no gradient of is refused where it asks for one."""
    op = find(noun)
    schema = op.forward.schema
    arguments = case(op).schema_arguments()
    reached = {*op.gradients, *dict(op.same_gradient)}
    left = [
        i
        for i, a in enumerate(schema.arguments)
        if a.name not in reached and isinstance(arguments[i], torch.Tensor) and arguments[i].is_floating_point()
    ]
    for i in left:
        given = [a.detach().requires_grad_() if i == j else a for j, a in enumerate(arguments)]
        with pytest.raises(ArgumentError, match=schema.arguments[i].name):
            overload(noun)(*given)
    assert reached <= set(schema.names)


def test_cases_are_not_all_empty() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):  # shapes are enough, and compile no kernel
        assert all(any(t.numel() for t in case(find(noun)).run()) for noun in nouns())
