"""An op on mlx arrays: mx.custom_function with a vjp and a vmap, made from the declaration.

With the primitive (primitive.py) an op is a step of mlx's graph. It runs at once where its arrays are there and small,
so that no other thread is woken, and where its kernels note errors: these are then raised where the op is called.
Without it an op runs on the engine when it is called, so the arrays must have values: inside mx.compile and mx.vmap
they have none, which is an error that says so. mx.grad and mx.value_and_grad give values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from metalcore import settings
from metalcore.arrays.mlx import mlx_module
from metalcore.engine.modes import is_plain_mode
from metalcore.errors import ArgumentError, TransformError
from metalcore.mlx import mapped
from metalcore.mlx.by_values import InGraph
from metalcore.mlx.export import composed, is_exporting
from metalcore.mlx.primitive import primitive
from metalcore.mlx.record import CannotRecord, Recorded, Recorder
from metalcore.ops.base.gradient import Backward
from metalcore.ops.base.op import Op
from metalcore.runtimes.mlx import engine, metal, mlx_runtime
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
    if is_exporting():
        return composed(op.noun, arguments)
    key = (id(op), *static, *[a.dtype for a in arrays])
    step = _steps.get(key)
    if step is None:
        if len(_steps) >= _KEPT:
            _steps.clear()
        step = _steps.setdefault(key, Step(op, static, [a.dtype for a in arrays]))
    return tuple(step(arrays))


_ARRAY: Any = type("Array", (), {"__repr__": lambda _: "<array>"})()
"""Stands for an array among the arguments that a step keeps."""
_steps: dict[tuple[Any, ...], Step] = {}
_KEPT = 1024


class Stage:
    """A plan with its numbers, on arrays: by the primitive where there is one, recorded for each of their shapes."""

    def __init__(self, op: Op, name: str, plan: Callable[..., Any], static: Sequence[Any]) -> None:
        self._op, self._name, self._plan = op, name, plan
        self._arguments = partial(_arranged, static)
        self._known: dict[Any, Recorded | None] = {}
        self._in_graph = InGraph(name, plan, self._arguments, bool(op.written))

    def recorded(self, arrays: Sequence[Any], recorder_type: type[Recorder] = Recorder) -> Recorded | None:
        """The plan for arrays of these shapes, if the primitive is to run it."""
        key = (recorder_type, *[a.shape for a in arrays])
        try:
            return self._known[key]
        except KeyError:
            pass
        library = primitive()
        found = None
        if library is not None:
            recorder = recorder_type(arrays)
            try:
                results = self._plan(recorder, *self._arguments(recorder.inputs))
                found = Recorded(library, self._name, recorder, results)
            except (CannotRecord, TypeError):  # TypeError: an operator that a Symbol has not
                found = None
        if len(self._known) >= _KEPT:
            self._known.clear()
        return self._known.setdefault(key, found)

    def quickly(self, arrays: Sequence[Any]) -> Any:
        """Results of arrays that take part in no transformation; else None."""
        if recorders or _runtime.get() is not None:
            return None
        run = mlx_runtime()
        recorder_type = _recorder_type(run)
        if recorder_type is None:
            return None
        recorded = self.recorded(arrays, recorder_type)
        if recorded is None or (recorded.has_checks and run.is_eager and not _are_there(arrays)):
            return None
        return recorded.automatic(arrays)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Results of any arrays."""
        run = _runtime.get() or mlx_runtime()
        recorder_type = _recorder_type(run)
        if recorder_type is not None:
            recorded = self.recorded(arrays, recorder_type)
            if recorded is not None and not recorders:
                if recorded.has_checks and run.is_eager and _are_there(arrays):
                    return list(recorded.at_once(arrays))
                return list(recorded.lazy(arrays))
            library = primitive()
            if library is not None and run.is_eager and not _are_there(arrays):
                return self._in_graph(library, arrays)
        if run.is_eager and not _are_there(arrays):
            raise TransformError(
                f"metalcore.{self._op.noun} cannot run inside mx.compile or mx.vmap without Metal or the primitive of "
                "metalcore.mlx.explain(): arrays have no values there, and the engine needs them. Call it outside of "
                "the compiled function, or compile the parts between the ops"
            )
        arguments = self._arguments(arrays)
        return list(
            watched(self._name, self._plan, run, tuple(arguments)) if recorders else self._plan(run, *arguments)
        )

    def shapes(self, arrays: Sequence[Any]) -> list[tuple[int, ...]] | None:
        """Those of the results for arrays of these shapes; None without the primitive."""
        if primitive() is None:
            return None
        recorded = self.recorded(arrays)
        return self._in_graph.shapes(arrays) if recorded is None else recorded.shapes


def _arranged(static: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """The arguments of a plan: numbers, and arrays where they go."""
    given = iter(arrays)
    return [next(given) if value is _ARRAY else value for value in static]


class Step:
    """An op with its numbers, for arrays of these dtypes: made once, since mx.custom_function takes arrays alone."""

    def __init__(self, op: Op, static: Sequence[Any], dtypes: Sequence[Any]) -> None:
        mx = mlx_module()
        self.op, self._static = op, static
        self._stage = Stage(op, op.noun, op.forward.plan, static)
        self._call = mx.custom_function(self._stage)
        self._call.vjp(self._vjp)
        self._call.jvp(self._jvp)
        self._call.vmap(self._vmap)
        names = [a.name for a, value in zip(op.forward.schema.arguments, static, strict=True) if value is _ARRAY]
        floats = {name for name, dtype in zip(names, dtypes, strict=True) if mx.issubdtype(dtype, mx.floating)}
        self._names = names
        self._backward = None if op.backward is None else Backward(op)
        self._wanted = [] if self._backward is None else self._backward.wanted(floats)
        self._backwards: dict[Any, tuple[Stage, Any]] = {}
        reached = {*op.gradients, *dict(op.same_gradient)}
        cut = [(i, n) for i, n in enumerate(names) if n in floats and n not in reached and op.backward is not None]
        self._guards = [(i, _guard(op, name)) for i, name in cut]

    def __call__(self, arrays: Sequence[Any]) -> Any:
        found = self._stage.quickly(arrays)
        if found is not None:
            return found
        guarded = list(arrays)
        for i, guard in self._guards:
            guarded[i] = guard(guarded[i])
        return self._call(*guarded)

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
        backward, array_type = self._backward, mlx_module().array
        values = backward.values(_arranged(self._static, inputs), results)
        arguments = backward.arguments(values, grads, self._wanted)
        arrays = [value for value in arguments if isinstance(value, array_type)]
        # What is no array is as in every other call but for outputs that are None.
        key = tuple([isinstance(value, array_type) for value in arguments]), *[a.dtype for a in arrays]
        if key not in self._backwards:
            self._backwards[key] = self._backward_stage(arguments)
        stage, once = self._backwards[key]
        found = stage.quickly(arrays)
        return backward.named(_listed(once(*arrays) if found is None else found), self._wanted)

    def _backward_stage(self, arguments: Sequence[Any]) -> tuple[Stage, Any]:
        mx, name = mlx_module(), f"{self.op.noun}_backward"
        static = [_ARRAY if isinstance(value, mx.array) else value for value in arguments]
        assert self._backward is not None
        stage = Stage(self.op, name, self._backward.plan, static)
        once = mx.custom_function(stage)
        once.vjp(self._second)  # without it a gradient of the gradient would be zero, and nobody would know
        once.jvp(self._second)
        once.vmap(lambda arrays, axes: mapped.one_by_one(once, _listed(arrays), _listed(axes)))
        return stage, once

    def _second(self, *_: Any) -> Any:
        raise TransformError(f"metalcore.{self.op.noun} can be differentiated once: its gradient has no gradient")

    def _jvp(self, *_: Any) -> Any:
        raise TransformError(
            f"metalcore.{self.op.noun} has no forward-mode derivative (mx.jvp); mx.vjp and mx.grad work"
        )

    def _vmap(self, arrays: Any, axes: Any) -> Any:
        inputs, places = _listed(arrays), _listed(axes)
        if mapped.can_fold(self.op, self._names, places):
            rows = mapped.leading(self.op, self._names, inputs, places)
            shapes = self._stage.shapes([mapped.first(x, axis) for x, axis in zip(inputs, places, strict=True)])
            if shapes is not None:
                count, outputs = mapped.count_of(inputs, places), _listed(self._call(*rows))
                found = [y.reshape(count, *shape) for y, shape in zip(outputs, shapes, strict=True)]
                return found, [0] * len(found)
        return mapped.one_by_one(self._call, inputs, places)


def _recorder_type(run: Any) -> type[Recorder] | None:
    """What records plans for this runtime; None where the primitive has no part in it."""
    if run is engine():
        return Recorder if is_plain_mode() else None
    if run is metal() and not settings.check_gpu():
        from metalcore.mlx.record_metal import MetalRecorder

        return MetalRecorder
    return None


def _are_there(arrays: Sequence[Any]) -> bool:
    """Whether the arrays have values: they are evaluated together. Inside mx.compile and mx.vmap they have none."""
    try:
        mlx_module().eval(*arrays)
    except ValueError as error:
        if "transformations" not in str(error):
            raise
        return False
    return True


def _guard(op: Op, name: str) -> Any:
    """An input that has no gradient: MLX asks for one only where the input depends on what is differentiated."""
    same = mlx_module().custom_function(lambda x: x)

    def refuse(*_: Any) -> Any:
        raise TransformError(f"metalcore.{op.noun}: {name} has no gradient: use mx.stop_gradient on it")

    same.vjp(refuse)
    same.jvp(refuse)
    same.vmap(lambda x, axis: (x, axis))
    return same


def _fitted(gradient: Any, x: Any) -> Any:
    """The gradient of an input that was broadcast or promoted gets its shape and dtype; torch does so by itself."""
    if gradient.shape == x.shape:
        return gradient if gradient.dtype == x.dtype else gradient.astype(x.dtype)
    if not gradient.size:  # mlx 0.32 may never end a sum over nothing
        return mlx_module().zeros(x.shape, x.dtype)
    extra = gradient.ndim - x.ndim
    axes = [i for i, n in enumerate(gradient.shape) if i < extra or (x.shape[i - extra] == 1 and n != 1)]
    return gradient.astype(mlx_module().float32).sum(axes).reshape(x.shape).astype(x.dtype)


def _listed(value: Any) -> list[Any]:
    """MLX gives one array as it is, several as a sequence."""
    return list(value) if isinstance(value, (list, tuple)) else [value]
