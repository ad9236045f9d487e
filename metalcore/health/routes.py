"""Ways to run a fuzzed case beside torch and NumPy: the text that a GPU's framework gets, run by the engine's drop-ins,
and mlx arrays. `metalcore.health.verify` lists them, health runs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from metalcore.arrays.mlx import mlx_module
from metalcore.arrays.torch import torch_module
from metalcore.health.draw import Sample, Values, flat
from metalcore.health.verify import Results, draw_sample, with_torch
from metalcore.ops import find, function
from metalcore.ops.base.gradient import Backward
from metalcore.ops.base.op import Op
from metalcore.runtimes.kernel import Arguments, Items, Kernel, Launch, Out, Size, any_set


def mps_text(op: Op, sample: Sample, dtype: str, index: int) -> Results:
    """The text for torch.mps.compile_shader, on CPU tensors through metalcore.compile_shader."""
    return on_runtime(text_mps(), op, sample, dtype, index)


def mlx(op: Op, sample: Sample, dtype: str, index: int) -> Results:
    """mlx arrays, as metalcore.mlx runs them here."""
    return _with_mlx(op, sample, dtype, index)


def mlx_text(op: Op, sample: Sample, dtype: str, index: int) -> Results:
    """The text for mx.fast.metal_kernel, on mlx arrays through metalcore.metal_kernel."""
    from metalcore.mlx.call import using

    with using(text_mlx()):
        return _with_mlx(op, sample, dtype, index)


@cache
def text_mps() -> Any:
    from metalcore.dropins.compile_shader import compile_shader
    from metalcore.runtimes.mps import MpsRuntime

    return MpsRuntime(compile_shader, "cpu")


@cache
def text_mlx() -> Any:
    from metalcore.dropins.metal_kernel import metal_kernel
    from metalcore.runtimes.mlx import MlxRuntime

    return MlxRuntime(metal_kernel, is_eager=True)


def on_runtime(run: Any, op: Op, sample: Sample, dtype: str, index: int) -> Results:
    """A case on CPU tensors, with every launch of the op and of its gradient carried out by this runtime."""
    with torch_ops_on(run):
        return with_torch(function(op.noun), sample, dtype, False, op, index)


def launches_of(op: Op, dtype: str, index: int) -> list[Launch]:
    """What a case launches with the policy of a GPU; no kernel runs."""
    run = Recorder()
    on_runtime(run, op, draw_sample(op, index), dtype, index)
    return run.launches


class Recorder:
    """Notes launches; outputs are zeros, so that a plan which asks for errors finds none."""

    family = "apple"
    writes_in_place, keeps_arguments = True, False
    host_copies = None

    def __init__(self) -> None:
        from metalcore.arrays.torch import TorchArrays

        arrays = TorchArrays()
        self.dtype, self.contiguous, self._empty = arrays.dtype, arrays.contiguous, arrays.empty
        self.sort, self.cast = arrays.sort, arrays.cast
        self.launches: list[Launch] = []

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._empty(shape, dtype).zero_()

    def check_errors(self, errors: Any, explain: Any) -> None:
        """No kernel ran."""

    check_info = check_errors
    any_set = staticmethod(any_set)

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        values = kernel.ordered(arguments)
        self.launches.append(Launch(kernel.variant(types, constants), values, groups, group_size))
        return [self.empty(value.shape, value.dtype) for value in values if type(value) is Out]

    def stream(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()


@contextmanager
def torch_ops_on(run: Any) -> Iterator[None]:
    """Calls of torch.ops.metalcore.<noun> are carried out by this runtime, gradients too."""
    import torch

    from metalcore.torch.register import OPS

    by_overload = {overload: find(noun) for noun, overload in OPS.items()}

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            op = by_overload.get(func)
            if op is None:
                return func(*args, **(kwargs or {}))
            outputs = _apply(op, run, args)
            return outputs[0] if len(op.forward.schema.outputs) == 1 else outputs

    with Mode():
        yield


def _apply(op: Op, run: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Forward and backward of an op as torch would call them, with no op of torch.library between."""
    import torch

    if op.backward is None:
        return op.forward.plan(run, *arguments)
    plan, names = Backward(op), op.forward.schema.names

    class Gradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            outputs = tuple(op.forward.plan(run, *given))
            ctx.values = plan.values(given, outputs)
            ctx.mark_non_differentiable(*outputs[op.public_outputs :])
            return outputs

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            needs = {n for n, is_needed in zip(names, ctx.needs_input_grad, strict=True) if is_needed}
            found = plan.run(run, ctx.values, grads, plan.wanted(needs))
            return tuple(found.get(n) if n in needs else None for n in names)

    outputs: tuple[Any, ...] = Gradient.apply(*arguments)  # type: ignore[no-untyped-call]
    return outputs


def _with_mlx(op: Op, sample: Sample, dtype: str, index: int) -> Results:
    """Outputs, and gradients for the cotangents that verify's torch runs have."""
    mx = mlx_module()
    inputs: list[Any] = []

    def made(value: Values) -> Any:
        array = value.mlx(dtype)
        if not (op.gradients and value.is_float and value.grad):
            return array
        inputs.append(array)
        return _Input(len(inputs) - 1)

    arguments, named = sample.made(made)

    def run(*given: Any) -> list[Any]:
        def filled(value: Any) -> Any:
            if isinstance(value, tuple) and any(isinstance(v, _Input) for v in value):
                return tuple(map(filled, value))
            return given[value.place] if isinstance(value, _Input) else value

        found = function(op.noun)(*map(filled, arguments), **{k: filled(v) for k, v in named.items()})
        return flat(found)

    if not inputs:
        return Results([_double(o) for o in run()], [])
    cotangents = _cotangents(run(*inputs), dtype, index)
    outputs, gradients = mx.vjp(run, inputs, cotangents)
    return Results([_double(o) for o in outputs], [_double(g) for g in gradients])


@dataclass(frozen=True)
class _Input:
    """Stands for an input that has a gradient."""

    place: int


def _cotangents(outputs: list[Any], dtype: str, index: int) -> list[Any]:
    torch, mx = torch_module(), mlx_module()
    random = torch.Generator().manual_seed(index)
    made = []
    for output in outputs:
        if mx.issubdtype(output.dtype, mx.floating):
            values = torch.randn(tuple(output.shape), generator=random).numpy()
            made.append(mx.array(values).astype(getattr(mx, dtype)).astype(output.dtype))
        else:
            made.append(mx.zeros_like(output))
    return made


def _double(array: Any) -> Any:
    mx = mlx_module()
    kind = mx.float32 if mx.issubdtype(array.dtype, mx.floating) else array.dtype
    return np.asarray(array.astype(kind), np.float64)
