"""The core of native/torch on a Metal of its own, and a launch to try it with."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import Any

from metalcore.ops.rms_norm import FORWARD
from metalcore.runtimes.kernel import Out
from metalcore.runtimes.mps_native import NativeRuntime
from metalcore.runtimes.native_torch import Extension
from native.tools.core import library
from native.tools.embed import embedded
from tests.native.metal import Metal


class Machine:
    """A copy of the core of its own, with its caches empty, on a Metal of its own."""

    def __init__(self, folder: Path, files: tuple[str, ...] = (), metallib: bytes = b"", runs: bool = False) -> None:
        path = folder / f"core{len(list(folder.iterdir()))}.so"
        shutil.copy(library(embedded(files, metallib)), path)
        self.metal = Metal(runs)
        core = ctypes.CDLL(str(path))
        core.metalcore_set_host(self.metal.table)
        self.run = NativeRuntime(Extension(core), "cpu")


def norm(machine: Machine, x: Any, weight: Any = None, groups: tuple[int, ...] = (2,), group: int = 32) -> list[Any]:
    given = dict(x=x, weight=weight, y=Out((2, 8), "float32"), power=Out((2,), "float32"), rows=2, width=8, eps=0.5)
    types = ("float32", "float32", 1)
    return machine.run.launch(FORWARD, types, (weight is not None,), given, groups, (group,))
