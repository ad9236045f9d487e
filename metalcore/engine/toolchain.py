"""The compiler and the linker of the ziglang wheel, started directly.

`zig cc` and `zig c++` build a libc first, which takes minutes in an empty HOME. `zig clang -cc1` and `zig ld.lld` are
the plain tools and start in hundredths of a second.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Mapping, Sequence

from metalcore import settings
from metalcore.engine.process import scratch_folder
from metalcore.engine.target import Platform, this_platform
from metalcore.errors import MetalcoreError
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


def run_zig(arguments: Sequence[str], what: str, more: Mapping[str, str] | None = None) -> None:
    """Runs one of zig's tools; a failure is an error of ours, so it carries everything the tool said."""
    environment = {**settings.system_environment(), **(more or {})}  # CPATH and its like are the user's
    done = run_process([zig(), *arguments], env=environment)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace")
        raise MetalcoreError(f"{what} failed (exit code {done.returncode}):\n{said}")


_QUICK = ("-O1", "-mllvm", "-inline-threshold=25")


def compile_c(
    source: str,
    output: str,
    features: Sequence[str] = (),
    *,
    quick: bool = False,
    where: Platform | None = None,
) -> None:
    """One C file, which includes nothing but the compiler's own headers, to an object file.

    *features* are instructions that the machine has: ("+avx2",). *quick*: in four fifths of the time, with less care.
    *where*: whom it is for, this machine where nothing is said.
    """
    headers = os.path.join(os.path.dirname(zig()), "lib", "include")
    options = [*(_QUICK if quick else ("-O2",)), "-std=c11", "-ffreestanding"]
    options += ["-mrelocation-model", "pic", "-pic-level", "2"]
    for feature in features:
        options += ["-target-feature", feature]
    flags = [*options, "-fvisibility=hidden", "-internal-isystem", headers, "-o", output, source]
    triple = (where or this_platform()).triple
    run_zig(["clang", "-cc1", "-triple", triple, "-emit-obj", *flags], f"compiling {source}")


def link_shared(objects: Sequence[str], output: str, where: Platform | None = None) -> None:
    """Object files to a shared object; what is undefined is found in the process that loads it."""
    if (where or this_platform()).is_macho:
        _link_macho(objects, output, where or this_platform())
    else:
        run_zig(["ld.lld", "-shared", "-z", "now", "--build-id=none", "-o", output, *objects], f"linking {output}")


def _link_macho(objects: Sequence[str], output: str, where: Platform) -> None:
    """The wheel has no ld64.lld, but zig's own linker: it needs no SDK and signs what it makes, as Apple's processors
    want it. It is found behind `zig cc`, which builds no libc where none is wanted."""
    name = f"-Wl,-install_name,@rpath/{os.path.basename(output)}"
    tool = ["cc", "-target", where.zig_name, "-shared", "-nostdlib", name]
    with scratch_folder() as folder:
        kept = {"ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder}
        run_zig([*tool, "-o", output, *objects], f"linking {output}", kept)
