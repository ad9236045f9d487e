"""Autocast: which dtype an op computes in inside torch.autocast."""

from __future__ import annotations

from typing import Any

import torch

from metalcore.arrays.torch_private import without_key
from metalcore.ops.base.op import Op


def register_autocast(library: Any, op: Op, overload: Any) -> None:
    """ "float32" widens every floating-point input, "promote" takes the widest of them, "lower" autocast's own."""
    for key, device in (("AutocastCPU", "cpu"), ("AutocastMPS", "mps")):
        library.impl(op.noun, _rule(op, overload, key, device), key)


def _rule(op: Op, overload: Any, key: str, device: str) -> Any:
    exact = {i for i, a in enumerate(op.forward.schema.arguments) if a.name in op.exact}
    below = without_key(key)

    def run(*arguments: Any) -> Any:
        floats = [a.dtype for a in arguments if isinstance(a, torch.Tensor) and a.is_floating_point()]
        target = torch.get_autocast_dtype(device) if op.autocast == "lower" else torch.float32
        if op.autocast == "promote" and floats:
            target = floats[0]
            for dtype in floats[1:]:
                target = torch.promote_types(target, dtype)
        cast = [
            a
            if i in exact or not isinstance(a, torch.Tensor) or not a.is_floating_point() or a.dtype == torch.float64
            else a.to(target)
            for i, a in enumerate(arguments)
        ]
        with below():
            return overload(*cast)

    return run
