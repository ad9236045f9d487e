"""Parts of a wheel that other commands build: the MLX primitive and the torch extension. What lies in
build/native/<wheel>/ is taken too, in the places of the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


class Part(NamedTuple):
    """`python -m module FOLDER` makes files `made` below FOLDER, which go to a folder of the package."""

    wheel: str
    what: str
    module: str
    made: str
    place: str


PARTS = (
    Part("linux-x86_64", "the MLX primitive", "metalcore.mlx.build", "mlx-*-x86_64.so", "mlx/prebuilt"),
    Part("linux-aarch64", "the MLX primitive", "metalcore.mlx.build", "mlx-*-aarch64.so", "mlx/prebuilt"),
    Part("macos-aarch64", "the MLX primitive", "native.tools.mlx_macos", "mlx/mlx-*.dylib", "mlx/prebuilt"),
    Part("macos-aarch64", "the torch extension", "native.tools.macos", "torch/torch-*.dylib", "runtimes/native"),
)


def add(wheel: str, parts: Path) -> list[str]:
    """Build what can be built here and lay it over *parts*; what is not there is said."""
    problems = [problem for part in PARTS if part.wheel == wheel for problem in _add(part, parts)]
    if (BUILD / "native" / wheel).is_dir():
        shutil.copytree(BUILD / "native" / wheel, parts, dirs_exist_ok=True)
    return problems


def _add(part: Part, parts: Path) -> list[str]:
    if not ROOT.joinpath(*part.module.split(".")).with_suffix(".py").is_file():
        return [f"{part.what}: there is no {part.module} in this tree"]
    folder = BUILD / "parts-of-others" / part.wheel
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", part.module, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    made = sorted(folder.glob(part.made))
    if done.returncode != 0 or not made:
        said = done.stderr.strip().splitlines()[-1:] if done.returncode else []
        return [f"{part.what}: {' '.join(said) or f'{part.module} makes no {part.made} on this system'}"]
    (parts / part.place).mkdir(parents=True, exist_ok=True)
    for file in made:
        shutil.copy(file, parts / part.place)
    return []
