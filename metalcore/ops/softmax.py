"""Exponentials that add up to one: kernels/softmax.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base import softmax as base
from metalcore.ops.base.op import Op, Stage

KERNELS = base.Kernels("softmax")


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
    return OP(*base.prepare("softmax", input, dim, _stacklevel, dtype, mask, causal))


def reference(
    input: Any,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: Any = None,
    *,
    mask: Any = None,
    causal: bool = False,
) -> Any:
    import torch

    return torch.nn.functional.softmax(base.hide(input, mask, causal), dim, dtype=dtype)


def accepts(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> str:
    return base.accepts("softmax", input, dtype)


OP = Op(
    noun="softmax",
    summary="exp(x) / sum(exp(x)) over a dimension, with an additive mask or causal",
    forward=Stage(base.FORWARD, KERNELS.forward),
    backward=Stage(base.BACKWARD, KERNELS.backward),
    gradients=("x",),
    same_gradient=(("mask", "x"),),
    reference=reference,
    samples=base.samples,
    batched=("x",),
    namesake="torch.nn.functional.softmax",
    accepts=accepts,
    benchmarks=base.benchmarks(),
)
