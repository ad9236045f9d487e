"""Cases of every op for the tests of its registration: tensors from the op's own samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import metalcore.torch.register  # noqa: F401  (defines torch.ops.metalcore)
from metalcore.health.draw import Values, flat
from metalcore.health.verify import draw_sample
from metalcore.ops import find, function
from metalcore.ops.base.op import Op

EMPTY = 0  # case 0 of an op has a length of 0


@dataclass
class Case:
    """One call of an op's public function."""

    op: Op
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    inputs: list[torch.Tensor]
    """Those that may have a gradient."""

    def run(self, call: Callable[..., Any] | None = None) -> tuple[torch.Tensor, ...]:
        """Outputs of the public function, or of what stands for it. An op that writes in place gets copies of what it
        writes, which are its outputs."""
        call = call or function(self.op.noun)
        if not self.op.written:
            return outputs(call(*self.arguments, **self.named))
        given = inspect.signature(function(self.op.noun)).bind(*self.arguments, **self.named)
        for name in self.op.written:
            given.arguments[name] = given.arguments[name].clone()
        assert call(*given.args, **given.kwargs) is None
        return tuple(given.arguments[name] for name in self.op.written)

    def schema_arguments(self) -> tuple[Any, ...]:
        """What the public function hands to torch.ops.metalcore.<noun>, tensors cut from any graph."""
        seen: list[tuple[Any, ...]] = []
        wanted = getattr(torch.ops.metalcore, self.op.noun).default

        class Note(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if func is wanted:
                    seen.append(args)
                return func(*args, **(kwargs or {}))

        with torch.no_grad(), Note():
            self.run()
        names = self.op.forward.schema.names
        reached = {*self.op.gradients, *dict(self.op.same_gradient)}
        # A dispatcher call leaves out trailing arguments at their default.
        return tuple(
            a.detach().requires_grad_(n in reached and a.is_floating_point()) if _is_tensor(a) else a
            for n, a in zip(names, seen[0], strict=False)
        )


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def outputs(found: Any) -> tuple[torch.Tensor, ...]:
    return tuple(flat(found))


@cache
def usual(noun: str) -> int:
    """The first case from the ninth on (a length of 33) where every array has elements."""
    for index in range(9, 60):
        sample = draw_sample(find(noun), index)
        values = sample.values
        if all(v.values.size for v in values) and sum(v.values.size for v in values) >= 16:
            return index
    raise AssertionError(f"all cases of {noun} are empty")


def case(op: Op, index: int = -1, dtype: str = "float32", grad: bool = False) -> Case:
    sample = draw_sample(op, usual(op.noun) if index < 0 else index)
    inputs: list[torch.Tensor] = []

    def made(value: Values) -> Any:
        tensor = value.torch(dtype)
        if value.is_float and value.grad:
            tensor = tensor.detach().requires_grad_(grad and bool(op.gradients))
            inputs.append(tensor)
        return tensor

    return Case(op, *sample.made(made), inputs)
