"""How fast the optimizers step, against those of torch as they come and with fused=True, 2 threads.

    python benchmarks/optim.py                     30 million parameters
    python benchmarks/optim.py --millions 100      more; needs 5 GB
    python benchmarks/optim.py --only AdamW --json optim.json

Every optimizer is first compared with float64 and with torch over three steps. All contestants are then timed in turns
in one process, with the same gradients; a ratio above 1 says that metalcore is faster. The exit status says whether the
targets were met: AdamW at least 2 times torch's as it comes, and 0.9 times its fused one.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import torch
from engine import restart_with_quiet_malloc
from harness.timing import Contestant, interleaved
from rich.console import Console
from rich.table import Table

import metalcore
from metalcore import optim

THREADS = 2
WIDTH, LAYERS_EACH, VOCABULARY = 768, 7_087_872, 8000


@dataclass(frozen=True)
class Case:
    """An optimizer with its options, and what torch has to set against it."""

    name: str
    dtype: torch.dtype
    options: dict[str, Any]
    least: float = 0.0  # times torch as it comes
    least_fused: float = 0.0

    @property
    def label(self) -> str:
        extra = "".join(f", {k}={v}" for k, v in self.options.items())
        return f"{self.name} {str(self.dtype).removeprefix('torch.')}{extra}"

    def peer_options(self) -> dict[str, Any]:
        return {k: v for k, v in self.options.items() if k not in ("master_weights", "stochastic_rounding")}


CASES = (
    Case("AdamW", torch.float32, {}, 2.0, 0.9),
    Case("AdamW", torch.float32, {"amsgrad": True}, 2.0, 0.9),
    Case("AdamW", torch.bfloat16, {}, 2.0, 0.9),
    Case("AdamW", torch.bfloat16, {"master_weights": True}),
    Case("AdamW", torch.bfloat16, {"stochastic_rounding": True}),
    Case("Adam", torch.float32, {"weight_decay": 0.01}),
    Case("SGD", torch.float32, {"momentum": 0.9}),
    Case("Lion", torch.float32, {}),
    Case("clip_grad_norm_", torch.float32, {}),
    Case("clip_grad_norm_", torch.bfloat16, {}),
)


def shapes(millions: float) -> list[tuple[int, ...]]:
    """Tensors of a transformer of width 768 with about so many million parameters: 12 in each layer."""
    layer = [(2304, WIDTH), (2304,), (WIDTH, WIDTH), (WIDTH,), (3072, WIDTH), (3072,), (WIDTH, 3072)]
    layer += [(WIDTH,)] * 5
    layers = max(1, math.ceil((millions * 1e6 - VOCABULARY * WIDTH) / LAYERS_EACH))
    return [(VOCABULARY, WIDTH), *layer * layers]


def parameters(sizes: list[tuple[int, ...]], dtype: torch.dtype, grads: list[torch.Tensor]) -> list[torch.nn.Parameter]:
    random = torch.Generator().manual_seed(1)
    params = [torch.nn.Parameter(torch.randn(size, generator=random).to(dtype)) for size in sizes]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad.to(dtype)
    return params


def gradients(sizes: list[tuple[int, ...]], dtype: torch.dtype) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(2)
    return [torch.randn(size, generator=random).to(dtype) for size in sizes]


def stepper(case: Case, module: Any, params: list[torch.nn.Parameter], **more: Any) -> Callable[[], object]:
    """What is timed: one step, or one call that clips."""
    if case.name == "clip_grad_norm_":
        found = module.clip_grad_norm_ if module is optim else torch.nn.utils.clip_grad_norm_
        return lambda: found(params, 1e-3)
    options = case.options if module is optim else case.peer_options()
    step: Callable[[], object] = getattr(module, case.name)(params, **options, **more).step
    return step


class PlainLion(torch.optim.Optimizer):
    """Lion as a user of torch would write it, on lists of tensors: torch has none."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 1e-4, "betas": (0.9, 0.99)})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        params = self.param_groups[0]["params"]
        grads = [p.grad for p in params]
        moments = [self.state[p].setdefault("m", torch.zeros_like(p)) for p in params]
        mixed = torch._foreach_mul(moments, 0.9)
        torch._foreach_add_(mixed, grads, alpha=1 - 0.9)
        torch._foreach_sign_(mixed)
        torch._foreach_add_(params, mixed, alpha=-1e-4)
        torch._foreach_mul_(moments, 0.99)
        torch._foreach_add_(moments, grads, alpha=1 - 0.99)


def peer(case: Case, params: list[torch.nn.Parameter]) -> Callable[[], object]:
    return PlainLion(params).step if case.name == "Lion" else stepper(case, torch.optim, params)


def verify(case: Case) -> str:
    """Three steps against float64: at most twice torch's error. Says what is wrong, or nothing."""
    sizes = [(33, 65), (1,), (40009,)]
    results = []
    for kind, make in ((case.dtype, None), (case.dtype, peer), (torch.float64, peer)):
        params = parameters(sizes, kind, gradients(sizes, case.dtype))
        step = stepper(case, optim, params) if make is None else make(case, params)
        for _ in range(1 if case.name == "clip_grad_norm_" else 3):
            step()
        clipped = case.name == "clip_grad_norm_"
        results.append(torch.cat([(p.grad if clipped else p).detach().double().flatten() for p in params]))  # type: ignore[union-attr]
    ours, plain, truth = results
    error, allowed = ((x - truth).abs().max().item() for x in (ours, plain))
    factor = 6 if "stochastic_rounding" in case.options else 2  # each of three steps may be off by a whole unit
    return "" if error <= factor * max(allowed, 1e-7) else f"error {error:.3g}, torch's is {allowed:.3g}"


def measure(case: Case, sizes: list[tuple[int, ...]], budget: float) -> dict[str, float]:
    """Seconds of a step of each. Gradients are shared, so that they cost memory once."""
    grads = gradients(sizes, case.dtype)
    if case.name == "clip_grad_norm_":  # scaling in place again and again: each has gradients of its own
        makers = {"metalcore": stepper(case, optim, parameters(sizes, case.dtype, [g.clone() for g in grads]))}
    else:
        makers = {"metalcore": stepper(case, optim, parameters(sizes, case.dtype, grads))}
    makers["torch"] = peer(case, parameters(sizes, case.dtype, grads))
    if case.name not in ("Lion", "clip_grad_norm_"):
        makers["fused"] = stepper(case, torch.optim, parameters(sizes, case.dtype, grads), fused=True)
    return interleaved({name: Contestant(call) for name, call in makers.items()}, budget=budget)


@click.command(help=__doc__)
@click.option("--millions", type=float, default=30.0, show_default=True, help="Parameters, in millions.")
@click.option("--only", multiple=True, help="Rows whose name contains this text (may be repeated).")
@click.option("--budget", type=float, default=6.0, show_default=True, help="Seconds for each row.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Keep the timings.")
def main(millions: float, only: tuple[str, ...], budget: float, json_path: Path | None) -> None:
    torch.set_num_threads(THREADS)
    metalcore.set_num_threads(THREADS)
    sizes = shapes(millions)
    count = sum(torch.Size(size).numel() for size in sizes)
    table = Table(title=f"{count / 1e6:.1f} million parameters in {len(sizes)} tensors, {THREADS} threads")
    for header in ("optimizer", "ms", "torch ms", "fused ms", "times torch", "target", "times fused", "target", "met"):
        table.add_column(header, justify="left" if header == "optimizer" else "right", no_wrap=True)
    found, missed = [], 0
    for case in CASES:
        if only and not any(text in case.label for text in only):
            continue
        wrong = verify(case)
        if wrong:
            raise click.ClickException(f"{case.label}: the result is wrong, nothing was timed: {wrong}")
        times = measure(case, sizes, budget)
        ratio, fused = (times.get(name, 0.0) / times["metalcore"] for name in ("torch", "fused"))
        met = ratio >= case.least and fused >= case.least_fused
        missed += not met
        shown = [f"{1000 * times[n]:.1f}" if n in times else "" for n in ("metalcore", "torch", "fused")]
        goals = [f"{goal:.1f}" if goal else "" for goal in (case.least, case.least_fused)]
        ratios = [f"{ratio:.2f}", goals[0], f"{fused:.2f}" if fused else "", goals[1]]
        table.add_row(case.label, *shown, *ratios, "yes" if met else "no")
        found.append({"case": {**asdict(case), "dtype": str(case.dtype)}, "seconds": times, "met": met})
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    if json_path is not None:
        json_path.write_text(json.dumps({"parameters": count, "tensors": len(sizes), "rows": found}, indent=1))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    restart_with_quiet_malloc()
    main()
