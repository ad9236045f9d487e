"""Arrays of any framework as memory: where it is, how long, of what type. Nothing is copied or imported needlessly."""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, NamedTuple

import numpy as np

# Frameworks whose arrays never change once made, whatever their buffers say.
IMMUTABLE = ("mlx", "jax", "jaxlib")


class ArrayView(NamedTuple):
    """The memory of an array, from its first element to the end of its last one."""

    address: int
    size: int  # bytes reachable upwards from the address
    dtype: str  # "float32", "bfloat16", ...; "bytes" where the object has no element type
    writable: bool
    contiguous: bool
    device: str  # "cpu", or where else it is
    owner: object  # keeps the memory alive
    immutable: bool = False  # its framework does not allow writes
    has_holes: bool = False  # bytes between its elements belong to others

    @property
    def changeable(self) -> bool:
        """Whether a kernel may write anywhere in this memory."""
        return self.writable and not self.immutable and not self.has_holes


def view_of(value: Any) -> ArrayView | None:
    """The memory behind an array-like object, or None where it is not one."""
    if isinstance(value, np.ndarray):
        return _numpy_view(value, value)
    module = type(value).__module__.partition(".")[0]
    if module == "torch" or hasattr(value, "data_ptr"):
        return _torch_view(value)
    if isinstance(value, (bytes, bytearray, ctypes.Structure, ctypes.Union, ctypes.Array)):
        memory = memoryview(value)
        flat = np.frombuffer(memory, dtype=np.uint8) if memory.nbytes else np.zeros(0, np.uint8)
        return _as_bytes(_numpy_view(flat, value))
    if isinstance(value, (np.generic, str)):
        return None
    return _foreign_view(value, immutable=module in IMMUTABLE)


def _as_bytes(view: ArrayView) -> ArrayView:
    return ArrayView(view.address, view.size, "bytes", view.writable, True, "cpu", view.owner)


def extent(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """Bytes from the first element to the end of the highest one."""
    if 0 in shape:
        return 0
    return itemsize + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)


def _numpy_view(array: np.ndarray[Any, Any], owner: object, immutable: bool = False) -> ArrayView:
    dtype = array.dtype
    name = "struct" if dtype.names is not None or (dtype.kind == "V" and dtype.name.startswith("void")) else dtype.name
    if dtype.hasobject or not dtype.isnative:
        name = f"{dtype.str} (objects or foreign byte order)"
    address = array.__array_interface__["data"][0]
    size = extent(array.shape, array.strides, array.itemsize)
    flags = array.flags
    kept, holes = (owner, array), size > array.nbytes
    return ArrayView(address, size, name, flags.writeable, flags.c_contiguous, "cpu", kept, immutable, holes)


def _torch_view(tensor: Any) -> ArrayView | None:
    if not all(hasattr(tensor, name) for name in ("dtype", "device", "is_contiguous", "layout")):
        return None
    dtype = str(tensor.dtype).removeprefix("torch.")
    device = str(tensor.device)
    if tensor.device.type != "cpu":
        modes = getattr(sys.modules.get("torch"), "_C", None)
        if modes is not None and modes._len_torch_function_stack():
            # Inside metalcore.emulate() a CPU tensor may call itself mps: ask the tensor, not the function mode.
            with modes.DisableTorchFunction():
                return _torch_view(tensor)
        return ArrayView(0, 0, dtype, True, True, device, tensor)
    layout = str(tensor.layout).removeprefix("torch.")
    if tensor.is_nested:
        return ArrayView(
            0, 0, dtype, True, True, "cpu (a nested tensor: pass a list of its tensors, .unbind())", tensor
        )
    if layout != "strided":
        return ArrayView(0, 0, dtype, True, True, f"cpu ({layout} layout)", tensor)
    if tensor.is_neg() or tensor.is_conj():
        lazy = "cpu (a lazy negative or conjugate: call .resolve_neg().resolve_conj())"
        return ArrayView(0, 0, dtype, True, True, lazy, tensor)
    size = torch_extent(tensor)
    holes = size > tensor.nbytes
    if is_fake(tensor):
        return ArrayView(0, 0, dtype, True, True, "cpu (a fake tensor, which has no memory)", tensor)
    address = tensor.data_ptr()
    if size > torch_room(tensor):
        return ArrayView(0, 0, dtype, True, True, f"cpu ({short_storage(tensor, size)})", tensor)
    return ArrayView(address, size, dtype, True, tensor.is_contiguous(), "cpu", tensor, has_holes=holes)


def is_fake(tensor: Any) -> bool:
    """Whether it is torch's FakeTensor: it says that it is on the CPU, and nothing is there."""
    return type(tensor).__module__ == "torch._subclasses.fake_tensor"


def torch_extent(tensor: Any) -> int:
    """Bytes from the tensor's first element to the end of its last one."""
    if tensor.is_contiguous():
        return int(tensor.nbytes)
    item = tensor.element_size()
    return extent(tuple(tensor.shape), tuple(s * item for s in tensor.stride()), item)


def torch_room(tensor: Any) -> int:
    """Bytes of its storage from its first element on. A storage can be resized under its tensor: FSDP frees them so."""
    room: int = tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.element_size()
    return room


def short_storage(tensor: Any, needed: int) -> str:
    """What is wrong with a tensor whose storage ends before it does."""
    shape, room = tuple(tensor.shape), max(0, torch_room(tensor))
    return f"a tensor of shape {shape}, {needed} bytes, whose storage was resized and holds {room} of them"


def _foreign_view(value: Any, immutable: bool) -> ArrayView | None:
    try:
        buffer = memoryview(value)
    except (TypeError, ValueError, BufferError):
        buffer = None
    if buffer is not None:
        try:
            return _numpy_view(np.asarray(buffer), (value, buffer), immutable)
        except (ValueError, TypeError):
            pass  # a format that NumPy does not know
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack_view(value, immutable)
    return None


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DLPACK_CPU = (1, 3, 11, 13, 14)  # CPU, and memory pinned or shared for a GPU
_DLPACK_NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}


def _dlpack_view(value: Any, immutable: bool) -> ArrayView:
    kind, number = value.__dlpack_device__()
    if int(kind) not in _DLPACK_CPU:
        return ArrayView(0, 0, "", True, True, f"DLPack device {int(kind)}:{number}", value)
    capsule = value.__dlpack__()
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(read(capsule, b"dltensor"))
    dtype = "bool" if tensor.code == 6 else f"{_DLPACK_NAMES.get(tensor.code, 'opaque')}{tensor.bits}"
    item = tensor.bits * tensor.lanes // 8
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    compact = [item] * tensor.ndim
    for i in range(tensor.ndim - 2, -1, -1):
        compact[i] = compact[i + 1] * shape[i + 1]
    strides = tuple(tensor.strides[i] * item for i in range(tensor.ndim)) if tensor.strides else tuple(compact)
    contiguous = all(n == 1 or s == c for n, s, c in zip(shape, strides, compact, strict=True))
    address = (tensor.data or 0) + tensor.byte_offset
    size = extent(shape, strides, item)
    holes = size > math.prod(shape) * item
    return ArrayView(address, size, dtype, True, contiguous, "cpu", (value, capsule), immutable, holes)
