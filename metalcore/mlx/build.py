"""The MLX primitive (native/): found ready-made beside this file, or compiled with g++ for the mlx that is installed.

python -m metalcore.mlx.build OUT      compiles it; OUT is a file, or a folder that gets a file of its usual name

A wheel that carries it has it in `metalcore/mlx/prebuilt/`. One that was made of other sources or for another mlx is
not loaded: the layout of mlx's classes is part of what is compiled.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from metalcore.engine.notice import compiling
from metalcore.engine.store.cache import disk_cache
from metalcore.engine.store.identity import digest, key_of
from metalcore.errors import MetalcoreError

SOURCES = Path(__file__).parent / "native"
PREBUILT = Path(__file__).parent / "prebuilt"
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
_SECONDS = 300


class NotBuilt(MetalcoreError):
    """There is no primitive, and why."""


@cache
def mlx_version() -> str:
    return metadata.version("mlx")


def mlx_folder() -> Path:
    """Where mlx's headers and its library are."""
    spec = find_spec("mlx")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / "include" / "mlx" / "mlx.h").exists():
            return Path(place)
    raise NotBuilt("the mlx that is installed has no headers")


def key(version: str | None = None) -> str:
    """Names what the sources and the mlx version make: the library carries it."""
    files = sorted(path for path in SOURCES.iterdir() if path.suffix in (".cpp", ".h"))
    return key_of([(path.name, digest(path.read_bytes())) for path in files], version or mlx_version())


def file_name(version: str | None = None, system: str = sys.platform, machine: str | None = None) -> str:
    """mlx-0.32.4-linux-x86_64.so"""
    ending = "dylib" if system == "darwin" else "so"
    return f"mlx-{version or mlx_version()}-{system}-{machine or platform.machine()}.{ending}"


def compile_to(path: str) -> None:
    """Run g++ on the sources."""
    compiler = shutil.which("g++")
    if sys.platform != "linux":
        raise NotBuilt(f"the primitive is compiled on Linux alone, not on {sys.platform}")
    if compiler is None:
        raise NotBuilt("there is no g++, and no primitive that was made for it came with the package")
    folder = mlx_folder()
    command = [compiler, *FLAGS, f'-DMETALCORE_KEY="{key()}"']
    command += [f"-I{folder / 'include'}", str(SOURCES / "primitive.cpp"), "-o", path, f"-L{folder / 'lib'}", "-lmlx"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotBuilt(f"g++ could not be run: {error}") from None
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
        raise NotBuilt(f"g++ does not compile it for mlx {mlx_version()}: {first}")


def library() -> tuple[str, str]:
    """The path of the shared object, and where it is from: "prebuilt", "the cache" or "compiled now"."""
    ready = PREBUILT / file_name()
    if ready.exists() and key().encode() in ready.read_bytes():
        return str(ready), "prebuilt"
    found = disk_cache().read_binary("mlx", key())
    if found is not None:
        return found[0], "the cache"
    with (
        compiling(f"the primitive for mlx {mlx_version()}"),
        tempfile.TemporaryDirectory(prefix="metalcore-") as folder,
    ):
        output = os.path.join(folder, "primitive.so")
        compile_to(output)
        return disk_cache().write_binary("mlx", key(), Path(output).read_bytes(), {}), "compiled now"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__)
        return 2
    out = Path(arguments[0])
    out = out / file_name() if out.is_dir() else out
    try:
        compile_to(str(out))
    except NotBuilt as error:
        print(f"metalcore.mlx.build: {error}", file=sys.stderr)
        return 1
    print(out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
