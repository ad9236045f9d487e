"""clip_grad_norm_, a drop-in for that of torch.nn.utils: kernels/clip_grad_norm.metal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce

import numpy as np
import torch

from metalcore.errors import ArgumentError
from metalcore.runtimes.kernel import Kernel
from metalcore.torch.optim.layout import Work, is_dense
from metalcore.torch.optim.many import DTYPES, Column, chunks_of, launch_of, most_tensors

CHUNKS = Kernel("clip_grad_norm", "norm_of_chunks", ("kind",))
PARTS = Kernel("clip_grad_norm", "norm_of_parts", ("kind", "is_last"))
SCALE = Kernel("clip_grad_norm", "scale_by_norm")
_ADDED = 1e-6  # to the norm, as torch does


def clip_grad_norm_(
    parameters: torch.Tensor | Iterable[torch.Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> torch.Tensor:
    """Scale gradients in place so that their norm together is at most `max_norm`; returns the norm before.

    As torch.nn.utils.clip_grad_norm_. Sums have a fixed order, so the result is the same in every run. `foreach`
    chooses among torch's implementations and means nothing here.

    >>> import torch, metalcore
    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> metalcore.optim.clip_grad_norm_([weight], max_norm=1.0)
    tensor(5.)
    >>> [round(x, 5) for x in weight.grad.tolist()]
    [0.6, 0.8]
    """
    given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    grads = [p.grad for p in given if p.grad is not None]
    if not grads:
        return torch.tensor(0.0)
    with torch.no_grad():
        return _clip(grads, float(max_norm), float(norm_type), error_if_nonfinite)


def _clip(grads: Column, max_norm: float, norm_type: float, error_if_nonfinite: bool) -> torch.Tensor:
    copies: list[Work] = []
    batches: dict[tuple[torch.device, torch.dtype], Column] = {}
    for grad in grads:
        if grad.layout is not torch.strided or grad.dtype not in DTYPES:
            expected = "strided and float32, float16, bfloat16 or float64"
            raise ArgumentError(f"clip_grad_norm_: gradients must be {expected}, not {grad.layout} {grad.dtype}")
        if not grad.is_contiguous() and not is_dense(grad):
            copies.append(Work(grad, grad.contiguous()))
            grad = copies[-1].copy
        batches.setdefault((grad.device, grad.dtype), []).append(grad)
    parts = [
        column[at : at + most_tensors(device.type)]
        for (device, _), column in batches.items()
        for at in range(0, len(column), most_tensors(device.type))
    ]
    norms = [_norms(column, norm_type) for column in parts]
    total = _total(norms, grads[0].device, norm_type)
    result = total.to(reduce(torch.promote_types, (g.dtype for g in grads)))
    if error_if_nonfinite and not math.isfinite(result.item()):
        raise RuntimeError(
            f"clip_grad_norm_: the norm of order {norm_type} of the gradients is {result.item()}, so they cannot be "
            "clipped; error_if_nonfinite=False scales them all the same"
        )
    for column in parts:
        _scale(column, total, max_norm)
    for work in copies:
        work.write_back()
    torch.autograd.graph.increment_version(grads)
    return result


def _kind(norm_type: float) -> int:
    """The function constant of kernels/clip_grad_norm.metal."""
    return {1.0: 1, 2.0: 2, 0.0: 4, math.inf: 5, -math.inf: 6}.get(norm_type, 3)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype is torch.float64 else torch.float32


def _numbers(dtype: torch.dtype, *values: float) -> np.ndarray[tuple[int], np.dtype[np.floating]]:
    return np.array(values, np.float64 if dtype is torch.float64 else np.float32)


def _norms(column: Column, norm_type: float) -> torch.Tensor:
    """The norm of each tensor."""
    device, dtype = column[0].device, column[0].dtype
    wide, power = _wide(dtype), _numbers(dtype, norm_type)
    chunks = chunks_of(column, "clip_grad_norm")
    sums = torch.empty(chunks.groups, dtype=wide, device=device)
    first = launch_of(CHUNKS, dtype, (_kind(norm_type),), device.type)
    first([column], (sums, power, chunks.table(device)), chunks.groups, chunks.group)
    norms = torch.empty(len(column), dtype=wide, device=device)
    second = launch_of(PARTS, wide, (_kind(norm_type), False), device.type)
    second([], (sums, chunks.starts, norms, power), (len(column),), (32,))
    return norms


def _total(norms: list[torch.Tensor], device: torch.device, norm_type: float) -> torch.Tensor:
    """The norm of norms."""
    wide = reduce(torch.promote_types, (n.dtype for n in norms))
    together = torch.cat([n.to(device, wide) for n in norms])
    total = torch.empty((), dtype=wide, device=device)
    launch = launch_of(PARTS, wide, (_kind(norm_type), True), device.type)
    starts = np.array([0, len(together)], np.int64)
    launch([], (together, starts, total, _numbers(wide, norm_type)), (1,), (32,))
    return total


def _scale(column: Column, total: torch.Tensor, max_norm: float) -> None:
    device, dtype = column[0].device, column[0].dtype
    chunks = chunks_of(column)
    tables = (total.to(device, _wide(dtype)), _numbers(dtype, max_norm, _ADDED), chunks.table(device))
    launch_of(SCALE, dtype, (), device.type)([column], tables, chunks.groups, chunks.group)
