"""Plans recorded for the MLX primitive: an op's plan run on shapes alone, its launches noted.

A plan that does more with its arrays than hand them on (it sorts, or slices) is not recorded as a whole: LazyRuntime
makes each of its launches a step of mlx's graph instead, between mlx's own functions.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, NoReturn

from metalcore.arrays.dtypes import NAMES
from metalcore.arrays.mlx import cast, dtype_of, mlx_module, sort, zeros
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.threads import Threads, get_num_threads
from metalcore.errors import IndexRangeError, LinAlgError
from metalcore.mlx.primitive import AT_ONCE, AUTOMATIC, LAZY, Primitive
from metalcore.runtimes.kernel import Arguments, Items, Kernel, Out, Size
from metalcore.runtimes.mlx import engine

_LAUNCH, _ERRORS, _INFO, _METAL, _PYTHON = range(5)
_POSITION, _VALUE = 918273645546372, 645546372918273  # numbers that no message has by chance


class CannotRecord(AttributeError):
    """The plan does with an array what a recording cannot repeat."""


class GoesByValues(Exception):
    """How the plan goes on depends on values: by_values.py makes one step of it."""


class Symbol:
    """An array of which only the shape and the dtype are known; `index` counts inputs first, then what was made."""

    __slots__ = ("dtype", "index", "shape")

    def __init__(self, index: int, shape: Sequence[int], dtype: Any) -> None:
        self.index, self.shape, self.dtype = index, tuple(shape), dtype

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    nbytes = property(lambda self: math.prod(self.shape) * self.dtype.size)

    def reshape(self, *shape: Any) -> Symbol:
        wanted = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
        if -1 in wanted:
            rest = math.prod(n for n in wanted if n != -1)
            wanted[wanted.index(-1)] = self.size // rest if rest else 0
        return Symbol(self.index, wanted, self.dtype)

    def __getattr__(self, name: str) -> NoReturn:
        raise CannotRecord(name)

    def __getitem__(self, index: object) -> NoReturn:
        raise CannotRecord("[]")

    def __bool__(self) -> NoReturn:
        raise CannotRecord("a value")


class Check(NamedTuple):
    """A look at what a kernel noted, and the error to raise."""

    array: int
    rows: int
    is_info: bool
    explain: Callable[[int, int], str]


class Launch(NamedTuple):
    """One launch on the engine: packed arguments, and which words get addresses of which arrays."""

    function: Any
    plan: Any
    packed: bytes
    addresses: list[tuple[int, int]]


class PythonCall(NamedTuple):
    """All of a plan, as a Python function that is kept under this number."""

    number: int


class Recorder:
    """A runtime that notes what a plan does. `arrays` are mlx arrays or anything with their shape and dtype."""

    family = "cpu"
    writes_in_place, keeps_arguments = True, True

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._run = engine()
        self.inputs = [Symbol(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
        self.made: list[Symbol] = []
        self.steps: list[Any] = []  # Check, Launch, or MetalLaunch of record_metal.py
        self.dtype: Callable[[Any], str] = self._run.dtype

    def __getattr__(self, name: str) -> NoReturn:
        raise CannotRecord(name)

    def contiguous(self, array: Any) -> Any:
        return array  # the primitive takes all of them row after row

    def cast(self, array: Any, dtype: str) -> Any:
        if self.dtype(array) != dtype:
            raise CannotRecord("cast")
        return array

    def empty(self, shape: tuple[int, ...], dtype: str) -> Symbol:
        self.made.append(Symbol(len(self.inputs) + len(self.made), shape, dtype_of(dtype)))
        return self.made[-1]

    def stream(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        prepared = self._run.prepared(kernel, types, constants)
        outputs: list[Any] = []
        pairs: list[int] = []
        addresses: list[tuple[int, int]] = []
        numbers: list[Any] = []
        parameters = [p for p in kernel.parameters if p.kind != "thread"]
        for parameter, settled, value in zip(parameters, prepared.offsets, kernel.ordered(arguments), strict=True):
            if settled is not None:
                pairs += settled
                numbers.append(value)
                continue
            if type(value) is Out:
                value = self.empty(value.shape, value.dtype)
                outputs.append(value)
            elif value is not None and parameter.kind == "output" and value.index < len(self.inputs):
                raise CannotRecord("written argument")  # mlx arrays never change
            if value is not None and value.size:
                addresses.append((len(pairs), value.index))
            pairs += (0, value.nbytes if value is not None else 0)
        if 0 in groups:
            return outputs
        plan = prepared.function.packed_plan(tuple(groups), tuple(group_size))
        if plan is None or plan.is_watched:
            raise CannotRecord("mode")
        wide_from = layout.Plan.from_address(plan.address).wide_from
        if wide_from and max(pairs[1::2]) & ~(layout.INLINE | layout.FIXED) >= wide_from:
            raise CannotRecord("size")
        packed = struct.pack(f"={len(pairs)}Q", *pairs) + prepared.pack_numbers(*numbers)
        self.steps.append(Launch(prepared.function, plan, packed, addresses))
        return outputs

    def check_errors(self, errors: Any, explain: Callable[[int, int], str]) -> None:
        self.steps.append(Check(errors.index, errors.shape[0], False, explain))

    def check_info(self, info: Any, explain: Callable[[int, int], str]) -> None:
        self.steps.append(Check(info.index, info.size, True, explain))


def _template(name: str, check: Check) -> str:
    """The words of an error with % for the position and @ for the value: no Python runs where a graph is evaluated."""
    try:
        text = check.explain(_POSITION, _VALUE).replace("%", "percent").replace("@", "at")
    except (ArithmeticError, LookupError):
        text = ""
    if str(_POSITION) not in text:  # it computes with the position
        text = f"{name}: a kernel found the wrong value {_VALUE} at place {_POSITION}"
    return text.replace(str(_POSITION), "%").replace(str(_VALUE), "@")


class Recorded:
    """A plan for arrays of known shapes, in the primitive. `call(how, threads, *arrays)`."""

    __slots__ = ("_address", "_forget", "_steps", "call", "has_checks", "shapes")

    def __init__(self, library: Primitive, name: str, recorder: Recorder, results: Sequence[Any]) -> None:
        known = {s.index: s for s in (*recorder.inputs, *recorder.made)}
        indices = [r.index if isinstance(r, Symbol) and r.shape == known[r.index].shape else -1 for r in results]
        if -1 in indices or len({i for i in indices if known[i].size}) < len([i for i in indices if known[i].size]):
            raise CannotRecord("result")
        numbers = [len(recorder.inputs), *(s.nbytes for s in recorder.inputs), len(recorder.made)]
        for symbol in recorder.made:
            numbers += [NAMES.index(recorder.dtype(symbol)), symbol.ndim, *symbol.shape]
        numbers.append(len(recorder.steps))
        texts = [name]
        for step in recorder.steps:
            if isinstance(step, Check):
                numbers += [_INFO if step.is_info else _ERRORS, step.array, step.rows]
                texts.append(_template(name, step))
            elif isinstance(step, PythonCall):
                numbers += [_PYTHON, step.number]
            elif not isinstance(step, Launch):
                numbers += [_METAL, *step.numbers]
                texts += step.library, step.source, step.entry
            else:
                _, plan, packed, addresses = step
                words = memoryview(packed).cast("Q").tolist()
                numbers += [_LAUNCH, plan.address, ctypes.sizeof(layout.Plan), len(words), *words, len(addresses)]
                numbers += [n for pair in addresses for n in pair]
        numbers += [len(indices), *indices]
        self.shapes = [known[i].shape for i in indices]
        self.has_checks = any(isinstance(step, (Check, PythonCall)) for step in recorder.steps)
        self._steps, self._forget = recorder.steps, library.forget
        self._address, self.call = library.plan(numbers, texts)

    def __del__(self) -> None:
        if hasattr(self, "_address"):
            self._forget(self._address)

    def automatic(self, arrays: Sequence[Any]) -> Any:
        """Results, or None where an array takes part in a transformation."""
        return self._checked(self.call(AUTOMATIC, Threads.count or get_num_threads(), *arrays))

    def at_once(self, arrays: Sequence[Any]) -> Any:
        return self._checked(self.call(AT_ONCE, Threads.count or get_num_threads(), *arrays))

    def lazy(self, arrays: Sequence[Any]) -> Any:
        return self.call(LAZY, Threads.count or get_num_threads(), *arrays)

    def _checked(self, found: Any) -> Any:
        if found and found[0] is None:
            _, at, status, position, value = found
            step = self._steps[at]
            if isinstance(step, Check):
                raise (LinAlgError if step.is_info else IndexRangeError)(step.explain(position, value))
            step.function.raise_status(status, step.plan)
        return found


class LazyRuntime:
    """Each launch as a step of mlx's graph, between functions of mlx: for plans that cannot be recorded as a whole."""

    family, writes_in_place, keeps_arguments = "cpu", False, True
    is_eager, host_copies = False, None

    def __init__(self, library: Primitive, name: str) -> None:
        mx = mlx_module()
        self._library, self._name = library, name
        self._known: dict[Any, Recorded] = {}
        self.dtype, self.contiguous, self.sort = engine().dtype, mx.contiguous, sort
        self.cast, self.empty = cast, zeros

    def stream(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        values = kernel.ordered(arguments)
        if 0 in groups:
            return [self.empty(a.shape, a.dtype) for a in values if type(a) is Out]
        array_type = mlx_module().array
        arrays = [v for v in values if isinstance(v, array_type)]
        shown = tuple((v.shape, v.dtype) if isinstance(v, array_type) else v for v in values)
        key = (kernel, types, constants, shown, tuple(groups), tuple(group_size))
        known = self._known.get(key)
        if known is None:
            recorder = Recorder(arrays)
            symbols = iter(recorder.inputs)
            buffers = list(zip(kernel.buffers, values, strict=True))
            given = {n: next(symbols) if isinstance(v, array_type) else v for n, v in buffers}
            outputs = recorder.launch(kernel, types, constants, given, groups, group_size)
            names = [n for n, v in buffers if type(v) is Out]
            if "errors" in names:
                errors = outputs[names.index("errors")]
                recorder.check_errors(errors, lambda place, value: f"{self._name}: wrong value {value} at {place}")
            known = self._known[key] = Recorded(self._library, self._name, recorder, outputs)
        return list(known.lazy(arrays))

    def check_errors(self, errors: Any, explain: Any) -> None:
        """The step that made them looks at them."""

    def check_info(self, info: Any, explain: Any) -> None:
        self.any_set(info)

    def any_set(self, flags: Any) -> bool:
        raise GoesByValues
