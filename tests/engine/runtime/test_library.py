"""Libraries: what they hold, how they are looked up, and when the cache lets them skip the compiler."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import metalcore
from metalcore.engine import units
from metalcore.engine.library import Library
from metalcore.engine.store.cache import disk_cache
from metalcore.errors import ArgumentError, CacheWarning, CompileError, ConstantError, UnknownFunction
from tests.engine.own_cache import use_own_cache

SAXPY = """
kernel void saxpy(device const float* x, device float* y, constant float& a, uint i [[thread_position_in_grid]]) {
  y[i] += a * x[i];
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has an empty cache."""
    folder = tmp_path / "cache"
    use_own_cache(folder, monkeypatch)
    return folder


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Counts the real runs of the frontend."""
    runs: list[str] = []
    make, lower = units.SourceUnit._make_unit, units.SourceUnit._lower

    def counted_make(self: Any) -> Any:
        runs.append("unit")
        return make(self)

    def counted_lower(self: Any, name: str, constants: Any) -> Any:
        if (name, constants) not in self._scalar:
            runs.append(name)
        return lower(self, name, constants)

    monkeypatch.setattr(units.SourceUnit, "_make_unit", counted_make)
    monkeypatch.setattr(units.SourceUnit, "_lower", counted_lower)
    return runs


def test_functions_and_arguments() -> None:
    library = Library(SAXPY)
    assert library.functions == ("saxpy",)
    assert library.constants == ()
    saxpy = library.function("saxpy")
    shown = [(a.name, a.index, a.kind, a.scalar, a.writable) for a in saxpy.arguments if a.kind != "builtin"]
    assert shown == [
        ("x", 0, "buffer", "float32", False),
        ("y", 1, "buffer", "float32", True),
        ("a", 2, "value", "float32", False),
    ]
    assert saxpy.max_threads == 1024
    assert library.function("saxpy") is saxpy
    assert "saxpy" in repr(saxpy)


def test_a_second_library_compiles_nothing(compiled: list[str]) -> None:
    first = Library(SAXPY).function("saxpy")
    assert compiled == ["unit", "saxpy"]
    second = Library(SAXPY).function("saxpy")
    assert compiled == ["unit", "saxpy"]
    assert second.arguments == first.arguments


@pytest.mark.parametrize("change", [{"math_mode": "fast"}, {"defines": {"N": 2}}, {"include_dirs": ["."]}])
def test_options_are_part_of_the_key(compiled: list[str], change: dict[str, Any]) -> None:
    Library(SAXPY)
    Library(SAXPY, **change)
    assert compiled == ["unit", "unit"]


def test_an_included_file_that_changes_is_read_again(tmp_path: Path, compiled: list[str]) -> None:
    header = tmp_path / "name.h"
    header.write_text("#define NAME first\n")
    source = '#include "name.h"\nkernel void NAME(device float* x) { x[0] = 1; }\n'
    assert Library(source, include_dirs=[tmp_path]).functions == ("first",)
    assert Library(source, include_dirs=[tmp_path]).functions == ("first",)
    assert compiled == ["unit"]
    header.write_text("#define NAME other\n")
    assert Library(source, include_dirs=[tmp_path]).functions == ("other",)
    header.unlink()
    with pytest.raises(CompileError, match=r"name\.h"):
        Library(source, include_dirs=[tmp_path])


def test_a_header_that_now_hides_another_is_seen(tmp_path: Path) -> None:
    for folder in ("early", "late"):
        (tmp_path / folder).mkdir()
    (tmp_path / "late" / "name.h").write_text("#define NAME late\n")
    source = '#include "name.h"\nkernel void NAME(device float* x) { x[0] = 1; }\n'
    folders = [tmp_path / "early", tmp_path / "late"]
    assert Library(source, include_dirs=folders).functions == ("late",)
    (tmp_path / "early" / "name.h").write_text("#define NAME early\n")
    assert Library(source, include_dirs=folders).functions == ("early",)


def test_a_damaged_cache_is_made_anew(own_cache: Path, compiled: list[str]) -> None:
    expected = Library(SAXPY).function("saxpy").arguments
    for file in own_cache.rglob("*"):
        if file.is_file() and file.parent.name in ("manifests", "units", "signatures"):
            file.write_bytes(b"damaged")
    assert Library(SAXPY).function("saxpy").arguments == expected
    assert compiled == ["unit", "saxpy"] * 2


def test_a_lost_unit_is_made_anew(own_cache: Path, compiled: list[str]) -> None:
    Library(SAXPY)
    for file in own_cache.glob("*/*/units/*"):
        file.unlink()
    assert len(Library(SAXPY).function("saxpy").arguments) == 4
    assert compiled == ["unit", "saxpy", "unit"]


def test_a_cache_folder_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("METALCORE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(CacheWarning, match="cannot be written"):
        assert Library(SAXPY).function("saxpy").max_threads == 1024
    assert disk_cache().root.startswith(str(tmp_path / "file"))


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "saxpy.metal"
    path.write_text(SAXPY)
    assert Library(path).functions == Library(str(path)).functions == ("saxpy",)
    assert Library(path).path == str(path)
    with pytest.raises(FileNotFoundError, match=r"missing\.metal"):
        Library("missing.metal")


def test_sources_that_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.metal"
    path.write_bytes(b"// fine\n\xff\xfe")
    with pytest.raises(CompileError, match=r"binary\.metal:2: the file is not UTF-8"):
        Library(path)
    with pytest.raises(SyntaxError, match="zero byte"):
        Library("kernel void f() {\n\0}")
    for bad in (SAXPY.encode(), 3, None, ["x"]):
        with pytest.raises(ArgumentError, match="MSL text or the path"):
            Library(bad)  # type: ignore[arg-type]


def test_errors_of_the_compiler_name_the_line() -> None:
    with pytest.raises(SyntaxError) as caught:
        Library("kernel void f(device float* x) {\n  x[0] = nonsense;\n}\n")
    assert "nonsense" in str(caught.value) and ":2:" in str(caught.value)


def test_an_unknown_kernel() -> None:
    with pytest.raises(UnknownFunction, match="did you mean 'saxpy'"):
        Library(SAXPY).function("saxpi")
    with pytest.raises(LookupError, match="it has saxpy"):
        Library(SAXPY).function("completely_different")


CONSTANTS = """
constant bool flag [[function_constant(3)]];
constant int size [[function_constant(5)]];
kernel void f(device int* x, device int* y [[function_constant(flag)]]) { x[0] = size; if (flag) y[0] = 1; }
"""


def test_function_constants() -> None:
    library = Library(CONSTANTS)
    assert [(c.name, c.index) for c in library.constants] == [("flag", 3), ("size", 5)]
    on = library.function("f", constants={"flag": True, 5: 7})
    off = library.function("f", constants={3: False, "size": 7})
    assert [a.enabled for a in on.arguments] == [True, True]
    assert [a.enabled for a in off.arguments] == [True, False]
    assert library.function("f", {"size": 7, "flag": True}) is on
    for bad in ({9: 1}, {"other": 1}, {True: 1}):
        with pytest.raises(ConstantError, match="no function constant"):
            library.function("f", constants=bad)
    with pytest.raises(ConstantError, match="given twice"):
        library.function("f", constants={"size": 1, 5: 2})
    with pytest.raises(ConstantError):
        library.function("f")


def test_templates_are_compiled_when_asked_for(compiled: list[str]) -> None:
    source = """
    template <typename T> kernel void fill(device T* x, uint i [[thread_position_in_grid]]) { x[i] = T(1).q; }
    template [[host_name("fill_float")]] kernel void fill<float>(device float*, uint);
    """
    library = Library(source)
    assert library.functions == ("fill_float",)
    assert compiled == ["unit"]
    with pytest.raises(CompileError):
        library.check()


def test_bad_options() -> None:
    with pytest.raises(ArgumentError, match="math_mode='quick'"):
        Library(SAXPY, math_mode="quick")
    with pytest.raises(ArgumentError, match="include_dirs"):
        Library(SAXPY, include_dirs="folder")


def test_threads_compile_once(compiled: list[str]) -> None:
    found: list[Any] = []
    workers = [threading.Thread(target=lambda: found.append(Library(SAXPY).function("saxpy"))) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 6 and len({f.arguments for f in found}) == 1
    assert compiled.count("unit") == 1


def test_the_public_name() -> None:
    assert metalcore.Library is Library
