"""Which way library kernels take to an Apple GPU from torch: the native extension where it loads and fits this torch,
torch.mps.compile_shader where not; and why."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from metalcore import settings
from metalcore.arrays.torch import torch_module
from metalcore.errors import MetalcoreError
from metalcore.runtimes.native_torch import Extension
from metalcore.runtimes.text import is_own

FOLDER = Path(__file__).resolve().parent / "native"
"""Where a macOS wheel has the extensions: one for each minor version of torch, since it reads torch's own classes."""


class Route(NamedTuple):
    """The extension, or None, and the reason for either."""

    extension: Extension | None
    why: str

    def __str__(self) -> str:
        name = "torch.mps.compile_shader" if self.extension is None else "the native torch extension"
        return f"{name}: {self.why}"


def file_name(torch_version: str) -> str:
    """Of the extension for a torch: torch-2.13-macos-arm64.dylib."""
    return f"torch-{minor(torch_version)}-macos-arm64.dylib"


def minor(torch_version: str) -> str:
    return ".".join(torch_version.split(".")[:2])


def choose(folder: Path, system: str, machine: str, torch_version: str, load: Callable[[Path], Extension]) -> Route:
    """The extension of this folder that fits, loaded."""
    if system != "darwin" or machine != "arm64":
        return Route(None, "the native extension is for macOS on Apple silicon")
    path = folder / file_name(torch_version)
    if not path.exists():
        others = sorted(p.name.split("-")[1] for p in folder.glob("torch-*-macos-arm64.dylib"))
        there = f"there is one for {', '.join(others)}" if others else "there is none at all"
        return Route(None, f"no native extension for torch {minor(torch_version)} is installed; {there}")
    try:
        extension = load(path)
    except (OSError, AttributeError, MetalcoreError) as error:
        return Route(None, f"{path.name} does not load: {' '.join(str(error).split())}")
    made_by = "Apple's compiler, when it was built" if extension.has_metallib else "Metal, from source, at first use"
    return Route(extension, f"it fits torch {minor(torch_version)}; kernels are compiled by {made_by}")


def load(path: Path) -> Extension:
    """Its ops are registered when it is loaded."""
    torch_module().ops.load_library(str(path))
    return Extension(ctypes.CDLL(str(path)))


def route() -> Route:
    """The way that tensors on MPS take now."""
    if is_own(getattr(torch_module().mps, "compile_shader", None)):  # the oldest torch that we take has none
        return Route(None, "inside metalcore.emulate() the engine stands in for it")
    return _found()


def loaded() -> Extension | None:
    """The extension, whatever stands in for MPS now: its ops are registered once in a process."""
    return _found().extension


@cache
def _found() -> Route:
    if not settings.torch_extension():
        return Route(None, "METALCORE_TORCH_EXTENSION=0 turns the native extension off")
    return choose(FOLDER, sys.platform, platform.machine(), str(torch_module().__version__), load)
