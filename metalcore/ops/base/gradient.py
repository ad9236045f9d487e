"""The backward stage of an op, with its arguments found by name, for frameworks other than torch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from metalcore.ops.base.op import Op


class Backward:
    """What an op's gradient needs: some inputs and outputs of the forward stage, and gradients of the outputs."""

    def __init__(self, op: Op) -> None:
        assert op.backward is not None
        self.op, self.plan = op, op.backward.plan
        self._inputs, self._outputs = op.forward.schema.names, op.forward.schema.outputs
        self._needed = op.backward.schema.names

    def values(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
        """Those of the forward stage that are needed, by name."""
        both = zip((*self._inputs, *self._outputs), (*inputs, *outputs), strict=True)
        return {name: value for name, value in both if name in self._needed}

    def arguments(self, values: dict[str, Any], grads: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        """In the order of the backward stage's schema."""
        known = values | {"wanted": list(wanted)}
        known |= {f"grad_{name}": grad for name, grad in zip(self._outputs, grads, strict=True)}
        return [known[name] for name in self._needed]

    def wanted(self, needs: Collection[str]) -> list[bool]:
        """Which gradients the backward stage is asked for, where these inputs need theirs."""
        op = self.op
        return [
            name in needs or any(i in needs for i, same in op.same_gradient if same == name) for name in op.gradients
        ]

    def named(self, found: Sequence[Any], wanted: Sequence[bool]) -> dict[str, Any]:
        """The gradients that were wanted, by the name of their input."""
        by_name = {
            name: grad for name, grad, is_wanted in zip(self.op.gradients, found, wanted, strict=True) if is_wanted
        }
        return by_name | {i: by_name[same] for i, same in self.op.same_gradient if same in by_name}

    def run(self, runtime: Any, values: dict[str, Any], grads: Sequence[Any], wanted: Sequence[bool]) -> dict[str, Any]:
        return self.named(self.plan(runtime, *self.arguments(values, grads, wanted)), wanted)
