"""The library of the extension as Apple's compiler makes it, where there is one: on a Mac with Xcode.

Never run: there was no Mac. Which variants it holds is known from the cases of metalcore/health, whose launches are
noted with the policy of a GPU; what is not among them is compiled from text at first use.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from metalcore.health.routes import launches_of
from metalcore.ops import find, nouns
from metalcore.runtimes.kernel import Variant, read
from metalcore.runtimes.text import DEVICE

CASES = 12
_OPTIONS = ("-std=metal3.1", "-fno-fast-math", "-mmacosx-version-min=14.0")


def is_possible() -> bool:
    """Whether xcrun finds Apple's compiler."""
    if shutil.which("xcrun") is None:
        return False
    return subprocess.run(["xcrun", "--find", "metal"], capture_output=True, check=False).returncode == 0


def variants(ops: Iterable[str] = (), cases: int = CASES) -> dict[str, list[Variant]]:
    """By kernel file, one of each instantiation that the cases of these ops launch; of all fused ops by default."""
    found: dict[str, dict[str, Variant]] = {}
    for noun in ops or nouns():
        op = find(noun)
        for dtype in op.dtypes:
            if dtype != "float64":
                for index in range(cases):
                    for launch in launches_of(op, dtype, index):
                        variant = launch.variant
                        found.setdefault(variant.kernel.file, {})[variant.instantiation] = variant
    return {file: [known[key] for key in sorted(known)] for file, known in sorted(found.items())}


def text(file: str, wanted: Iterable[Variant]) -> str:
    """A kernel file with all its instantiations."""
    return DEVICE + read(file) + "".join(variant.instantiation for variant in wanted)


def build(folder: Path) -> bytes:
    """Compiled and joined by Apple's tools."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = {folder / f"{file.replace('/', '_')}.metal": text(file, wanted) for file, wanted in variants().items()}

    def compiled(path: Path) -> str:
        path.write_text(sources[path])
        output = str(path.with_suffix(".air"))
        subprocess.run(["xcrun", "-sdk", "macosx", "metal", *_OPTIONS, "-c", str(path), "-o", output], check=True)
        return output

    with ThreadPoolExecutor() as pool:
        parts = list(pool.map(compiled, sources))
    library = folder / "metalcore.metallib"
    subprocess.run(["xcrun", "-sdk", "macosx", "metallib", *parts, "-o", str(library)], check=True)
    return library.read_bytes()
