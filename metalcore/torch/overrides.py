"""torch's own functions, replaced by the library's ops where the meaning is the same for the given arguments.

The state is one for the process: a lock guards every change, and all threads see it. `overrides()` blocks may overlap
in any order: each adds a layer, and leaving it takes that very layer away.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from metalcore.engine.locks import ForkLock
from metalcore.errors import ArgumentError
from metalcore.ops import find, nouns
from metalcore.torch.replacement import Replacement, resolve


@dataclass(frozen=True)
class Setting:
    """How one override is used."""

    least_elements: int = 0
    is_asked_for: bool = False  # by name: it runs where torch may be faster, too


class _Layer:
    """What one block changed: a setting for a noun, or None for off; `clear` turns off all that lies below."""

    def __init__(self) -> None:
        self.clear = False
        self.changes: dict[str, Setting | None] = {}


_lock = ForkLock()
_layers: list[_Layer] = [_Layer()]  # the first is that of enable and disable outside all blocks
_installed: dict[str, Replacement] = {}


def overridable() -> dict[str, str]:
    """The nouns that can take the place of a function of torch, and that function."""
    every = (*nouns(), *nouns("linalg"))
    return {noun: op.namesake for noun, op in ((n, find(n)) for n in every) if op.namesake}


def enable_pytorch_overrides(
    *names: str, all: bool = False, exclude: tuple[str, ...] = (), least_elements: int | None = None
) -> None:
    """Let the library's ops take the place of torch's functions until `disable_pytorch_overrides()`.

    names: nouns or names of torch's functions ("linalg.qr" too); none: those that are faster by measurement; `all`:
    every one there is.
    exclude: not these. least_elements: calls whose first tensor is smaller are left to torch; by default that is where
    torch is faster, but none where names or `all` are given.
    Inside a block of `overrides()` it holds until the end of the block.

    >>> import torch, metalcore
    >>> original = torch.nn.functional.rms_norm
    >>> metalcore.enable_pytorch_overrides("rms_norm")
    >>> torch.nn.functional.rms_norm(torch.tensor([3.0, 3.0]), (2,))
    tensor([1., 1.])
    >>> metalcore.disable_pytorch_overrides()
    >>> torch.nn.functional.rms_norm is original
    True
    """
    change = _wanted(names, all, exclude, least_elements)
    with _lock:
        _layers[-1].changes.update(change)
        _apply()


def disable_pytorch_overrides(*names: str) -> None:
    """Give torch its own functions back: these, or all. Inside a block of `overrides()`: until the end of the block."""
    chosen = {_noun(n): None for n in names}
    with _lock:
        if names:
            _layers[-1].changes.update(chosen)
        else:
            _layers[-1].clear = True
            _layers[-1].changes.clear()
        _apply()


@contextmanager
def overrides(
    *names: str,
    all: bool = False,
    exclude: tuple[str, ...] = (),
    least_elements: int | None = None,
    enabled: bool = True,
) -> Iterator[None]:
    """As enable_pytorch_overrides, for a block; afterwards everything is as it was before.

    What is on outside stays on inside. `enabled=False` turns the named ones, or all, off for the block.
    """
    layer = _Layer()
    if enabled:
        layer.changes.update(_wanted(names, all, exclude, least_elements))
    elif names:
        layer.changes.update({_noun(n): None for n in names})
    else:
        layer.clear = True
    with _lock:
        _layers.append(layer)
        _apply()
    try:
        yield
    finally:
        with _lock:
            _layers.remove(layer)
            _apply()


def active_overrides() -> dict[str, Setting]:
    """The overrides that are on now."""
    with _lock:
        return _effective()


def _wanted(
    names: tuple[str, ...], everything: bool, exclude: tuple[str, ...], least: int | None
) -> dict[str, Setting | None]:
    if least is not None and (not isinstance(least, int) or isinstance(least, bool) or least < 0):
        raise ArgumentError(f"overrides: least_elements must be a number that is not negative, not {least!r}")
    if names or everything:
        chosen = dict.fromkeys([_noun(n) for n in names] or overridable(), 0)
    else:
        chosen = {n: start for n in overridable() if (start := find(n).override_from) is not None}
    if not isinstance(exclude, (str, tuple, list, set, frozenset)):
        raise ArgumentError(f"overrides: exclude must be names of ops, not {exclude!r}")
    left_out = {_noun(n) for n in ((exclude,) if isinstance(exclude, str) else exclude)}
    asked = bool(names or everything)
    return {n: Setting(start if least is None else least, asked) for n, start in chosen.items() if n not in left_out}


def _noun(name: str) -> str:
    known = overridable()
    if not isinstance(name, str):
        raise ArgumentError(f"overrides: an op is named by text, as in 'softmax', not by {name!r}")
    for noun, namesake in known.items():
        if name in (noun, namesake) or (name.startswith("linalg.") and f"torch.{name}" == namesake):
            return noun
    raise ArgumentError(f"there is no override named {name!r}; there are: {', '.join(known) or 'none'}")


def _effective() -> dict[str, Setting]:
    state: dict[str, Setting | None] = {}
    for layer in _layers:
        if layer.clear:
            state.clear()
        state.update(layer.changes)
    return {noun: setting for noun, setting in state.items() if setting is not None}


def _apply() -> None:
    """Make torch's modules agree with the layers."""
    state = _effective()
    for noun in [n for n in _installed if n not in state]:
        _installed.pop(noun).remove()
    for noun, setting in state.items():
        if noun not in _installed:
            op = find(noun)
            _installed[noun] = Replacement(op, *resolve(op.namesake))
            _installed[noun].install()
        _installed[noun].least_elements = setting.least_elements
        _installed[noun].is_asked_for = setting.is_asked_for
