"""`metalcore.compile_shader`: torch.mps.compile_shader on the CPU, for torch tensors and NumPy arrays.

The rules are PyTorch's (see `docs/guide/pytorch.md`). Where more is checked than PyTorch does, the error says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from metalcore import launch, settings
from metalcore.arrays.find import is_array, is_torch
from metalcore.dropins.binding import bind_array
from metalcore.dropins.error_buffer import ErrorBuffer
from metalcore.dropins.shader_arguments import Casts, ShaderArgumentError, bind_struct, bind_value, extents, launch_size
from metalcore.engine.locks import ForkLock
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.raw_binding import Binding
from metalcore.engine.unpicklable import Unpicklable
from metalcore.errors import ArgumentError, CompileError, UnknownFunction

if TYPE_CHECKING:
    from metalcore.engine.function import Function
    from metalcore.engine.library import Library

KEPT_SIZES = 256
NO_CASTS = Casts(None)


class NoSuchKernel(UnknownFunction, RuntimeError):
    """The library has no kernel of that name; PyTorch raises RuntimeError, so `hasattr` raises too."""


def compile_shader(source: str) -> ShaderLibrary:
    """Compile MSL and return a library whose attributes are its kernels, as torch.mps.compile_shader does.

    >>> import numpy as np, metalcore
    >>> lib = metalcore.compile_shader('''
    ... kernel void full(device float* out, constant float& value, uint i [[thread_position_in_grid]]) {
    ...     out[i] = value;
    ... }''')
    >>> x = np.zeros(4, np.float32)
    >>> lib.full(x, 3.5)
    >>> x.tolist()
    [3.5, 3.5, 3.5, 3.5]
    """
    if not isinstance(source, str):
        raise TypeError(f"compile_shader takes MSL source text (str), not {type(source).__name__}")
    _require_ascii(source)
    from metalcore.engine.library import Library

    math_mode = "fast" if settings.mps_fast_math() else "safe"
    return ShaderLibrary(Library(source, math_mode=math_mode))


def _require_ascii(source: str) -> None:
    if source.isascii():
        return
    for number, line in enumerate(source.splitlines(), 1):
        for column, character in enumerate(line, 1):
            if not character.isascii():
                raise CompileError(
                    f"line {number}, column {column}: {character!r} is not ASCII, and compile_shader takes ASCII only"
                )


class ShaderLibrary(Unpicklable):
    """Kernels by attribute. Every other attribute is a RuntimeError, as in PyTorch."""

    def __init__(self, library: Library) -> None:
        self.__dict__["_library"] = library
        self.__dict__["_kernels"] = {}
        self.__dict__["_lock"] = ForkLock()

    def __getattr__(self, name: str) -> ShaderKernel:
        kernels: dict[str, ShaderKernel] = self.__dict__["_kernels"]
        kernel = kernels.get(name)
        if kernel is not None:
            return kernel
        library: Library = self.__dict__["_library"]
        if name not in library.functions:
            known = ", ".join(library.functions) or "none"
            raise NoSuchKernel(f"Failed to create function state object for: {name} (kernels in this library: {known})")
        with self.__dict__["_lock"]:
            return kernels.setdefault(name, ShaderKernel(library.function(name)))

    def __dir__(self) -> list[str]:
        return list(self.__dict__["_library"].functions)


class ShaderKernel(Unpicklable):
    """One kernel; call it with its arguments in the order of their buffer numbers."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._sizes: dict[Any, tuple[tuple[int, int, int], tuple[int, int, int]]] = {}
        self._needed = [a for a in function.arguments if a.kind in ("buffer", "value") and a.enabled]

    @property
    def max_threads_per_threadgroup(self) -> int:
        """Most threads that one threadgroup may have: 1,024, or what the kernel itself or the chosen target says."""
        return launch.thread_limit(self._function.facts)

    @property
    def thread_execution_width(self) -> int:
        """Threads in a simdgroup: 32, as on Apple GPUs."""
        return launch.SIMD_WIDTH

    @property
    def static_thread_group_memory_length(self) -> int:
        """Bytes of threadgroup memory that the kernel declares itself."""
        return self._function.static_threadgroup_memory

    def __call__(
        self,
        *args: Any,
        threads: int | Sequence[int] | None = None,
        group_size: int | Sequence[int] | None = None,
        arg_casts: str | Mapping[int, str] | None = None,
        error_buf_idx: int | None = None,
    ) -> None:
        """Run the kernel; argument i is bound to [[buffer(i)]]."""
        if threads is None:
            threads = next((_elements(value) for value in args if is_array(value)), None)
        if arg_casts is None and error_buf_idx is None and threads is not None:
            grid, group = self._launch_size(threads, group_size)
            if 0 not in grid and self._function.launch_objects(args, grid, group, layout.STORAGE):
                return
        casts = Casts(arg_casts) if arg_casts is not None else NO_CASTS
        bindings: list[Binding | None] = []
        for index, value in enumerate(args):
            if is_array(value):
                bindings.append(self._bind(index, value))
            else:
                bindings.append(bind_struct(self._function, index, value) or bind_value(value, index, casts))
        errors = None
        if error_buf_idx is not None:
            errors = ErrorBuffer()
            bindings += [None] * (error_buf_idx + 1 - len(bindings))
            bindings[error_buf_idx] = errors.binding
        grid, group = self._launch_size(threads, group_size)
        self._require(bindings)
        if 0 not in grid:
            self._function.launch_raw(bindings, grid=grid, group=group)
        if errors is not None:
            errors.raise_reported()

    def _bind(self, index: int, value: Any) -> Binding:
        try:
            return bind_array(value, f"argument {index} of {self._function.name}")
        except ArgumentError as error:
            raise ShaderArgumentError(str(error)) from None

    def _launch_size(self, threads: Any, group_size: Any) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Grid and threadgroup; the same launch is not worked out twice."""
        key = (launch.chosen_target(), threads, group_size)
        plain = type(threads) is int and (
            type(group_size) is int or group_size is None
        )  # 5.0 would be the same key as 5
        if plain and key in self._sizes:
            return self._sizes[key]
        sizes = extents(threads, "threads")
        if sizes is None:
            raise ShaderArgumentError("Number of threads is undefined or has wrong dimension: no tensor, no threads=")
        facts = self._function.facts
        found = launch_size(sizes, extents(group_size, "group_size"), launch.thread_limits(facts), facts.name)
        if plain:
            if len(self._sizes) >= KEPT_SIZES:
                self._sizes.clear()
            self._sizes[key] = found
        return found

    def _require(self, bindings: Sequence[Binding | None]) -> None:
        """Every buffer that the kernel has must be bound; Metal leaves this to its users."""
        for argument in self._needed:
            if argument.index >= len(bindings) or bindings[argument.index] is None:
                raise ShaderArgumentError(
                    f"{self._function.name}: nothing is bound to '{argument.name}' [[buffer({argument.index})]] "
                    "(PyTorch does not check this)"
                )


def _elements(array: Any) -> int:
    return int(array.numel()) if is_torch(array) else int(array.size)
