"""Fuzzed cases of cross_entropy, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample, Values


def reference(
    input: Any, target: Any, weight: Any = None, *, z_loss: float = 0.0, softcap: float | None = None, **named: Any
) -> Any:
    import torch

    if named.pop("float32_loss", False):
        input = input.to(torch.promote_types(input.dtype, torch.float32))
        weight = None if weight is None else weight.to(input.dtype)
        target = target.to(input.dtype) if target.is_floating_point() else target
    if softcap is not None:
        input = softcap * torch.tanh(input / softcap)
    target = target if target.is_floating_point() else target.long()
    found = torch.nn.functional.cross_entropy(input, target, weight, **named)
    if not z_loss:
        return found
    lse = torch.logsumexp(input, min(1, input.ndim - 1))
    extra = z_loss * lse * lse
    count: Any = extra.numel()
    if not target.is_floating_point():
        counts = target != named.get("ignore_index", -100)
        extra = torch.where(counts, extra, 0.0)
        count = counts.sum() if weight is None else torch.where(counts, weight[torch.where(counts, target, 0)], 0).sum()
    kind = named.get("reduction", "mean")
    if kind == "none":
        return found + extra
    return found + (extra.sum() / count if kind == "mean" else extra.sum())


def samples(draw: Draw) -> Sample:
    classes = draw.size(least=1)
    most = max(1, draw.most // classes)
    batch = draw.choice([n for n in (0, 1, 2, 5, 33) if n <= most])
    further: tuple[int, ...] = ()
    if draw.chance(0.3):
        further = (draw.choice([n for n in (1, 2, 7, 33) if n <= max(1, most // 33)]),) * draw.integer(1, 2)
    shape = (batch, classes, *further) if draw.chance(0.9) else (classes,)
    rows = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    x = draw.floats(shape, -8.0, 8.0)
    weight = draw.floats((classes,), 0.1, 2.0, grad=False) if draw.chance(0.3) else None
    named: dict[str, Any] = {"reduction": draw.choice(("mean", "mean", "sum", "none"))}
    if draw.chance(0.25):
        target = draw.floats(shape, 0.0, 1.0, grad=draw.chance(0.5))
    else:
        target = draw.integers(rows, 0, classes - 1, draw.choice(("int64", "int64", "int32")))
        if draw.chance(0.5) and rows and batch > 1:  # some rows are ignored, never all of them
            named["ignore_index"] = draw.choice((-100, 0))
            values = target.values.copy()
            values[1::2] = named["ignore_index"]
            values[0] = classes - 1
            target = Values(values, "contiguous", is_float=False, grad=False)
    if draw.chance(0.3):
        named["label_smoothing"] = draw.choice((0.1, 0.5))
    if draw.chance(0.2):
        named["z_loss"] = 1e-2
    if draw.chance(0.15):
        named["softcap"] = 5.0
    if draw.chance(0.15):
        named["float32_loss"] = True
    return Sample((x, target, weight), named)
