"""The sdist and every wheel, on Linux: scripts/build-wheels.

python -m release.wheels [--quick] [--only linux-x86_64] [--out dist]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from metalcore.engine.store.cache import engine_key
from metalcore.engine.store.identity import engine_content
from release import native
from release.inspection import Inspection
from release.platforms import WHEELS, Wheel
from release.stores import QUICK, make

ROOT = Path(__file__).resolve().parent.parent
_LEFT_OUT = (".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", "prebuilt", "node_modules")


def sdist(out: Path) -> Path:
    """From a copy of the tree, so that nothing that lies about gets in."""
    with tempfile.TemporaryDirectory(prefix="metalcore-") as folder:
        tree = Path(folder, "tree")
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        _run([sys.executable, "-m", "build", "--sdist", "--outdir", str(out), str(tree)])
    return max(out.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)


def wheel(given: Wheel, source: Path, parts: Path, out: Path) -> Path:
    """From the sdist and the parts of the platform."""
    with tempfile.TemporaryDirectory(prefix="metalcore-") as folder:
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        (tree,) = Path(folder).iterdir()
        settings = {"METALCORE_WHEEL_PARTS": str(parts), "METALCORE_WHEEL_PLATFORM": given.tag}
        _run([sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(tree)], settings)
    (made,) = out.glob(f"*-{given.tag}.whl")
    return made


def _run(command: list[str], settings: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env={**os.environ, **(settings or {})}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"only the kernels of {', '.join(QUICK)}")
    parser.add_argument("--only", action="append", choices=[w.name for w in WHEELS], help="may be given more than once")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("metalcore_kernels-*.whl"), *out.glob("metalcore_kernels-*.tar.gz")):
        old.unlink()
    engine = engine_key()
    source, good = sdist(out), True
    print(f"{source.name}: {source.stat().st_size / 1e6:.1f} MB")
    for each in WHEELS:
        if given.only and each.name not in given.only:
            continue
        begin, parts = time.perf_counter(), ROOT / "build" / "parts" / each.name
        shutil.rmtree(parts, ignore_errors=True)
        problems = [*make(each, parts, given.quick, given.jobs).missing, *native.add(each.name, parts)]
        if engine_content() != engine:  # its kernels would be left aside wherever the wheel is installed
            raise SystemExit("files of metalcore/engine have changed meanwhile: build again")
        found = Inspection(wheel(each, source, parts, out))
        print(f"{found} ({time.perf_counter() - begin:.0f} s)")
        for problem in problems:
            print(f"  NOT PACKAGED: {problem}")
        good &= not found.problems
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
