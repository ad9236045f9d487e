"""Other packages: an optional one that is not installed, and one of another project that has our import name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from metalcore.errors import MetalcoreError, MissingPackage
from metalcore.version import VERSION

OURS = "metalcore-kernels"
_NAMES = {"torch": "PyTorch", "mlx": "MLX"}


@contextmanager
def needed_for(what: str) -> Iterator[None]:
    """Around the import of an optional package: an error that names *what* needs it. Where a module of our own is
    missing, the error says who else writes into its folder."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if isinstance(error, MissingPackage):
            raise
        if package == "metalcore":
            raise MissingPackage(f"{what}: {error.name} is missing. {conflict() or _REPAIR}", name=error.name) from None
        if package not in _NAMES:
            raise
        raise MissingPackage(
            f"{what} needs {_NAMES[package]}, which is not installed: pip install '{OURS}[{package}]'",
            name=package,
        ) from None


_REPAIR = f"To repair it: pip install --force-reinstall --no-deps {OURS}"


def check_imported() -> None:
    """Raises where the `metalcore` of this process is not this package: pip installs packages of one import name over
    each other without a word, and a folder of that name may come first on the path."""
    imported = sys.modules.get("metalcore")
    version, path = getattr(imported, "__version__", None), getattr(imported, "__file__", None)
    ours = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__init__.py")
    if version == VERSION and path is not None and os.path.realpath(path) == os.path.realpath(ours):
        return
    found = f"{path} (version {version or 'unknown'})" if path else "a folder without __init__.py"
    raise MetalcoreError(
        f"`import metalcore` finds {found}, which is not {OURS} {VERSION} in {os.path.dirname(ours)}. "
        f"{conflict() or _REPAIR}"
    )


def conflict() -> str:
    """What to do about other distributions that bring a package `metalcore`; empty where there is none."""
    others = strangers()
    if not others:
        return ""
    listed = ", ".join(f"{name} {version} in {folder}" for name, version, folder in others)
    names = " ".join(dict.fromkeys(name for name, _, _ in others))
    return (
        f"Another package with the import name metalcore is installed: {listed}. Keep one of them: "
        f"pip uninstall {names}, then pip install --force-reinstall --no-deps {OURS}"
    )


def strangers() -> list[tuple[str, str, str]]:
    """(name, version, folder) of the other distributions that install files of a package `metalcore`."""
    from importlib import metadata

    found: dict[tuple[str, str, str], None] = {}
    for each in metadata.distributions():
        name = each.metadata["Name"] or ""
        if name.lower().replace("_", "-") == OURS:
            continue
        listed = "\n" + (each.read_text("RECORD") or "")  # as text: to read all files of a large one takes a second
        top = (each.read_text("top_level.txt") or "").split()
        if "metalcore" in top or "\nmetalcore/" in listed or "\nmetalcore.py," in listed:
            found[name, each.version, str(each.locate_file("metalcore"))] = None
    return list(found)
