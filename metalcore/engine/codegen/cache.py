"""The cache on disk. Whatever happens to its folder costs time, never a result.

Entries are written to a temporary file and renamed, so two processes may fill the cache at once. Each carries a
checksum; a damaged one counts as absent. Where the folder cannot be written, a temporary folder of this process
takes its place.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import cache
from typing import Any

from metalcore import settings
from metalcore.engine.codegen.identity import digest, engine_content, engine_stamp, key_of, machine_key

FORMAT = "1"  # of the folder's layout
_CHECKSUM = 64


def _write_atomically(folder: str, name: str, data: bytes) -> str:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, name)
    temporary = f"{path}.{os.getpid()}.{id(data):x}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return path


@cache
def _scratch(pid: int) -> str:
    """A folder for this process alone, removed when it ends; a forked child has its own."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="metalcore-")

    def remove() -> None:
        if os.getpid() == pid:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


class DiskCache:
    """Checksummed entries by kind and key.

    >>> import tempfile
    >>> cache = DiskCache(tempfile.mkdtemp())
    >>> cache.write("notes", "a", b"text")
    >>> cache.read("notes", "a")
    b'text'
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.join(os.fspath(root), FORMAT)
        self._fallback: str | None = None

    def _folders(self, kind: str) -> list[str]:
        roots = [self.root] if self._fallback is None else [self.root, self._fallback]
        return [os.path.join(root, kind) for root in roots]

    def _store(self, kind: str, name: str, data: bytes) -> str:
        """Writes to the cache folder, or to a temporary one where that fails; raises OSError where both do."""
        try:
            return _write_atomically(os.path.join(self.root, kind), name, data)
        except OSError:
            self._fallback = os.path.join(_scratch(os.getpid()), key_of(self.root))
            return _write_atomically(os.path.join(self._fallback, kind), name, data)

    def read(self, kind: str, key: str) -> bytes | None:
        """The entry, or None where there is none or it is damaged."""
        for folder in self._folders(kind):
            try:
                with open(os.path.join(folder, key), "rb") as file:
                    data = file.read()
            except OSError:
                continue
            if data[:_CHECKSUM] == digest(data[_CHECKSUM:]).encode():
                return data[_CHECKSUM:]
        return None

    def write(self, kind: str, key: str, data: bytes) -> None:
        """Stores an entry, or does nothing where no folder takes it."""
        with suppress(OSError):
            self._store(kind, key, digest(data).encode() + data)

    def read_json(self, kind: str, key: str) -> Any:
        data = self.read(kind, key)
        return None if data is None else json.loads(data)

    def write_json(self, kind: str, key: str, value: Any) -> None:
        self.write(kind, key, json.dumps(value, separators=(",", ":")).encode())

    def read_binary(self, kind: str, key: str) -> tuple[str, Any] | None:
        """Path of a shared object whose content is as it was written, and what was stored with it."""
        entry = self.read_json(kind, key)
        if entry is None:
            return None
        for folder in self._folders(kind):
            path = os.path.join(folder, entry["file"])
            try:
                with open(path, "rb") as file:
                    if digest(file.read()) == entry["digest"]:
                        return path, entry["meta"]
            except OSError:
                continue
        return None

    def write_binary(self, kind: str, key: str, data: bytes, meta: Any) -> str:
        """Stores a shared object under a name made from its content; returns where it is."""
        content = digest(data)
        name = f"{key}-{content[:16]}.so"
        path = self._store(kind, name, data)
        self.write_json(kind, key, {"file": name, "digest": content, "meta": meta})
        return path


@cache
def _cache_at(root: str) -> DiskCache:
    return DiskCache(root)


def disk_cache() -> DiskCache:
    """The cache that the settings name."""
    return _cache_at(os.fspath(settings.cache_dir()))


@cache
def _engine_key(root: str) -> str:
    stamp = engine_stamp()
    kept = disk_cache().read("identity", stamp)
    if kept is not None:
        return kept.decode()
    content = engine_content()
    disk_cache().write("identity", stamp, content.encode())
    return content


def toolchain_key() -> str:
    """Changes with the engine's own files, the compiler, LLVM or the CPU."""
    return key_of(_engine_key(disk_cache().root), machine_key())
