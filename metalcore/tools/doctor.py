"""`metalcore doctor`: what the engine needs, looked at one by one, and a kernel really compiled and run, by every
way that the machine has."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from metalcore import settings
from metalcore.tools import agreement

Finding = tuple[bool, str]
KERNEL = """
#include <metal_stdlib>
using namespace metal;
kernel void scale(device const float* x, device float* y, constant float& a, uint i [[thread_position_in_grid]]) {
  y[i] = a * x[i];
}
kernel void past_the_end(device float* y, uint i [[thread_position_in_grid]]) { y[i + 1] = 1; }
"""


def examine() -> bool:
    """Print every finding; whether all is well."""
    console = Console()
    table = Table(title="metalcore doctor", title_justify="left")
    table.add_column("")
    table.add_column("what")
    table.add_column("found", overflow="fold")
    healthy = True
    for name, check in _checks():
        try:
            good, text = check()
        except Exception as error:  # a broken part must not hide the others
            good, text = False, f"{type(error).__name__}: {error}"
        healthy &= good
        table.add_row("[green]ok[/green]" if good else "[red]bad[/red]", name, escape(text))
    console.print(table)
    console.print("All is well." if healthy else "Something is wrong: see the lines marked bad.")
    return healthy


def _checks() -> Iterator[tuple[str, Callable[[], Finding]]]:
    yield "Python", lambda: (sys.version_info >= (3, 10), f"{platform.python_version()} on {platform.platform()}")
    yield "packages", _packages
    yield "import name", _import_name
    yield "optional packages", _optional
    yield "CPU", _cpu
    yield "CPU threads", lambda: (True, str(settings.num_threads()))
    yield "compiler", _compiler
    yield "code generator", _llvm
    yield "cache folder", _cache
    yield "kernel, compiled and run", _cold
    yield "kernel, called again", _warm
    yield "a write out of bounds", _caught
    results = {"NumPy": agreement.by_numpy()}
    for name, run in agreement.WAYS.items():
        yield f"a kernel by {name}", partial(_by, name, run, results)
    yield "which of these agree", lambda: agreement.report(results)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _packages() -> Finding:
    needed = ("metalcore-kernels", "numpy", "ziglang", "llvmlite", "click", "rich", "platformdirs")
    found = {name: _version(name) for name in needed}
    text = ", ".join(f"{name} {version or 'missing'}" for name, version in found.items())
    return all(found.values()), text


def _import_name() -> Finding:
    from metalcore.packages import check_imported, conflict

    check_imported()
    return not conflict(), conflict() or "no other package is called metalcore"


def _optional() -> Finding:
    found = {name: _version(name) for name in ("torch", "mlx", "ml_dtypes")}
    return True, ", ".join(f"{name} {version or 'not installed'}" for name, version in found.items())


def _cpu() -> Finding:
    from metalcore.engine.optimiser.llvm import this_target

    target = this_target()
    wanted = ("avx2", "fma", "f16c", "avx512f", "neon", "fullfp16", "bf16", "sve")
    present = [name for name in wanted if target.has(name)]
    known = " ".join(present) or "no vector extension known here"
    return True, f"{platform.machine()}, {target.cpu}: {known}"


def _compiler() -> Finding:
    from metalcore.engine.frontend.toolchain import zig

    done = subprocess.run([zig(), "clang", "--version"], capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines()
    return done.returncode == 0, lines[0] if lines else done.stderr.strip()


def _llvm() -> Finding:
    import llvmlite.binding as llvm

    version = ".".join(map(str, llvm.llvm_version_info))
    return True, f"LLVM {version} in llvmlite"


def _cache() -> Finding:
    from metalcore.tools.cache import describe

    return describe()


def _cold() -> Finding:
    import numpy as np

    import metalcore

    # A comment that nobody has compiled before, so that the cache cannot know the answer.
    source = f"// {uuid.uuid4()}\n{KERNEL}"
    x = np.arange(10_000, dtype=np.float32)
    y = np.zeros_like(x)
    started = time.perf_counter()
    metalcore.Library(source).function("scale")(x, y, 2.5, threads=x.size, group_size=256)
    seconds = time.perf_counter() - started
    right = bool((y == np.float32(2.5) * x).all())
    return right, f"{seconds:.2f} s from source to result, {'right' if right else 'wrong'}"


def _warm() -> Finding:
    import numpy as np

    import metalcore

    x = np.ones(32, np.float32)
    y = np.zeros_like(x)
    function = metalcore.Library(KERNEL).function("scale")
    times = {}
    for mode in ("checked", "fast"):
        with metalcore.mode(mode):
            function(x, y, 2.0, threads=32, group_size=32)
            started = time.perf_counter()
            for _ in range(1000):
                function(x, y, 2.0, threads=32, group_size=32)
            times[mode] = (time.perf_counter() - started) * 1e3
    return True, ", ".join(f"{value:.1f} microseconds {mode}" for mode, value in times.items())


def _caught() -> Finding:
    import numpy as np

    import metalcore
    from metalcore.errors import KernelFault

    y = np.zeros(64, np.float32)
    try:
        metalcore.Library(KERNEL).function("past_the_end")(y[:32], threads=32, group_size=32)
    except KernelFault as error:
        untouched = not y[32:].any()
        return untouched, f"caught, nothing beyond was written: {_one_line(str(error))}"
    return False, "not caught"


def _by(name: str, run: Callable[[], agreement.Result], results: dict[str, agreement.Result]) -> Finding:
    """Runs the kernel by one way. That a machine does not have it is nothing wrong."""
    started = time.perf_counter()
    try:
        result = run()
    except agreement.NotThere as missing:
        return True, f"not there: {missing}"
    results[name] = result
    return True, f"ran, {time.perf_counter() - started:.2f} s from source to result"


def _one_line(text: str) -> str:
    return " ".join(text.split())
