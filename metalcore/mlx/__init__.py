"""The ops on mlx arrays: `metalcore.mlx.<noun>` is `metalcore.<noun>` for `mx.array`, with gradients for mx.grad, and
`stream=`. Attention has the signature of mx.fast.scaled_dot_product_attention; `metalcore.mlx.fast` has all of these.

>>> import mlx.core as mx, metalcore.mlx
>>> x = mx.array([[3.0, 4.0]])
>>> metalcore.mlx.rms_norm(x, (2,), eps=0.0) * 12.5**0.5
array([[3, 4]], dtype=float32)
>>> mx.grad(lambda x: metalcore.mlx.silu(x).sum())(mx.zeros(2))
array([0.5, 0.5], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.errors import ArgumentError
from metalcore.mlx.export import watch_exports
from metalcore.mlx.replace import active_overrides, overrides
from metalcore.mlx.streams import on_stream
from metalcore.ops import PARTS, function, nouns

watch_exports()
__all__ = ["active_overrides", "on_mlx", "overrides"]


def on_mlx(noun: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """A public function that takes mlx arrays alone, and the stream to run on; `noun` is how errors call it."""
    array_type = mlx_module().array

    @wraps(run)
    def call(*arguments: Any, stream: Any = None, **named: Any) -> Any:
        if stream is not None:
            with on_stream(noun, stream):
                return call(*arguments, **named)
        is_mlx = False
        for value in (*arguments, *named.values()):
            if isinstance(value, array_type):
                is_mlx = True
            elif hasattr(value, "shape"):
                raise ArgumentError(f"metalcore.mlx.{noun} takes mlx arrays, not {type(value).__name__}")
        if not is_mlx:
            kind = type(arguments[0]).__name__ if arguments else "nothing"
            raise ArgumentError(f"metalcore.mlx.{noun} takes mlx arrays, not {kind}")
        return run(*arguments, **named)

    call.__module__ = __name__
    return call


_OWN = {"scaled_dot_product_attention": "attention"}
"""Functions that MLX has under this name with a signature of its own, which is theirs here too: their files."""
_MODULES = (*PARTS, "fast", "nn")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"metalcore.mlx.{name}")
    if name == "explain":  # its modules are commands too
        value = globals()[name] = import_module("metalcore.mlx.primitive").explain
        return value
    if name not in nouns():
        raise AttributeError(f"module 'metalcore.mlx' has no attribute {name!r}")
    run = getattr(import_module(f"metalcore.mlx.{_OWN[name]}"), name) if name in _OWN else function(name)
    value = globals()[name] = on_mlx(name, run)
    return value


def __dir__() -> list[str]:
    return list(nouns())
