"""Files of the host, read with care: a regular file of a bounded size, or nothing."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from metalcore.engine.store.identity import digest

# Why a file cannot be had
MISSING, LINK, SPECIAL, LARGE, UNREADABLE = "missing", "link", "special", "large", "unreadable"

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)


class NotRegular(OSError):
    """It is a folder, a pipe, a device or a socket."""


class TooLarge(OSError):
    """It has more bytes than may be read."""


def read_regular(path: str, limit: int) -> bytes:
    """The content of a regular file of at most *limit* bytes. A pipe is not waited for, a device is not opened.

    >>> read_regular("/dev/zero", 100)
    Traceback (most recent call last):
    ...
    metalcore.engine.files.NotRegular: /dev/zero
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise NotRegular(path)
    descriptor = os.open(path, _FLAGS)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)  # it may have been replaced since
        if not stat.S_ISREG(found.st_mode):
            raise NotRegular(path)
        if found.st_size > limit:
            raise TooLarge(path)
        data = file.read(limit + 1)
    if len(data) > limit:  # it grows, or is one of /proc, which have no size
        raise TooLarge(path)
    return data


def is_inside(path: str, folder: str) -> bool:
    """Whether an absolute path without `..` lies in a folder."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def state_of(path: str, roots: Sequence[str], limit: int) -> tuple[str, str, bytes]:
    """What is to be found at an absolute path: (digest, real path, content), or (why not, "", nothing).

    A link is followed where it leads to a place inside one of the *roots* (real paths).
    """
    try:
        real = os.path.realpath(path)
        if not any(is_inside(real, root) for root in roots):
            return LINK, "", b""
        data = read_regular(real, limit)
        return digest(data), real, data
    except (FileNotFoundError, NotADirectoryError):
        return MISSING, "", b""
    except NotRegular:
        return SPECIAL, "", b""
    except TooLarge:
        return LARGE, "", b""
    except (OSError, ValueError) as error:  # no permission, a ring of links, a name that is too long or holds a NUL
        no_name = isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG
        return (MISSING if no_name else UNREADABLE), "", b""


def torch_headers() -> str | None:
    """The include folder of the installed torch, found without importing torch."""
    from importlib.util import find_spec

    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder = os.path.join(os.path.dirname(os.path.abspath(spec.origin)), "include")
    return folder if os.path.isdir(folder) else None
