"""The ops, one file per noun. `find(noun)` gives an op's declaration, `nouns()` lists them all.

An op's file declares `OP` and defines the public function of the same name. Ops plan launches; they know no framework.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metalcore.ops.base.op import Op


@cache
def nouns() -> tuple[str, ...]:
    """Every op of the library, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.ispkg))


def find(noun: str) -> Op:
    """The declaration of one op."""
    op: Op = import_module(f"metalcore.ops.{noun}").OP
    return op


def function(noun: str) -> Any:
    """The public function of one op."""
    return getattr(import_module(f"metalcore.ops.{noun}"), noun)
