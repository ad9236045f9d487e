"""Ops as torch.library ops: for CPU and MPS, with fake kernels, autograd, autocast and vmap, all from the declaration.

An op is registered when it is first called: all of them take a quarter of a second, and a program needs a few.
`torch.library.custom_op` costs 39 microseconds a call. Here one Python function at the autograd key decides: where no
gradient is asked for it runs the plan at once, without a second dispatch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from metalcore.arrays.torch_private import (
    below_autograd,
    below_views,
    dispatch_modes,
    function_modes,
    has_transforms,
    is_forward_mode,
    is_profiled,
    keys_below_views,
    while_tracing,
)
from metalcore.forking import UnforkedLock
from metalcore.ops import find
from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op, Stage
from metalcore.runtimes.cpu import get_ready
from metalcore.runtimes.fake import FakeRuntime
from metalcore.runtimes.watch import recorders, watched
from metalcore.torch.gradient import (
    grad_enabled,
    make_function,
    no_second_gradient,
    plain_types,
    refuse_tangents,
    remembered,
    single,
)
from metalcore.torch.native_ops import is_registered, planner, plans

NAMESPACE = "metalcore"
_library = torch.library.Library(NAMESPACE, "DEF")
_is_cast = torch.is_autocast_enabled
_is_compiling = torch.compiler.is_compiling

_lock = UnforkedLock()


class _Eager(dict[str, Callable[..., Any]]):
    def __missing__(self, noun: str) -> Callable[..., Any]:
        get_ready()
        register(noun)
        return self[noun]


EAGER = _Eager()
"""What each op does at the autograd key: the same, five microseconds sooner, where `is_eager`."""


@while_tracing
def register(noun: str) -> None:
    """Define an op in torch, where it is not yet."""
    if noun not in EAGER:
        with _lock:
            if noun not in EAGER:
                _register(find(noun))


def overload(noun: str) -> Any:
    """torch.ops.metalcore.<noun>.default"""
    register(noun)
    return _overload(noun)


def is_eager(arguments: tuple[Any, ...]) -> bool:
    """Whether an op may be called without the dispatcher: nobody traces, casts or listens."""
    if _is_compiling() or dispatch_modes() or function_modes() or has_transforms() or _is_cast("cpu") or is_profiled():
        return False
    for value in arguments:  # noqa: SIM110 a generator takes longer
        if isinstance(value, torch.Tensor) and type(value) not in plain_types:
            return False
    return True


def _register(op: Op) -> None:
    noun = op.noun
    for name, stage in op.stages.items():
        _define(name, stage)
    overload = _overload(noun)
    eager = _autograd(op, overload)
    _library.impl(noun, eager, "Autograd")
    if op.backward is not None:
        _library.impl(f"{noun}_backward", no_second_gradient(op, _overload(f"{noun}_backward")), "Autograd")
    if op.autocast:
        from metalcore.torch.autocast import register_autocast

        register_autocast(_library, op, overload)
    if op.written:
        _library.impl(noun, _counted(op, overload), "ADInplaceOrView", with_keyset=True)
    from metalcore.torch.vmap import register_vmap

    register_vmap(_library, op)
    EAGER[noun] = eager


def _overload(name: str) -> Any:
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _define(name: str, stage: Stage[...]) -> None:
    if is_registered(name, stage):
        plans().impl(name, single(stage, planner(name, stage)), "MPS")
    else:
        _library.define(
            f"{name}{stage.schema_text}", tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
        )
        _library.impl(name, single(stage, _on_mps(name, stage)), "MPS")
    _library.impl(name, single(stage, remembered(stage, name)), "CPU")
    torch.library.register_fake(f"{NAMESPACE}::{name}", _fake(stage), lib=_library)


def _on_mps(name: str, stage: Stage[...]) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        if recorders:
            return watched(name, stage.plan, _mps(), arguments)
        return stage.plan(_mps(), *arguments)

    return run


def _fake(stage: Stage[...]) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        device = next(a.device for a in arguments if isinstance(a, torch.Tensor))
        return stage.plan(FakeRuntime(device), *arguments)

    return single(stage, run)


def _mps() -> Any:
    from metalcore.runtimes.mps import torch_mps

    return torch_mps()


def _counted(op: Op, overload: Any) -> Callable[..., Any]:
    """Below the autograd key, for an op that writes arguments in place: autograd must hear of each change."""

    def run(keys: Any, *arguments: Any) -> Any:
        count_changes(op, arguments)
        with below_views():
            return overload.redispatch(keys & keys_below_views, *arguments)

    return run


def count_changes(op: Op, arguments: tuple[Any, ...]) -> None:
    """The version of a tensor, by which autograd knows that a value it keeps was changed."""
    for declared, value in zip(op.forward.schema.arguments, arguments, strict=True):
        if declared.is_written and not value.is_inference():
            torch.autograd.graph.increment_version(value)


def _autograd(op: Op, overload: Any) -> Callable[..., Any]:
    """What runs at the autograd key."""
    arrays = [i for i, a in enumerate(op.forward.schema.arguments) if a.is_array]
    reached = {*op.gradients, *dict(op.same_gradient)}
    cut = [(i, a.name) for i, a in enumerate(op.forward.schema.arguments) if a.is_array and a.name not in reached]
    cut = cut if op.backward is not None else []  # without any gradient the function itself refuses
    plan = single(op.forward, remembered(op.forward, op.noun))
    back = _overload(f"{op.noun}_backward") if op.backward is not None else None
    differentiated = make_function(op, overload, back)

    def run(*arguments: Any) -> Any:
        plain = not dispatch_modes() and not has_transforms()
        if is_forward_mode():
            refuse_tangents(op, arguments)
        for i in arrays:
            value = arguments[i]
            if value is None:
                continue
            if value.requires_grad and grad_enabled():
                for j, name in cut:
                    if arguments[j] is not None and arguments[j].requires_grad:
                        refuse(op.noun, name, "without requires_grad: the op has no gradient of it", "one with it")
                return differentiated(*arguments)
            if type(value) not in plain_types or not value.is_cpu or value.is_neg():
                plain = False  # also a view whose sign is still to be changed: torch does that below
        if not plain:
            with below_autograd():
                return overload(*arguments)
        if op.written:
            count_changes(op, arguments)
        return plan(*arguments)

    return run
