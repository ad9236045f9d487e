"""The text that a GPU's framework would get of every variant that fuzzed cases use, found without running a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from metalcore.health.routes import launches_of
from metalcore.ops import find
from metalcore.ops import nouns as every
from metalcore.runtimes.dump import write_kernel, write_shader
from metalcore.runtimes.kernel import Variant
from metalcore.runtimes.text import metal_kernel_text, shader_text, unique_key


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
    found: dict[str, Variant] = {}
    for noun in every() if nouns is None else nouns:
        op = find(noun)
        for dtype in op.dtypes:
            for index in range(samples):
                for launch in launches_of(op, dtype, index):
                    found.setdefault(unique_key(launch.variant), launch.variant)
    return [found[key] for key in sorted(found)]
