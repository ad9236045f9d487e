"""The gradient of a torch op: a torch.autograd.Function made from its declaration, as lean as can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch.autograd import forward_ad

from metalcore.arrays.torch_private import (
    SingleLevelFunction,
    below_autograd,
    dispatch_modes,
    forward_gradients,
    has_transforms,
    is_batched_gradient,
    is_forward_mode,
    single_level,
)
from metalcore.ops.base.op import Op, Stage
from metalcore.runtimes.cpu import torch_cpu
from metalcore.runtimes.replay import Remembered

grad_enabled = torch.is_grad_enabled
plain_types = (torch.Tensor, torch.nn.Parameter)


@cache
def remembered(stage: Stage[...], name: str) -> Remembered:
    return Remembered(stage.plan, torch_cpu(), name)


def single(stage: Stage[...], plan: Callable[..., Any]) -> Callable[..., Any]:
    """A plan returns a tuple, torch wants a single output as it is, and None for none."""
    if not stage.schema.outputs:

        def run(*arguments: Any) -> None:
            plan(*arguments)

        return run
    return (lambda *arguments: plan(*arguments)[0]) if len(stage.schema.outputs) == 1 else plan


def make_function(op: Op, overload: Any, backward_overload: Any) -> Any:
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
    at_once = single(op.forward, remembered(op.forward, op.noun))
    back = None if op.backward is None else remembered(op.backward, f"{op.noun}_backward")

    constant = [*(outputs.index(n) for n in op.no_gradient), *range(op.public_outputs, len(outputs))]
    choices: dict[tuple[bool, ...], tuple[list[bool], list[int | None]]] = {}  # by what needs a gradient

    def choice(needs: tuple[bool, ...]) -> tuple[list[bool], list[int | None]]:
        """Which gradients `backward` is asked for, and which of them each input gets."""
        wanted = [any([needs[i] for i in where]) for where in wants]
        return choices.setdefault(needs, (wanted, [at if n else None for n, at in zip(needs, gives, strict=True)]))

    class Gradient(SingleLevelFunction):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            output = at_once(*arguments) if _are_plain(arguments) else _below(overload, arguments)
            results = (output,) if len(outputs) == 1 else output
            both = (*arguments, *results)
            ctx.save_for_backward(*[both[i] for i in saved])
            ctx.plain = [both[i] for i in kept]
            if len(public) > 1:
                ctx.made = [(results[i].shape, results[i].dtype, results[i].device) for i in public]
            if constant:
                ctx.mark_non_differentiable(*[results[i] for i in constant])
                ctx.set_materialize_grads(False)  # torch would make zeros for the hidden outputs too
            return output

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            needs = ctx.needs_input_grad
            wanted, places = choices.get(needs) or choice(needs)
            if len(public) > 1:
                grads = tuple([_zeros(ctx.made[i]) if i in public and g is None else g for i, g in enumerate(grads)])
            elif grads[0] is None:
                return (None,) * len(needs)
            known = (*grads, *ctx.saved_tensors, *ctx.plain, wanted)
            arguments = [known[i] for i in order]
            if back is not None and not grad_enabled() and _are_plain(arguments) and not _are_batched(grads):
                found = back(*arguments)
            else:
                found = backward_overload(*arguments)
                found = (found,) if len(op.gradients) == 1 else found
            return tuple([None if at is None else found[at] for at in places])

    Gradient.__name__ = f"{op.noun}_gradient"
    if op.backward is None:

        def refuse(*_: Any) -> Any:
            raise RuntimeError(
                f"metalcore.{op.noun} has no gradient: call it under torch.no_grad(), or detach its input"
            )

        return refuse
    return _applied(Gradient)


def _are_plain(arguments: Sequence[Any]) -> bool:
    """Whether a plan may run at once: CPU tensors of no transform, and nobody who listens to the dispatcher."""
    if dispatch_modes() or has_transforms() or is_forward_mode():
        return False
    for value in arguments:
        if isinstance(value, torch.Tensor) and (type(value) not in plain_types or not value.is_cpu or value.is_neg()):
            return False
    return True


def _are_batched(grads: tuple[Any, ...]) -> bool:
    """Whether torch.autograd.grad(is_grads_batched=True) asks for several at once."""
    return any([g is not None and is_batched_gradient(g) for g in grads])


def refuse_tangents(op: Op, arguments: tuple[Any, ...]) -> None:
    for value in arguments:
        if isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None:
            raise RuntimeError(f"metalcore.{op.noun} has no forward-mode gradient")


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
    if not has_transforms():
        with below_autograd():
            return overload(*arguments)
    with torch.enable_grad(), forward_gradients(True), below_autograd():
        return overload(*arguments)


def _applied(function: Any) -> Callable[..., Any]:
    """How a Function of a single level is called: under torch.func the dispatcher is here once for each level."""
    apply = function.apply

    def run(*arguments: Any) -> Any:
        if not has_transforms():
            return apply(*arguments)
        with single_level():
            return apply(*arguments)

    return run


def no_second_gradient(op: Op, overload: Any) -> Callable[..., Any]:
    """The backward op itself: a gradient of the gradient is refused, not cut silently."""
    arrays = [i for i, a in enumerate(op.backward.schema.arguments) if a.is_array] if op.backward else []

    class Once(SingleLevelFunction):
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
        if is_forward_mode():
            refuse_tangents(op, arguments)
        if grad_enabled() and any(arguments[i] is not None and arguments[i].requires_grad for i in arrays):
            return once(*arguments)
        with below_autograd():
            return overload(*arguments)

    return run
