"""vmap for ops with any leading shape: the batch becomes a leading dimension; other cases are looped over."""

from __future__ import annotations

from typing import Any

import torch

from metalcore.ops.base.op import Op, Stage
from metalcore.runtimes.fake import FakeRuntime


def register_vmap(library: Any, op: Op) -> None:
    for name, stage in op.stages.items():
        if name == op.noun:
            _register(library, name, stage, op.batched)
        else:
            _register(library, name, stage, ())


def _register(library: Any, name: str, stage: Stage[...], leading: tuple[str, ...]) -> None:
    overload = getattr(torch.ops.metalcore, name).default
    names = stage.schema.names

    def refuse(*_: Any) -> Any:
        raise RuntimeError(f"metalcore.{name} cannot run inside torch.func.vmap: it writes its arguments in place")

    if any(a.is_written for a in stage.schema.arguments):
        torch.library.register_vmap(overload, refuse, lib=library)
        return

    def rule(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        # A list of numbers has a list of None here.
        at = {n: d for n, d in zip(names, in_dims, strict=False) if isinstance(d, int)}
        if leading and set(at) == set(leading):
            moved = [a.movedim(at[n], 0) if n in at else a for n, a in zip(names, arguments, strict=True)]
            first = [_row(a, 0) if n in at else a for n, a in zip(names, moved, strict=True)]
            # What is kept for the gradient may have its leading dimensions in one: the shapes of a single call tell.
            shapes = [o.shape for o in stage.plan(FakeRuntime("meta"), *first)]
            outputs = overload(*moved)
            if isinstance(outputs, torch.Tensor):
                return outputs.reshape(info.batch_size, *shapes[0]), 0
            found = tuple(o.reshape(info.batch_size, *s) for o, s in zip(outputs, shapes, strict=True))
            return found, tuple(0 for _ in found)
        if info.batch_size == 0:
            one = [_row(a, at[n]) if n in at else a for n, a in zip(names, arguments, strict=True)]
            like = stage.plan(FakeRuntime("meta"), *one)
            empty = tuple(o.new_empty((0, *o.shape), device=arguments[0].device) for o in like)
            return (empty[0], 0) if len(empty) == 1 else (empty, tuple(0 for _ in empty))
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


def _row(batch: Any, dim: int) -> Any:
    """One element of a batch, or what has its shape where there is none."""
    return batch.select(dim, 0) if batch.shape[dim] else batch.new_empty((*batch.shape[:dim], *batch.shape[dim + 1 :]))
