"""mLSTM by chunks of rows: kernels/mlstm.metal and its neighbours."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.mlstm import with_states
from metalcore.ops.base.mlstm_arguments import check_chunk, check_sequence, check_states

NOUN = "mlstm_chunkwise"


def mlstm_chunkwise(
    q: Any, k: Any, v: Any, i: Any, f: Any, c_initial: Any = None, n_initial: Any = None, m_initial: Any = None,
    return_last_states: bool = False, eps: float = 1e-6, chunk_size: int = 64, autocast_kernel_dtype: Any = None,
) -> Any:  # fmt: skip
    """The matrix memory of xLSTM over a sequence, in time and memory that grow with its length.

    q, k (batch, heads, length, depth), v (..., width), gates i, f (batch, heads, length) before their activations. With
    log f = logsigmoid(f), m' = max(log f + m, i), F = exp(log f + m - m') and I = exp(i - m'):
    C' = F C + I k v^T, n' = F n + I k, h = q C' / s / (max(|q n'| / s, exp(-m')) + eps), s = sqrt(depth).

    The states before the first row are c_initial (batch, heads, depth, width), n_initial (batch, heads, depth) and
    m_initial (batch, heads); all three or none, which is 0. With `return_last_states` the result is h, (c, n, m), in
    float32, for the next call. `chunk_size` (a power of two up to 256) changes speed alone. `autocast_kernel_dtype` is
    there for callers of mlstm_kernels: kernels compute in float32 whatever it is.

    >>> import numpy as np, metalcore
    >>> one, zero = np.ones((1, 1, 2, 1), np.float32), np.zeros((1, 1, 2), np.float32)
    >>> metalcore.mlstm_chunkwise(one, one, 3 * one, zero, zero, eps=0)[0, 0, :, 0]
    array([3., 3.], dtype=float32)
    """
    eps = check_sequence(NOUN, q, k, v, i, f, eps)
    states = check_states(NOUN, q, v, c_initial, n_initial, m_initial)
    h, c, n, m = OP(q, k, v, i, f, *states, eps, check_chunk(NOUN, chunk_size), False)
    return (h, (c, n, m)) if return_last_states else h


OP = with_states(NOUN, "the matrix memory of xLSTM over a sequence, by chunks")
