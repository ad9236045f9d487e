"""The cache on disk. Whatever happens to its folder costs time, never a result.

Code is loaded from it, so the folder belongs to its user alone (trust.py); one that others can change is refused.
Entries are written to a temporary file and renamed, so two processes may fill the cache at once. Each carries a
checksum of its content and its name; a damaged or swapped one counts as absent. Where the folder cannot be written, a
temporary folder of this process takes its place, with a warning.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from functools import cache
from typing import Any

from metalcore import settings
from metalcore.engine.store.identity import digest, engine_content, engine_stamp, key_of, machine_key
from metalcore.engine.store.trust import check_own, is_own, make_private, private_folder
from metalcore.errors import CacheWarning, MetalcoreError
from metalcore.forking import temporary_folder

FORMAT = "2"  # of the folder's layout: FORMAT/version of the engine/kind/key
_CHECKSUM = 64
_USED = 86400  # seconds after which a use is noted: what was not used for longest is removed first
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def _write_atomically(folder: str, name: str, data: bytes) -> str:
    make_private(folder)
    path = os.path.join(folder, name)
    temporary = f"{path}.{os.getpid()}.{id(data):x}.tmp"
    with suppress(FileNotFoundError):
        os.unlink(temporary)  # of a process that had this number
    try:
        with open(os.open(temporary, _WRITE, 0o600), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return path


def _read_own(path: str) -> tuple[bytes, tuple[int, ...]]:
    """Content and stamp of a file that this user has written; raises OSError for everything else."""
    descriptor = os.open(path, _READ)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not is_own(found):
            raise PermissionError(path)
        if time.time() - found.st_mtime > _USED:
            with suppress(OSError):
                os.utime(path)
                found = os.fstat(descriptor)
        return file.read(), (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _checked(name: str) -> str:
    """A name that stays in its folder."""
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii() or len(name) > 128:
        raise ValueError(f"{name!r} cannot be the name of an entry in the cache")
    return name


@cache
def _scratch(pid: int) -> str:
    """A folder for this process alone, removed when it ends; a forked child has its own."""
    import atexit
    import shutil

    folder = temporary_folder()

    def remove() -> None:
        if os.getpid() == pid:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


_warned: set[str] = set()  # folders of which it was said that they cannot be written


class DiskCache:
    """Checksummed entries by kind and key.

    >>> import tempfile
    >>> cache = DiskCache(tempfile.mkdtemp())
    >>> cache.write("notes", "a", b"text")
    >>> cache.read("notes", "a")
    b'text'
    """

    def __init__(self, root: str | os.PathLike[str], version: str = "any") -> None:
        """Raises CacheRefused where the folder could be changed by another user."""
        self.home = private_folder(os.fspath(root))
        self.root = os.path.join(self.home, FORMAT)
        self.version = _checked(version)
        self._fallback: str | None = None
        self._written = 0
        self._looked = False  # whether the folder's size was thought of
        self._trusted: set[str] = set()
        self._sound: dict[str, tuple[int, ...]] = {}  # files whose content was compared already
        self._note_use()

    def _note_use(self) -> None:
        folder = os.path.join(self.root, self.version)
        with suppress(OSError):
            if abs(time.time() - os.stat(folder).st_mtime) > _USED:
                os.utime(folder)

    def _folders(self, kind: str) -> list[str]:
        _checked(kind)
        roots = [self.root] if self._fallback is None else [self.root, self._fallback]
        if kind not in self._trusted:
            self._check_folders(kind)
        return [os.path.join(root, self.version, kind) for root in roots]

    def _check_folders(self, kind: str) -> None:
        """Refuse folders in the cache that lead elsewhere."""
        folder = self.root
        for name in ("", self.version, kind):
            folder = os.path.join(folder, name) if name else folder
            try:
                found = os.lstat(folder)
            except OSError:
                return
            check_own(folder, found)
        self._trusted.add(kind)

    def _store(self, kind: str, name: str, data: bytes) -> str:
        """Writes to the cache folder, or to a temporary one where that fails; raises OSError where both do."""
        own = self._folders(kind)[0]
        try:
            path = _write_atomically(own, name, data)
        except OSError as error:
            return self._store_elsewhere(kind, name, data, error)
        self._written += len(data)
        self._keep_small()
        return path

    def _store_elsewhere(self, kind: str, name: str, data: bytes, error: OSError) -> str:
        if self.home not in _warned:
            import warnings

            _warned.add(self.home)

            why = error.strerror or str(error)
            warnings.warn(
                f"the cache folder {_short(self.home)} cannot be written ({why}): what this process compiles is kept "
                "in a temporary folder until it ends; METALCORE_CACHE names another folder",
                CacheWarning,
                stacklevel=2,
            )
        self._fallback = os.path.join(_scratch(os.getpid()), key_of(self.root))
        return _write_atomically(os.path.join(self._fallback, self.version, kind), name, data)

    def _keep_small(self) -> None:
        """Now and then, the oldest entries go where the cache has grown beyond its size."""
        limit = settings.cache_size()
        if self._looked and self._written < limit // 8:
            return
        from metalcore.engine.store.prune import is_due, prune

        if self._written >= limit // 8 or is_due(self.root):
            self._written = 0
            prune(self.home, self.root, self.version, limit)
        self._looked = True

    def read(self, kind: str, key: str) -> bytes | None:
        """The entry, or None where there is none or it is damaged."""
        _checked(key)
        for folder in self._folders(kind):
            try:
                data, _ = _read_own(os.path.join(folder, key))
            except OSError:
                continue
            if data[:_CHECKSUM] == self._checksum(kind, key, data[_CHECKSUM:]):
                return data[_CHECKSUM:]
        return None

    def write(self, kind: str, key: str, data: bytes) -> None:
        """Stores an entry, or does nothing where no folder takes it."""
        with suppress(OSError):
            self._store(kind, _checked(key), self._checksum(kind, key, data) + data)

    @staticmethod
    def _checksum(kind: str, key: str, data: bytes) -> bytes:
        return digest(f"{kind}/{key}\0".encode() + data).encode()

    def read_json(self, kind: str, key: str) -> Any:
        data = self.read(kind, key)
        return None if data is None else json.loads(data)

    def write_json(self, kind: str, key: str, value: Any) -> None:
        self.write(kind, key, json.dumps(value, separators=(",", ":")).encode())

    def read_binary(self, kind: str, key: str, suffix: str = ".so") -> tuple[str, Any] | None:
        """Path of a file whose content is as it was written, and what was stored with it."""
        entry = self.read_json(kind, key)
        if entry is None:
            return None
        name = _binary_name(key, entry["digest"], suffix)
        for folder in self._folders(kind):
            path = os.path.join(folder, name)
            try:
                known = self._sound.get(path)
                if known is not None and known == _stamp(path):
                    return path, entry["meta"]
                data, stamp = _read_own(path)
            except OSError:
                continue
            if digest(data) == entry["digest"]:
                self._sound[path] = stamp
                return path, entry["meta"]
        return None

    def write_binary(self, kind: str, key: str, data: bytes, meta: Any, suffix: str = ".so") -> str:
        """Stores a file under a name made from its content; returns where it is."""
        content = digest(data)
        try:
            path = self._store(kind, _binary_name(_checked(key), content, suffix), data)
        except OSError as error:
            raise MetalcoreError(
                f"neither the cache folder {_short(self.home)} nor a temporary one takes the {len(data)} bytes that "
                f"were compiled: {error.strerror or error}"
            ) from error
        self.write_json(kind, key, {"digest": content, "meta": meta})
        return path


def _short(path: str) -> str:
    return path if len(path) <= 300 else f"{path[:300]}... ({len(path)} characters)"


def _binary_name(key: str, content: str, suffix: str) -> str:
    return f"{key}-{_checked(content)[:16]}{suffix}"


def _stamp(path: str) -> tuple[int, ...]:
    found = os.stat(path, follow_symlinks=False)
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@cache
def _cache_at(root: str, version: str) -> DiskCache:
    return DiskCache(root, version)


def disk_cache() -> DiskCache:
    """The cache that the settings name."""
    root = os.fspath(settings.cache_dir())
    return _cache_at(root, _version(root))


@cache
def _engine_key(root: str) -> str:
    stamp, engines = engine_stamp(), _cache_at(root, "engines")
    kept = engines.read("identity", stamp)
    if kept is not None:
        return kept.decode()
    content = engine_content()
    engines.write("identity", stamp, content.encode())
    return content


@cache
def _version(root: str) -> str:
    return key_of(_engine_key(root), machine_key())


def engine_key() -> str:
    """Hash of the engine's own files: the same in every installation of the same code."""
    return _engine_key(os.fspath(settings.cache_dir()))


def toolchain_key() -> str:
    """Changes with the engine's own files, the compiler, LLVM or the CPU."""
    return _version(os.fspath(settings.cache_dir()))
