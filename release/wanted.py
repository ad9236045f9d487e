"""The list of kernels that a wheel brings, made by calling the ops: release/kernels.json.

python -m release.wanted            writes it; it takes minutes, and PyTorch

The list names sources, function constants and variants, so that the kernels can be compiled for any processor without
running an op there. Where a kernel or a plan changes, the list is made again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metalcore.engine import units
from metalcore.engine.model import Variant
from metalcore.engine.optimiser import llvm
from metalcore.engine.options import Source
from metalcore.engine.target import Target
from metalcore.runtimes.kernel import read
from metalcore.runtimes.text import WIDE, WIDE_NAME, include_dirs
from release.calls import Call, calls

FILE = Path(__file__).with_name("kernels.json")
DTYPES = ("float32", "float16", "bfloat16")
_KEYS = ("text", "has_wide", "math_mode", "float_type", "name", "constants")


class Wanted(NamedTuple):
    """A kernel of one source, with its constants, and every variant that is asked for."""

    text: str
    has_wide: bool  # another text is for processors with 16 lanes a register
    math_mode: str
    float_type: str
    name: str
    constants: tuple[tuple[int, Any], ...]
    variants: tuple[Variant, ...]

    def source(self, target: Target) -> Source:
        """What the op would hand to the engine on this processor."""
        is_wide = self.has_wide and llvm.vector_width(target=target) == 16
        text = self.text.replace("#include", f"{WIDE}#include", 1) if is_wide else self.text
        return Source(text, None, include_dirs(), {}, self.math_mode, self.float_type).settled()


def wanted() -> list[Wanted]:
    """The list as it is stored."""
    rows = json.loads(FILE.read_text())
    return [
        Wanted(
            row["text"],
            row["has_wide"],
            row["math_mode"],
            row["float_type"],
            row["name"],
            tuple((index, value) for index, value in row["constants"]),
            tuple(Variant.from_json(v) for v in row["variants"]),
        )
        for row in rows
    ]


def _for_all(text: str) -> tuple[str, bool]:
    """The text without what it says of this processor, and whether it would say something of some."""
    included = re.search(r'#include "(\w+(?:/\w+)*)\.metal"', text)
    if included is None:
        raise SystemExit(f"this is no text of a kernel of the library:\n{text}")
    return text.replace(WIDE, ""), WIDE_NAME in read(included[1])


def _numpy_calls() -> Iterator[Call]:
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float16):
        yield from calls(
            lambda *shape, fixed=False, d=dtype: rng.standard_normal(shape).astype(d),
            lambda n, below: rng.integers(0, below, n),
        )


def _torch_calls(with_gradient: bool) -> Iterator[Call]:
    import torch

    def differentiated(call: Call) -> Call:
        def run() -> None:
            outputs = call()
            total = sum(o.float().sum() for o in (outputs if isinstance(outputs, tuple) else (outputs,)))
            total.backward()

        return run

    for name in DTYPES:
        dtype = getattr(torch, name)
        made = calls(
            lambda *shape, fixed=False, d=dtype: torch.randn(shape).to(d).requires_grad_(with_gradient and not fixed),
            lambda n, below: torch.randint(below, (n,)),
        )
        yield from map(differentiated, made) if with_gradient else made


def record() -> list[dict[str, Any]]:
    """Call everything, and note each kernel that was asked for."""
    found: dict[tuple[Any, ...], dict[str, Variant]] = {}

    def hear(source: Source, name: str, constants: units.Constants, variant: Variant) -> None:
        if source.path is not None or source.defines or source.prelude:
            raise SystemExit(f"kernel {name} has options that the list does not know")
        text, has_wide = _for_all(source.text)
        key = (text, has_wide, source.math_mode, source.float_type, name, constants)
        found.setdefault(key, {})[variant.key] = variant

    units.asked = hear
    for call in (*_numpy_calls(), *_torch_calls(False), *_torch_calls(True)):
        call()
    return [
        dict(
            zip(_KEYS, key, strict=True),
            variants=[vars(v) for _, v in sorted(variants.items())],
        )
        for key, variants in sorted(found.items(), key=repr)
    ]


if __name__ == "__main__":
    rows = record()
    FILE.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(f"{FILE}: {len(rows)} kernels, {sum(len(row['variants']) for row in rows)} variants")
