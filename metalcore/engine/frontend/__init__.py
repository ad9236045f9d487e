"""MSL source to scalar LLVM IR: preprocess, rewrite what C++ does not know, clang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metalcore.engine.frontend.model import Unit
from metalcore.engine.model import Argument, FunctionConstant, ScalarKernel

if TYPE_CHECKING:
    from metalcore.engine.frontend.lowering import lower
    from metalcore.engine.frontend.toolchain import fingerprint
    from metalcore.engine.frontend.unit import make_unit

__all__ = ["Argument", "FunctionConstant", "ScalarKernel", "Unit", "fingerprint", "lower", "make_unit"]


def __getattr__(name: str) -> Any:
    """Import what compiles only when it is asked for: a cached kernel needs none of it."""
    from importlib import import_module

    places = {"make_unit": "unit", "lower": "lowering", "fingerprint": "toolchain"}
    if name not in places:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{places[name]}"), name)
