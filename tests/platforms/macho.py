"""Every kernel of the demo and of the library as a Mac would get it: compiled, linked and read back here, not run.

python -m tests.platforms.macho [OP...] [--cases N] [--dtype DTYPE] [--machine aarch64|x86_64]    status 0: all is well

The ops are called on their fuzzed cases, as `metalcore precompile` does, with an empty cache. Every kernel that the
engine then compiles for this machine is compiled for macOS too.
"""

from __future__ import annotations

import argparse
import collections
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from metalcore import settings
from metalcore.engine import pipeline
from metalcore.engine.codegen import macho
from metalcore.engine.model import NativeKernel, ScalarKernel, Variant
from metalcore.engine.runtime import native_library
from metalcore.engine.target import AARCH64, MACOS, X86_64, Platform, Target, baseline
from metalcore.tools import demo, precompile
from tests.platforms.images import problems


@dataclass
class Found:
    """What one kind of Mac would get."""

    mac: Platform
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    slowest: tuple[float, str] = (0.0, "")
    missing: collections.Counter[str] = field(default_factory=collections.Counter)
    wrong: int = 0

    def read(self, name: str, data: bytes, is_kernel: bool) -> None:
        self.files, self.bytes = self.files + 1, self.bytes + len(data)
        found = macho.read(data)
        self.missing.update(found.missing)
        for problem in problems(data, self.mac):
            self.fault(f"{name} {problem}")
        if is_kernel and found.missing:
            self.fault(f"{name} leaves {', '.join(sorted(found.missing))} to the process")

    def fault(self, text: str) -> None:
        self.wrong += 1
        print(f"FAIL {self.mac.triple}: {text}", flush=True)

    def build(self, kernel: ScalarKernel, variant: Variant) -> None:
        begin, name = time.perf_counter(), f"{kernel.name} {variant.key}"
        try:
            path = Path(pipeline_build(kernel, variant, baseline(self.mac)).path)
        except Exception as error:  # one kernel must not end the others
            self.fault(f"{name}: {type(error).__name__}: {error}")
            return
        took = time.perf_counter() - begin
        self.seconds, self.slowest = self.seconds + took, max(self.slowest, (took, name))
        self.read(name, path.read_bytes(), True)
        shutil.rmtree(path.parent)


pipeline_build = pipeline.build


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.platforms.macho")
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--cases", type=int, default=precompile.CASES)
    parser.add_argument("--dtype", action="append", default=[])
    parser.add_argument("--machine", choices=(AARCH64, X86_64), action="append")
    given = parser.parse_args()
    macs = [Found(Platform(MACOS, machine)) for machine in given.machine or (AARCH64, X86_64)]
    for mac in macs:
        for library in (native_library.RUNTIME, native_library.SANITIZER):
            mac.read("-".join(library), native_library.build(library, baseline(mac.mac)), False)

    def build(kernel: ScalarKernel, variant: Variant, target: Target | None = None) -> NativeKernel:
        for mac in macs:
            mac.build(kernel, variant)
        return pipeline_build(kernel, variant, target)

    failed = []
    own_cache = mock.patch.dict("os.environ", METALCORE_CACHE=tempfile.mkdtemp())
    with own_cache, mock.patch.object(pipeline, "build", build):
        if not given.ops and not demo.show(quick=True):
            failed.append("the demo")
        for piece in precompile.pieces(given.ops, given.dtype, given.cases):
            done = piece.run("")
            failed += [done.problem] if done.problem else []
            print(f"{piece.noun} {piece.dtype}: {' and '.join(str(mac.files) for mac in macs)} files", flush=True)
        shutil.rmtree(settings.cache_dir())
    for mac in macs:
        counted = f"{mac.files} files, {mac.bytes / 1e6:.1f} MB, {mac.seconds:.0f} s, slowest {mac.slowest[0]:.1f} s"
        print(f"{mac.mac.triple}: {counted} ({mac.slowest[1]}), {mac.wrong} wrong")
        print(f"  left to libSystem: {', '.join(sorted(mac.missing))}")
    for line in failed:
        print(f"FAIL {line}")
    return 1 if failed or any(mac.wrong for mac in macs) else 0


if __name__ == "__main__":
    sys.exit(main())
