"""Ops whose plans go on by what they find: a step of mlx's graph that calls Python where it is evaluated.

Such a plan cannot be noted beforehand, since how many launches it has depends on values. Shapes and dtypes of its
results do not: ShapesRuntime finds them. The step is run inline, on the thread that evaluates, and on NumPy views of
the memory that mlx has: nothing of mlx is asked while mlx evaluates.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from metalcore.arrays import numpy
from metalcore.arrays.mlx import cast, mlx_module, sort, zeros
from metalcore.errors import TransformError
from metalcore.mlx.primitive import Primitive
from metalcore.mlx.record import GoesByValues, LazyRuntime, PythonCall, Recorded, Recorder
from metalcore.runtimes.cpu import numpy_cpu
from metalcore.runtimes.kernel import Arguments, Items, Kernel, Out, Size
from metalcore.runtimes.mlx import engine
from metalcore.runtimes.watch import recorders, watched

Plan = Callable[..., Sequence[Any]]
Arranged = Callable[[Sequence[Any]], Sequence[Any]]
"""A plan's arguments, numbers among them, from its arrays."""
_KEPT = 1024


class ShapesRuntime:
    """Runs no kernel: what it gives has a shape and a dtype, and is never evaluated."""

    family, writes_in_place, keeps_arguments = "cpu", True, True
    is_eager, host_copies = False, None

    def __init__(self) -> None:
        self.dtype, self.contiguous, self.sort = engine().dtype, mlx_module().contiguous, sort
        self.cast, self.empty = cast, zeros

    def stream(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        return [self.empty(v.shape, v.dtype) for v in kernel.ordered(arguments) if type(v) is Out]

    def check_errors(self, errors: Any, explain: Any) -> None:
        """No kernel ran."""

    def check_info(self, info: Any, explain: Any) -> None:
        """No kernel ran."""

    def any_set(self, flags: Any) -> bool:
        return False


class InGraph:
    """A plan that cannot be recorded as a whole, on arrays without values: a step for each launch, or one for all."""

    def __init__(self, name: str, plan: Plan, arranged: Arranged, writes: bool) -> None:
        self._name, self._plan, self._arranged, self._writes = name, plan, arranged, writes
        self._run = partial(_run, name, plan, arranged)
        self._lazy: LazyRuntime | None = None
        self._goes_by_values = False
        self._steps: dict[Any, Recorded] = {}

    def __call__(self, library: Primitive, arrays: Sequence[Any]) -> list[Any]:
        if not self._goes_by_values:
            self._lazy = self._lazy or LazyRuntime(library, self._name)
            try:
                return self._run(self._lazy, arrays)
            except GoesByValues:
                self._goes_by_values = True
        if self._writes:  # into what it is given
            raise TransformError(
                f"metalcore.{self._name} cannot run inside mx.compile or mx.vmap: it goes on by values"
            )
        key = tuple([a.shape for a in arrays])
        step = self._steps.get(key)
        if step is None:
            if len(self._steps) >= _KEPT:
                self._steps.clear()
            step = self._steps[key] = self._recorded(library, arrays)
        return list(step.lazy(arrays))

    def shapes(self, arrays: Sequence[Any]) -> list[tuple[int, ...]]:
        """Those of the results for arrays of these shapes."""
        return [tuple(y.shape) for y in self._outlines(arrays)]

    def _outlines(self, arrays: Sequence[Any]) -> list[Any]:
        mx = mlx_module()
        return list(self._plan(ShapesRuntime(), *self._arranged([mx.zeros(a.shape, a.dtype) for a in arrays])))

    def _recorded(self, library: Primitive, arrays: Sequence[Any]) -> Recorded:
        recorder, n = Recorder(arrays), len(arrays)
        for outline in self._outlines(arrays):
            recorder.empty(outline.shape, recorder.dtype(outline))
        views = [_View(self._name, s.shape, recorder.dtype(s)) for s in (*recorder.inputs, *recorder.made)]
        once = self._run  # not self: what is kept by number must not keep the step that has the number

        def run(addresses: Sequence[int]) -> None:
            seen = [view.of(address) for view, address in zip(views, addresses, strict=True)]
            for place, found in zip(seen[n:], once(numpy_cpu(), seen[:n]), strict=True):
                np.copyto(place, found, casting="no")

        recorder.steps.append(PythonCall(library.calls.add(run)))
        return Recorded(library, self._name, recorder, recorder.made)


def _run(name: str, plan: Plan, arranged: Arranged, run: Any, arrays: Sequence[Any]) -> list[Any]:
    arguments = tuple(arranged(arrays))
    return list(watched(name, plan, run, arguments) if recorders else plan(run, *arguments))


class _View:
    """How memory of mlx is seen as a NumPy array."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str) -> None:
        try:
            self._dtype = numpy.dtype_of(dtype)
        except ImportError:
            raise TransformError(
                f"metalcore.{name} takes {dtype} inside mx.compile and mx.vmap where the package ml_dtypes is installed"
            ) from None
        self._shape, self._bytes = shape, math.prod(shape) * self._dtype.itemsize

    def of(self, address: int) -> Any:
        if not self._bytes:
            return np.empty(self._shape, self._dtype)
        memory: Any = (ctypes.c_char * self._bytes).from_address(address)
        return np.frombuffer(memory, self._dtype).reshape(self._shape)
