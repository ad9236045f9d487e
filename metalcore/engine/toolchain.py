"""The compiler and the linker of the ziglang wheel, started directly.

`zig cc` and `zig c++` build a libc first, which takes minutes in an empty HOME. `zig clang -cc1` and `zig ld.lld` are
the plain tools and start in hundredths of a second.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
from collections.abc import Sequence

from metalcore import settings
from metalcore.errors import MetalcoreError, UnsupportedFeature
from metalcore.forking import run_process


@functools.cache
def zig() -> str:
    """Path of the zig binary, found without importing anything."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        raise MetalcoreError("the 'ziglang' package, which carries the compiler, is not installed: pip install ziglang")
    path = os.path.join(spec.submodule_search_locations[0], "zig")
    if not os.path.exists(path):
        raise MetalcoreError(f"the 'ziglang' package is there but its compiler {path} is not: reinstall ziglang")
    return path


def host_triple() -> str:
    """LLVM's name of this machine, as far as the native runtime supports it."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    if platform.system() != "Linux" or machine not in ("x86_64", "aarch64"):
        raise UnsupportedFeature(
            f"running kernels on {platform.system()} {platform.machine()}: Linux on x86_64 or aarch64 is needed"
        )
    return f"{machine}-unknown-linux-gnu"


def run_zig(arguments: Sequence[str], what: str) -> None:
    """Runs one of zig's tools; a failure is an error of ours, so it carries everything the tool said."""
    done = run_process([zig(), *arguments], env=settings.system_environment())  # CPATH and its like are the user's
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace")
        raise MetalcoreError(f"{what} failed (exit code {done.returncode}):\n{said}")


_QUICK = ("-O1", "-mllvm", "-inline-threshold=25")


def compile_c(source: str, output: str, features: Sequence[str] = (), *, quick: bool = False) -> None:
    """One C file, which includes nothing but the compiler's own headers, to an object file.

    *features* are instructions that this machine has: ("+avx2",). *quick*: in four fifths of the time, with less care.
    """
    headers = os.path.join(os.path.dirname(zig()), "lib", "include")
    options = [*(_QUICK if quick else ("-O2",)), "-std=c11", "-ffreestanding"]
    options += ["-mrelocation-model", "pic", "-pic-level", "2"]
    for feature in features:
        options += ["-target-feature", feature]
    flags = [*options, "-fvisibility=hidden", "-internal-isystem", headers, "-o", output, source]
    run_zig(["clang", "-cc1", "-triple", host_triple(), "-emit-obj", *flags], f"compiling {source}")


def link_shared(objects: Sequence[str], output: str) -> None:
    """Object files to a shared object; what is undefined is found in the process that loads it."""
    run_zig(["ld.lld", "-shared", "-z", "now", "--build-id=none", "-o", output, *objects], f"linking {output}")
