"""The exact text that goes to each framework, written to files: METALCORE_DUMP=folder, or `dump_all(folder)`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from metalcore import settings
from metalcore.runtimes.kernel import Variant
from metalcore.runtimes.text import KernelText, metal_kernel_text, shader_text, unique_key


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


def dump_all(folder: str | Path, samples: int = 2, nouns: Iterable[str] | None = None) -> list[Path]:
    """Write both texts of every variant that the first fuzzed samples of the ops launch with the policy of a GPU.

    >>> import tempfile
    >>> paths = dump_all(tempfile.mkdtemp(), 4, ["rms_norm"])
    >>> "rms_norm_forward_half_half_1_true.compile_shader.metal" in [path.name for path in paths]
    True
    """
    place = Path(folder)
    written: set[Path] = set()
    for variant in used_variants(samples, nouns):
        written.add(write_shader(place, variant, shader_text(variant)))
        written.update(write_kernel(place, metal_kernel_text(variant)))
    return sorted(written)


def used_variants(samples: int, nouns: Iterable[str] | None = None) -> list[Variant]:
    """The variants of these samples, found without running a kernel."""
    from metalcore.ops import find
    from metalcore.ops import nouns as every
    from metalcore.runtimes.routes import launches_of

    found: dict[str, Variant] = {}
    for noun in every() if nouns is None else nouns:
        op: Any = find(noun)
        for dtype in op.dtypes:
            for index in range(samples):
                for launch in launches_of(op, dtype, index):
                    found.setdefault(unique_key(launch.variant), launch.variant)
    return [found[key] for key in sorted(found)]
