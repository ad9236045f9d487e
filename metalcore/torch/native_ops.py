"""Ops that the native torch extension registered: it has their schemas and kernels for MPS, and asks for plans here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from metalcore.errors import MetalcoreError
from metalcore.ops.base.op import Stage
from metalcore.runtimes import watch
from metalcore.runtimes.mps_native import NativeRuntime
from metalcore.runtimes.mps_replay import noted
from metalcore.runtimes.mps_route import loaded

PLANS = "metalcore_plan"
"""The namespace whose ops the extension calls for a plan that it does not know."""


def is_registered(name: str, stage: Stage[...]) -> bool:
    """Whether the extension has this op; an error where it has another one of that name."""
    extension = loaded()
    schema = None if extension is None else extension.schema(name)
    if schema is not None and schema != stage.schema_text:
        raise MetalcoreError(
            f"the native torch extension has the op {name}{schema}, and this package {name}{stage.schema_text}: it was "
            "built from another version; run scripts/build-macos again, or set METALCORE_TORCH_EXTENSION=0"
        )
    return schema is not None


@cache
def native_runtime() -> NativeRuntime:
    extension = loaded()
    assert extension is not None  # it called for a plan
    return NativeRuntime(extension)


def planner(
    name: str, stage: Stage[...], runtime: Callable[[], NativeRuntime] = native_runtime
) -> Callable[..., tuple[Any, ...]]:
    """Carries out a plan for the extension, which notes it. While somebody watches, it is asked each time."""

    def plan(*arguments: Any) -> tuple[Any, ...]:
        if watch.recorders:
            return tuple(watch.watched(name, stage.plan, runtime(), arguments))
        return noted(stage.plan, runtime(), arguments)

    return plan


@cache
def plans() -> torch.library.Library:
    """Where the plans that the extension calls for are registered."""
    extension = loaded()
    assert extension is not None
    watch.listeners.append(extension.watch)
    return torch.library.Library(PLANS, "IMPL")
