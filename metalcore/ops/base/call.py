"""Which framework an op runs on: that of its arrays."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from metalcore.errors import ArgumentError

if TYPE_CHECKING:
    from metalcore.ops.base.op import Op


def call(op: Op, arguments: tuple[Any, ...]) -> Any:
    """The public outputs of an op, on the framework of its first array."""
    first = next((a for a in arguments if hasattr(a, "shape")), None)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(first, torch.Tensor):
        from metalcore.torch.register import OPS

        return _public(op, OPS[op.noun](*arguments))
    if isinstance(first, np.ndarray):
        from metalcore.runtimes.cpu import numpy_cpu

        return _public(op, op.forward.plan(numpy_cpu(), *arguments))
    core = sys.modules.get("mlx.core")
    if core is not None and isinstance(first, core.array):
        from metalcore.mlx.call import mlx_call

        return _public(op, mlx_call(op, arguments))
    kind = type(first or arguments[0]).__name__
    raise ArgumentError(f"{op.noun}: it takes torch tensors, NumPy arrays or mlx arrays, not {kind}")


def _public(op: Op, outputs: Any) -> Any:
    return outputs[0] if op.public_outputs == 1 else tuple(outputs[: op.public_outputs])
