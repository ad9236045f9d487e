"""Plans on MPS noted for the native extension, which repeats them without Python (native/torch/plans.cpp).

As replay.py does for the CPU: what a plan does with arrays is only to hand them on, some of them as contiguous copies.
A plan that looks at memory is not noted, and runs in Python each time.
"""

from __future__ import annotations

from typing import Any

from metalcore.errors import MetalcoreError
from metalcore.runtimes.kernel import MSL_TYPES, Arguments, Items, Kernel, Out, Size
from metalcore.runtimes.mps_native import NativeRuntime, number_words
from metalcore.runtimes.slots import launch_size

_COPY, _MADE, _LAUNCH, _RESULTS = 1, 2, 3, 4
_NOTHING, _ARRAY, _NUMBER = 0, 1, 2
_CODES = {dtype: code for code, dtype in enumerate(MSL_TYPES)}


class Noting:
    """A runtime that carries out a plan and notes what it does; `words` is None once that cannot be repeated."""

    def __init__(self, run: NativeRuntime, arguments: tuple[Any, ...]) -> None:
        self._run = run
        self.family, self.dtype, self.writes_in_place = run.family, run.dtype, run.writes_in_place
        self.keeps_arguments, self.check_errors = run.keeps_arguments, self._check_errors
        self.arrays: list[Any] = list(arguments)
        self.words: list[int] | None = []
        tensors = [id(a) for a in arguments if hasattr(a, "data_ptr")]
        if len(set(tensors)) < len(tensors):
            self.words = None  # one tensor given twice: which of the two is meant later cannot be told

    def __getattr__(self, name: str) -> Any:
        """Whatever else a plan asks of its runtime depends on memory."""
        self.words = None
        return getattr(self._run, name)

    def _check_errors(self, errors: Any, explain: Any) -> None:
        """Nothing is looked at unless METALCORE_CHECK_GPU asks for it, and then each time."""
        if self._run.looks_at_errors:
            self.words = None
        self._run.check_errors(errors, explain)

    def contiguous(self, array: Any) -> Any:
        found = self._run.contiguous(array)
        if found is not array:
            self._add(_COPY, self._index(array))
            self.arrays.append(found)
        return found

    def cast(self, array: Any, dtype: str) -> Any:
        found = self._run.cast(array, dtype)
        if found is not array:
            self.words = None
        return found

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        made = self._run.empty(shape, dtype)
        if 0 not in shape:
            self.words = None  # it will be filled somehow
        self._made(made)
        return made

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        outputs = self._run.launch(kernel, types, constants, arguments, groups, group_size)
        for made in outputs:
            self._made(made)
        if self.words is None or 0 in groups:
            return outputs
        native, fresh = self._run.native(kernel, types, constants), iter(outputs)
        _, group = launch_size(kernel, groups, group_size)
        fills: list[int] = []
        values = kernel.ordered(arguments)
        for slot, value in zip(native.slots.slots, values, strict=True):
            fills += self._fill(slot, next(fresh) if type(value) is Out else value)
        self._add(_LAUNCH, native.pipeline, *(*groups, 1, 1)[:3], *group, len(values), *fills)
        return outputs

    def _fill(self, slot: Any, value: Any) -> tuple[int, int, int]:
        if slot.convert is not None and type(value) is not list:
            _, bits, _, length = number_words(slot.convert(value))
            return _NUMBER, bits, length
        if value is None:
            return _NOTHING, 0, 0
        if type(value) is list or not value.is_contiguous():
            self.words = None  # calls are told apart by shapes, not by strides
            return _NOTHING, 0, 0
        return _ARRAY, self._index(value), 0

    def _made(self, made: Any) -> None:
        self._add(_MADE, _CODES.get(self.dtype(made), -1), made.dim(), *made.shape)
        if self.dtype(made) not in _CODES:
            self.words = None
        self.arrays.append(made)

    def _add(self, *words: int) -> None:
        if self.words is not None:
            self.words += words

    def _index(self, array: Any) -> int:
        for i, known in enumerate(self.arrays):
            if known is array:
                return i
        self.words = None
        return 0

    def finish(self, outputs: tuple[Any, ...]) -> None:
        """Hand it over, for the call that is being made in this thread."""
        places = [self._index(output) for output in outputs]
        self._add(_RESULTS, len(places), *places)
        if self.words is not None and not self._run.extension.note(self.words):
            raise MetalcoreError(
                "the native extension does not understand what a plan did: it was built from another version; run "
                "scripts/build-macos again, or set METALCORE_TORCH_EXTENSION=0"
            )


def noted(plan: Any, run: NativeRuntime, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Carry a plan out, and leave what it did to the extension."""
    noting = Noting(run, arguments)
    outputs = tuple(plan(noting, *arguments))
    noting.finish(outputs)
    return outputs
