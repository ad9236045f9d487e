"""Exponentials that add up to one: kernels/softmax.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.softmax import declare, prepare


def softmax(
    input: Any,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: Any = None,
    *,
    mask: Any = None,
    causal: bool = False,
) -> Any:
    """exp(input), scaled so that it adds up to one over a dimension.

    As torch.nn.functional.softmax, and in the same kernel an additive `mask` that broadcasts to the input, and
    `causal`: over the last two dimensions query i sees key j up to i + (keys - queries). A row that these hide
    throughout gives zeros. The result has the dtype of the input, or `dtype`.

    >>> import numpy as np, metalcore
    >>> metalcore.softmax(np.zeros((2, 2), np.float32), -1, causal=True)
    array([[1. , 0. ],
           [0.5, 0.5]], dtype=float32)
    """
    return OP(*prepare("softmax", input, dim, _stacklevel, dtype, mask, causal))


OP = declare("softmax", "exp(x) / sum(exp(x)) over a dimension, with an additive mask or causal")
