"""Where the foreign sources are, and the libraries made of them."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import metalcore

HERE = Path(__file__).resolve().parent
KERNELS = Path("mlx", "backend", "metal", "kernels")


def _package(name: str) -> Path:
    """Folder of an installed package, found without importing it."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.submodule_search_locations, f"{name} is not installed, and its headers are tested"
    return Path(next(iter(spec.submodule_search_locations)))


@functools.lru_cache(maxsize=1)
def mlx_include() -> Path:
    """The include folder of the installed mlx."""
    folder = _package("mlx") / "include"
    assert (folder / KERNELS).is_dir(), f"the installed mlx has no kernel headers in {folder}"
    return folder


@functools.lru_cache(maxsize=1)
def torch_include() -> Path:
    """The include folder of the installed torch."""
    folder = _package("torch") / "include"
    assert (folder / "c10" / "metal").is_dir(), f"the installed torch has no Metal headers in {folder}"
    return folder


def sources(kind: str) -> list[Path]:
    """Our own files that instantiate the templates of `mlx` or `torch`."""
    return sorted((HERE / kind).glob("*.metal"))


def include_dirs(kind: str) -> list[Path]:
    """Folders that a source of *kind* includes from."""
    return [mlx_include() if kind == "mlx" else torch_include(), HERE / kind]


@functools.cache
def library(kind: str, name: str) -> metalcore.Library:
    """The library of one of our files, `library("mlx", "softmax")`."""
    return metalcore.Library(HERE / kind / f"{name}.metal", include_dirs=include_dirs(kind))
