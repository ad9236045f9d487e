"""`scripts/build-macos`: the extension for macOS on Apple silicon, from any machine, with no SDK of Apple's.

    python -m native.tools.macos [folder]        folder: where everything goes (default: build/macos)

torch's macOS wheels come from pip; zig compiles and links against the very libraries that they hold. Then the file that
was made is read back: everything that it imports must be in these libraries. torch has wheels for arm64 alone.
"""

from __future__ import annotations

import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from metalcore.engine.toolchain import zig
from metalcore.runtimes.mps_route import file_name
from native.tools import stubs
from native.tools.embed import embedded, kernel_files
from native.tools.macho import ARM64, MachO, read
from native.tools.schemas import included

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "native" / "torch"
TARGET, LEAST = "aarch64-macos.14.0", (14, 0)
TORCH, MLX = "torch==2.13.0", "mlx-metal==0.32.4"
PYTHON = "311"  # which wheel of torch: its C++ libraries are the same for each
TORCH_LIBRARIES = ("libtorch_cpu.dylib", "libc10.dylib")
FUNCTIONS = (
    *("abi_version", "has_source", "built_in_bytes", "pipeline", "most_threads", "launch", "copy", "set_host"),
    *("schema", "note", "watch", "known_plans"),
)
"""What Python calls, without its metalcore_."""
CORE, TORCH_PART = ("metal", "pipelines", "launch", "copies", "abi"), ("stream", "plans", "ops")


def download(requirement: str, folder: Path) -> Path:
    """A macOS wheel, from pip's own registry, kept."""
    name, _, version = requirement.partition("==")
    pattern = f"{name.replace('-', '_')}-{version}-*macosx*arm64.whl"
    found = sorted(folder.glob(pattern))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        platform = ["--platform", "macosx_14_0_arm64", "--python-version", PYTHON]
        words = ["download", "--quiet", "--no-deps", "--only-binary=:all:", *platform, "-d", str(folder), requirement]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
        found = sorted(folder.glob(pattern))
    return found[0]


def unpack(wheel: Path, folder: Path, wanted: tuple[str, ...]) -> Path:
    """The parts of a wheel whose names begin or end so."""
    done = folder / "unpacked"
    if not done.exists():
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if n.startswith(wanted) or n.endswith(wanted)]
            archive.extractall(folder, names)
        done.touch()
    return folder


def is_newer(made: Path, sources: Sequence[Path]) -> bool:
    return made.exists() and made.stat().st_mtime > max(source.stat().st_mtime for source in sources)


def run(words: Sequence[str], what: str) -> None:
    started = time.perf_counter()
    subprocess.run([zig(), *words], check=True)
    print(f"{what}: {time.perf_counter() - started:.0f} s", flush=True)


def build(folder: Path, known: dict[str, MachO]) -> Path:
    """The extension, compiled and linked against what is known of Apple's libraries."""
    made, torch = folder / "torch", torch_folder(folder)
    made.mkdir(parents=True, exist_ok=True)
    for name, text in (("embedded.cpp", embedded(kernel_files())), ("schemas.inc", included())):
        if not (made / name).exists() or (made / name).read_text() != text:
            (made / name).write_text(text)
    includes = ["-I", str(SOURCES), "-I", str(made), "-isystem", str(torch / "include")]
    includes += ["-isystem", str(torch / "include/torch/csrc/api/include")]
    objects = []
    for source in [*(SOURCES / f"{n}.cpp" for n in (*CORE, *TORCH_PART)), made / "embedded.cpp"]:
        output = made / f"{source.stem}.o"
        objects.append(str(output))
        if is_newer(output, [source, Path(__file__), *SOURCES.glob("*.h"), *made.glob("*.inc")]):
            continue
        flags = ["-std=c++20", "-O2", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
        flags += ["-fno-sized-deallocation", "-Wall", "-Wextra", "-Wno-unused-parameter"]  # torch has no sized delete
        run(["c++", "-target", TARGET, *flags, "-c", str(source), "-o", str(output), *includes], source.name)
    libraries = [str(torch / "lib" / name) for name in TORCH_LIBRARIES]
    listed = [str(path) for path in stubs.write(made, known.values())]
    output = made / file_name(TORCH.partition("==")[2])
    options = ["-shared", "-nostdlib++", f"-Wl,-install_name,@rpath/{output.name}", "-Wl,-dead_strip"]
    run(["cc", "-target", TARGET, *options, "-o", str(output), *objects, *libraries, *listed], output.name)
    return output


def torch_folder(folder: Path) -> Path:
    """torch's headers and libraries."""
    wheel = download(TORCH, folder / "wheels")
    return unpack(wheel, folder / TORCH, ("torch/include/", *TORCH_LIBRARIES)) / "torch"


def evidence(folder: Path) -> dict[str, MachO]:
    """The libraries that prove a symbol, by their names: torch's, and mlx's."""
    torch = torch_folder(folder) / "lib"
    mlx = unpack(download(MLX, folder / "wheels"), folder / MLX, ("libmlx.dylib",)) / "mlx" / "lib"
    paths = [*(torch / name for name in TORCH_LIBRARIES), mlx / "libmlx.dylib"]
    return {path.name: read(path) for path in paths}


def prove(made: MachO, known: dict[str, MachO], system: frozenset[str]) -> tuple[dict[str, str], list[str]]:
    """For each imported symbol where it is shown to exist, and what is wrong."""
    shown: dict[str, str] = {}
    wrong = []
    for symbol, library in sorted(made.imports.items()):
        name = library.rpartition("/")[2]
        if name in known:
            if symbol in known[name].exports:
                shown[symbol] = f"exported by {name}"
        else:
            users = [user for user, file in known.items() if file.imports.get(symbol) == library]
            if users:
                shown[symbol] = f"imported from {library} by {users[0]} too"
            elif library == stubs.SYSTEM and symbol in system:
                shown[symbol] = f"listed for {library} by zig's libSystem.tbd"
        if symbol not in shown:
            wrong.append(f"{symbol} of {library}: no library of torch or mlx shows that it exists")
    return shown, wrong


def faults(made: MachO) -> list[str]:
    """What else a Mac would refuse."""
    checks = {
        "not for arm64": made.cpu == ARM64,
        "not a dylib": made.kind == 6,
        "without a two-level namespace": made.is_two_level,
        f"for macOS {made.least_system}, not {LEAST}": made.least_system == LEAST,
        "not signed": made.is_signed,
        "without the functions that Python calls": {f"_metalcore_{name}" for name in FUNCTIONS} <= made.exports,
    }
    return [f"the file is {what}" for what, holds in checks.items() if not holds]


def main(folder: Path) -> int:
    known = evidence(folder)
    output = build(folder, known)
    made = read(output)
    shown, wrong = prove(made, known, stubs.system_symbols())
    wrong += faults(made)
    by: dict[str, int] = {}
    for reason in shown.values():
        by[reason] = by.get(reason, 0) + 1
    print(
        f"{output}: {output.stat().st_size:,} bytes, {len(made.imports)} imported symbols, {len(made.exports)} exported"
    )
    for reason, count in sorted(by.items()):
        print(f"  {count:4} {reason}")
    for problem in wrong:
        print(f"  WRONG: {problem}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build" / "macos"))
