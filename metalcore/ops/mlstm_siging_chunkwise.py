"""mLSTM with a sigmoid input gate, by chunks of rows: kernels/mlstm.metal and its neighbours."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.mlstm import with_states
from metalcore.ops.base.mlstm_arguments import check_chunk, check_sequence, check_states

NOUN = "mlstm_siging_chunkwise"


def mlstm_siging_chunkwise(
    q: Any, k: Any, v: Any, i: Any, f: Any, c_initial: Any = None, n_initial: Any = None, m_initial: Any = None,
    return_last_states: bool = False, eps: float = 1e-6, chunk_size: int = 64, autocast_kernel_dtype: Any = None,
) -> Any:  # fmt: skip
    """As mlstm_chunkwise, with F = sigmoid(f) and I = sigmoid(i): no stabiliser, m is 0.

    C' = F C + I k v^T, n' = F n + I k, h = q C' / s / (max(|q n'| / s, 1) + eps), s = sqrt(depth). m_initial is there
    so that states of both have the same form; it is not looked at, and the last m is 0.

    >>> import numpy as np, metalcore
    >>> one, zero = np.ones((1, 1, 2, 1), np.float32), np.zeros((1, 1, 2), np.float32)
    >>> metalcore.mlstm_siging_chunkwise(one, one, 4 * one, zero, zero, eps=0)[0, 0, :, 0]
    array([2., 3.], dtype=float32)
    """
    eps = check_sequence(NOUN, q, k, v, i, f, eps)
    states = check_states(NOUN, q, v, c_initial, n_initial, None, has_m=False)
    h, c, n, m = OP(q, k, v, i, f, *states, eps, check_chunk(NOUN, chunk_size), True)
    return (h, (c, n, m)) if return_last_states else h


OP = with_states(NOUN, "the matrix memory of xLSTM with a sigmoid input gate, by chunks")
