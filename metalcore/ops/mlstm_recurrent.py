"""mLSTM row by row: kernels/mlstm_steps.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.mlstm import with_states
from metalcore.ops.base.mlstm_arguments import check_sequence, check_states
from metalcore.ops.base.mlstm_parts import BY_ROWS

NOUN = "mlstm_recurrent"


def mlstm_recurrent(
    q: Any, k: Any, v: Any, i: Any, f: Any, c_initial: Any = None, n_initial: Any = None, m_initial: Any = None,
    return_last_states: bool = False, eps: float = 1e-6,
) -> Any:  # fmt: skip
    """What mlstm_chunkwise computes, row by row as the formula says it: for few rows, and to compare with.

    The gradient of many rows goes by chunks.

    >>> import numpy as np, metalcore
    >>> one, zero = np.ones((1, 1, 2, 1), np.float32), np.zeros((1, 1, 2), np.float32)
    >>> metalcore.mlstm_recurrent(one, one, 3 * one, zero, zero, eps=0)[0, 0, :, 0]
    array([3., 3.], dtype=float32)
    """
    eps = check_sequence(NOUN, q, k, v, i, f, eps)
    states = check_states(NOUN, q, v, c_initial, n_initial, m_initial)
    h, c, n, m = OP(q, k, v, i, f, *states, eps, BY_ROWS, False)
    return (h, (c, n, m)) if return_last_states else h


OP = with_states(NOUN, "the matrix memory of xLSTM over a sequence, row by row")
