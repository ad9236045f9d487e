"""What health knows of each op: `find(noun)` gives the op in plain torch, and how a fuzzed case of it is drawn.

A fused op has a file of its noun here, which defines `reference` and `samples`. Of `linalg` and `precise` a file holds
the family that has its name in metalcore/ops, and `CASES`, by noun.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from metalcore.health.draw import Draw, Sample
from metalcore.ops import PARTS


@dataclass(frozen=True)
class Case:
    """The truth of an op, and inputs for it."""

    reference: Callable[..., Any]
    """Plain torch, which takes every case as the public function does: the truth in float64, the peer in the op's own
    dtype."""
    samples: Callable[[Draw], Sample]
    """Draws one fuzzed case."""


def find(noun: str) -> Case:
    """By the op's noun."""
    for part in PARTS:
        if noun.startswith(f"{part}_"):
            return _declared(part)[noun]
    module = import_module(f"{__name__}.{noun}")
    return Case(module.reference, module.samples)


@cache
def _declared(part: str) -> dict[str, Case]:
    package = import_module(f"{__name__}.{part}")
    modules = [import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    return {noun: case for module in modules for noun, case in module.CASES.items()}
