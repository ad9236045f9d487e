"""A gated unit, gelu(gate) times up: kernels/geglu.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.elementwise import check_approximate
from metalcore.ops.base.gated import check_gated, declare


def geglu(gate: Any, up: Any, approximate: str = "none") -> Any:
    """gelu(`gate`) times `up`; `approximate` is that of gelu.

    >>> import numpy as np, metalcore
    >>> metalcore.geglu(np.array([0.0, 100.0], np.float32), np.array([3.0, 2.0], np.float32))
    array([  0., 200.], dtype=float32)
    """
    check_gated("geglu", gate, up)
    return OP(gate, up, check_approximate("geglu", approximate))


OP = declare("geglu", "gelu(gate) * up", ("is_tanh",))
