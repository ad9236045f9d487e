"""What `emulate()` replaces in torch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from metalcore import settings
from metalcore.arrays.torch_private import tree_leaves
from metalcore.dropins.compile_shader import compile_shader
from metalcore.dropins.emulate import Patches
from metalcore.dropins.emulate_device import CPU, RESIDENTS, DeviceMode, is_mps
from metalcore.dropins.emulate_library import library_impl
from metalcore.errors import UnsupportedFeature


def device_mode(active: Callable[[], bool]) -> AbstractContextManager[Any]:
    """The translation of torch calls, for one thread."""
    return DeviceMode(active)


def patch(patches: Patches) -> None:
    """Answer torch's questions about MPS, and run its shaders with the engine."""
    for owner, answers in (
        (torch.backends.mps, _BACKEND),
        (torch.mps, _MPS),
        (torch.mps.profiler, _PROFILER),
        (getattr(torch, "accelerator", None), _ACCELERATOR),
    ):
        for name, answer in answers.items():
            if hasattr(owner, name):
                patches.set(owner, name, answer)
    patches.set(torch, "Generator", _generator(torch.Generator))
    patches.set(torch, "load", _load(torch.load))
    autocast = torch.amp.autocast_mode.autocast
    patches.set(autocast, "__init__", _autocast_init(autocast.__init__))
    patches.set(torch.library.Library, "impl", library_impl(torch.library.Library.impl))
    backward = torch.autograd.function.BackwardCFunction
    patches.set(backward, "apply", _backward_apply(backward.apply))


class Event:
    """torch.mps.Event: work on the CPU is done when it returns, so an event is a moment in time."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._timing = enable_timing
        self._moment: float | None = None

    def record(self) -> None:
        """Note the time."""
        self._moment = time.perf_counter()

    def wait(self) -> None:
        """Nothing is ever pending."""

    def query(self) -> bool:
        """Whether the work before the event is done: always."""
        return True

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between two recorded events."""
        if self._moment is None or end_event._moment is None or not (self._timing and end_event._timing):
            raise RuntimeError("both events must be recorded, and made with enable_timing=True")
        return (end_event._moment - self._moment) * 1000


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Work on the CPU is done when it returns; there is nothing to wait for and no cache to empty."""


def _memory_fraction(fraction: float) -> None:
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if fraction < 0 or fraction > 2:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~2")


def _memory_size() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _load_metallib(source: object) -> None:
    raise UnsupportedFeature("a .metallib holds code for Apple GPUs; the engine runs MSL source")


@contextmanager
def _quiet(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


_BACKEND: dict[str, Any] = {
    "is_available": lambda: True,
    "is_built": lambda: True,
    "is_macos_or_newer": lambda major, minor: True,
    "is_macos13_or_newer": lambda minor=0: True,
    "get_name": lambda: "metalcore (CPU)",
    "get_core_count": settings.num_threads,
}
_MPS: dict[str, Any] = {
    "compile_shader": compile_shader,
    "load_metallib": _load_metallib,
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "synchronize": _nothing,
    "empty_cache": _nothing,
    "set_per_process_memory_fraction": _memory_fraction,
    "current_allocated_memory": RESIDENTS.nbytes,
    "driver_allocated_memory": RESIDENTS.nbytes,
    "recommended_max_memory": _memory_size,
    "manual_seed": lambda seed: torch.default_generator.manual_seed(int(seed)) and None,
    "seed": lambda: torch.default_generator.seed() and None,
    "get_rng_state": lambda device="mps": torch.default_generator.get_state(),
    "set_rng_state": lambda new_state, device="mps": torch.default_generator.set_state(new_state) and None,
    "Event": Event,
    "_host_alias_storage": lambda storage: storage,
}
_PROFILER: dict[str, Any] = {
    "start": _nothing,
    "stop": _nothing,
    "profile": _quiet,
    "metal_capture": _quiet,
    "is_metal_capture_enabled": lambda: False,
    "is_capturing_metal": lambda: False,
}
_ACCELERATOR: dict[str, Any] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_accelerator": lambda check_available=False: torch.device("mps"),
    "current_device_index": lambda: 0,
    "current_device_idx": lambda: 0,
    "set_device_index": _nothing,
    "set_device_idx": _nothing,
    "synchronize": _nothing,
    "empty_cache": _nothing,
    "memory_allocated": lambda device=None: RESIDENTS.nbytes(),
}


def _generator(original: Any) -> Any:
    """torch.Generator whose device "mps" is the CPU; instances stay those of torch."""

    class GeneratorType(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, original)

    class Generator(original, metaclass=GeneratorType):  # type: ignore[misc]
        def __new__(cls, device: Any = "cpu") -> Any:
            return original(device=CPU if is_mps(device) else device)

    return Generator


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch.load that puts what is loaded with map_location="mps" on the emulated device."""

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not is_mps(map_location):
            return original(f, map_location, *args, **kwargs)
        loaded = original(f, CPU, *args, **kwargs)
        for leaf in tree_leaves(loaded):
            if isinstance(leaf, torch.Tensor):
                RESIDENTS.add(leaf)
        return loaded

    return load


def _autocast_init(original: Callable[..., None]) -> Callable[..., None]:
    def autocast_init(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        original(self, "cpu" if device_type == "mps" else device_type, *args, **kwargs)

    return autocast_init


def _backward_apply(original: Callable[..., Any]) -> Callable[..., Any]:
    """Backward functions are the user's own code, and torch turns function modes off around them."""

    def apply(self: Any, *args: Any) -> Any:
        with DeviceMode(lambda: True):
            return original(self, *args)

    return apply
