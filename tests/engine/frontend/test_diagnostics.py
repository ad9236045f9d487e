"""clang's messages come out with the user's files, lines and words."""

from pathlib import Path

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.frontend.tokens import escape, unescape
from metalcore.errors import ArgumentError, CompileError, KernelFault, UnknownFunction


def error(source: str, **options: object) -> CompileError:
    with pytest.raises(CompileError) as caught:
        make_unit(source, **options)  # type: ignore[arg-type]
    return caught.value


def test_line_column_and_text() -> None:
    found = error("#include <metal_stdlib>\nkernel void f(device float* x) {\n  x[0] = missing;\n}\n")
    assert (found.filename, found.lineno, found.offset, found.text) == ("<metal>", 3, 10, "  x[0] = missing;")
    assert "use of undeclared identifier 'missing'" in str(found)
    assert "<metal>:3: error:" in str(found)


def test_metals_words_in_types() -> None:
    message = str(error("kernel void f(device half* x, threadgroup bfloat* y) { y = x; }"))
    assert "'device half *'" in message and "'threadgroup bfloat *'" in message
    assert "__mc" not in message and "__bf16" not in message


def test_the_users_path_and_its_includes(tmp_path: Path) -> None:
    (tmp_path / "lib.h").write_text("inline float helper(float x) { return y; }\n")
    main = tmp_path / "main.metal"
    main.write_text('#include "lib.h"\nkernel void f(device float* x) { x[0] = helper(1); }\n')
    found = error(main.read_text(), path=str(main))
    assert found.filename == str(tmp_path / "lib.h") and found.lineno == 1
    assert found.text == "inline float helper(float x) { return y; }"


def test_includes_are_listed_with_their_hash(tmp_path: Path) -> None:
    import hashlib

    header = tmp_path / "inc" / "a.h"
    header.parent.mkdir()
    header.write_text("#define N 3\n")
    unit = make_unit("#include <a.h>\nkernel void f(device int* x) { x[0] = N; }", include_dirs=[str(header.parent)])
    assert unit.includes == ((str(header), hashlib.sha256(header.read_bytes()).hexdigest()),)


def test_paths_that_are_not_ascii(tmp_path: Path) -> None:
    folder = tmp_path / "größe é"
    folder.mkdir()
    (folder / "ü.h").write_text("inline void g(device uint* o) { o[99] = zzz; }\n")
    main = folder / "日本.metal"
    main.write_text('#include "ü.h"\nkernel void k(device uint* o) {\n  g(o);\n}\n')
    found = error(main.read_text(), path=str(main))
    assert (found.filename, found.lineno) == (str(folder / "ü.h"), 1)
    assert found.text == "inline void g(device uint* o) { o[99] = zzz; }"
    (folder / "ü.h").write_text("inline void g(device uint* o) { o[99] = 1; }\n")
    with pytest.raises(KernelFault) as caught:
        metalcore.Library(main).function("k")(np.zeros(4, np.uint32), threads=1)
    assert f"{folder / 'ü.h'}:1:" in str(caught.value)
    for name in ("é ü", 'a"b\\c', "a\nb\tc", "\udcff", "\x013"):
        assert unescape(escape(name)) == name


def test_lines_are_counted_as_clang_counts_them() -> None:
    found = error("/* \f \u2028 \x85 */\r\nkernel void k(device uint* o) { o[0] = zzz; }")
    assert (found.lineno, found.text) == (2, "kernel void k(device uint* o) { o[0] = zzz; }")


def test_names_of_files_and_messages_forge_nothing() -> None:
    kernel = "\nint x = y;\nkernel void k(device uint* o) {}"
    for name in ("a\\n/etc/passwd:" + "1" * 4400 + ":1: error: boo", "a\\012/x:1:1: error: boo", "a\u2028b", "a\x0bb"):
        assert "control character" in str(error(f'#line 1 "{name}"{kernel}'))
        assert "control character" in str(error(f'# 1 "{name}"{kernel}'))
    text = "a\\n<stdin>:1:1:{99999:1-99999:2}: error: incompatible operand types ('a')"
    assert "static assertion failed" in str(error(f'static_assert(false, "{text}");{kernel}'))
    make_unit(f"/*\n#line {'9' * 5000}\n*/\nkernel void k(device uint* o) {{}}")


def test_a_byte_order_mark_is_taken_away() -> None:
    found = error("\ufeffkernel void k(device uint* o) { o[0] = zzz; }")
    assert (found.lineno, found.offset) == (1, 40)


def test_dates_do_not_depend_on_the_day() -> None:
    text = make_unit("constant char d[] = __DATE__ __TIME__ __TIMESTAMP__;\nkernel void k(device uint* o) {}").text
    assert text.count("1970") == 2 and '"00:00:00"' in text


def test_a_missing_include() -> None:
    found = error('\n#include "nowhere.h"\n')
    assert found.lineno == 2 and "'nowhere.h' file not found" in str(found)


def test_an_error_in_a_template_names_the_caller() -> None:
    unit = make_unit(
        "template <typename T> [[kernel]] void f(device T* x) {\n  x[0].none();\n}\n"
        'template [[host_name("f_float")]] [[kernel]] decltype(f<float>) f<float>;\n'
    )
    with pytest.raises(CompileError) as caught:
        lower(unit, "f_float", None)
    assert caught.value.lineno == 2
    assert "<metal>:4: note: in instantiation" in str(caught.value)


def test_unknown_kernels_get_a_hint() -> None:
    unit = make_unit("kernel void saxpy(device float* x) {}")
    with pytest.raises(UnknownFunction, match="did you mean 'saxpy'"):
        lower(unit, "saxpi", None)


def test_wrong_options() -> None:
    with pytest.raises(ArgumentError, match="must be text"):
        make_unit(b"kernel void f() {}")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="math_mode"):
        make_unit("", math_mode="quick")
    with pytest.raises(ArgumentError, match="no identifier"):
        make_unit("", defines={"a b": 1})


def test_a_source_that_is_no_text() -> None:
    assert "not text" in str(error("kernel void f() { \ud800 }"))


def test_defines_reach_the_preprocessor() -> None:
    source = "#if ON\nkernel void NAME(device float* x) { x[0] = VALUE; }\n#endif"
    unit = make_unit(source, defines={"ON": True, "NAME": "f", "VALUE": 2.5})
    assert unit.functions == ("f",)
    assert "store float 2.5" in lower(unit, "f", None).ir


def test_a_patch_that_does_not_help_leaves_the_message_alone() -> None:
    found = error("struct S {}; kernel void f(device float4* x) { S s; x[0] = x[1] * s; }")
    assert "invalid operands to binary expression ('" in str(found) and "bare<" not in str(found)
