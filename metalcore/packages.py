"""Optional packages: what needs one says so, and how to get it, where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from metalcore.errors import MissingPackage

_NAMES = {"torch": "PyTorch", "mlx": "MLX"}


@contextmanager
def needed_for(what: str) -> Iterator[None]:
    """Around the import of an optional package: an error that names *what* needs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _NAMES or isinstance(error, MissingPackage):
            raise
        raise MissingPackage(
            f"{what} needs {_NAMES[package]}, which is not installed: pip install 'metalcore-kernels[{package}]'",
            name=package,
        ) from None
