"""Ops as torch.library ops: for CPU and MPS, with fake kernels, autograd, autocast and vmap, all from the declaration.

`torch.library.custom_op` costs 39 microseconds a call. Here one Python function at the autograd key decides: where no
gradient is asked for it runs the plan at once, without a second dispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from metalcore.ops import find, nouns
from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op, Stage
from metalcore.runtimes.cpu import torch_cpu
from metalcore.runtimes.fake import FakeRuntime
from metalcore.runtimes.replay import Remembered

NAMESPACE = "metalcore"
_library = torch.library.Library(NAMESPACE, "DEF")
_grad_enabled = torch.is_grad_enabled
_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._are_functorch_transforms_active
_is_batched = torch._C._functorch.is_legacy_batchedtensor  # by torch.autograd.grad(is_grads_batched=True)
_plain_types = (torch.Tensor, torch.nn.Parameter)


OPS: dict[str, Any] = {}
"""torch.ops.metalcore.<noun>.default of every op, filled when this module is imported: torch.compile finds it then."""


def _register(op: Op) -> None:
    noun = op.noun
    for name, stage in op.stages.items():
        _define(name, stage)
    overload = _overload(noun)
    _library.impl(noun, _autograd(op, overload), "Autograd")
    if op.backward is not None:
        _library.impl(f"{noun}_backward", _no_second_gradient(op, _overload(f"{noun}_backward")), "Autograd")
    if op.autocast:
        from metalcore.torch.autocast import register_autocast

        register_autocast(_library, op, overload)
    from metalcore.torch.vmap import register_vmap

    register_vmap(_library, op)
    OPS[noun] = overload


def _overload(name: str) -> Any:
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _define(name: str, stage: Stage) -> None:
    _library.define(
        f"{name}{stage.schema_text}", tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
    )
    _library.impl(name, _single(stage, remembered(stage, name)), "CPU")
    _library.impl(name, _single(stage, lambda *arguments: stage.plan(_mps(), *arguments)), "MPS")
    torch.library.register_fake(f"{NAMESPACE}::{name}", _fake(stage), lib=_library)


def _fake(stage: Stage) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        device = next(a.device for a in arguments if isinstance(a, torch.Tensor))
        return stage.plan(FakeRuntime(device), *arguments)

    return _single(stage, run)


@cache
def remembered(stage: Stage, name: str) -> Remembered:
    return Remembered(stage.plan, torch_cpu(), name)


def _single(stage: Stage, plan: Callable[..., Any]) -> Callable[..., Any]:
    """A plan returns a tuple, torch wants a single output as it is."""
    return (lambda *arguments: plan(*arguments)[0]) if len(stage.schema.outputs) == 1 else plan


def _mps() -> Any:
    from metalcore.runtimes.mps import torch_mps

    return torch_mps()


def _autograd(op: Op, overload: Any) -> Callable[..., Any]:
    """What runs at the autograd key."""
    arrays = [i for i, a in enumerate(op.forward.schema.arguments) if a.is_array]
    reached = {*op.gradients, *dict(op.same_gradient)}
    cut = [(i, a.name) for i, a in enumerate(op.forward.schema.arguments) if a.is_array and a.name not in reached]
    cut = cut if op.backward is not None else []  # without any gradient the function itself refuses
    plan = _single(op.forward, remembered(op.forward, op.noun))
    differentiated = _make_function(op, overload)

    def run(*arguments: Any) -> Any:
        plain = not _modes() and not _transforms()
        if forward_ad._current_level >= 0:
            _refuse_tangents(op, arguments)
        for i in arrays:
            value = arguments[i]
            if value is None:
                continue
            if value.requires_grad and _grad_enabled():
                for j, name in cut:
                    if arguments[j] is not None and arguments[j].requires_grad:
                        refuse(op.noun, name, "without requires_grad: the op has no gradient of it", "one with it")
                return differentiated(*arguments)
            if type(value) not in _plain_types or not value.is_cpu or value.is_neg():
                plain = False  # also a view whose sign is still to be changed: torch does that below
        if not plain:
            with torch._C._AutoDispatchBelowAutograd():
                return overload(*arguments)
        return plan(*arguments)

    return run


def _are_plain(arguments: Sequence[Any]) -> bool:
    """Whether a plan may run at once: CPU tensors of no transform, and nobody who listens to the dispatcher."""
    if _modes() or _transforms() or forward_ad._current_level >= 0:
        return False
    for value in arguments:
        if isinstance(value, torch.Tensor) and (
            type(value) not in _plain_types or not value.is_cpu or value.is_neg() or _is_batched(value)
        ):
            return False
    return True


def _refuse_tangents(op: Op, arguments: tuple[Any, ...]) -> None:
    for value in arguments:
        if isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None:
            raise RuntimeError(f"metalcore.{op.noun} has no forward-mode gradient")


def _make_function(op: Op, overload: Any) -> Any:
    """The torch.autograd.Function of an op: saves what `backward` names, and fills its arguments by name.

    Returns its `apply`.
    """
    inputs, outputs = op.forward.schema.names, op.forward.schema.outputs
    values = (*inputs, *outputs)
    is_array = {a.name for a in op.forward.schema.arguments if a.is_array} | set(outputs)
    needed = () if op.backward is None else op.backward.schema.names
    saved = [values.index(n) for n in needed if n in is_array]
    kept = [values.index(n) for n in needed if n in inputs and n not in is_array]
    public = range(op.public_outputs)
    # Where each argument of `backward` comes from: gradients, saved tensors, plain values, `wanted`, in this order.
    found_in = [*(f"grad_{n}" for n in outputs), *(values[i] for i in (*saved, *kept)), "wanted"]
    order = [found_in.index(n) for n in needed]
    wants = [[inputs.index(n), *(inputs.index(i) for i, same in op.same_gradient if same == n)] for n in op.gradients]
    gives = [_position(op, n) for n in inputs]
    at_once = _single(op.forward, remembered(op.forward, op.noun))
    back = None if op.backward is None else remembered(op.backward, f"{op.noun}_backward")

    class Gradient(_SingleLevelFunction):
        @staticmethod
        def forward(*arguments: Any) -> Any:
            return at_once(*arguments) if _are_plain(arguments) else _below(overload, arguments)

        @staticmethod
        def setup_context(ctx: Any, inputs_: Any, output: Any) -> None:
            results = (output,) if len(outputs) == 1 else output
            both = (*inputs_, *results)
            ctx.save_for_backward(*[both[i] for i in saved])
            ctx.plain = [both[i] for i in kept]
            ctx.made = [(results[i].shape, results[i].dtype, results[i].device) for i in public]
            ctx.mark_non_differentiable(*results[op.public_outputs :])
            ctx.set_materialize_grads(False)  # torch would make zeros for the hidden outputs too

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            needs = ctx.needs_input_grad
            wanted = [any([needs[i] for i in where]) for where in wants]
            given = [_zeros(ctx.made[i]) if i in public and g is None else g for i, g in enumerate(grads)]
            known = (*given, *ctx.saved_tensors, *ctx.plain, wanted)
            arguments = [known[i] for i in order]
            if back is not None and not _grad_enabled() and _are_plain(arguments):
                found = back(*arguments)
            else:
                found = _overload(f"{op.noun}_backward")(*arguments)
                found = (found,) if len(op.gradients) == 1 else found
            return tuple(
                [found[at] if need and at is not None else None for need, at in zip(needs, gives, strict=True)]
            )

    Gradient.__name__ = f"{op.noun}_gradient"
    if op.backward is None:

        def refuse(*_: Any) -> Any:
            raise RuntimeError(
                f"metalcore.{op.noun} has no gradient: call it under torch.no_grad(), or detach its input"
            )

        return refuse
    return _applied(Gradient)


def _position(op: Op, name: str) -> int | None:
    """Which of the gradients that `backward` returns is that of an input."""
    name = dict(op.same_gradient).get(name, name)
    return op.gradients.index(name) if name in op.gradients else None


def _zeros(like: tuple[Any, Any, Any]) -> Any:
    """The gradient of an output that nobody used."""
    shape, dtype, device = like
    return torch.zeros(shape, dtype=dtype, device=device)


def _below(overload: Any, arguments: tuple[Any, ...]) -> Any:
    """Run an op below this level of gradients. Those of torch.func that lie further down go on as they were: torch
    turns all gradients off while a Function runs forward."""
    if not _transforms():
        with torch._C._AutoDispatchBelowAutograd():
            return overload(*arguments)
    with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True), torch._C._AutoDispatchBelowAutograd():
        return overload(*arguments)


def _applied(function: Any) -> Callable[..., Any]:
    """How a Function of a single level is called: under torch.func the dispatcher is here once for each level."""
    apply = function.apply

    def run(*arguments: Any) -> Any:
        if not _transforms():
            return apply(*arguments)
        with enable_single_level_autograd_function():
            return apply(*arguments)

    return run


def _no_second_gradient(op: Op, overload: Any) -> Callable[..., Any]:
    """The backward op itself: a gradient of the gradient is refused, not cut silently."""
    arrays = [i for i, a in enumerate(op.backward.schema.arguments) if a.is_array] if op.backward else []

    class Once(_SingleLevelFunction):
        @staticmethod
        def forward(*arguments: Any) -> Any:
            return _below(overload, arguments)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            raise RuntimeError(f"metalcore.{op.noun} can be differentiated once: its gradient has no gradient")

    once = _applied(Once)

    def run(*arguments: Any) -> Any:
        if forward_ad._current_level >= 0:
            _refuse_tangents(op, arguments)
        if _grad_enabled() and any(arguments[i] is not None and arguments[i].requires_grad for i in arrays):
            return once(*arguments)
        with torch._C._AutoDispatchBelowAutograd():
            return overload(*arguments)

    return run


for _noun in nouns():
    _register(find(_noun))
