"""torch tensors as memory, and what the runtimes ask of torch. It is not imported here before it is needed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from metalcore.arrays.dtypes import NAMES, dtype_name
from metalcore.arrays.find import module
from metalcore.arrays.memory import Memory, NoMemory, elsewhere, extent, scattered
from metalcore.errors import ArgumentError
from metalcore.packages import needed_for


def torch_module() -> Any:
    """torch, untyped: it may be absent, and its types change from version to version."""
    with needed_for("this call"):
        return importlib.import_module("torch")


def memory_of(tensor: Any, *, whole: bool = False) -> Memory:
    """Its memory, to the end of its last element, or, where `whole`, of its storage."""
    private = module("torch_private")
    if private.function_modes():  # inside metalcore.emulate() a CPU tensor calls itself mps; memory is asked for here
        with private.without_function_modes():
            return _memory_of(tensor, whole)
    return _memory_of(tensor, whole)


def _memory_of(tensor: Any, whole: bool) -> Memory:
    if not tensor.is_cpu:
        raise elsewhere(tensor.device)
    if tensor.is_nested:
        raise nested()
    if tensor.layout is not sys.modules["torch"].strided:
        raise scattered(f"a tensor of {tensor.layout} layout")
    if tensor.is_neg() or tensor.is_conj():
        raise scattered("a lazy negative or conjugate: call .resolve_neg().resolve_conj()")
    if module("torch_private").is_fake(tensor):
        raise scattered("a fake tensor, which has no memory")
    name = dtype_name(tensor)
    if not tensor.numel():
        return Memory(0, 0, name, tensor)  # torch has no address for it, wherever it is a view of
    is_compact, reach = tensor.is_contiguous(), room(tensor)
    size = tensor.nbytes if is_compact else _extent(tensor)
    if size > reach:
        raise short_storage(tensor, size)
    has_holes = size > tensor.nbytes
    return Memory(tensor.data_ptr(), reach if whole else size, name, tensor, contiguous=is_compact, has_holes=has_holes)


def plain_memory(tensor: Any) -> tuple[int, int] | None:
    """Address and size of a contiguous tensor of real numbers, at once; None: memory_of has to look."""
    try:
        if tensor.is_cpu and tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_nested:
            size: int = tensor.nbytes
            return (tensor.data_ptr(), size) if size <= room(tensor) else None
    except RuntimeError:  # of sparse and other layouts
        pass
    return None


def _extent(tensor: Any) -> int:
    item = tensor.element_size()
    return extent(tensor.shape, [stride * item for stride in tensor.stride()], item)


def room(tensor: Any) -> int:
    """Bytes of its storage from its first element on. A storage can be resized under its tensor: FSDP frees them so."""
    found: int = tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.element_size()
    return found


def short_storage(tensor: Any, needed: int) -> NoMemory:
    """A tensor whose storage ends before it does."""
    shape, held = tuple(tensor.shape), max(0, room(tensor))
    return scattered(f"a tensor of shape {shape}, {needed} bytes, whose storage was resized and holds {held} of them")


def nested() -> NoMemory:
    return scattered("a nested tensor: pass a list of its tensors, .unbind()")


class TorchArrays:
    """`Arrays` of torch: tensors on one device."""

    def __init__(self, device: Any = "cpu") -> None:
        torch = torch_module()
        self._empty = torch.empty if str(device) == "cpu" else partial(torch.empty, device=device)
        self._dtypes = {name: getattr(torch, name) for name in NAMES}

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._empty(shape, dtype=self._dtypes[dtype])

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Any]:
        return partial(self._empty, shape, dtype=getattr(torch_module(), dtype))

    def memory(self, array: Any) -> tuple[int, int]:
        address, size = array.data_ptr(), array.nbytes
        if size and size > room(array):  # a view of no elements may begin behind its storage
            raise ArgumentError(f"an argument {short_storage(array, size)}")
        return address, size

    def contiguous(self, array: Any) -> Any:
        return array if array.is_contiguous() else array.contiguous()

    def strides(self, array: Any) -> tuple[int, ...]:
        return tuple(array.stride())

    def cast(self, array: Any, dtype: str) -> Any:
        return array.to(self._dtypes[dtype])

    @property
    def linalg_error(self) -> type[Exception]:
        error: type[Exception] = torch_module().linalg.LinAlgError
        return error

    def sort(self, indices: Any) -> tuple[Any, Any]:
        found: tuple[Any, Any] = indices.reshape(-1).sort(stable=True)
        return found

    dtype = staticmethod(dtype_name)
