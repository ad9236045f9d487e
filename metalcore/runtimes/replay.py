"""A plan remembered: for the same shapes, dtypes and numbers an op launches the same kernels, so its Python runs once.

What a plan does with arrays is only to hand them on, some of them as contiguous copies; that is noted at the first call
and repeated afterwards, in C (native/replay.c) where no mode is asked for. A plan that looks at memory is not
remembered and runs each time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from metalcore.arrays.torch import torch_module
from metalcore.engine.function import Function
from metalcore.engine.modes import is_plain_mode
from metalcore.engine.runtime.recordings import Launch, Look, Recordings, Tensor
from metalcore.engine.runtime.threads import Threads, get_num_threads
from metalcore.runtimes.cpu import CpuRuntime
from metalcore.runtimes.kernel import Arguments, Items, Kernel, Out, Size
from metalcore.runtimes.watch import recorders, watched

_KEPT, _IN_C = 2048, 256


class Allocation(NamedTuple):
    """Arguments of torch.empty_strided, which is faster than torch.empty."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any


class Like(NamedTuple):
    """An output of the shape and dtype of a contiguous array: torch.empty_like is faster still."""

    array: int


class Copy(NamedTuple):
    """A contiguous copy of an array: a gradient often comes as one element that is seen in every place."""

    array: int


class Step(NamedTuple):
    """One launch: what it allocates, then addresses and sizes as the engine takes them, and the numbers, packed."""

    function: Function
    made: tuple[Any, ...]  # of Allocation, Like or Copy
    pairs: tuple[int, ...]  # complete but for the addresses of arrays
    addresses: tuple[tuple[int, int], ...]  # a place in `pairs`, and which array's address it gets
    pack: Callable[..., bytes]
    numbers: bytes
    groups: tuple[int, ...]
    group_size: tuple[int, ...]


class Check(NamedTuple):
    """A look at the errors that a kernel noted, or at info, and what is said of the first."""

    errors: int
    explain: Callable[[int, int], str]
    is_info: bool = False


class Recording(NamedTuple):
    """The launches of a plan and which of the arrays it returns. Arrays are counted: arguments first, then outputs."""

    steps: tuple[Step | Check, ...]
    results: tuple[Any, ...]  # of Allocation or int
    number: int | None = None  # of the same in C


class _Recorder:
    """A runtime that carries out a plan and notes what it does; `steps` is None once that cannot be repeated."""

    def __init__(self, run: CpuRuntime, arguments: tuple[Any, ...]) -> None:
        self._run = run
        self.family, self.dtype, self.writes_in_place = run.family, run.dtype, True
        self.keeps_arguments, self.host_copies = run.keeps_arguments, run.host_copies
        self.arrays: list[Any] = list(arguments)
        self.steps: list[Step | Check] | None = []
        self.copies: list[Copy] = []  # made since the last launch
        known = [id(a) for a in arguments if hasattr(a, "data_ptr")]
        if len(set(known)) < len(known):
            self.steps = None  # one tensor given twice: which of the two is meant later cannot be told

    def __getattr__(self, name: str) -> Any:
        """Whatever else a plan asks of its runtime depends on memory."""
        self.steps = None
        return getattr(self._run, name)

    def contiguous(self, array: Any) -> Any:
        found = self._run.contiguous(array)
        if found is not array:
            self.copies.append(Copy(self.index(array)))
            self.arrays.append(found)
        return found

    def cast(self, array: Any, dtype: str) -> Any:
        found = self._run.cast(array, dtype)
        if found is not array:
            self.steps = None
        return found

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        made = self._run.empty(shape, dtype)
        if 0 not in shape:
            self.steps = None  # it will be filled somehow
        return made

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        outputs = self._run.launch(kernel, types, constants, arguments, groups, group_size)
        values = kernel.ordered(arguments)
        prepared = self._run.prepared(kernel, types, constants)
        made = (*self.copies, *[self.allocation(o) for o in outputs])
        self.copies = []
        self.arrays += outputs
        fresh = iter(outputs)
        pairs: list[int] = []
        addresses: list[tuple[int, int]] = []
        numbers: list[Any] = []
        for settled, value in zip(prepared.offsets, values, strict=True):
            if settled is not None:
                pairs += settled
                numbers.append(value)
                continue
            array = next(fresh) if type(value) is Out else value
            if array is not None:
                addresses.append((len(pairs), self.index(array)))
                if not array.is_contiguous():
                    self.steps = None  # calls are told apart by shapes, not by strides
            pairs += (0, 0 if array is None else array.nbytes)
        if self.steps is not None and 0 not in groups:
            pack = struct.Struct(f"={len(pairs)}Q").pack
            settled_parts = tuple(pairs), tuple(addresses), pack, prepared.pack_numbers(*numbers)
            self.steps.append(Step(prepared.function, made, *settled_parts, tuple(groups), tuple(group_size)))
        elif made:
            self.steps = None  # nothing is launched, but memory is made
        return outputs

    def check_errors(self, errors: Any, explain: Callable[[int, int], str]) -> None:
        self._run.check_errors(errors, explain)
        found = self.index(errors)
        if self.steps is not None:
            self.steps.append(Check(found, explain))

    def check_info(self, info: Any, explain: Callable[[int, int], str]) -> None:
        self._run.check_info(info, explain)
        found = self.index(info)
        if self.steps is not None:
            self.steps.append(Check(found, explain, is_info=True))

    def allocation(self, made: Any) -> Allocation | Like:
        for i, known in enumerate(self.arrays):
            if (
                hasattr(known, "data_ptr")
                and known.is_contiguous()
                and known.shape == made.shape
                and known.dtype == made.dtype
            ):
                return Like(i)
        return Allocation(tuple(made.shape), made.stride(), made.dtype)

    def index(self, array: Any) -> int:
        for i, known in enumerate(self.arrays):
            if known is array:
                return i
        self.steps = None
        return -1

    def result(self, array: Any) -> Allocation | int:
        """A returned array: one of those known, or memory of no elements."""
        if any(known is array for known in self.arrays):
            return self.index(array)
        if array.numel():
            self.steps = None
        return Allocation(tuple(array.shape), array.stride(), array.dtype)


class Remembered:
    """A plan on CPU tensors: `Remembered(plan, runtime)(*arguments)`."""

    def __init__(self, plan: Callable[..., tuple[Any, ...]], run: CpuRuntime, name: str = "") -> None:
        self._plan, self._run, self._name = plan, run, name
        self._empty, self._like = torch_module().empty_strided, torch_module().empty_like
        self._known: dict[Any, Recording | None] = {}
        self._in_c: Recordings | None = None
        self._repeat: Any = self._nothing_known
        self._numbered: list[tuple[Recording, list[Any]]] = []  # those in C, and the plans of their launches

    def _nothing_known(self, *_: Any) -> None:
        """Until there is a recording: torch has many ops, and the runtime is built for the first that is called."""

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        if recorders:
            return tuple(watched(self._name, self._plan, self._run, arguments))
        if is_plain_mode():
            found = self._repeat(Threads.count or get_num_threads(), *arguments)
            if type(found) is tuple:
                return found
            if found is not None:
                self._fail(*found)
        key = tuple(
            [
                (a.shape, a.dtype, a.is_contiguous()) if hasattr(a, "data_ptr") else tuple(a) if type(a) is list else a
                for a in arguments
            ]
        )
        try:
            recording = self._known[key]
        except KeyError:
            return self._record(key, arguments)
        if recording is None:
            return tuple(self._plan(self._run, *arguments))
        if recording.number is not None and self._in_c is not None:
            self._in_c.promote(recording.number)
        return repeat(recording, arguments, self._empty, self._like, self._run)

    def _record(self, key: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        recorder = _Recorder(self._run, arguments)
        outputs = tuple(self._plan(recorder, *arguments))
        results = tuple(recorder.result(o) for o in outputs)
        if len(self._known) >= _KEPT:
            self._known.clear()
        is_whole = recorder.steps is not None and not recorder.copies  # a copy that no launch takes is not repeated
        recording = Recording(tuple(recorder.steps or ()), results) if is_whole else None
        self._known[key] = recording if recording is None else self._into_c(recording, recorder, arguments)
        return outputs

    def _into_c(self, recording: Recording, recorder: _Recorder, arguments: tuple[Any, ...]) -> Recording:
        """The same with its number in C, where it can be had there: usual mode, results that launches made."""
        if not is_plain_mode() or not all(type(r) is int for r in recording.results) or len(self._numbered) >= _IN_C:
            return recording
        steps: list[Launch | Look] = []
        plans: list[Any] = []
        for step in recording.steps:
            if isinstance(step, Check):
                errors = recorder.arrays[step.errors]
                steps.append(Look(step.errors, errors.numel() if step.is_info else len(errors), step.is_info))
                plans.append(None)
                continue
            plan = step.function.packed_plan(step.groups, step.group_size)
            if plan is None or plan.is_watched:
                return recording
            copies = tuple(m.array for m in step.made if type(m) is Copy)
            made = step.made[len(copies) :]
            packed = step.pack(*step.pairs) + step.numbers
            steps.append(Launch(plan.address, copies, made, step.addresses, packed))
            plans.append(plan)
        known = [
            Tensor(a.shape, a.dtype, a.is_contiguous(), a.nbytes if a.is_contiguous() else 0, a.element_size())
            if hasattr(a, "data_ptr")
            else list(a)  # the caller may change his own
            if type(a) is list
            else a
            for a in arguments
        ]
        if self._in_c is None:
            self._in_c = Recordings(self._empty, self._like)
            self._repeat = self._in_c.repeat
        number = self._in_c.add(known, steps, list(recording.results))
        if number is None:
            return recording
        self._numbered.append((recording, plans))
        return recording._replace(number=number)

    def _fail(self, number: int, at: int, status: int, errors: Any) -> None:
        recording, plans = self._numbered[number]
        step = recording.steps[at]
        if isinstance(step, Check):
            check(self._run, step, errors)
        else:
            step.function.raise_status(status, plans[at])


def check(run: CpuRuntime, step: Check, errors: Any) -> None:
    """Raises what the plan itself would."""
    (run.check_info if step.is_info else run.check_errors)(errors, step.explain)


def repeat(
    recording: Recording,
    arguments: tuple[Any, ...],
    empty: Callable[..., Any],
    like: Callable[[Any], Any],
    run: CpuRuntime,
) -> tuple[Any, ...]:
    """The launches again, on other arrays of the same shapes."""
    arrays = list(arguments)
    for step in recording.steps:
        if isinstance(step, Check):
            check(run, step, arrays[step.errors])
            continue
        function, made, pairs, addresses, pack, numbers, groups, group_size = step
        for output in made:
            if type(output) is Copy:
                arrays.append(arrays[output[0]].contiguous())
            elif type(output) is Like:
                arrays.append(like(arrays[output[0]]))
            else:
                arrays.append(empty(output[0], output[1], dtype=output[2]))
        filled = list(pairs)
        for place, array in addresses:
            filled[place], _ = run.arrays.memory(arrays[array])
        function.launch_packed(pack(*filled) + numbers, arrays, groups, group_size)
    return tuple([arrays[r] if type(r) is int else empty(r[0], r[1], dtype=r[2]) for r in recording.results])
