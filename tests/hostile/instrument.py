"""Builds the runtime's C with AddressSanitizer and UndefinedBehaviorSanitizer and puts it into the cache in the place
of the plain one: `METALCORE_CACHE=folder python -m tests.hostile.instrument`. What uses that cache then runs on it.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from metalcore import settings
from metalcore.engine.runtime.native_library import RUNTIME, SANITIZER, SOURCES, source_key
from metalcore.engine.store.cache import disk_cache

# A finding ends the process: nothing is missed because nobody reads the log.
FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1")


def build(compiler: str, library: tuple[str, ...], output: Path) -> None:
    wide = ["-mavx2"] if platform.machine() == "x86_64" and " avx2 " in Path("/proc/cpuinfo").read_text() else []
    objects = []
    for name in library:
        objects.append(str(output.with_name(f"{name}.o")))
        source, extra = str(Path(SOURCES) / f"{name}.c"), wide if name == "track" else []
        command = [compiler, "-c", "-std=gnu11", "-fPIC", "-fvisibility=hidden", *FLAGS, *extra, "-o", objects[-1]]
        subprocess.run([*command, source], check=True)
    subprocess.run([compiler, "-shared", *FLAGS, "-o", str(output), *objects], check=True)


def main() -> None:
    compiler = sys.argv[1] if len(sys.argv) > 1 else "gcc"
    for library in (RUNTIME, SANITIZER):
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "library.so"
            build(compiler, library, output)
            placed = disk_cache().write_binary("runtime", source_key(library), output.read_bytes(), {})
        print(f"{placed}, in the cache {settings.cache_dir()}")


if __name__ == "__main__":
    main()
