"""The options of a library, looked at before anything is compiled: an error here names the option."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from metalcore.errors import ArgumentError


def shown(value: object) -> str:
    """A value in a message: numbers and texts can have millions of digits, some objects no words at all."""
    try:
        text = repr(value)
    except Exception:  # int() has a limit of its own, and other people's objects may do anything
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:120]}... ({len(text)} characters)"


def checked_defines(defines: object) -> dict[str, object]:
    """Macros: a name, and text or a number; None and "" define it as nothing."""
    if defines is None:
        return {}
    if not isinstance(defines, Mapping):
        raise ArgumentError(f"defines={defines!r} must be a dict of macros, as in {{'TILE': 16}}")
    found: dict[str, object] = {}
    for name, value in defines.items():
        if not isinstance(name, str):
            raise ArgumentError(f"a macro in defines has the name {name!r}, which is no identifier")
        plain = value.item() if hasattr(value, "item") and hasattr(value, "dtype") else value  # a NumPy number
        if plain is not None and not isinstance(plain, (str, int, float)):
            raise ArgumentError(f"defines[{name!r}]={value!r} must be text or a number, not {type(value).__name__}")
        if isinstance(plain, str):
            _check_text(f"defines[{name!r}]", plain)
        found[name] = plain
    return found


def checked_folders(folders: object) -> list[str]:
    """Include folders as text."""
    if isinstance(folders, (str, bytes, os.PathLike, Mapping)) or not isinstance(folders, Iterable):
        raise ArgumentError(f"include_dirs={folders!r} must be a sequence of folders")
    found = []
    for folder in folders:
        path: Any = folder.__fspath__() if isinstance(folder, os.PathLike) else folder
        if not isinstance(path, str):
            raise ArgumentError(f"include_dirs: a folder is named by text or a path, not by {folder!r}")
        _check_text("include_dirs: a folder's name", path)
        found.append(path)
    return found


def _check_text(what: str, text: str) -> None:
    for bad, said in (("\0", "a zero byte"), ("\n", "the end of a line"), ("\r", "the end of a line")):
        if bad in text:
            raise ArgumentError(f"{what} holds {said}: {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{what} is no text: {text!r}") from None
