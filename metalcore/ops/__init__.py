"""The ops. `find(noun)` gives an op's declaration, `nouns()` lists them, `function(noun)` is what users call.

The fused ops stand in a file per noun, which declares `OP` and defines the public function of that name. `linalg` and
`precise` are parts of their own: a file holds a family, declares `OPS` and lists its public functions in `__all__`; an
op's noun is `linalg_<function>`. Ops plan launches; they know no framework.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metalcore.ops.base.op import Op

PARTS = ("linalg", "precise")


@cache
def nouns(part: str = "") -> tuple[str, ...]:
    """Every op of a part, sorted: the fused ops, or those of metalcore.linalg or metalcore.precise."""
    if part:
        return tuple(sorted(op.noun for module in _modules(part) for op in module.OPS))
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.ispkg))


def find(noun: str) -> Op:
    """The declaration of one op."""
    part = _part(noun)
    op: Op = _declared(part)[noun] if part else import_module(f"metalcore.ops.{noun}").OP
    return op


def function(noun: str) -> Any:
    """The public function of one op."""
    part = _part(noun)
    if part:
        return functions(part)[noun.removeprefix(f"{part}_")]
    return getattr(import_module(f"metalcore.ops.{noun}"), noun)


@cache
def functions(part: str) -> dict[str, Any]:
    """Every public function of a part, by name."""
    return {name: getattr(module, name) for module in _modules(part) for name in module.__all__}


def function_of(part: str, name: str, module: str) -> Any:
    """A public function of a part, for the `__getattr__` of a module."""
    if name not in functions(part):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return functions(part)[name]


def _part(noun: str) -> str:
    return next((part for part in PARTS if noun.startswith(f"{part}_")), "")


@cache
def _declared(part: str) -> dict[str, Op]:
    return {op.noun: op for module in _modules(part) for op in module.OPS}


@cache
def _modules(part: str) -> tuple[ModuleType, ...]:
    package = import_module(f"metalcore.ops.{part}")
    return tuple(
        import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__) if not m.ispkg
    )
