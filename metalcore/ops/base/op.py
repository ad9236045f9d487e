"""The declaration of an op: one record, from which the torch op, the MLX op, the override, the benchmark and the table
in the docs are made. metalcore/health has its cases, by the same noun."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, ParamSpec

from metalcore.ops.base.call import call
from metalcore.ops.base.schema import Schema

FLOATS = ("float32", "float16", "bfloat16")

_P = ParamSpec("_P")


@dataclass(frozen=True)
class Stage(Generic[_P]):
    """One framework op: its schema as torch writes it, and the plan that launches kernels.

    plan(run, *arguments) -> tuple of arrays, in the order of the schema. `run` is a runtime (metalcore/runtimes).
    Plans of other ops call it like the plan itself.
    """

    schema_text: str
    plan: Callable[_P, tuple[Any, ...]]

    @cached_property
    def schema(self) -> Schema:
        return Schema.parse(self.schema_text)

    def __call__(self, *arguments: _P.args, **named: _P.kwargs) -> tuple[Any, ...]:
        return self.plan(*arguments, **named)


def stage(schema: str) -> Callable[[Callable[_P, tuple[Any, ...]]], Stage[_P]]:
    """Written above a plan: `@stage("(Tensor x) -> Tensor y")`."""
    return lambda plan: Stage(schema, plan)


@dataclass(frozen=True)
class Benchmark:
    """One size that benchmarks/ops.py measures. `make(torch, dtype)` gives the arguments of the public function."""

    label: str
    make: Callable[[Any, Any], tuple[tuple[Any, ...], dict[str, Any]]]
    elements: int
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    targets: dict[str, float] = field(default_factory=dict)  # dtype, or "*" -> least ratio to torch eager
    constants: tuple[int, ...] = ()  # positions of floating-point arguments that need no gradient


@dataclass(frozen=True)
class Op:
    """Everything that the package knows about one noun."""

    noun: str
    summary: str
    forward: Stage[...]
    backward: Stage[...] | None = None
    """Arguments are found by name: `grad_<output>`, an input or output of `forward`, or `wanted` (bool[]: which
    gradients are asked for, in the order of `gradients`). The gradient of `x` is the output `dx`; one that was not
    wanted, or whose input is None, is returned as an array of no elements."""
    same_gradient: tuple[tuple[str, str], ...] = ()
    """Pairs (input, one of `gradients`): inputs whose gradient is that of another one, as both terms of a sum have."""
    kept: int = 0
    """How many outputs of `forward`, the last ones, are kept for the gradient alone; the user sees the others."""
    no_gradient: tuple[str, ...] = ()
    """Floating-point outputs that do not change where the inputs do, as a permutation."""
    dtypes: tuple[str, ...] = FLOATS
    batched: tuple[str, ...] = ()
    """Inputs with any leading shape: vmap over these alone adds a leading dimension; other cases are looped over."""
    autocast: str = ""
    """Under autocast: "float32" computes in float32, "promote" in the widest type of the inputs, "lower" in the type of
    autocast, "" as they come."""
    exact: tuple[str, ...] = ()
    """Inputs that the op takes in float32 whatever the others are: autocast leaves them."""
    namesake: str = ""
    """The function of torch that the override replaces, for example torch.nn.functional.rms_norm."""
    accepts: Callable[..., str] | None = None
    """For the override: why these arguments are left to torch, or "" where the meaning is the same."""
    override_from: int | None = None
    """From how many elements on the override is faster by measurement, and on by default; None: it is off."""
    slower: Callable[..., str] | None = None
    """Where the override is on by default: why torch's own may be faster for these arguments, or "" where it is not."""
    benchmarks: Sequence[Benchmark] = ()
    notes: str = ""

    def __call__(self, *arguments: Any) -> Any:
        """Run `forward` on arrays of torch, NumPy or mlx: arguments in the order of the schema. Returns the public
        outputs: one array, or a tuple; None where arguments are written in place."""
        return call(self, arguments)

    @property
    def public_name(self) -> str:
        """As users write it: linalg.svd."""
        return self.noun.replace("linalg_", "linalg.", 1)

    @cached_property
    def public_outputs(self) -> int:
        """How many outputs of `forward` the user sees."""
        return len(self.forward.schema.outputs) - self.kept

    @cached_property
    def gradients(self) -> tuple[str, ...]:
        """The inputs of `forward` that `backward` returns gradients of, in the order of its schema."""
        return () if self.backward is None else tuple(name.removeprefix("d") for name in self.backward.schema.outputs)

    @cached_property
    def written(self) -> tuple[str, ...]:
        """The arguments that `forward` changes in place; it has no outputs then. Where arrays are immutable (mlx), its
        plan returns new ones in their place."""
        return tuple(a.name for a in self.forward.schema.arguments if a.is_written)

    @property
    def stages(self) -> dict[str, Stage[...]]:
        """Names of the torch ops and what they run."""
        both = {self.noun: self.forward}
        if self.backward is not None:
            both[f"{self.noun}_backward"] = self.backward
        return both
