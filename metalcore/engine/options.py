"""The options of a library, looked at before anything is compiled: an error here names the option."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from metalcore.errors import ArgumentError, CompileError

_LONGEST_PATH = 4096
_LONGEST_OPTIONS = 120_000  # characters


class Source(NamedTuple):
    """MSL text with the options that it is compiled with. It goes to a sealed compiler as it is, as a list."""

    text: str
    path: str | None
    include_dirs: Sequence[str]
    defines: Mapping[str, object]
    math_mode: str
    float_type: str = "float"
    prelude: str = ""

    def settled(self) -> Source:
        """The same wherever the process goes and whatever the caller does with its dict."""
        folders = tuple(os.path.abspath(folder) for folder in self.include_dirs)
        return self._replace(include_dirs=folders, defines=dict(self.defines))


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
        raise ArgumentError(f"defines={shown(defines)} must be a dict of macros, as in {{'TILE': 16}}")
    found: dict[str, object] = {}
    total = 0
    for name, value in defines.items():
        if not isinstance(name, str):
            raise ArgumentError(f"a macro in defines has the name {shown(name)}, which is no identifier")
        plain = value.value if isinstance(value, Enum) else value
        if hasattr(plain, "item") and getattr(plain, "shape", None) == ():
            plain = plain.item()  # a NumPy number
        what = f"defines[{shown(name)}]"
        if plain is not None and not isinstance(plain, (str, int, float)):
            raise ArgumentError(f"{what}={shown(value)} must be text or a number, not {type(value).__name__}")
        if isinstance(plain, int) and plain.bit_length() > 64:
            raise ArgumentError(f"{what} is a number of {plain.bit_length()} bits: MSL has none of more than 64")
        if isinstance(plain, str):
            _check_text(what, plain)
        total += len(name) + len(str(plain)) + 16
        found[name] = plain
    _check_length("defines", "put them into a header, or into the prelude", total)
    return found


def checked_folders(folders: object) -> list[str]:
    """Include folders as text."""
    if isinstance(folders, (str, bytes, os.PathLike, Mapping)) or not isinstance(folders, Iterable):
        raise ArgumentError(f"include_dirs={shown(folders)} must be a sequence of folders")
    found = []
    total = 0
    for folder in folders:
        path: Any = folder.__fspath__() if isinstance(folder, os.PathLike) else folder
        if not isinstance(path, str):
            raise ArgumentError(f"include_dirs: a folder is named by text or a path, not by {shown(folder)}")
        _check_text("include_dirs: a folder's name", path)
        if len(path.encode()) > _LONGEST_PATH:
            raise ArgumentError(f"include_dirs: a path has at most {_LONGEST_PATH} bytes, unlike {shown(path)}")
        total += 2 * len(path) + 32
        found.append(path)
    _check_length("include_dirs", "name one folder above them", total)
    return found


def _check_length(option: str, remedy: str, total: int) -> None:
    """The compiler is a program, and the arguments of a program have a limit; Linux takes 128 KB for one of them."""
    if total > _LONGEST_OPTIONS:
        raise ArgumentError(f"{option} has {total} characters in all, more than {_LONGEST_OPTIONS}: {remedy}")


def checked_text(text: str, what: str) -> str:
    """Source text, which UTF-8 can write."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise CompileError(f"{what}:{line}: it is not text: {error.reason}") from None
    return text


def _check_text(what: str, text: str) -> None:
    for bad, said in (("\0", "a zero byte"), ("\n", "the end of a line"), ("\r", "the end of a line")):
        if bad in text:
            raise ArgumentError(f"{what} holds {said}: {shown(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{what} is no text: {shown(text)}") from None
