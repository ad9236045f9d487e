"""Arrays of NumPy, torch and mlx as the raw memory that a kernel sees."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from metalcore.engine.runtime.arrays import extent, is_fake, short_storage, torch_extent, torch_room
from metalcore.engine.runtime.mlx_arrays import know_mlx
from metalcore.engine.runtime.native_library import know_torch
from metalcore.errors import ArgumentError
from metalcore.packages import needed_for


class Binding(NamedTuple):
    """What goes to one buffer slot: an address, the bytes reachable upwards from it, and what keeps it alive."""

    address: int
    size: int
    owner: object
    writable: bool = True
    inside: tuple[Binding, ...] = ()  # memory that pointers stored in this buffer lead to
    fresh: bool = False  # nothing was written to it yet
    is_list: bool = False  # it holds an address of each item inside, in this order
    cells: Sequence[int] = ()  # where addresses of what is inside stand


def torch_module() -> Any:
    """torch, untyped: it may be absent, and its types change from version to version."""
    with needed_for("this call"):
        return importlib.import_module("torch")


def mlx_module() -> Any:
    """mlx.core, untyped, for the same reasons."""
    with needed_for("this call"):
        return importlib.import_module("mlx.core")


def is_torch(value: object) -> bool:
    """Whether the value is a torch tensor; false without importing torch where it is not imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def is_mlx(value: object) -> bool:
    """Whether the value is an mlx array; false without importing mlx where it is not imported."""
    core = sys.modules.get("mlx.core")
    return core is not None and isinstance(value, getattr(core, "array", ()))


def is_array(value: object) -> bool:
    """Whether the value is an array of NumPy, torch or mlx."""
    return isinstance(value, np.ndarray) or is_torch(value) or is_mlx(value)


def element_count(value: Any) -> int:
    """Number of elements of an array of any framework."""
    return int(value.numel()) if is_torch(value) else int(value.size)


def bind_array(value: Any, where: str) -> Binding:
    """The memory of an array, from its first element to the end of its storage, strides unseen (as Metal sees it)."""
    try:
        binding = bind(value)
    except ArgumentError as error:
        raise ArgumentError(f"{where}: {error}") from None
    if binding is None:
        raise ArgumentError(f"{where}: {type(value).__name__} is not an array")
    return binding


def bind_elements(value: Any, where: str) -> Binding:
    """The same, held to the array's own elements: the rest of the memory that it is a view of is not reachable."""
    binding = bind_array(value, where)
    if isinstance(value, np.ndarray):
        return binding._replace(size=min(binding.size, extent(value.shape, value.strides, value.itemsize)))
    return binding._replace(size=torch_extent(value)) if is_torch(value) else binding


def bind(value: Any) -> Binding | None:
    """The same, or None where the value is not an array at all. Every launch comes by here, so it is kept short."""
    if isinstance(value, np.ndarray):
        return _bind_numpy(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return _bind_torch(torch, value)
    return _bind_mlx(value) if is_mlx(value) else None


def _bind_numpy(value: np.ndarray[Any, Any]) -> Binding:
    dtype, flags = value.dtype, value.flags
    if dtype.hasobject:
        raise ArgumentError("an array of Python objects has no memory that a kernel could read")
    if not dtype.isnative:
        raise ArgumentError(f"dtype {dtype.str!r} has the byte order of another machine")
    address = value.__array_interface__["data"][0]
    if value.size == 0 or (value.base is None and flags.c_contiguous):
        return Binding(address, value.nbytes, value, flags.writeable)
    return Binding(address, max(0, _numpy_end(value) - address), value, flags.writeable)


def _numpy_end(value: np.ndarray[Any, Any]) -> int:
    """One past the last byte of the memory that the array is a view of."""
    root = value
    while isinstance(root.base, np.ndarray):
        root = root.base
    start = root.__array_interface__["data"][0]
    low = high = start
    for length, stride in zip(root.shape, root.strides, strict=True):
        if length == 0:
            return int(start)
        if stride > 0:
            high += (length - 1) * stride
        else:
            low += (length - 1) * stride
    return int(high + root.itemsize)


def _bind_torch(torch: Any, value: Any) -> Binding:
    know_torch()  # the next ones are bound in C
    if torch._C._len_torch_function_stack():
        # The engine sees memory: no function mode may answer for it.
        with torch._C.DisableTorchFunction():
            return _torch_memory(torch, value)
    return _torch_memory(torch, value)


def _torch_memory(torch: Any, value: Any) -> Binding:
    if not value.is_cpu:
        raise ArgumentError(f"the tensor is on {value.device}; the engine runs on CPU tensors")
    if value.is_nested:
        raise ArgumentError("a nested tensor has no single block of memory: pass its tensors, .unbind()")
    if value.layout is not torch.strided:
        raise ArgumentError(f"a {value.layout} tensor has no single block of memory")
    if value.is_neg() or value.is_conj():
        raise ArgumentError("a lazy negation or conjugate is not in memory: call .resolve_neg().resolve_conj()")
    if is_fake(value):
        raise ArgumentError("a fake tensor has no memory")
    if not value.numel():
        return Binding(0, 0, value)  # torch has no address for it, wherever it is a view of
    room, needed = torch_room(value), torch_extent(value)
    if needed > room:
        raise ArgumentError(f"it must be one block of memory, not {short_storage(value, needed)}")
    return Binding(value.data_ptr(), room, value)


def _bind_mlx(value: Any) -> Binding:
    """mlx arrays are immutable, so never writable here; metal_kernel writes only to arrays that it has just made."""
    know_mlx()  # the next ones are bound in C
    view = mlx_view(value)
    address = view.__array_interface__["data"][0]
    size = extent(view.shape, view.strides, view.itemsize)
    return Binding(address, size, view, writable=False)


def mlx_view(value: Any) -> np.ndarray[Any, Any]:
    """An evaluated mlx array as a NumPy view of the same memory and strides; bfloat16 is seen as its bits."""
    mx = mlx_module()

    mx.eval(value)
    if value.dtype == mx.bfloat16:
        value = value.view(mx.uint16)
        mx.eval(value)
    return np.asarray(value)


def aligned_copy(data: bytes | np.ndarray[Any, Any]) -> Binding:
    """A private copy of a few bytes at a 16-byte boundary, as Metal's setBytes gives to a kernel."""
    source = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.ascontiguousarray(data).view(np.uint8)
    room = np.empty(source.size + 16, np.uint8)
    start = -room.__array_interface__["data"][0] % 16
    copy = room[start : start + source.size]
    copy[:] = source.reshape(-1)
    return Binding(copy.__array_interface__["data"][0], source.size, room, writable=False)


def round_to_bfloat16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """The bits of the nearest bfloat16 of each value, ties to even, NaN kept."""
    single = np.asarray(values, np.float32)
    bits = single.view(np.uint32)
    rounded: np.ndarray[Any, np.dtype[np.uint16]]
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    rounded[np.isnan(single)] = 0x7FC0  # adding to a NaN could carry it to infinity or beyond
    return rounded
