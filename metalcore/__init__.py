"""Metal kernels that run everywhere: Apple GPUs through PyTorch and MLX, and any CPU.

import metalcore

lib = metalcore.Library("shaders/saxpy.metal")
lib.function("saxpy")(x, y, 2.0, threads=n, group_size=256)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metalcore import errors
from metalcore.engine.checks.report import Finding, Report
from metalcore.engine.library import Function, Library
from metalcore.engine.modes import mode
from metalcore.engine.runtime.threads import get_num_threads, set_num_threads

if TYPE_CHECKING:
    from metalcore.dropins import compile_shader, emulate, metal_kernel

__version__ = "0.1.0"

__all__ = [
    "Finding",
    "Function",
    "Library",
    "Report",
    "__version__",
    "compile_shader",
    "emulate",
    "errors",
    "get_num_threads",
    "metal_kernel",
    "mode",
    "set_num_threads",
]

# Imported when they are used: they bring NumPy, and `import metalcore` does without.
_LAZY = ("compile_shader", "emulate", "metal_kernel")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'metalcore' has no attribute {name!r}")
    from metalcore import dropins

    value = getattr(dropins, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
