"""What every op keeps to, beside the error rule: torch's own check of an op, one compiled graph, launches of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from metalcore.arrays.torch import TorchArrays
from metalcore.health import routes
from metalcore.health.draw import Draw, Sample, Values, flat
from metalcore.health.verify import error_of
from metalcore.ops import find
from metalcore.runtimes.cpu import CpuRuntime
from metalcore.torch.register import OPS


def opcheck(noun: str, *arguments: Any) -> bool:
    """torch.library.opcheck of the forward op, with gradients."""
    found = torch.library.opcheck(OPS[noun], arguments)
    return set(found.values()) == {"SUCCESS"}


def compiled_agrees(run: Callable[..., Any], *inputs: Any) -> bool:
    """One graph gives the results and gradients of the plain call."""

    def results(call: Callable[..., Any]) -> list[Any]:
        fresh = [x.detach().clone().requires_grad_() for x in inputs]
        found = call(*fresh)
        outputs = flat(found)
        gradients = torch.autograd.grad([o.square().sum() for o in outputs], fresh)
        return [*outputs, *gradients]

    graph = torch.compile(run, fullgraph=True, backend="aot_eager")
    return all(torch.equal(a, b) for a, b in zip(results(run), results(graph), strict=True))


def floats(*shapes: tuple[int, ...]) -> list[Values]:
    draw = Draw(20261116, 0)
    return [draw.floats(shape, layout="contiguous") for shape in shapes]


def gpu_launches_agree(noun: str, *arguments: Any) -> bool:
    """Vectors of 4 and many simdgroups give the results of one simdgroup, but for the order of sums."""
    op, sample = find(noun), Sample(arguments)
    results = []
    for family in ("cpu", "apple"):
        found = routes.on_runtime(CpuRuntime(TorchArrays(), family), op, sample, "float32", 0)
        results.append([*found.outputs, *(found.gradients or ())])
    pairs = zip(*results, strict=True)
    return all(error_of(a, b) < 1e-5 for a, b in pairs if a is not None)
