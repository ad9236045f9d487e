"""Rows of benchmarks/xlstm.py: what is run, against whom, and what must be reached."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import metalcore

HEADS = 8
SIZES = ((512, 256, 512), (2048, 256, 512), (512, 64, 64), (2048, 64, 64))
Results = Callable[[], list[torch.Tensor]]


@dataclass(frozen=True)
class Setup:
    ours: Results
    peers: Mapping[str, Results]
    exact: Results
    """The same in float64, in plain torch."""


@dataclass(frozen=True)
class Row:
    what: str
    size: str
    kind: str
    targets: Mapping[str, float]
    make: Callable[[], Setup]

    @property
    def key(self) -> str:
        return f"{self.what} {self.size} {self.kind}"


def plain_parallel(q: Any, k: Any, v: Any, i: Any, f: Any, eps: float = 1e-6) -> Any:
    """The formula as attention: what one writes with torch."""
    b = torch.nn.functional.logsigmoid(f).cumsum(-1)
    weights = b[..., :, None] - b[..., None, :] + i[..., None, :]
    seen = torch.ones(weights.shape[-2:], dtype=torch.bool).tril()
    weights = weights.masked_fill(~seen, -math.inf)
    m = torch.maximum(weights.amax(-1), b)  # the first m is 0
    scores = (q @ k.mT) / math.sqrt(q.shape[-1]) * torch.exp(weights - m[..., None])
    below = torch.maximum(scores.sum(-1).abs(), torch.exp(-m)) + eps
    return scores @ v / below[..., None]


def sequence(length: int, depth: int, width: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    rows = (1, HEADS, length)
    shapes = ((*rows, depth), (*rows, depth), (*rows, width), rows, rows)
    q, k, v, i, f = (torch.randn(s, generator=random) for s in shapes)
    return [q, k, v, i, f + 3]


def _both(run: Callable[..., Any], inputs: list[torch.Tensor], grad: torch.Tensor) -> Results:
    given = [x.detach().clone().requires_grad_() for x in inputs]
    return lambda: list(torch.autograd.grad(run(*given), given, grad.to(given[0].dtype)))


def _mlstm(length: int, depth: int, width: int, is_backward: bool) -> Callable[[], Setup]:
    def make() -> Setup:
        from mlstm_kernels.torch.chunkwise.native import mlstm_chunkwise__native_autograd as theirs_gradient
        from mlstm_kernels.torch.chunkwise.native import mlstm_chunkwise__native_custbw as theirs
        from mlstm_kernels.torch.parallel.native import mlstm_parallel__native_autograd as parallel

        inputs = sequence(length, depth, width)
        exact = [x.double() for x in inputs]
        compiled = torch.compile(plain_parallel)
        if is_backward:
            grad = torch.randn(inputs[2].shape, generator=torch.Generator().manual_seed(1))
            sides = {"chunkwise": theirs_gradient, "parallel": parallel, "compiled": compiled}
            peers = {name: _both(run, inputs, grad) for name, run in sides.items()}
            return Setup(_both(metalcore.mlstm_chunkwise, inputs, grad), peers, _both(plain_parallel, exact, grad))
        sides = {"chunkwise": theirs, "parallel": parallel, "compiled": compiled}
        peers = {name: (lambda run=run: [run(*inputs)]) for name, run in sides.items()}
        return Setup(lambda: [metalcore.mlstm_chunkwise(*inputs)], peers, lambda: [plain_parallel(*exact)])

    return make


def _step(depth: int, width: int) -> Callable[[], Setup]:
    def make() -> Setup:
        from mlstm_kernels.torch.recurrent.native_step import mlstm_recurrent_step__native as theirs

        random = torch.Generator().manual_seed(0)
        lead = (1, HEADS)
        shapes = ((*lead, depth), (*lead, depth), (*lead, width), (*lead, 1), (*lead, 1))
        states = ((*lead, depth, width), (*lead, depth), (*lead, 1))
        given = [torch.randn(s, generator=random) for s in (*shapes, *states)]

        def flat(run: Callable[..., Any], arrays: list[torch.Tensor]) -> list[torch.Tensor]:
            h, (c, n, m) = run(*arrays)
            return [h, c, n, m]

        def exact() -> list[torch.Tensor]:
            from metalcore.health.cases.base.mlstm import step

            q, k, v, i, f, c, n, m = (x.double() for x in given)
            h, (c, n, m) = step(q, k, v, i[..., 0], f[..., 0], c, n, m[..., 0], 1e-6)
            return [h, c, n, m[..., None]]

        return Setup(lambda: flat(metalcore.mlstm_step, given), {"chunkwise": lambda: flat(theirs, given)}, exact)

    return make


def package(name: str) -> Any:
    """A module of the package xlstm: beside this program stands one of that name, the benchmark itself."""
    here, kept = str(Path(__file__).resolve().parents[1]), sys.path[:]
    sys.path[:] = [path for path in kept if path != here]
    sys.modules.pop("xlstm", None)
    try:
        return importlib.import_module(name)
    finally:
        sys.path[:] = kept


def _slstm(is_backward: bool) -> Callable[[], Setup]:
    def make() -> Setup:
        theirs = package("xlstm.blocks.slstm.src.vanilla")
        pointwise = theirs.slstm_pointwise_function_registry["slstm"]
        batch, length, heads, depth = 8, 256, 4, 64
        random = torch.Generator().manual_seed(0)
        shapes = ((batch, length, 4, heads, depth), (4, heads, depth, depth), (4, heads, depth))
        x, r, b = (torch.randn(s, generator=random) * scale for s, scale in zip(shapes, (1.0, 0.1, 0.5), strict=True))

        def vanilla(x: torch.Tensor, r: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            states = x.new_zeros((4, batch, heads * depth))
            inputs = x.transpose(0, 1).reshape(length, batch, 4 * heads * depth)
            weights = r.permute(1, 0, 3, 2).reshape(heads, 4 * depth, depth)
            found = theirs.slstm_forward(inputs, states, weights, b.reshape(-1), pointwise)
            return found[0][0, 1:].transpose(0, 1).reshape(batch, length, heads, depth)

        given = [x, r, b]
        exact = [t.double() for t in given]
        if is_backward:
            grad = torch.randn((batch, length, heads, depth), generator=random)
            peers = {"vanilla": _both(vanilla, given, grad)}
            return Setup(_both(metalcore.slstm, given, grad), peers, _both(vanilla, exact, grad))
        peers = {"vanilla": lambda: [vanilla(*given)]}
        return Setup(lambda: [metalcore.slstm(*given)], peers, lambda: [vanilla(*exact)])

    return make


def rows() -> list[Row]:
    found = []
    for kind in ("forward", "forward + backward"):
        for length, depth, width in SIZES:
            targets = {"chunkwise": 1.5}
            if kind == "forward":
                targets["parallel"] = 1.0 if length == 512 else 2.0
            size = f"1x{HEADS}x{length}, {depth}/{width}"
            found.append(Row("mLSTM", size, kind, targets, _mlstm(length, depth, width, kind != "forward")))
    for depth, width in ((256, 512), (64, 64)):
        found.append(
            Row("mLSTM step", f"1x{HEADS}, {depth}/{width}", "forward", {"chunkwise": 2.0}, _step(depth, width))
        )
    for kind in ("forward", "forward + backward"):
        found.append(Row("sLSTM", "8x256, 4 heads of 64", kind, {"vanilla": 3.0}, _slstm(kind != "forward")))
    return found
