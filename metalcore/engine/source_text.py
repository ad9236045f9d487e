"""The text of a Metal source, given as text or as the path of a file."""

from __future__ import annotations

import os

from metalcore import settings
from metalcore.engine.files import NotRegular, TooLarge, read_regular
from metalcore.engine.options import checked_text, shown
from metalcore.errors import ArgumentError, CompileError


def read_source(source_or_path: object) -> tuple[str, str | None]:
    """Source text and, where it came from a file, the file's path."""
    if isinstance(source_or_path, str):
        if not _names_a_file(source_or_path):
            return without_zeros(source_or_path, "the source"), None
    elif not isinstance(source_or_path, os.PathLike):
        raise ArgumentError(f"the source must be MSL text or the path of a file, not {type(source_or_path).__name__}")
    path = os.path.abspath(os.fspath(source_or_path))
    if not isinstance(path, str):
        raise ArgumentError("the path of a Metal file must be text, not bytes")
    if "\0" in path or path != path.encode("utf-8", "replace").decode():
        raise ArgumentError(f"the path of a Metal file is text without zero bytes that UTF-8 can write, not {path!a}")
    try:
        data = read_regular(path, settings.source_size())
    except NotRegular:
        raise CompileError(f"{path} is a folder, a pipe or a device, not a file") from None
    except TooLarge:
        limit = settings.source_size() // 1_000_000
        raise CompileError(f"{path} is larger than {limit} MB; METALCORE_SOURCE_SIZE raises the limit") from None
    except (FileNotFoundError, PermissionError):
        raise
    except OSError as error:  # a name that is too long, a file of /proc that cannot be read
        raise CompileError(f"{shown(path)} cannot be read: {error.strerror}") from None
    try:
        return without_zeros(data.decode("utf-8"), path), path
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CompileError(f"{path}:{line}: the file is not UTF-8 text (byte {error.start})") from None


def _names_a_file(text: str) -> bool:
    if "\n" in text or "{" in text or "\0" in text:
        return False
    is_folder = os.sep in text and not text.startswith("//") and os.path.isdir(text)
    return text.endswith((".metal", ".msl", ".h")) or os.path.isfile(text) or is_folder


def without_zeros(text: str, what: str) -> str:
    at = text.find("\0")
    if at >= 0:
        line = text.count("\n", 0, at) + 1
        raise CompileError(f"{what}:{line}: it is not text, it holds a zero byte")
    return checked_text(text, what)
