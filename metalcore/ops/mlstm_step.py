"""One row of mLSTM, as in decoding: kernels/mlstm_steps.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_eps, check_shape, refuse
from metalcore.ops.base.mlstm import with_states
from metalcore.ops.base.mlstm_arguments import check_depth, check_dtypes, check_states
from metalcore.ops.base.mlstm_parts import BY_ROWS

NOUN = "mlstm_step"


def mlstm_step(q: Any, k: Any, v: Any, i: Any, f: Any, c: Any, n: Any, m: Any, eps: float = 1e-6) -> Any:
    """One row of mlstm_recurrent: h (batch, heads, width) and the new states (c, n, m).

    q, k (batch, heads, depth), v (batch, heads, width), i, f and m (batch, heads) or (batch, heads, 1),
    c (batch, heads, depth, width), n (batch, heads, depth).

    >>> import numpy as np, metalcore
    >>> one, zero = np.ones((1, 1, 1), np.float32), np.zeros((1, 1), np.float32)
    >>> states = np.zeros((1, 1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32), zero
    >>> h, (c, n, m) = metalcore.mlstm_step(one, one, 3 * one, zero, zero, *states, eps=0)
    >>> h, n
    (array([[[3.]]], dtype=float32), array([[[1.]]], dtype=float32))
    """
    eps = check_eps(NOUN, eps)
    check_dtypes(NOUN, q, k=k, v=v, i=i, f=f)
    if len(q.shape) != 3:
        refuse(NOUN, "q", "of shape (batch, heads, depth)", f"of shape {tuple(q.shape)}")
    check_shape(NOUN, "k", k, tuple(q.shape))
    leading = tuple(q.shape[:2])
    if len(v.shape) != 3 or tuple(v.shape[:2]) != leading:
        refuse(NOUN, "v", f"of shape ({leading[0]}, {leading[1]}, width)", f"of shape {tuple(v.shape)}")
    check_depth(NOUN, q, v)
    gates = []
    for name, array in (("i", i), ("f", f)):
        if tuple(array.shape) != (*leading, 1):
            check_shape(NOUN, name, array, leading)
            array = array[..., None]
        gates.append(array)
    for name, array in (("c", c), ("n", n), ("m", m)):
        if array is None:
            refuse(NOUN, name, "an array", "None")
    is_column = len(m.shape) == 3
    states = check_states(NOUN, q, v, c, n, m, "")
    rows = (x[:, :, None] for x in (q, k, v))
    h, c_new, n_new, m_new = OP(*rows, *gates, *states, eps, BY_ROWS, False)
    return h[:, :, 0], (c_new, n_new, m_new[..., None] if is_column else m_new)


OP = with_states(NOUN, "one row of the matrix memory of xLSTM, with its states")
