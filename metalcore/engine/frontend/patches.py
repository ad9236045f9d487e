"""Error-driven patches: MSL that clang's mode refuses and that a small, local edit makes acceptable."""

from __future__ import annotations

from collections.abc import Callable


def patch(text: str, errors: str, compile_again: Callable[[str], str]) -> str | None:
    """The text with what can be mended mended, or None."""
    return None
