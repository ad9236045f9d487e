"""vmap for ops with any leading shape: the batch becomes a leading dimension; other cases are looped over."""

from __future__ import annotations

from typing import Any

import torch

from metalcore.ops.base.op import Op, Stage


def register_vmap(library: Any, op: Op) -> None:
    for name, stage in op.stages.items():
        if name == op.noun:
            _register(library, name, stage, op.batched)
        else:
            _register(library, name, stage, ())


def _register(library: Any, name: str, stage: Stage, leading: tuple[str, ...]) -> None:
    overload = getattr(torch.ops.metalcore, name).default
    names = stage.schema.names

    def rule(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        at = {n: d for n, d in zip(names, in_dims, strict=False) if d is not None}
        if set(at) <= set(leading) and set(at) == set(leading):
            moved = [a.movedim(at[n], 0) if n in at else a for n, a in zip(names, arguments, strict=True)]
            outputs = overload(*moved)
            return outputs, (0 if isinstance(outputs, torch.Tensor) else tuple(0 for _ in outputs))
        rows = []
        for i in range(info.batch_size):
            one = [a.select(at[n], i) if n in at else a for n, a in zip(names, arguments, strict=True)]
            found = overload(*one)
            rows.append((found,) if isinstance(found, torch.Tensor) else found)
        stacked = tuple(torch.stack(column) for column in zip(*rows, strict=True))
        if len(stage.schema.outputs) == 1:
            return stacked[0], 0
        return stacked, tuple(0 for _ in stacked)

    torch.library.register_vmap(overload, rule, lib=library)
