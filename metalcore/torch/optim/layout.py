"""Tensors that a kernel walks through as flat memory: as they are where they lie alike, copies where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch


class Work(NamedTuple):
    """A contiguous copy that a kernel works on in place of a tensor."""

    tensor: torch.Tensor
    copy: torch.Tensor

    def write_back(self) -> None:
        self.tensor.copy_(self.copy)


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill their memory without gaps, in any order of the dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def is_repeated(tensor: torch.Tensor) -> bool:
    """Whether several elements are one place in memory."""
    return any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))


def place(tensors: Sequence[Any], work: list[Work]) -> Sequence[Any]:
    """What the kernel gets for one parameter: parameter, gradient, state. Copies are added to `work`.

    A gradient that is one element seen many times (`expand`) is only read: it is a copy that nothing comes back from.
    """
    param = tensors[0]
    for tensor in tensors:
        if tensor is not None and not tensor.is_contiguous():
            break
    else:
        return tensors
    strides = param.stride()
    if is_dense(param) and all(t is None or t.stride() == strides for t in tensors):
        return tensors
    placed = []
    for tensor in tensors:
        if tensor is not None and not tensor.is_contiguous():
            copy = tensor.contiguous()
            if tensor is not tensors[1] or not is_repeated(tensor):
                work.append(Work(tensor, copy))
            tensor = copy
        placed.append(tensor)
    return placed
