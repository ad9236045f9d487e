"""The MLX primitive for macOS on Apple silicon, a part of `scripts/build-macos`: from any machine, without Apple's SDK.

    python -m native.tools.mlx_macos [folder]        folder: where everything goes (default: build/macos)

mlx-metal's macOS wheel has the headers, metal-cpp and the library to link against; the headers of Apple's that
metal-cpp asks for are stood in for by `apple/`. Python's functions are found when it is loaded.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from metalcore.mlx.build import SOURCES, file_name, key
from native.tools import stubs
from native.tools.macho import ARM64, MachO, read
from native.tools.macos import LEAST, MLX, ROOT, TARGET, download, is_newer, prove, run, unpack

STAND_INS = Path(__file__).parent / "apple"
FLAGS = ("-std=c++20", "-O2", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-w")
# zig's libc++ is newer than a Mac's: it is to use what that of the target has.
AVAILABILITY = ("-U_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS", "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1")
FUNCTIONS = ("mcx_call", "mcx_dead", "mcx_forget", "mcx_key", "mcx_plan", "mcx_set")
"""What Python looks up in it."""
VERSION = MLX.partition("==")[2]


def mlx_folder(folder: Path) -> Path:
    """The headers and the library of mlx."""
    wheel = download(MLX, folder / "wheels")
    return unpack(wheel, folder / f"{MLX}-headers", ("mlx/include/", "libmlx.dylib")) / "mlx"


def build(folder: Path, known: dict[str, MachO]) -> Path:
    """The primitive, compiled and linked against mlx's own library and what it shows of Apple's."""
    made, mlx = folder / "mlx", mlx_folder(folder)
    made.mkdir(parents=True, exist_ok=True)
    includes = [
        w for place in (STAND_INS, mlx / "include", mlx / "include/metal_cpp") for w in ("-isystem", str(place))
    ]
    objects = []
    for name in ("primitive", "metal"):
        source, output = SOURCES / f"{name}.cpp", made / f"{name}.o"
        objects.append(str(output))
        if is_newer(output, [source, Path(__file__), *SOURCES.glob("*.h")]):
            continue
        flags = [*FLAGS, f'-DMETALCORE_KEY="{key(VERSION)}"', "-fno-sized-deallocation", *AVAILABILITY]
        run(["c++", "-target", TARGET, *flags, "-c", str(source), "-o", str(output), *includes], source.name)
    output = made / file_name(VERSION, "darwin", "arm64")
    listed = [str(path) for path in stubs.write(made, known.values())]
    options = ["-shared", "-nostdlib++", f"-Wl,-install_name,@rpath/{output.name}", "-Wl,-dead_strip"]
    options.append("-Wl,-undefined,dynamic_lookup")
    library = str(mlx / "lib" / "libmlx.dylib")
    run(["cc", "-target", TARGET, *options, "-o", str(output), *objects, library, *listed], output.name)
    return output


def faults(made: MachO) -> list[str]:
    """What a Mac would refuse."""
    checks = {
        "not for arm64": made.cpu == ARM64,
        "not a dylib": made.kind == 6,
        f"for macOS {made.least_system}, not {LEAST}": made.least_system == LEAST,
        "not signed": made.is_signed,
        "without the functions that Python looks up": {f"_{name}" for name in FUNCTIONS} <= made.exports,
    }
    return [f"the file is {what}" for what, holds in checks.items() if not holds]


def main(folder: Path) -> int:
    library = mlx_folder(folder) / "lib" / "libmlx.dylib"
    known = {library.name: read(library)}
    output = build(folder, known)
    made = read(output)
    python = {symbol for symbol in made.imports if symbol.startswith("_Py")}
    missing = [symbol for symbol in python if not hasattr(ctypes.pythonapi, symbol.removeprefix("_"))]
    rest = {symbol: library for symbol, library in made.imports.items() if symbol not in python}
    made.imports = rest
    shown, wrong = prove(made, known, stubs.system_symbols())
    wrong += faults(made) + [f"{symbol}: no function of Python's" for symbol in missing]
    size = f"{output.stat().st_size:,} bytes, {len(rest)} imported symbols"
    print(f"{output}: {size}, {len(python)} of Python, {len(made.exports)} exported")
    by: dict[str, int] = {}
    for reason in shown.values():
        by[reason] = by.get(reason, 0) + 1
    for reason, count in sorted(by.items()):
        print(f"  {count:4} {reason}")
    for problem in wrong:
        print(f"  WRONG: {problem}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build" / "macos"))
