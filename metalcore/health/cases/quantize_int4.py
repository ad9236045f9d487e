"""Fuzzed cases of quantize_int4, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample


def reference(weight: Any, group_size: int = 128, symmetric: bool = False) -> Any:
    import torch

    wide = weight.double() if weight.dtype == torch.float64 else weight.float()
    outs, width = weight.shape
    groups = -(-width // group_size)
    padded = torch.nn.functional.pad(wide, (0, groups * group_size - width)).view(outs, groups, group_size)
    low, high = padded.amin(-1).clamp(max=0), padded.amax(-1).clamp(min=0)
    scales = (torch.maximum(high, -low) / 7 if symmetric else (high - low) / 15).to(weight.dtype)
    scales = torch.where(scales == 0, torch.ones_like(scales), scales)
    used = scales.to(wide.dtype)
    zeros = torch.full_like(used, 8) if symmetric else torch.round(-low / used).clamp(0, 15)
    codes = (torch.round(padded / used[..., None]) + zeros[..., None]).clamp(0, 15)
    codes = codes.reshape(outs, groups * group_size)[:, :width].to(torch.uint8)
    return codes[:, 0::2] | (codes[:, 1::2] << 4), scales, zeros.to(weight.dtype)


def samples(draw: Draw) -> Sample:
    width = 2 * draw.size(most=600)
    return Sample(
        (draw.floats((draw.choice((0, 1, 2, 7, 33)), width)), draw.choice((2, 16, 32, 64, 66, 128)), draw.chance(0.5))
    )
