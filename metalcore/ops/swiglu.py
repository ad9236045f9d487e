"""A gated unit, silu(gate) times up: kernels/swiglu.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.gated import check_gated, declare


def swiglu(gate: Any, up: Any) -> Any:
    """silu(`gate`) times `up`, without the product's first factor in memory.

    >>> import numpy as np, metalcore
    >>> metalcore.swiglu(np.array([0.0, 100.0], np.float32), np.array([3.0, 2.0], np.float32))
    array([  0., 200.], dtype=float32)
    """
    check_gated("swiglu", gate, up)
    return OP(gate, up)


OP = declare("swiglu", "silu(gate) * up")
