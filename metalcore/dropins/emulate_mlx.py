"""What `emulate()` replaces in mlx."""

from __future__ import annotations

import os
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.dropins.emulate import Patches
from metalcore.dropins.metal_kernel import metal_kernel


def patch(patches: Patches) -> None:
    """Answer mlx's questions about Metal, and run its custom kernels with the engine."""
    mx = mlx_module()

    patches.set(mx.fast, "metal_kernel", metal_kernel)
    patches.set(mx.metal, "is_available", lambda: True)
    patches.set(mx.metal, "device_info", device_info)
    patches.set(mx.metal, "start_capture", lambda path: None)
    patches.set(mx.metal, "stop_capture", lambda: None)
    # Streams and devices named mx.gpu are the CPU's, so default_device() == mx.gpu holds too.
    patches.set(mx, "gpu", mx.cpu)
    _run_compiled_functions_eagerly(mx, patches)


def _run_compiled_functions_eagerly(mx: Any, patches: Patches) -> None:
    """A kernel runs at once, which mx.compile's tracing does not allow: functions run as they are written."""
    calls: list[int] = []

    def identity(x: Any) -> Any:
        calls.append(1)
        return x

    probe = mx.compile(identity)
    probe(mx.array(0))
    probe(mx.array(1))
    if len(calls) == 1:  # compilation is on: the second call came from its cache
        mx.disable_compile()
        patches.on_restore(mx.enable_compile)


def device_info() -> dict[str, str | int]:
    """What mx.metal.device_info gives on a Mac, for this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "device_name": "metalcore (CPU)",
        "architecture": "metalcore",
        "memory_size": memory,
        "max_buffer_length": memory,
        "max_recommended_working_set_size": memory,
        "resource_limit": 499000,
    }
