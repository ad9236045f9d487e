"""Library kernels on mlx arrays: mx.fast.metal_kernel where Metal is, the engine where it is not.

The Metal route is not yet run on a device: the tests run it with the engine's `metalcore.metal_kernel`, which has the
same rules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from metalcore import settings
from metalcore.arrays.dtypes import dtype_name
from metalcore.arrays.mlx import MlxArrays, cast, dtype_of, mlx_module, sort, zeros
from metalcore.errors import ArgumentError, LinAlgError
from metalcore.runtimes.cpu import CpuRuntime
from metalcore.runtimes.dump import dump_kernel
from metalcore.runtimes.kernel import Arguments, Items, Kernel, Out, Size, any_set, raise_first, raise_info
from metalcore.runtimes.slots import Slot, Slots, launch_size, make_variant
from metalcore.runtimes.text import DEVICE, is_own, metal_kernel_text
from metalcore.runtimes.watch import launched, note_variant, recorders

DEVICE_SIZE = 8  # MLX passes an input with fewer elements in the constant address space
STREAMS = 4
GRID_LIMIT = 1 << 31  # MLX counts threads in an int


class MlxKernel:
    """One variant as mx.fast.metal_kernel made it: created once, since MLX compiles for each new one."""

    def __init__(self, make: Callable[..., Any], slots: Slots) -> None:
        self.slots = slots
        text = metal_kernel_text(slots.variant)
        dump_kernel(slots.variant, text)
        note_variant(slots.variant, "metal_kernel")
        names = {"input_names": list(text.input_names), "output_names": list(text.output_names)}
        header = ("" if is_own(make) else DEVICE) + text.header
        self.call = make(name=text.name, source=text.source, header=header, **names)
        self.template = [(name, dtype_of(value) if isinstance(value, str) else value) for name, value in text.template]

    def arguments(self, run: MlxRuntime, given: tuple[Any, ...]) -> tuple[list[Any], list[Out]]:
        """Inputs as MLX takes them, and what it is to allocate."""
        inputs: list[Any] = []
        outputs: list[Out] = []
        for slot, value in zip(self.slots.slots, given, strict=True):
            if slot.parameter.kind == "output":
                if type(value) is not Out:
                    raise ArgumentError(
                        f"kernel '{self.slots.kernel}' writes {slot.name}, and mlx arrays are immutable"
                    )
                self.slots.check_dtype(slot, value.dtype)
                outputs.append(value)
            elif slot.convert is not None:
                inputs.append(number(slot.parameter.type, repr(slot.convert(value))))
            else:
                inputs.append(self._input(run, slot, value))
        return inputs, outputs

    def _input(self, run: MlxRuntime, slot: Slot, value: Any) -> Any:
        if value is None:
            return nothing(slot.dtype)
        self.slots.check_dtype(slot, run.dtype(value))
        if value.size >= DEVICE_SIZE:
            return value
        mx = mlx_module()
        flat = value.reshape(-1)
        return mx.concatenate([flat, mx.zeros((DEVICE_SIZE - value.size,), value.dtype)])


class MlxRuntime:
    """Runs kernels as steps of MLX's lazy graph. `make` is mx.fast.metal_kernel, or what stands in for it."""

    family = "apple"
    writes_in_place, keeps_arguments = False, True
    host_copies = None
    any_set = staticmethod(any_set)

    def __init__(self, make: Callable[..., Any] | None = None, is_eager: bool = False) -> None:
        """`is_eager`: kernels run when they are called, as those of metalcore.metal_kernel do."""
        mx = mlx_module()
        self._make, self.is_eager = make or mx.fast.metal_kernel, is_eager
        self._kernels: dict[Any, MlxKernel] = {}
        self._streams = threading.local()  # MLX lets a stream be used in the thread alone that made it
        self.contiguous, self.sort, self.dtype = mx.contiguous, sort, dtype_name
        self.cast, self.empty = cast, zeros

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        """`groups` threadgroups as a step of the graph; returns an array for each `Out` among the arguments."""
        values = kernel.ordered(arguments)
        if 0 in groups:
            return [self.empty(a.shape, a.dtype) for a in values if type(a) is Out]
        key = (kernel, types, constants)
        made = self._kernels.get(key) or self._kernels.setdefault(key, MlxKernel(self._make, Slots(make_variant(*key))))
        if recorders:
            launched(kernel, types, constants)
        inputs, outputs = made.arguments(self, values)
        grid, group = launch_size(kernel, groups, group_size, GRID_LIMIT)
        found = made.call(
            inputs=inputs,
            template=made.template,
            output_shapes=[out.shape if 0 not in out.shape else (1,) for out in outputs],
            output_dtypes=[dtype_of(out.dtype) for out in outputs],
            grid=grid,
            threadgroup=group,
        )
        # An output of no elements has no memory to bind: the kernel got one element, the caller gets none.
        return [
            array if 0 not in out.shape else self.empty(out.shape, out.dtype)
            for array, out in zip(found, outputs, strict=True)
        ]

    def stream(self, number: int) -> Any:
        """A context whose kernels may run beside those of other streams. MLX waits where one needs another's result."""
        mx = mlx_module()
        made: list[Any] = self._streams.__dict__.setdefault("made", [])
        if not made:
            made += [mx.new_stream(mx.default_device()) for _ in range(STREAMS)]
        return mx.stream(made[number % STREAMS])

    def check_errors(self, errors: Any, explain: Callable[[int, int], str]) -> None:
        """Nothing, since it would end laziness; METALCORE_CHECK_GPU asks for it."""
        if settings.check_gpu():
            raise_first(errors, explain)

    def check_info(self, info: Any, explain: Callable[[int, int], str]) -> None:
        """Ends laziness, as an error must be raised where the function is called; those that end in _ex do not."""
        raise_info(info, explain, LinAlgError)


@lru_cache(4096)
def number(kind: str, text: str) -> Any:
    """A number as an array of no dimensions, which MLX passes as `constant T&`; by its text, as 0.0 equals -0.0."""
    mx = mlx_module()
    return mx.array(int(text), mx.int64) if kind == "long" else mx.array(float(text), mx.float32)


@cache
def nothing(dtype: str) -> Any:
    """What fills an input that the kernel does not touch."""
    return mlx_module().zeros((DEVICE_SIZE,), dtype_of(dtype))


@cache
def _metal() -> MlxRuntime:
    return MlxRuntime()


def metal() -> MlxRuntime | None:
    """The runtime of this Mac's GPU, where there is one."""
    return _metal() if has_metal() else None


class EngineRuntime(CpuRuntime):
    """The engine on mlx arrays: it runs at once, so they must have values. The caller's own are never written."""

    is_eager = keeps_arguments = True


@cache
def engine() -> EngineRuntime:
    return EngineRuntime(MlxArrays())


def has_metal() -> bool:
    """Whether this is a Mac with a GPU; inside metalcore.emulate() the engine is asked without the detour."""
    mx = mlx_module()
    is_there: bool = mx.metal.is_available() and not mx.fast.metal_kernel.__module__.startswith("metalcore")
    return is_there


def mlx_runtime() -> Any:
    """Metal where it is and the default device is the GPU, else the engine."""
    if not has_metal():
        return engine()
    mx = mlx_module()
    return _metal() if mx.default_device() == mx.Device(mx.gpu) else engine()
