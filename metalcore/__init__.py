"""Metal kernels that run everywhere: Apple GPUs through PyTorch and MLX, and any CPU.

import metalcore

lib = metalcore.Library("shaders/saxpy.metal")
lib.function("saxpy")(x, y, 2.0, threads=n, group_size=256)
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from metalcore import errors
from metalcore.forking import unforked
from metalcore.version import VERSION

__version__ = VERSION

__all__ = [
    "ArgumentBuffer",
    "Finding",
    "Function",
    "Library",
    "LogLine",
    "Report",
    "__version__",
    "argument_buffer",
    "captured_log",
    "cholesky",
    "cholesky_solve",
    "compile_shader",
    "coverage",
    "disable_pytorch_overrides",
    "eigh",
    "emulate",
    "enable_pytorch_overrides",
    "errors",
    "explain",
    "get_num_threads",
    "isolate",
    "lstsq",
    "metal_kernel",
    "mode",
    "overrides",
    "patch_model",
    "pinv",
    "qr",
    "set_num_threads",
    "shared_array",
    "solve",
    "svd",
    "target",
    "trsm",
    "unpatch_model",
]

# Imported when they are used, for pytest imports this package for its plug-in, in projects that never launch a kernel.
# Their types are in __init__.pyi.
_LAZY = {
    "ArgumentBuffer": "metalcore.engine.runtime.argument_buffers",
    "Finding": "metalcore.engine.checks.report",
    "Function": "metalcore.engine.function",
    "Library": "metalcore.engine.library",
    "LogLine": "metalcore.engine.runtime.said",
    "Report": "metalcore.engine.checks.report",
    "argument_buffer": "metalcore.engine.runtime.argument_buffers",
    "captured_log": "metalcore.engine.runtime.said",
    "compile_shader": "metalcore.dropins",
    "coverage": "metalcore.engine.modes",
    "disable_pytorch_overrides": "metalcore.torch.overrides",
    "emulate": "metalcore.dropins",
    "enable_pytorch_overrides": "metalcore.torch.overrides",
    "explain": "metalcore.torch.explain",
    "get_num_threads": "metalcore.engine.runtime.threads",
    "isolate": "metalcore.engine.isolate.block",
    "metal_kernel": "metalcore.dropins",
    "mode": "metalcore.engine.modes",
    "overrides": "metalcore.torch.overrides",
    "patch_model": "metalcore.torch.patch",
    "set_num_threads": "metalcore.engine.runtime.threads",
    "shared_array": "metalcore.engine.isolate.memory",
    "target": "metalcore.launch",
    "trsm": "metalcore.ops.linalg.triangular",
    "unpatch_model": "metalcore.torch.patch",
    # linear algebra by the short names that other packages have for it
    **dict.fromkeys(("cholesky", "cholesky_solve", "eigh", "lstsq", "pinv", "qr", "solve", "svd"), "metalcore.linalg"),
}
_SUBMODULES = ("linalg", "mlx", "nn", "optim", "precise")


def __getattr__(name: str) -> Any:
    with unforked():
        if name in _SUBMODULES:
            return import_module(f"metalcore.{name}")
        if name in _LAZY:
            value = _imported(name)
        else:
            ops = import_module("metalcore.ops")  # `from metalcore import ops` would ask this very function

            if name not in ops.nouns():
                raise AttributeError(f"module 'metalcore' has no attribute {name!r}")
            value = ops.function(name)
        globals()[name] = value
        return value


def _imported(name: str) -> Any:
    from metalcore.packages import needed_for

    with needed_for(f"metalcore.{name}"):
        return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    ops = import_module("metalcore.ops")

    return sorted({*globals(), *__all__, *ops.nouns()})
