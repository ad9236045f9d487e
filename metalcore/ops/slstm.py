"""sLSTM over whole sequences, in one launch: kernels/slstm.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base import slstm as shared
from metalcore.ops.base.attention_arguments import wants_gradient
from metalcore.ops.base.op import Benchmark, Op


def slstm(x: Any, R: Any, b: Any, states: Any = None, return_last_states: bool = False) -> Any:
    """The recurrent cell of xLSTM with exponential gates, over sequences.

    `x` (batch, steps, 4, heads, depth) are the gates' inputs in the order i, f, z, o. To them come the output of the
    step before times `R` (4, heads, depth, depth), each head for itself, and `b` (4, heads, depth). The result is
    (batch, steps, heads, depth). `states` are (y, c, n, m) from an earlier call, each (batch, heads, depth), of x's
    dtype or float32; None: zeros. With `return_last_states` the result is y, (y, c, n, m), states in float32. m only
    keeps exponentials in range: y does not depend on how c and n are scaled by it. A depth is at most 512.

    >>> import numpy as np, metalcore
    >>> x = np.full((1, 3, 4, 1, 1), 2.0, np.float32)
    >>> metalcore.slstm(x, np.zeros((4, 1, 1, 1), np.float32), np.zeros((4, 1, 1), np.float32))[0, :, 0, 0].round(4)
    array([0.8491, 0.8491, 0.8491], dtype=float32)
    """
    given = shared.check("slstm", x, R, b, states, "batch, steps, 4, heads, depth")
    y, *last = OP(x, R, b, *given, wants_gradient((x, R, b, *given)))
    return (y, tuple(last)) if return_last_states else y


def _make(batch: int, steps: int, heads: int, depth: int) -> Any:
    def make(torch: Any, dtype: Any) -> Any:
        shapes = ((batch, steps, 4, heads, depth), (4, heads, depth, depth), (4, heads, depth))
        x, R, b = (torch.randn(s, dtype=dtype) for s in shapes)
        return (x, R / depth**0.5, b), {}

    return make


OP = Op(
    "slstm",
    "the sLSTM cell of xLSTM over sequences: exponential gates, a recurrent matrix a head, states to carry on",
    shared.forward,
    shared.backward,
    kept=1,
    autocast="promote",
    exact=("y_state", "c_state", "n_state", "m_state"),
    benchmarks=[  # torch's products of bfloat16 end the process on machines that name AMX and do not let it be used
        Benchmark(f"{b}x{s}x{h}x{d}", _make(b, s, h, d), b * s * h * d, ("float32",), targets={"*": 3.0})
        for b, s, h, d in ((8, 256, 4, 64), (1, 256, 4, 128))
    ],
)
