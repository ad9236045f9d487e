"""What of the host a source can see: its own folder and the declared ones, and no byte more."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import make_unit, toolchain
from metalcore.engine.frontend.preprocess import preprocess
from metalcore.engine.frontend.seal import names_in
from metalcore.errors import CompileError, MetalcoreError, UnsupportedFeature
from tests.engine.own_cache import use_own_cache

SECRET = "SECRET_OF_THE_HOST"
KERNEL = "\nkernel void k(device float* o, uint i [[thread_position_in_grid]]) { o[i] = V; }\n"


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A declared folder, beside another one that is not declared."""
    folder = tmp_path / "inside"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.h").write_text(f"#define V 66\n{SECRET};\n")
    (folder / "five.h").write_text("#define V 5\n")
    (folder / "sub" / "up.h").write_text('#include "../five.h"\n')
    (folder / "link.h").symlink_to(tmp_path / "outside" / "secret.h")
    (folder / "alias.h").symlink_to("five.h")
    (folder / "way").symlink_to(tmp_path / "outside")
    (folder / "zero.h").symlink_to("/dev/zero")
    (folder / "ring.h").symlink_to("ring.h")
    (folder / "folder.h").mkdir()
    os.mkfifo(folder / "pipe.h")
    return folder


def expand(text: str, *folders: Path, path: str | None = None, **defines: object) -> str:
    return preprocess(text, path, [str(folder) for folder in folders], defines, "safe").text


def value(text: str, *folders: Path, path: str | None = None, **defines: object) -> str:
    """What V is to the preprocessor."""
    return expand(text + "\nV", *folders, path=path, **defines).split()[-1]


def refusal(text: str, *folders: Path) -> str:
    with pytest.raises(MetalcoreError) as caught:
        make_unit(text + KERNEL, include_dirs=[str(folder) for folder in folders])
    assert SECRET not in str(caught.value) and "root:" not in str(caught.value)
    return str(caught.value)


@pytest.mark.feature("API", "a source sees its own folder and include_dirs, and no other file of the machine")
def test_files_of_the_declared_folders_are_found(inside: Path) -> None:
    names = [
        '"five.h"',
        "<five.h>",
        f'"{inside}/five.h"',
        '"alias.h"',
        '"sub/up.h"',
        '"sub/../five.h"',
        '"way/../five.h"',
    ]
    for name in names:
        assert value(f"#include {name}", inside) == "5", name
    for line in (
        '#inc\\\nlude "five.h"',
        '#import "five.h"',
        '# /* a */ include /* b */ "five.h"',
    ):
        assert value(line, inside) == "5", line
    assert value('#define H "five.h"\n#include H', inside) == "5"
    assert value("#define S(x) #x\n#define T(x) S(x)\n#include T(five.h)", inside) == "5"  # only clang knows the name
    assert value("#include H", inside, H='"five.h"') == "5"
    assert value('#include "five.h"', path=str(inside / "main.metal")) == "5"


def test_nothing_else_is_found(inside: Path) -> None:
    secret = inside.parent / "outside" / "secret.h"
    outside = [
        '"/etc/passwd"',
        '"//etc/passwd"',
        f'"{secret}"',
        '"../outside/secret.h"',
        f'"{inside}/../outside/secret.h"',
    ]
    for name in (
        *outside,
        '"../../../../../../../../etc/passwd"',
        '"/dev/stdin"',
        '"/proc/self/environ"',
        '"/no/such"',
    ):
        assert "outside of the source's folder" in refusal(f"#include {name}", inside), name
    for name in ("link.h", "way/secret.h", "way/not_there.h", "zero.h"):
        assert "symbolic link" in refusal(f'#include "{name}"', inside), name
    for name in ("pipe.h", "folder.h", "."):
        assert "not a file" in refusal(f'#include "{name}"', inside), name
    assert "may not be read" in refusal('#include "ring.h"', inside)
    for name in ("nothing.h", "five.h/x", "a" * 300):
        assert "file not found" in refusal(f'#include "{name}"', inside), name
    assert "file not found" in refusal('#include "five.h"')  # no folder is declared
    assert "outside" in refusal("#define S(x) #x\n#define T(x) S(x)\n#include T(/etc/passwd)", inside)


def test_headers_of_the_engine_are_not_found_by_their_place(inside: Path) -> None:
    header = toolchain.INCLUDE / "metal_math.h"
    assert "file not found" in refusal(f'#include "{header}"', inside)
    assert "file not found" in refusal("#include <../metal_math.h>", inside)
    assert "7" in expand(f'#if __has_include("{header}")\n8\n#else\n7\n#endif', inside)


def test_a_folder_with_two_slashes(inside: Path) -> None:
    text = "kernel void k(device int* o) { o[0] = V; }"
    assert make_unit(f'#include "five.h"\n{text}', include_dirs=[f"/{inside}"]).includes


def test_a_folder_with_a_quote_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "it's file not found"
    folder.mkdir()
    (folder / "six.h").write_text("#define V 6\n")
    main = str(folder / "main.metal")
    assert value("#define S(x) #x\n#define T(x) S(x)\n#include T(six.h)", path=main) == "6"
    with pytest.raises(CompileError, match="'/etc/passwd' file not found: it lies outside"):
        expand('#include "/etc/passwd"', path=main)


def test_embedded_files_are_held_to_the_same(inside: Path) -> None:
    for name in ("/etc/passwd", "/dev/zero", "../outside/secret.h"):
        assert "outside" in refusal(f'constant char t[] = {{\n#embed "{name}" limit(8)\n}};\n#define V t[0]', inside)
    (inside / "table.bin").write_bytes(b"\7\0\5")
    assert expand('#embed "table.bin"', inside).split()[-3:] == ["7,", "0,", "5"]


def test_a_probe_tells_nothing(inside: Path) -> None:
    names = ["/etc/passwd", "../outside/secret.h", "link.h", "way/secret.h", "pipe.h", "zero.h", "folder.h", "/no/such"]
    for name in names:
        for probe in ("__has_include", "__has_embed"):
            assert value(f'#if {probe}("{name}")\n#define V 1\n#else\n#define V 0\n#endif', inside) == "0", (
                probe,
                name,
            )
    assert value('#if __has_include("five.h")\n#define V 1\n#endif', inside) == "1"
    assert value('#define P(x) __has_include(x)\n#if P("five.h") && P(<five.h>)\n#define V 1\n#endif', inside) == "1"
    assert value('#define J(a, b) a##b\n#if J(__has_, include)("five.h")\n#define V 1\n#endif', inside) == "1"


def test_modules_pragmas_and_assembly_name_no_file(inside: Path) -> None:
    secret = inside.parent / "outside" / "secret.h"
    for line in (
        'import "/etc/passwd";',
        "import <secret.h>;",
        f'import "{secret}";',
        "#pragma clang module import secret",
        f'#pragma GCC dependency "{secret}"',
        f'#pragma include_alias("a.h", "{secret}")\n#include "a.h"',
        f'__asm__(".incbin \\"{secret}\\"");',
        '_Pragma("clang module load secret") import secret;',
    ):
        assert refusal(f"#define V 1\n{line}", inside), line


def test_inline_assembly_is_refused_by_clang_too() -> None:
    from metalcore.engine.frontend import compiler, toolchain

    flags = toolchain.language_flags("safe", optimised=True)
    result = compiler.run(flags, 'void f() { __asm__ volatile(".incbin \\"/etc/passwd\\""); }', True, ("-w",))
    assert result.code != 0 and "inline assembly" in result.errors


def test_a_line_directive_reads_no_file(inside: Path) -> None:
    secret = inside.parent / "outside" / "secret.h"
    for mark in (f'#line 2 "{secret}"', f'# 2 "{secret}"', f'# 2 "{secret}" 1 3'):
        text = refusal(f"#define V 1\n{mark}\nint x = undefined_name;", inside)
        assert f"<{secret}>:2" in text and "undefined_name" in text
    with pytest.raises(CompileError) as caught:
        make_unit(f'#line 2 "{secret}"\nint x = undefined_name;')
    assert caught.value.text is None


def test_an_error_quotes_the_files_that_were_included(inside: Path) -> None:
    (inside / "wrong.h").write_text("\nint x = undefined_name;\n")
    assert "int x = undefined_name;" in refusal('#define V 1\n#include "wrong.h"', inside)


@pytest.mark.feature("API", "sanitizer and linter quote no file that only a #line names")
def test_a_report_quotes_no_other_file(inside: Path) -> None:
    from metalcore.diagnostics import render

    secret = inside.parent / "outside" / "secret.h"
    source = f'kernel void k(device float* o, uint i [[thread_position_in_grid]]) {{\n#line 2 "{secret}"\no[0] = i; }}'
    with metalcore.mode("sanitize") as report:
        metalcore.Library(source).function("k")(np.zeros(1, np.float32), threads=64)
    assert report.diagnostics
    for format in ("text", "json", "sarif", "github"):
        assert SECRET not in render(report.diagnostics, format)


def test_two_names_of_one_file_are_one_to_pragma_once(inside: Path) -> None:
    (inside / "once.h").write_text("#pragma once\nint only_once;\n")
    (inside / "again.h").symlink_to("once.h")
    text = expand('#include "once.h"\n#include "again.h"\n#include "sub/../once.h"', inside)
    assert text.count("only_once") == 1


def test_the_next_file_of_a_name(inside: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    (first / "five.h").write_text('#include_next "five.h"\n#define W 7\n')
    assert expand('#include "five.h"\nV W', first, inside).split()[-2:] == ["5", "7"]


def test_the_environment_adds_no_folder(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "INCLUDE"):
        monkeypatch.setenv(name, str(inside))
    monkeypatch.setenv("CCC_OVERRIDE_OPTIONS", f"+-I{inside}")
    monkeypatch.chdir(inside)
    assert "file not found" in refusal('#include "five.h"')


def test_torch_gives_its_metal_headers_only() -> None:
    pytest.importorskip("torch")
    assert "c10" in expand("#include <c10/metal/utils.h>")
    assert "file not found" in refusal("#include <c10/macros/Macros.h>")


def test_names_are_found_in_the_text() -> None:
    names, computed, following = names_in('#include <a.h>\n#if __has_include("b.h")\n#include_next "c.h"\n#embed "d"')
    assert {name.text for name in names} == {"a.h", "b.h", "c.h", "d"} and following and not computed
    assert names_in("#include MACRO")[1]


def run(text: str, folder: Path) -> float:
    out = np.zeros(1, np.float32)
    metalcore.Library(text + KERNEL, include_dirs=[str(folder)]).function("k")(out, threads=1)
    return float(out[0])


@pytest.mark.feature("API", "a cached kernel is made again when a file that it reads, embeds or looks for changes")
def test_what_was_looked_for_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_own_cache(tmp_path / "cache", monkeypatch)
    folder = tmp_path / "headers"
    folder.mkdir()
    probe = '#if __has_include("local.h")\n#include "local.h"\n#else\n#define V 4\n#endif'
    assert run(probe, folder) == 4
    (folder / "local.h").write_text("#define V 5\n")
    assert run(probe, folder) == 5
    (folder / "local.h").unlink()
    os.mkfifo(folder / "local.h")
    assert run(probe, folder) == 4
    os.unlink(folder / "local.h")
    table = 'constant unsigned char q[] = {\n#embed "t.bin"\n};\n#define V q[0]'
    for number in (7, 9):
        (folder / "t.bin").write_bytes(bytes([number]))
        assert run(table, folder) == number


def test_a_link_that_becomes_a_file_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_own_cache(tmp_path / "cache", monkeypatch)
    folder = tmp_path / "headers"
    folder.mkdir()
    text = "#pragma once\n#ifdef V\n#undef V\n#define V 2\n#else\n#define V 1\n#endif\n"
    (folder / "a.h").write_text(text)
    (folder / "b.h").symlink_to("a.h")
    assert run('#include "a.h"\n#include "b.h"', folder) == 1
    (folder / "b.h").unlink()
    (folder / "b.h").write_text(text)
    assert run('#include "a.h"\n#include "b.h"', folder) == 2
    (folder / "b.h").unlink()
    (folder / "b.h").symlink_to("a.h")
    assert run('#include "a.h"\n#include "b.h"', folder) == 1


def test_a_file_that_comes_first_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_own_cache(tmp_path / "cache", monkeypatch)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (second / "v.h").write_text("#define V 1\n")

    def value_now() -> float:
        out = np.zeros(1, np.float32)
        library = metalcore.Library("#include <v.h>" + KERNEL, include_dirs=[str(first), str(second)])
        library.function("k")(out, threads=1)
        return float(out[0])

    assert value_now() == 1
    (first / "v.h").write_text("#define V 2\n")
    assert value_now() == 2
    (first / "v.h").unlink()
    assert value_now() == 1


def test_a_header_that_becomes_a_pipe_is_not_waited_for(
    inside: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_own_cache(tmp_path / "cache", monkeypatch)
    assert run('#include "five.h"', inside) == 5
    (inside / "five.h").unlink()
    os.mkfifo(inside / "five.h")
    with pytest.raises((CompileError, UnsupportedFeature), match="not a file"):
        run('#include "five.h"', inside)


def test_a_source_that_is_no_file(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(inside / "pipe.metal")
    (inside / "folder.metal").mkdir()
    for name in ("pipe.metal", "folder.metal"):
        with pytest.raises(CompileError, match="not a file"):
            metalcore.Library(inside / name)
    (inside / "long.metal").write_text("//" + "x" * 1_100_000)
    monkeypatch.setenv("METALCORE_SOURCE_SIZE", "1")
    with pytest.raises(CompileError, match="METALCORE_SOURCE_SIZE"):
        metalcore.Library(inside / "long.metal")
