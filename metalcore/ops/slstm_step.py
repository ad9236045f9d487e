"""One step of sLSTM, for decoding: kernels/slstm.metal."""

from __future__ import annotations

import dataclasses
from typing import Any

from metalcore.ops.base import slstm as shared
from metalcore.ops.base.attention_arguments import wants_gradient
from metalcore.ops.base.op import Op
from metalcore.ops.slstm import OP as SEQUENCE


def slstm_step(x: Any, R: Any, b: Any, states: Any) -> Any:
    """One step of `slstm`: `x` (batch, 4, heads, depth) and `states` give y (batch, heads, depth), (y, c, n, m).

    `states` may be None before the first step. Steps one after the other give what slstm gives for all of them.

    >>> import numpy as np, metalcore
    >>> x, R, b = (np.full(s, 2.0, np.float32) for s in ((1, 4, 1, 1), (4, 1, 1, 1), (4, 1, 1)))
    >>> y, states = metalcore.slstm_step(x, R, b, None)
    >>> y.round(4), [float(s[0, 0, 0]) for s in states[2:]]
    (array([[[0.9814]]], dtype=float32), [1.0, 4.0])
    """
    given = shared.check("slstm_step", x, R, b, states, "batch, 4, heads, depth")
    y, *last = OP(x, R, b, *given, wants_gradient((x, R, b, *given)))
    return y, tuple(last)


OP: Op = dataclasses.replace(
    SEQUENCE, noun="slstm_step", summary="one step of the sLSTM cell, for decoding", benchmarks=()
)
