"""mLSTM as attention, in time that grows with the square of the length: kernels/mlstm_parallel.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base import mlstm
from metalcore.ops.base.mlstm_arguments import check_sequence
from metalcore.ops.base.mlstm_parts import USUAL_CHUNK
from metalcore.ops.base.op import Op

NOUN = "mlstm_parallel"


def mlstm_parallel(q: Any, k: Any, v: Any, i: Any, f: Any, *, eps: float = 1e-6) -> Any:
    """What mlstm_chunkwise computes without states, as attention: each row over all rows before it.

    No array of rows x rows is made. The gradient goes by chunks.

    >>> import numpy as np, metalcore
    >>> one, zero = np.ones((1, 1, 2, 1), np.float32), np.zeros((1, 1, 2), np.float32)
    >>> metalcore.mlstm_parallel(one, one, 3 * one, zero, zero, eps=0)[0, 0, :, 0]
    array([3., 3.], dtype=float32)
    """
    eps = check_sequence(NOUN, q, k, v, i, f, eps)
    return OP(q, k, v, i, f, eps, USUAL_CHUNK, False)


OP = Op(
    NOUN,
    "the matrix memory of xLSTM over a sequence, as attention",
    mlstm.forward_parallel,
    mlstm.backward_parallel,
    autocast="lower",
)
