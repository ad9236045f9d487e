"""What proves the build for macOS: the reader of Mach-O files, and the rules for imported symbols."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from metalcore.engine.codegen.contents import Unreadable
from metalcore.engine.toolchain import run_zig, zig
from native.tools.macho import ARM64, MachO, read
from native.tools.macos import FUNCTIONS, faults, prove
from native.tools.stubs import STUBBED, SYSTEM, system_symbols, write
from tests.conftest import ROOT

SOURCE = """
extern void *malloc(unsigned long);
extern long objc_msgSend(void);
__attribute__((visibility("default"))) void *metalcore_one(void) { return malloc(objc_msgSend()); }
__attribute__((visibility("default"))) long metalcore_other(void) { return objc_msgSend(); }
static int hidden(void) { return 1; }
int (*kept)(void) = hidden;
"""
TORCH = MachO(ARM64, 6, True, "@rpath/libtorch_cpu.dylib", imports={"_objc_msgSend": STUBBED[0]}, exports={"_empty"})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dylib for macOS on Apple silicon, linked as the extension is."""
    folder = tmp_path_factory.mktemp("macos")
    (folder / "one.c").write_text(SOURCE)
    words = ["clang", "-cc1", "-triple", "arm64-apple-macosx14.0.0", "-emit-obj", "-fvisibility=hidden"]
    run_zig([*words, "-o", str(folder / "one.o"), str(folder / "one.c")], "compiling one.c")
    stubs = write(folder, [TORCH])
    system = Path(zig()).parent / "lib" / "libc" / "darwin" / "libSystem.tbd"
    output = folder / "one.dylib"
    words = ["cc", "-target", "aarch64-macos.14.0", "-shared", "-nostdlib", "-Wl,-install_name,@rpath/one.dylib"]
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(folder / "zig"), "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}
    words += ["-o", str(output), str(folder / "one.o"), *map(str, stubs), str(system)]
    subprocess.run([zig(), *words], check=True, env=caches)
    return output


def test_the_reader(made: Path) -> None:
    found = read(made)
    assert (found.cpu, found.kind, found.name) == (ARM64, 6, "@rpath/one.dylib")
    assert found.is_two_level and found.is_signed and found.least_system == (14, 0)
    assert {s: found.imports[s] for s in ("_malloc", "_objc_msgSend")} == {
        "_malloc": SYSTEM,
        "_objc_msgSend": STUBBED[0],
    }
    linker = {"__mh_dylib_header", "___dso_handle"}
    assert found.exports - linker == {"_metalcore_one", "_metalcore_other"}
    part = read(made.with_name("one.o"))
    assert part.kind == 1 and part.imports["_malloc"] == "ordinal 0" and "_metalcore_one" in part.exports
    with pytest.raises(Unreadable, match=r"one.c is no 64-bit Mach-O file"):
        read(made.with_name("one.c"))


def test_proofs(made: Path) -> None:
    known = {"libtorch_cpu.dylib": TORCH}
    shown, wrong = prove(read(made), known, system_symbols())
    assert shown["_objc_msgSend"] == f"imported from {STUBBED[0]} by libtorch_cpu.dylib too" and wrong == []
    assert shown["_malloc"] == f"listed for {SYSTEM} by zig's libSystem.tbd"
    other = MachO(ARM64, 6, True, imports={"_empty": TORCH.name, "_full": TORCH.name, "_objc_new": STUBBED[0]})
    other.imports["_no_such"] = SYSTEM
    shown, wrong = prove(other, known, system_symbols())
    assert shown == {"_empty": "exported by libtorch_cpu.dylib"}
    assert [line.partition(" ")[0] for line in wrong] == ["_full", "_no_such", "_objc_new"]


def test_faults(made: Path) -> None:
    assert faults(read(made)) == ["the file is without the functions that Python calls"]
    good = MachO(ARM64, 6, True, least_system=(14, 0), is_signed=True)
    good.exports |= {f"_metalcore_{name}" for name in FUNCTIONS}
    assert faults(good) == []
    good.least_system, good.is_signed = (15, 0), False
    assert faults(good) == ["the file is for macOS (15, 0), not (14, 0)", "the file is not signed"]


def test_python_calls_what_is_exported() -> None:
    """Each C function that Python names is among those that the build asks for."""
    text = (ROOT / "metalcore" / "runtimes" / "native_torch.py").read_text()
    called = {name for name in FUNCTIONS if f"metalcore_{name}" in text}
    assert called == set(FUNCTIONS) - {"set_host"}
