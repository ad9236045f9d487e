"""Library kernels on the engine: arguments are packed here, once per launch, straight from the arrays' addresses."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from metalcore.arrays.framework import Arrays
from metalcore.arrays.numpy import NumpyArrays
from metalcore.arrays.torch import TorchArrays
from metalcore.engine.function import Function
from metalcore.engine.library import Library
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.native_library import use_openmp
from metalcore.engine.units import get_ready
from metalcore.errors import ArgumentError
from metalcore.runtimes.kernel import Arguments, Items, Kernel, Out, Size, Variant, any_set, raise_first, raise_info
from metalcore.runtimes.text import engine_text, include_dirs, parameter_dtypes
from metalcore.runtimes.watch import launched, note_variant, recorders

__all__ = ["CpuRuntime", "Prepared", "get_ready", "library", "numpy_cpu", "torch_cpu"]
_SCALARS = {"long": ("q8x", 8), "float": ("f12x", 4)}


class Prepared:
    """One variant, compiled: turns arguments into the bytes that the engine takes."""

    __slots__ = ("_dtypes", "_name", "_pack", "function", "offsets", "pack_numbers")

    def __init__(self, variant: Variant, float_type: str = "float") -> None:
        constants: dict[int | str, object] = dict(zip(variant.kernel.constants, variant.constants, strict=True))
        self.function: Function = library(variant, float_type).function(variant.entry_point, constants)
        parameters = [p for p in variant.kernel.parameters if p.kind != "thread"]
        is_double = float_type == "double"
        self._dtypes = ["float64" if is_double and d == "float32" else d for d in parameter_dtypes(variant)]
        self._name = variant.kernel.name
        scalars = dict(_SCALARS, float=("d8x", 8)) if is_double else _SCALARS
        layouts, end = "", 16 * len(parameters)
        self.offsets: list[tuple[int, int] | None] = []  # where a number stands behind the addresses; None: an array
        for parameter in parameters:
            if parameter.kind != "value":
                self.offsets.append(None)
                continue
            code, size = scalars[parameter.type]
            layouts += code
            self.offsets.append((end, size | layout.INLINE))
            end += 16
        self._pack = struct.Struct(f"={2 * len(parameters)}Q{layouts}").pack
        self.pack_numbers = struct.Struct(f"={layouts}").pack

    def pack(self, arguments: tuple[Any, ...], arrays: Arrays, outputs: list[Any]) -> bytes:
        """Addresses and sizes in slot order, then the numbers. Allocates what is to be written and adds it to
        `outputs`; every launch comes by here, so it goes over the arguments once."""
        pairs: list[int] = []
        numbers: list[Any] = []
        memory, dtype_of = arrays.memory, arrays.dtype
        for offset, dtype, value in zip(self.offsets, self._dtypes, arguments, strict=True):
            if offset is not None:
                pairs += offset
                numbers.append(value)
            elif type(value) is Out:
                if dtype and value.dtype != dtype:
                    raise ArgumentError(f"kernel '{self._name}' writes an array of {dtype}, not of {value.dtype}")
                made = arrays.empty(value.shape, value.dtype)
                outputs.append(made)
                pairs += memory(made)
            elif value is None:
                pairs += (0, 0)
            else:
                if dtype and dtype_of(value) != dtype:  # the kernel would read or write past its end
                    raise ArgumentError(f"kernel '{self._name}' takes an array of {dtype}, not of {dtype_of(value)}")
                pairs += memory(value)
        return self._pack(*pairs, *numbers)


@cache
def library(variant: Variant, float_type: str = "float") -> Library:
    """The engine's library of one variant."""
    options: dict[str, Any] = {} if float_type == "float" else {"float_type": float_type}
    # The package's own kernels are no stranger's: they run here, whatever isolation is around.
    return Library(engine_text(variant), include_dirs=include_dirs(), isolate=False, **options)


class CpuRuntime:
    """Runs kernels through the engine on arrays of one framework.

    `family` names the launch policy: "apple" runs the launches that a GPU would get.
    """

    def __init__(self, arrays: Arrays, family: str = "cpu") -> None:
        self.arrays, self.family = arrays, family
        self.contiguous, self.dtype, self.empty = arrays.contiguous, arrays.dtype, arrays.empty
        self.sort, self.cast = arrays.sort, arrays.cast
        self._prepared: dict[Any, Prepared] = {}

    check_errors, any_set = staticmethod(raise_first), staticmethod(any_set)
    writes_in_place, keeps_arguments = True, False
    host_copies = None

    def check_info(self, info: Any, explain: Callable[[int, int], str]) -> None:
        raise_info(info, explain, self.arrays.linalg_error)

    def stream(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        """Run `groups` threadgroups; each `Out` among the arguments is allocated, and all of them are returned."""
        prepared = self.prepared(kernel, types, constants)
        outputs: list[Any] = []
        values = kernel.ordered(arguments)
        packed = prepared.pack(values, self.arrays, outputs)
        if 0 not in groups:
            if recorders:
                launched(kernel, types, constants)
            prepared.function.launch_packed(packed, (values, outputs), groups, group_size)
        return outputs

    def prepared(self, kernel: Kernel, types: Items, constants: Items) -> Prepared:
        """One variant, compiled at its first use."""
        try:
            return self._prepared[kernel, types, constants]
        except KeyError:
            pass
        is_double = "float64" in types
        if is_double and not {"float32", "float16", "bfloat16"}.isdisjoint(types):
            raise ArgumentError(f"kernel '{kernel.name}': float64 cannot be mixed with other floating-point types")
        single = tuple("float32" if t == "float64" else t for t in types)
        variant, float_type = kernel.variant(single, constants), "double" if is_double else "float"
        note_variant(variant, "engine", float_type)
        return self._prepared.setdefault((kernel, types, constants), Prepared(variant, float_type))


@cache
def torch_cpu() -> CpuRuntime:
    use_openmp()  # torch's idle threads spin on the cores that the engine's own would need
    return CpuRuntime(TorchArrays())


@cache
def numpy_cpu() -> CpuRuntime:
    return CpuRuntime(NumpyArrays())
