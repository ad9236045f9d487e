"""An op on mlx arrays: mx.custom_function with a vjp, made from the declaration.

On the engine an op runs when it is called, not when the graph is evaluated, so the arrays must have values: inside
mx.compile and mx.vmap they have none, which is an error that says so. mx.grad and mx.value_and_grad give values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.errors import ArgumentError, TransformError
from metalcore.ops.base.gradient import Backward
from metalcore.ops.base.op import Op
from metalcore.runtimes.mlx import mlx_runtime
from metalcore.runtimes.watch import recorders, watched

_runtime: ContextVar[Any] = ContextVar("metalcore.mlx runtime", default=None)


@contextmanager
def using(runtime: Any) -> Iterator[None]:
    """Ops inside run on this runtime; for tests."""
    token = _runtime.set(runtime)
    try:
        yield
    finally:
        _runtime.reset(token)


def mlx_call(op: Op, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Every output of an op, hidden ones too."""
    array_type = mlx_module().array
    arrays: list[Any] = []
    static: list[Any] = []
    for declared, value in zip(op.forward.schema.arguments, arguments, strict=True):
        if not declared.is_array or value is None:
            static.append(tuple(value) if isinstance(value, list) else value)
        elif isinstance(value, array_type):
            arrays.append(value)
            static.append(_ARRAY)
        else:
            raise ArgumentError(f"{op.public_name}: {declared.name} must be an mlx array, not {type(value).__name__}")
    key = (id(op), *static, *(a.dtype for a in arrays))
    step = _steps.get(key)
    if step is None:
        if len(_steps) >= _KEPT:
            _steps.clear()
        step = _steps.setdefault(key, Step(op, static, [a.dtype for a in arrays]))
    for i, guard in step.guards:
        arrays[i] = guard(arrays[i])
    return tuple(step.call(*arrays))


_ARRAY: Any = type("Array", (), {"__repr__": lambda _: "<array>"})()
"""Stands for an array among the arguments that a step keeps."""
_steps: dict[tuple[Any, ...], Step] = {}
_KEPT = 1024


class Step:
    """An op with its numbers, for arrays of these dtypes: made once, since mx.custom_function takes arrays alone."""

    def __init__(self, op: Op, static: Sequence[Any], dtypes: Sequence[Any]) -> None:
        mx = mlx_module()
        self.op, self._static = op, static
        self.call = mx.custom_function(self._forward)
        self.call.vjp(self._vjp)
        self.call.jvp(self._jvp)
        self.call.vmap(self._vmap)
        names = [a.name for a, value in zip(op.forward.schema.arguments, static, strict=True) if value is _ARRAY]
        floats = {name for name, dtype in zip(names, dtypes, strict=True) if mx.issubdtype(dtype, mx.floating)}
        self._names = names
        self._backward = None if op.backward is None else Backward(op)
        self._wanted = [] if self._backward is None else self._backward.wanted(floats)
        reached = {*op.gradients, *dict(op.same_gradient)}
        cut = [(i, n) for i, n in enumerate(names) if n in floats and n not in reached and op.backward is not None]
        self.guards = [(i, _guard(op, name)) for i, name in cut]

    def _arguments(self, arrays: Sequence[Any]) -> list[Any]:
        given = iter(arrays)
        return [next(given) if value is _ARRAY else value for value in self._static]

    def _forward(self, *arrays: Any) -> list[Any]:
        run = _ready(self.op, arrays)
        arguments = self._arguments(arrays)
        plan = self.op.forward.plan
        return list(watched(self.op.noun, plan, run, tuple(arguments)) if recorders else plan(run, *arguments))

    def _vjp(self, primals: Any, cotangents: Any, outputs: Any) -> list[Any]:
        inputs, grads, results = _listed(primals), _listed(cotangents), _listed(outputs)
        found = self._gradients(inputs, grads, results)
        # MLX asks for the gradient of every input; that of an index is zero, of others without one a guard refuses.
        zeros = mlx_module().zeros_like
        return [_fitted(found[n], x) if n in found else zeros(x) for n, x in zip(self._names, inputs, strict=True)]

    def _gradients(self, inputs: list[Any], grads: list[Any], results: list[Any]) -> dict[str, Any]:
        if self._backward is None:
            raise TransformError(f"metalcore.{self.op.noun} has no gradient: use mx.stop_gradient on its inputs")
        if not any(self._wanted):
            return {}
        backward = self._backward
        values = backward.values(self._arguments(inputs), results)
        arguments = backward.arguments(values, grads, self._wanted)
        places = [i for i, value in enumerate(arguments) if isinstance(value, mlx_module().array)]

        def run_plan(*arrays: Any) -> list[Any]:
            for i, array in zip(places, arrays, strict=True):
                arguments[i] = array
            run = _ready(self.op, arrays)
            name, plan = f"{self.op.noun}_backward", backward.plan
            return list(watched(name, plan, run, tuple(arguments)) if recorders else plan(run, *arguments))

        once = mlx_module().custom_function(run_plan)
        once.vjp(self._second)  # without it a gradient of the gradient would be zero, and nobody would know
        once.jvp(self._second)
        return backward.named(_listed(once(*(arguments[i] for i in places))), self._wanted)

    def _second(self, *_: Any) -> Any:
        raise TransformError(f"metalcore.{self.op.noun} can be differentiated once: its gradient has no gradient")

    def _jvp(self, *_: Any) -> Any:
        raise TransformError(
            f"metalcore.{self.op.noun} has no forward-mode derivative (mx.jvp); mx.vjp and mx.grad work"
        )

    def _vmap(self, *_: Any) -> Any:
        raise TransformError(f"metalcore.{self.op.noun} {_NO_VMAP}")


_NO_VMAP = "cannot run inside mx.vmap: it takes any leading shape, so give it the whole batch"


def _ready(op: Op, arrays: Sequence[Any]) -> Any:
    """The runtime; where it runs at once, the arrays are evaluated together."""
    run = _runtime.get() or mlx_runtime()
    if run.is_eager:
        try:
            mlx_module().eval(*arrays)
        except ValueError as error:
            if "transformations" not in str(error):
                raise
            raise TransformError(
                f"metalcore.{op.noun} cannot run inside mx.compile or mx.vmap without Metal: arrays have no values "
                "there, and the engine needs them. Call it outside of the compiled function, or compile the parts "
                "between the ops"
            ) from error
    return run


def _guard(op: Op, name: str) -> Any:
    """An input that has no gradient: MLX asks for one only where the input depends on what is differentiated."""
    same = mlx_module().custom_function(lambda x: x)

    def refuse(*_: Any) -> Any:
        raise TransformError(f"metalcore.{op.noun}: {name} has no gradient: use mx.stop_gradient on it")

    same.vjp(refuse)
    same.jvp(refuse)
    return same


def _fitted(gradient: Any, x: Any) -> Any:
    """The gradient of an input that was broadcast or promoted gets its shape and dtype; torch does so by itself."""
    if gradient.shape == x.shape:
        return gradient if gradient.dtype == x.dtype else gradient.astype(x.dtype)
    extra = gradient.ndim - x.ndim
    axes = [i for i, n in enumerate(gradient.shape) if i < extra or (x.shape[i - extra] == 1 and n != 1)]
    return gradient.astype(mlx_module().float32).sum(axes).reshape(x.shape).astype(x.dtype)


def _listed(value: Any) -> list[Any]:
    """MLX gives one array as it is, several as a sequence."""
    return list(value) if isinstance(value, (list, tuple)) else [value]
