"""mlx's own functions, replaced by those of metalcore.mlx.fast.

The state is one for the process: a lock guards every change, and all threads see it. Blocks may overlap in any order:
each adds a layer, and leaving it takes that very layer away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.engine.locks import ForkLock
from metalcore.errors import ArgumentError, TransformError

NAMES = ("layer_norm", "rms_norm", "rope", "scaled_dot_product_attention")
"""Functions of mx.fast."""

_lock = ForkLock()
_layers: list[dict[str, bool]] = []
_originals: dict[str, Any] = {}


@contextmanager
def overrides(*names: str, enabled: bool = True) -> Iterator[None]:
    """For a block, functions of mx.fast run on the kernels of the library: all, or those that are named. Modules of
    mlx.nn, which call them, do so too. What the library does not take is left to mlx. Blocks nest; `enabled=False`
    gives mlx its own back for a block. What mx.compile has traced keeps what it was traced with.

    >>> import mlx.core as mx, metalcore.mlx
    >>> original = mx.fast.rms_norm
    >>> with metalcore.mlx.overrides("rms_norm"):
    ...     mx.fast.rms_norm(mx.array([[3.0, 3.0]]), None, 0.0)
    array([[1, 1]], dtype=float32)
    >>> mx.fast.rms_norm is original
    True
    """
    for name in names:
        if name not in NAMES:
            raise ArgumentError(f"mlx.overrides: there is no override named {name!r}; there are {', '.join(NAMES)}")
    layer = dict.fromkeys(names or NAMES, enabled)
    with _lock:
        _layers.append(layer)
        _apply()
    try:
        yield
    finally:
        with _lock:
            del _layers[next(i for i, each in enumerate(_layers) if each is layer)]
            _apply()


def active_overrides() -> tuple[str, ...]:
    """The functions of mlx that are replaced now."""
    with _lock:
        return tuple(sorted(_originals))


def _apply() -> None:
    """Make mlx's modules agree with the layers."""
    state: dict[str, bool] = {}
    for layer in _layers:
        state.update(layer)
    for name in NAMES:
        home, is_on = mlx_module().fast, state.get(name, False)
        if is_on and name not in _originals:
            _originals[name] = original = getattr(home, name)
            setattr(home, name, _replacement(name, original))
        elif not is_on and name in _originals:
            setattr(home, name, _originals.pop(name))


def _replacement(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    ours = getattr(import_module("metalcore.mlx.fast"), name)

    @wraps(original, assigned=("__doc__", "__name__"))
    def call(*arguments: Any, **named: Any) -> Any:
        given = {"x" if key == "a" else key: value for key, value in named.items()}  # as mlx calls it
        try:
            return ours(*arguments, **given)
        except (ArgumentError, TransformError, TypeError):
            return original(*arguments, **named)  # takes it, or says in mlx's words what is wrong

    return call
