"""The logarithm of softmax: kernels/log_softmax.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.softmax import declare, prepare


def log_softmax(
    input: Any,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: Any = None,
    *,
    mask: Any = None,
    causal: bool = False,
) -> Any:
    """The logarithm of softmax over one dimension, computed without taking the logarithm of a small number.

    As torch.nn.functional.log_softmax, and in the same kernel an additive `mask` that broadcasts to the input, and
    `causal`: over the last two dimensions query i sees key j up to i + (keys - queries). A row that these hide
    throughout gives -inf. The result has the dtype of the input, or `dtype`.

    >>> import numpy as np, metalcore
    >>> metalcore.log_softmax(np.zeros((1, 2), np.float32), -1)
    array([[-0.6931472, -0.6931472]], dtype=float32)
    """
    return OP(*prepare("log_softmax", input, dim, _stacklevel, dtype, mask, causal))


OP = declare("log_softmax", "x - log(sum(exp(x))) over a dimension, with an additive mask or causal")
