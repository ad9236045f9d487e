"""native/torch with its torch part for this machine: its ops take CPU tensors under a namespace of their own, and the
tests stand in for Metal. It needs g++ or clang++ of the system, since torch was built with its C++ library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from native.tools.core import CORE, SOURCES
from native.tools.embed import embedded
from native.tools.schemas import included

NAMESPACE, PLANS = "metalcore_standin", "metalcore_standin_plan"
TORCH_PART = ("plans", "ops")


def compiler() -> str:
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        raise RuntimeError("the torch part of native/torch is built with g++ or clang++, and neither is installed")
    return found


def build(folder: Path, torch: Any, stands_in: bool = True) -> Path:
    """A shared object in `folder`, which keeps what is made. Not `stands_in`: with the names and the key of a Mac, so
    that its ops are there, and no tensor finds their kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("embedded.cpp", embedded(["rms_norm"])), ("schemas.inc", included())):
        if not (folder / name).exists() or (folder / name).read_text() != text:
            (folder / name).write_text(text)
    home = Path(torch.__file__).parent
    includes = ["-I", str(SOURCES), "-I", str(folder), "-isystem", str(home / "include")]
    includes += ["-isystem", str(home / "include/torch/csrc/api/include")]
    defines = [f"-DMETALCORE_NAMESPACE={NAMESPACE}", f"-DMETALCORE_PLANS={PLANS}", "-DMETALCORE_KEY=CPU"]
    defines = defines if stands_in else []
    defines.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}")
    flags = ["-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter"]
    sources = [*(SOURCES / f"{name}.cpp" for name in (*CORE, *TORCH_PART)), folder / "embedded.cpp"]
    objects = [folder / f"{source.stem}.o" for source in sources]
    headers = [*SOURCES.glob("*.h"), folder / "schemas.inc"]

    def made(source: Path, output: Path) -> None:
        if not _is_newer(output, [source, *headers]):
            words = [compiler(), *flags, *defines, *includes, "-c", str(source), "-o", str(output)]
            subprocess.run(words, check=True)

    _each(made, sources, objects)
    library = folder / "torch_ops.so"
    if not _is_newer(library, objects):
        links = [f"-L{home / 'lib'}", f"-Wl,-rpath,{home / 'lib'}", "-ltorch_cpu", "-lc10"]
        words = [compiler(), "-shared", "-Wl,-z,now", "-Wl,-z,defs", "-o", str(library), *map(str, objects), *links]
        subprocess.run(words, check=True)
    return library


def _each(made: Callable[[Path, Path], None], sources: list[Path], objects: list[Path]) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(made, sources, objects))


def _is_newer(made: Path, sources: list[Path]) -> bool:
    return made.exists() and made.stat().st_mtime > max(source.stat().st_mtime for source in sources)
