"""`metalcore cache`: where compiled kernels are kept, how much there is, and a way to remove them."""

from __future__ import annotations

import os

from metalcore import settings
from metalcore.engine.store.cache import FORMAT, DiskCache, disk_cache
from metalcore.engine.store.prune import EARLIER, clear, files, prune
from metalcore.errors import CacheRefused


def describe() -> tuple[bool, str]:
    """Whether the folder can be used, and what is in it."""
    folder = os.fspath(settings.cache_dir())
    kept = [file for name in (FORMAT, *EARLIER) for file in files(os.path.join(folder, name))]
    size = sum(file.size for file in kept)
    limit = settings.cache_size()
    shown = f"{folder}: {len(kept)} files, {size / 1e6:.1f} MB of at most {limit / 1e6:.0f}"
    try:
        home = DiskCache(folder).home
    except CacheRefused as error:
        return False, f"{shown}; {error}"
    if not os.path.isdir(home):
        return True, f"{shown}; it cannot be made, so every process compiles anew"
    if not os.access(home, os.W_OK):
        return True, f"{shown}; it cannot be written, so every process compiles anew"
    return True, f"{shown}, this user's alone"


def shrink() -> str:
    """Remove versions that nobody uses, then what was not used for longest, down to the limit; in words."""
    cache, limit = disk_cache(), settings.cache_size()
    before = list(files(cache.root))
    prune(cache.home, cache.root, cache.version, limit)
    after = list(files(cache.root))
    gone, size = len(before) - len(after), sum(file.size for file in after)
    shown = f"{len(after)} are left, {size / 1e6:.1f} MB of at most {limit / 1e6:.0f}"
    return f"{cache.home}: removed {gone} files; {shown}"


def remove() -> str:
    """Remove all entries; what was removed, in words."""
    folder = os.fspath(settings.cache_dir())
    count, size = clear(os.path.realpath(folder), (FORMAT,))
    return f"{folder}: removed {count} files, {size / 1e6:.1f} MB"
