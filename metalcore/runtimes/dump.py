"""The exact text that goes to each framework, written to files where METALCORE_DUMP names a folder."""

from __future__ import annotations

from pathlib import Path

from metalcore import settings
from metalcore.runtimes.kernel import Variant
from metalcore.runtimes.text import KernelText, unique_key


def dump_shader(variant: Variant, text: str) -> None:
    """What torch.mps.compile_shader gets, where METALCORE_DUMP names a folder."""
    folder = settings.dump_dir()
    if folder is not None:
        write_shader(folder, variant, text)


def dump_kernel(variant: Variant, text: KernelText) -> None:
    """What mx.fast.metal_kernel gets, where METALCORE_DUMP names a folder."""
    folder = settings.dump_dir()
    if folder is not None:
        write_kernel(folder, text)


def write_shader(folder: Path, variant: Variant, text: str) -> Path:
    return _write(folder / f"{unique_key(variant)}.compile_shader.metal", text)


def write_kernel(folder: Path, text: KernelText) -> tuple[Path, Path]:
    return (
        _write(folder / f"{text.name}.metal_kernel.header.metal", text.header),
        _write(folder / f"{text.name}.metal_kernel.source.metal", text.source),
    )


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
