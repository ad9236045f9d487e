"""What a wheel brings, compiled: a folder for each of its processors, and the runtime. docs/design/wheels.md.

python -m release.stores linux-x86_64 build/parts/linux-x86_64 [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from metalcore.engine import pipeline
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.frontend.model import Unit
from metalcore.engine.runtime.native_library import RUNTIME, SANITIZER, build, content_key
from metalcore.engine.store.cache import engine_key
from metalcore.engine.store.prebuilt import FACTS, HERE, PACKAGE, kernel_key, signature_key, unit_key, within
from metalcore.engine.units import signature_data
from metalcore.errors import MetalcoreError
from release import native
from release.platforms import Processor, Wheel, find
from release.wanted import Wanted, wanted

QUICK = ("rms_norm", "silu", "softmax")  # the kernel files of a quick build: enough to try a wheel
LIBRARIES = {"runtime.so": RUNTIME, "sanitizer.so": SANITIZER}


class Made(NamedTuple):
    """A wheel's parts, and what is not among them."""

    kernels: int
    missing: tuple[str, ...]


def make(wheel: Wheel, folder: Path, quick: bool, jobs: int) -> Made:
    """Fill *folder*/prebuilt, which is made afresh."""
    home, missing = folder / "prebuilt", []
    shutil.rmtree(home, ignore_errors=True)
    for processor in wheel.processors:
        (home / processor.name).mkdir(parents=True)
    sources = list(_by_source(w for w in wanted() if not quick or any(f'"{q}.metal"' in w.text for q in QUICK)))
    count, begin = 0, time.perf_counter()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(make_unit_files, rows, wheel, str(home)) for rows in sources]
        for at, done in enumerate(as_completed(waiting), 1):
            try:
                count += done.result()
            except MetalcoreError as error:
                for other in waiting:
                    other.cancel()
                missing.append(f"kernels: {_first_line(error)}")
                break
            if at % 25 == 0:
                print(f"{wheel.name}: {at} of {len(sources)} sources, {time.perf_counter() - begin:.0f} s", flush=True)
    for processor in wheel.processors:
        here = home / processor.name
        if missing:  # a part of the kernels is nothing that anybody could count on
            shutil.rmtree(here)
            here.mkdir()
        libraries, problems = make_libraries(processor, here)
        missing += problems
        write_facts(wheel, processor, here, libraries)
    return Made(0 if missing and missing[0].startswith("kernels") else count, tuple(dict.fromkeys(missing)))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _by_source(rows: Iterator[Wanted]) -> Iterator[tuple[Wanted, ...]]:
    found: dict[tuple[str, str, str], list[Wanted]] = {}
    for row in rows:
        found.setdefault((row.text, row.math_mode, row.float_type), []).append(row)
    yield from map(tuple, found.values())


def make_unit_files(rows: Sequence[Wanted], wheel: Wheel, home: str) -> int:
    """Compile all kernels of one source for each processor of a wheel; the answer is how many objects were made."""
    count = 0
    for processor in wheel.processors:
        source = rows[0].source(processor.target)
        key, options, folder = unit_key(source), source._asdict(), Path(home, processor.name)
        unit = make_unit(options.pop("text"), **options)
        signatures, kernels = {}, dict[str, Any]()
        for row in rows:
            kernel = lower(unit, row.name, dict(row.constants))
            signatures[signature_key(row.name, row.constants)] = signature_data(kernel)
            for variant in row.variants:
                native = pipeline.build(kernel, variant, processor.target)
                file = f"{key}-{len(kernels)}.so"
                shutil.move(native.path, folder / file)
                os.chmod(folder / file, 0o644)
                shutil.rmtree(os.path.dirname(native.path))
                kernels[kernel_key(row.name, row.constants, variant.key)] = {"file": file, "meta": native.to_json()}
        _write(folder / f"{key}.json", {"manifest": _manifest(unit), "signatures": signatures, "kernels": kernels})
        count += len(kernels)
    return count


def _manifest(unit: Unit) -> dict[str, Any]:
    files = [*unit.includes, *unit.probes]
    strange = [path for path, state in files if within(path) == path]
    if strange or unit.searched.torch is not None:
        raise SystemExit(f"a kernel of the package looks at files of others: {strange or unit.searched.torch}")
    return {
        "files": [[within(path), state] for path, state in files],
        "functions": list(unit.functions),
        "templates": [kernel.host_name for kernel in unit.kernels if "<" in kernel.expression],
        "constants": [asdict(c) for c in unit.constants],
    }


def make_libraries(processor: Processor, folder: Path) -> tuple[dict[str, str], list[str]]:
    """The runtime and the sanitizer's library: file names by the key of their sources, and what could not be made."""
    made, problems = {}, []
    for file, library in LIBRARIES.items():
        try:
            (folder / file).write_bytes(build(library, processor.target))
            made[content_key(library)] = file
        except MetalcoreError as error:
            problems.append(f"{file}: {_first_line(error)}")
    return made, problems


def write_facts(wheel: Wheel, processor: Processor, folder: Path, libraries: dict[str, str]) -> None:
    facts = {
        "system": wheel.system, "machine": wheel.machine, "flags": processor.flags, "rank": processor.rank,
        "cpu": processor.target.cpu, "engine": engine_key(), "libraries": libraries,
    }  # fmt: skip
    _write(folder / FACTS, facts)


def _write(path: Path, data: dict[str, Any]) -> None:
    """JSON in which the package's folder is HERE, and no other folder of this machine is named."""
    text = json.dumps(data, separators=(",", ":")).replace(json.dumps(PACKAGE)[1:-1], HERE)
    if (root := os.path.dirname(PACKAGE)) in text:
        raise SystemExit(f"{path.name} names the folder {root} of this machine")
    path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help=f"only the kernels of {', '.join(QUICK)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    made = make(find(given.wheel), given.folder, given.quick, given.jobs)
    print(f"{given.wheel}: {made.kernels} kernels in {given.folder}")
    for problem in (*made.missing, *native.add(given.wheel, given.folder)):
        print(f"{given.wheel}: NOT PACKAGED: {problem}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
