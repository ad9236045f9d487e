"""What compiled kernels depend on besides their source: this engine, the toolchain and the CPU, as one short key."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from metalcore.engine.sysctl import sysctl

if TYPE_CHECKING:
    from hashlib import sha256
else:  # Python's own modules: hashlib loads OpenSSL, which takes longer than everything else here.
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256

_MANY = 4_000_000  # bytes from which OpenSSL's speed is worth its import
ENGINE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def digest(data: bytes) -> str:
    """SHA-256 as hexadecimal text."""
    if len(data) > _MANY:
        import hashlib

        return hashlib.sha256(data).hexdigest()
    return sha256(data).hexdigest()


def key_of(*parts: Any) -> str:
    """A file name for anything whose repr says all about it."""
    return digest(repr(parts).encode("utf-8", "surrogatepass"))[:40]


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _files(entry.path)
        elif not entry.name.endswith((".pyc", ".swp")):
            yield entry


def engine_stamp() -> str:
    """Changes whenever a file of the engine is touched; cheap, because nothing is read."""
    rows = []
    for entry in _files(ENGINE):
        stat = entry.stat()
        rows.append((entry.path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    return key_of(sorted(rows))


def engine_content() -> str:
    """Hash of every file of the engine; the same in every installation of the same code."""
    rows = []
    for entry in _files(ENGINE):
        with open(entry.path, "rb") as file:
            rows.append((os.path.relpath(entry.path, ENGINE), digest(file.read())))
    return key_of(sorted(rows))


def _package_stamp(name: str, files: tuple[str, ...]) -> tuple[Any, ...]:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return (name, None)
    folder = spec.submodule_search_locations[0]
    stamps = []
    for file in files:
        try:
            stat = os.stat(os.path.join(folder, file))
            stamps.append((file, stat.st_size, stat.st_mtime_ns))
        except OSError:
            stamps.append((file, 0, 0))
    return (name, *stamps)


def _first_core() -> str:
    """What Linux says of the first core."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        return file.read(8192).split("\n\n")[0]


def processor_flags() -> frozenset[str]:
    """The processor's features by Linux's names; none where nobody says."""
    try:
        rows = (line.partition(":") for line in _first_core().splitlines())
    except OSError:
        return frozenset()
    return frozenset(flag for name, _, value in rows if name.strip() in ("flags", "Features") for flag in value.split())


def _cpu() -> tuple[str, ...]:
    """The processor's name and features, as the kernel reports them for the first core."""
    if sys.platform == "darwin":  # platform.processor starts a program there, and says no more than "arm"
        names = ("machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features", "hw.cpufamily")
        return (os.uname().machine, *(sysctl(name).hex() for name in names))
    try:
        head = _first_core()
    except OSError:
        return (platform.system(), platform.machine(), platform.processor())
    changing = ("cpu MHz", "bogomips", "processor", "physical id", "core id", "apicid", "initial apicid")
    rows = (line.partition(":") for line in head.splitlines())
    fixed = (f"{name.strip()}={value.strip()}" for name, _, value in rows if name.strip() not in changing)
    return (os.uname().machine, *fixed)


@cache
def machine_key() -> str:
    """Toolchain and CPU."""
    zig = _package_stamp("ziglang", ("zig",))
    suffix = "dylib" if sys.platform == "darwin" else "so"
    llvm = _package_stamp("llvmlite", ("_version.py", f"binding/libllvmlite.{suffix}"))
    return key_of(zig, llvm, _cpu())
