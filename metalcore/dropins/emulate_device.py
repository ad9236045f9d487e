"""Device "mps" on CPU memory: a torch function mode that translates devices and remembers which tensors are there.

A tensor is "on mps" when its storage is: made with device="mps", moved with `.to("mps")`, or computed from such a
tensor. It reports device mps:0 and `is_mps`, as programs check; its memory is the CPU's, so every op runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

from metalcore.arrays.torch_private import default_device, is_backward, makers, parse_to, storage_key
from metalcore.engine.locks import ForkLock

CPU = torch.device("cpu")
MPS = torch.device("mps", 0)
_NO_FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
    "Please use float32 instead."
)


def is_mps(value: object) -> bool:
    """Whether a device argument names the Apple GPU."""
    if isinstance(value, torch.device):
        return bool(value.type == "mps")
    return isinstance(value, str) and value.partition(":")[0] == "mps"


class Residents:
    """The storages that count as being on the Apple GPU, held weakly."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int]] = {}
        self._lock = ForkLock()
        self._purge_at = 1024

    def add(self, tensor: torch.Tensor) -> None:
        """Count the tensor's storage as being on mps."""
        storage = _storage(tensor)
        if storage is None or storage_key(storage) in self._known:
            return
        with self._lock:
            # The weak reference keeps the address from being used again while the entry exists.
            self._known[storage_key(storage)] = (_weak(storage), storage.nbytes())
            if len(self._known) > self._purge_at:
                self._purge()

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor's storage counts as being on mps."""
        storage = _storage(tensor)
        return storage is not None and storage_key(storage) in self._known

    def nbytes(self) -> int:
        """Bytes of all tensors on mps that are still alive."""
        with self._lock:
            self._purge()
            return sum(size for _, size in self._known.values())

    def _purge(self) -> None:
        self._known = {key: entry for key, entry in self._known.items() if not entry[0].expired()}
        self._purge_at = max(1024, 2 * len(self._known))


def _weak(storage: Any) -> Any:
    make: Any = StorageWeakRef
    return make(storage)


def _storage(tensor: torch.Tensor) -> Any:
    try:
        return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):  # sparse and wrapped tensors have none
        return None


RESIDENTS = Residents()


class DeviceMode(TorchFunctionMode):
    """Translates "mps" to "cpu" in every torch call of a thread, and answers questions about devices."""

    def __init__(self, active: Callable[[], bool]) -> None:
        super().__init__()
        self._active = active

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if not self._active() or func in (torch.device, parse_to):
            return func(*args, **kwargs)
        answer = _questions().get(func)
        if answer is not None and _on_mps(args[0]):
            return answer(func, args, kwargs)
        target, args, kwargs = _translate(func, args, kwargs)
        given = list(tensors((args, kwargs)))
        result = func(*args, **kwargs)
        if target is None:
            if any(RESIDENTS.holds(tensor) for tensor in given):
                _keep(result, given)
            return result
        return _moved(result, target, given, func)


def _on_mps(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return False
    # Inside a backward pass gradients and saved tensors come straight from C++, where nobody could note them.
    return RESIDENTS.holds(value) or (is_backward() and value.device.type == "cpu")


@lru_cache(maxsize=1)
def _questions() -> dict[Any, Callable[[Any, Any, Any], Any]]:
    """Answers for tensors on mps."""
    tensor: Any = torch.Tensor
    return {
        tensor.device.__get__: lambda func, args, kwargs: MPS,
        tensor.is_mps.__get__: lambda func, args, kwargs: True,
        tensor.is_cpu.__get__: lambda func, args, kwargs: False,
        tensor.get_device: lambda func, args, kwargs: 0,
        torch.get_device: lambda func, args, kwargs: 0,
        tensor.__repr__: _repr,
    }


def _repr(func: Any, args: Any, kwargs: Any) -> str:
    text = str(func(*args, **kwargs))
    head, bracket, tail = text.rpartition(")")
    return f"{head}, device='mps:0'{bracket}{tail}" if bracket else text


def _translate(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[str | None, Any, dict[str, Any]]:
    """Where the call puts its result ("mps", "cpu", or None: nothing said), and its arguments for the CPU."""
    target = None
    if kwargs.get("device") is not None:
        target = _target(kwargs["device"])
        if target == "mps":
            kwargs["device"] = CPU
    elif func in makers() and is_mps(default_device()):
        target = "mps"
        kwargs["device"] = CPU
    if func is torch.Tensor.cpu:
        target = "cpu"
    texts = func is not torch.einsum
    if any(isinstance(value, torch.device) or (texts and is_mps(value)) for value in args):
        target = next(_target(v) for v in args if isinstance(v, torch.device) or (texts and is_mps(v)))
        args = tuple(CPU if isinstance(v, torch.device | str) and is_mps(v) else v for v in args)
    if func is torch.Tensor.to and target is None:
        if len(args) > 1 and isinstance(args[1], str):
            target = _target(args[1])
        other = next((v for v in (*args[1:2], kwargs.get("other")) if isinstance(v, torch.Tensor)), None)
        if other is not None:
            target = "mps" if RESIDENTS.holds(other) else "cpu"
    return target, args, kwargs


def _target(device: Any) -> str | None:
    if is_mps(device):
        return "mps"
    kind = device.type if isinstance(device, torch.device) else str(device).partition(":")[0]
    return "cpu" if kind == "cpu" else None


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)


def _addresses(tensors: list[torch.Tensor]) -> set[int]:
    return {storage_key(storage) for storage in map(_storage, tensors) if storage is not None}


def _keep(result: Any, given: list[torch.Tensor]) -> None:
    """What is computed from tensors on mps is there too, unless it is the memory of a CPU tensor that was given."""
    foreign = _addresses([tensor for tensor in given if not RESIDENTS.holds(tensor)])
    for tensor in tensors(result):
        storage = _storage(tensor)
        if storage is not None and storage_key(storage) not in foreign:
            RESIDENTS.add(tensor)


def _moved(result: Any, target: str, given: list[torch.Tensor], func: Any) -> Any:
    """A result with a stated device: never the memory of a tensor on the other one."""
    if not isinstance(result, torch.Tensor):
        return result
    on_mps = target == "mps"
    if on_mps and result.dtype == torch.float64:
        raise TypeError(_NO_FLOAT64)
    others = [tensor for tensor in given if RESIDENTS.holds(tensor) != on_mps]
    storage = _storage(result)
    shared = storage is not None and storage_key(storage) in _addresses(others)
    if shared or (on_mps and func in (torch.as_tensor, torch.asarray)):
        result = result.clone()  # on a Mac the two have memory of their own
    if on_mps:
        RESIDENTS.add(result)
    return result
