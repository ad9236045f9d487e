"""Metal kernels that run everywhere: Apple GPUs through PyTorch and MLX, and any CPU.

import metalcore

lib = metalcore.Library("shaders/saxpy.metal")
lib.function("saxpy")(x, y, 2.0, threads=n, group_size=256)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from metalcore import errors
    from metalcore.dropins import compile_shader, emulate, metal_kernel
    from metalcore.engine.library import Function, Library
    from metalcore.engine.modes import mode
    from metalcore.engine.runtime.threads import get_num_threads, set_num_threads

# Where each public name lives. Nothing is imported before it is used, so that `import metalcore` costs nothing.
_HOMES = {
    "Function": "metalcore.engine.library",
    "Library": "metalcore.engine.library",
    "compile_shader": "metalcore.dropins",
    "emulate": "metalcore.dropins",
    "errors": "",
    "get_num_threads": "metalcore.engine.runtime.threads",
    "metal_kernel": "metalcore.dropins",
    "mode": "metalcore.engine.modes",
    "set_num_threads": "metalcore.engine.runtime.threads",
}

__all__ = [
    "Function",
    "Library",
    "__version__",
    "compile_shader",
    "emulate",
    "errors",
    "get_num_threads",
    "metal_kernel",
    "mode",
    "set_num_threads",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'metalcore' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name) if home else importlib.import_module(f"metalcore.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
