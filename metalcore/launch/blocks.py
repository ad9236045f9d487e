"""What a block such as `with metalcore.mode("fast"):` changes, kept in the context that it was entered in: one object
may be entered in several tasks and threads at once, and again inside itself."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from metalcore.errors import MetalcoreError

Changes = tuple[tuple[ContextVar[Any], Any], ...]
_entered: ContextVar[tuple[tuple[object, Changes], ...]] = ContextVar("metalcore_blocks", default=())


def enter(owner: object, *changes: tuple[ContextVar[Any], Any]) -> None:
    """Set variables, here alone, until `leave(owner)`."""
    before = tuple([(variable, variable.get()) for variable, _ in changes])
    for variable, value in changes:
        variable.set(value)
    _entered.set((*_entered.get(), (owner, before)))


def leave(owner: object) -> None:
    """What the variables held before the owner was entered last."""
    entered = _entered.get()
    for at in reversed(range(len(entered))):
        if entered[at][0] is owner:
            for variable, value in entered[at][1]:
                variable.set(value)
            _entered.set(entered[:at] + entered[at + 1 :])
            return
    raise MetalcoreError(
        f"metalcore.{type(owner).__name__}: a block is left that was not entered in this thread or task: use `with`"
    )
