"""Keeps the cache small: versions of the engine that nobody uses any more, and what was not used for longest.

Other processes may run meanwhile: a shared object that is loaded stays usable when its file is gone, and an entry that
is gone is made again.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

OFTEN = 3600  # seconds between looks at the whole folder
UNFINISHED = 3600  # age of a file that a process has left half-written
STALE = 7 * 86400  # age of the last use of a version that goes
EARLIER = ("1", "headers")  # folders of earlier layouts
STAMP = "pruned"


class Kept(NamedTuple):
    """A file of the cache."""

    used: float
    size: int
    path: str


def files(folder: str) -> Iterator[Kept]:
    """Every file below a folder; links are not followed."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                yield from files(entry.path)
            else:
                found = entry.stat(follow_symlinks=False)
                yield Kept(found.st_mtime, found.st_size, entry.path)


def is_due(root: str) -> bool:
    """Whether nobody has looked for some time; a clock that was set back counts as some time."""
    try:
        return abs(time.time() - os.stat(os.path.join(root, STAMP)).st_mtime) > OFTEN
    except OSError:
        return True


def prune(home: str, root: str, version: str, limit: int) -> None:
    """Remove what is stale, then the oldest until the rest has four fifths of *limit* bytes, where it has more.

    *root* is the folder of this layout in *home*, *version* the folder in it that this process uses.
    """
    now = time.time()
    with suppress(OSError), open(os.path.join(root, STAMP), "wb"):
        pass
    for folder in (*(os.path.join(home, name) for name in EARLIER), *_versions(root, version)):
        with suppress(OSError):
            if now - os.stat(folder, follow_symlinks=False).st_mtime > STALE:
                shutil.rmtree(folder, ignore_errors=True)
    kept = []
    for file in files(root):
        if file.path.endswith(".tmp") and now - file.used > UNFINISHED:
            _remove(file.path)
        else:
            kept.append(file)
    total = sum(file.size for file in kept)
    if total <= limit:
        return
    for file in sorted(kept):
        _remove(file.path)
        total -= file.size
        if total <= limit * 4 // 5:
            return


def clear(home: str, layouts: tuple[str, ...]) -> tuple[int, int]:
    """Remove all that the engine has put into *home*, whatever its state; the answer is how many files and bytes."""
    count = size = 0
    for name in (*EARLIER, *layouts):
        folder = os.path.join(home, name)
        if os.path.islink(folder):
            _remove(folder)
            continue
        for file in files(folder):
            count, size = count + 1, size + file.size
        shutil.rmtree(folder, ignore_errors=True)
    return count, size


def _versions(root: str, version: str) -> list[str]:
    try:
        return [e.path for e in os.scandir(root) if e.is_dir(follow_symlinks=False) and e.name != version]
    except OSError:
        return []


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
