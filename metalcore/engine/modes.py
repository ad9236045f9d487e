"""How launches run: `checked` (bounds are tested, the default) or `fast` (they are not)."""

from __future__ import annotations

from contextvars import ContextVar, Token

from metalcore.errors import UnsupportedFeature

CHECKED, FAST = "checked", "fast"
_current: ContextVar[str] = ContextVar("metalcore_mode", default=CHECKED)

current_mode = _current.get
"""Name of the mode that a launch would run in now."""


class mode:
    """Context manager: launches inside run in the given mode, in this thread or task alone.

    >>> with mode("fast"):
    ...     current_mode()
    'fast'
    >>> current_mode()
    'checked'
    """

    def __init__(self, name: str) -> None:
        if name == "sanitize":
            raise UnsupportedFeature("mode 'sanitize' is not there yet: use 'checked', which tests bounds, or 'fast'")
        if name not in (CHECKED, FAST):
            raise ValueError(f"unknown mode {name!r}: the modes are 'checked' and 'fast'")
        self.name = name
        self._tokens: list[Token[str]] = []

    def __enter__(self) -> mode:
        self._tokens.append(_current.set(self.name))
        return self

    def __exit__(self, *error: object) -> None:
        _current.reset(self._tokens.pop())
