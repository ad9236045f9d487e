"""The core of native/torch for this machine, for the tests: no header of torch, no Metal, no C++ library."""

from __future__ import annotations

import tempfile
from pathlib import Path

from metalcore.engine.store.cache import disk_cache
from metalcore.engine.store.identity import digest, key_of, machine_key
from metalcore.engine.target import this_platform
from metalcore.engine.toolchain import link_shared, run_zig, zig

SOURCES = Path(__file__).resolve().parents[1] / "torch"
CORE = ("metal", "pipelines", "launch", "copies", "abi")
"""What knows nothing of torch."""


def _headers() -> list[str]:
    """zig's own headers of glibc: a machine may have none."""
    lib = Path(zig()).parent / "lib"
    machine = this_platform().machine
    family = {"x86_64": "x86"}.get(machine, machine)
    places = ("include", f"libc/include/{family}-linux-gnu", "libc/include/generic-glibc")
    places += (f"libc/include/{family}-linux-any", "libc/include/any-linux-any")
    return [word for place in places for word in ("-internal-isystem", str(lib / place))]


def compile_core(source: Path, output: Path) -> None:
    options = [
        "-O1",
        "-std=c++20",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fvisibility=hidden",
        "-D__GLIBC_MINOR__=17",
        "-fgnuc-version=4.2.1",
    ]
    options += ["-mrelocation-model", "pic", "-pic-level", "2", *_headers(), "-I", str(SOURCES)]
    words = ["clang", "-cc1", "-triple", this_platform().triple, "-emit-obj", *options, "-x", "c++", "-o", str(output)]
    run_zig([*words, str(source)], f"compiling {source}")


def library(embedded: str) -> str:
    """A shared object of the core with these embedded sources, from the cache or built now."""
    files = [SOURCES / f"{name}.cpp" for name in CORE]
    texts = [(f.name, digest(f.read_bytes())) for f in (*files, *sorted(SOURCES.glob("*.h")))]
    key = key_of("native-torch-core", texts, embedded, machine_key())
    found = disk_cache().read_binary("native", key)
    if found is not None:
        return found[0]
    with tempfile.TemporaryDirectory(prefix="metalcore-") as folder:
        own = Path(folder) / "embedded.cpp"
        own.write_text(embedded)
        objects = []
        for source in (*files, own):
            objects.append(str(Path(folder) / f"{source.stem}.o"))
            compile_core(source, Path(objects[-1]))
        output = Path(folder) / "core.so"
        link_shared(objects, str(output))
        return disk_cache().write_binary("native", key, output.read_bytes(), {})
