"""What a call of a metal_kernel works out once: for arrays of known shapes and dtypes only their memory changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from metalcore import launch
from metalcore.arrays.find import mlx_type, tensor_type
from metalcore.engine.function import Function
from metalcore.engine.isolate.current import current as current_sandbox
from metalcore.engine.runtime.layout import ELEMENTS

Size = tuple[int, int, int]


class CallPlan:
    """A launch with everything settled but the inputs. C binds them, where they lie as the kernel wants them."""

    __slots__ = ("_between", "_function", "_grid", "_group", "_makers")

    def __init__(
        self,
        function: Function,
        grid: Size,
        group: Size,
        between: Sequence[tuple[Any, ...]],
        makers: Sequence[Callable[[], Any]],
    ) -> None:
        """`between` has arrays of shape, strides and dimensions that go behind each input; `makers` make outputs."""
        self._function, self._grid, self._group = function, grid, group
        self._between = tuple(between) if any(between) else None
        self._makers = tuple(makers)

    def run(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The outputs; None where nothing has happened, because C does not know one of the inputs."""
        outputs = [make() for make in self._makers]
        if self._between is None:
            arguments = (*inputs, *outputs)
        else:
            behind = zip(inputs, self._between, strict=True)
            arguments = (*[value for array, others in behind for value in (array, *others)], *outputs)
        return outputs if self._function.launch_objects(arguments, self._grid, self._group, ELEMENTS) else None


def call_key(
    inputs: Sequence[Any],
    output_shapes: Sequence[Sequence[int]],
    output_dtypes: Sequence[Any],
    grid: Sequence[int],
    threadgroup: Sequence[int],
    template: Sequence[tuple[str, Any]] | None,
    init_value: Any,
) -> tuple[Any, ...] | None:
    """What makes two calls the same; None for a call that is none of the usual ones, mistakes included."""
    try:
        kind = type(inputs[0])
        if kind is not np.ndarray and kind is not tensor_type() and kind is not mlx_type():
            return None
        arrays: list[Any] = []
        for array in inputs:
            if type(array) is not kind:
                return None
            arrays += (array.shape, array.dtype)
        sizes = (tuple(grid), tuple(threadgroup), *map(tuple, output_shapes))
        for size in sizes:
            for number in size:
                if type(number) is not int:  # 4.0 equals 4
                    return None
        chosen = () if not template else tuple([(name, type(value), value) for name, value in template])
        init = None if init_value is None else (type(init_value), repr(init_value))  # 0.0 equals -0.0
        key = (current_sandbox(), launch.chosen_target(), kind, *arrays, sizes, tuple(output_dtypes), chosen, init)
        hash(key)
    except Exception:  # whatever was given is looked at again, with words for what is wrong
        return None
    return key


def lies_in_rows(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether one element lies behind the other: only then shape and dtype say where all of them are."""
    size = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != size:
            return False
        size *= length
    return True
