"""mx.export_function and mx.exporter write mlx's own primitives alone. So in a function that is exported
each op of the library is what mlx itself would compute it with (compositions.py): the file needs no metalcore.

mlx does not say that a function is being exported: its two functions are wrapped when metalcore.mlx is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.errors import TransformError
from metalcore.mlx.compositions import COMPOSED, NOT_COMPOSED

_is_exporting: ContextVar[bool] = ContextVar("inside mx.export_function", default=False)
is_exporting = _is_exporting.get


def watch_exports() -> None:
    """Wrap mx.export_function and mx.exporter, once."""
    mx = mlx_module()
    for name in ("export_function", "exporter"):
        original = getattr(mx, name)
        if not hasattr(original, "__wrapped__"):
            setattr(mx, name, _watching(original))


def _watching(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def call(to: Any, fun: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return original(to, exported(fun), *arguments, **named)

    return call


def exported(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is traced for a file."""

    @wraps(fun)
    def traced(*arguments: Any, **named: Any) -> Any:
        token = _is_exporting.set(True)
        try:
            return fun(*arguments, **named)
        finally:
            _is_exporting.reset(token)

    return traced


def composed(noun: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The public outputs of an op, of mlx's functions."""
    compose = COMPOSED.get(noun)
    if compose is None:
        reason = NOT_COMPOSED.get(noun, "there is no composition for this op")
        raise TransformError(f"metalcore.{noun} cannot be exported: mlx writes its own primitives alone, and {reason}")
    found = compose(*arguments)
    return found if isinstance(found, tuple) else (found,)
