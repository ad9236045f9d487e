"""Sources that would take the machine with them end with an error that names the limit and what raises it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import limits, lower, make_unit
from metalcore.engine.frontend.diagnostics import Sources
from metalcore.engine.frontend.rewrite import rewrite
from metalcore.engine.ir import is_alike, parse
from metalcore.engine.optimiser import child
from metalcore.engine.process import run_limited
from metalcore.errors import ArgumentError, CompileError

KERNEL = "\nkernel void k(device int* o, uint i [[thread_position_in_grid]]) { o[i] = V; }\n"


def refusal(text: str) -> str:
    with pytest.raises(CompileError) as caught:
        make_unit(text + KERNEL)
    return str(caught.value)


def laughs(count: int, last: str) -> str:
    rows = [f"#define A{i} A{i - 1} A{i - 1} A{i - 1} A{i - 1}\n" for i in range(1, count + 1)]
    return "#define A0 1+\n" + "".join(rows) + last


def ladder(rungs: int) -> str:
    steps = [f"static int f{i}(int x) {{ return f{i - 1}(x) ^ f{i - 1}(x * 5 + {i}); }}\n" for i in range(1, rungs + 1)]
    return "static int f0(int x) { return x * 3 + 1; }\n" + "".join(steps) + f"#define V f{rungs}(i)"


@pytest.mark.feature("API", "limits on source size, macros, templates, kernel size, compile time and memory")
def test_a_source_that_is_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("METALCORE_SOURCE_SIZE", "1")
    assert "METALCORE_SOURCE_SIZE" in refusal("//" + "x" * 1_100_000)
    assert "METALCORE_SOURCE_SIZE" in refusal(laughs(10, "#define V 1\nconstant int q = A10 0;"))
    (tmp_path / "long.h").write_text("//" + "x" * 1_100_000)
    with pytest.raises(CompileError, match="larger than 1 MB; METALCORE_SOURCE_SIZE"):
        make_unit('#include "long.h"', include_dirs=[str(tmp_path)])


def test_nesting() -> None:
    endless = "template<int N> struct S { static constexpr int v = S<N + 1>::v; };\n#define V S<0>::v"
    assert "maximum depth of 1024" in refusal(endless)
    assert "maximum of 2048" in refusal("#define V " + "(" * 3000 + "1" + ")" * 3000)
    deep = "constexpr int f(int n) { return n ? f(n - 1) : 0; }\nconstant constexpr int q = f(9999);\n#define V q"
    text = refusal(deep)
    assert "maximum depth of 512" in text and "use -f" not in text  # the user has none of clang's flags


def test_an_error_quotes_a_bounded_line() -> None:
    assert len(refusal("#define V 1\nint x = " + "undefined_name + " * 20_000 + "1;")) < 40_000


def test_the_compilers_time_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_COMPILE_SECONDS", "1")
    slow = "template<int N, int M> struct S { static constexpr int v = S<N-1, 2*M>::v + S<N-1, 2*M+1>::v; };\n"
    slow += "template<int M> struct S<0, M> { static constexpr int v = 1; };\n#define V (S<28, 0>::v)"
    assert "more than 1 s" in (text := refusal(slow)) and "METALCORE_COMPILE_SECONDS" in text
    monkeypatch.setenv("METALCORE_COMPILE_SECONDS", "60")
    monkeypatch.setenv("METALCORE_COMPILE_MEMORY", "400")
    text = refusal(laughs(12, "#define V 1\n#if A12 0\n#endif"))
    assert "more than 400 MB" in text and "METALCORE_COMPILE_MEMORY" in text


def test_a_kernel_that_grows_when_it_is_inlined() -> None:
    unit = make_unit(ladder(40) + KERNEL)
    with pytest.raises(CompileError, match=r"instructions when all its calls are inlined.*METALCORE_KERNEL_SIZE"):
        lower(unit, "k", None)


def test_sizes_count_every_call() -> None:
    calls = {"f": {}, "g": {"f": 2}, "r": {"r": 1, "g": 1}}
    assert limits.inlined_sizes({"f": 1, "g": 2, "r": 2}, calls) == {"f": 1, "g": 4, "r": 6}
    lines = "define void @f() {\n  ret void\n}\ndefine void @g() {\n  call void @f()\n  call void @f()\n  ret void\n}\n"
    assert limits.inlined_size(parse(lines)) == 5


def test_a_large_kernel_is_compiled_in_a_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(child, "LARGE", 10)
    out = np.zeros(3, np.int32)
    metalcore.Library(f"// not in the cache: {tmp_path}\n" + ladder(2) + KERNEL).function("k")(out, threads=3)
    f1 = lambda x: (3 * x + 1) ^ (3 * (5 * x + 1) + 1)  # noqa: E731
    assert out.tolist() == [f1(i) ^ f1(5 * i + 2) for i in range(3)]


def test_tables_of_gigabytes() -> None:
    function = metalcore.Library("constant float t[70000000] = {1};\n#define V t[i]" + KERNEL).function("k")
    with pytest.raises(CompileError, match="280 MB, more than 256 MB"):
        function(np.zeros(1, np.int32), threads=1)


def test_a_compiler_that_dies_is_an_error(tmp_path: Path) -> None:
    done = run_limited(["/bin/sh", "-c", "kill -SEGV $$"], "", str(tmp_path), 10, "")
    assert done.code == -11 and "SIGSEGV" in done.errors


def test_settings_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for word in ("much", "-1", "0", "1.5", "1e9", "9" * 30):
        monkeypatch.setenv("METALCORE_SOURCE_SIZE", word)
        with pytest.raises(ArgumentError, match="METALCORE_SOURCE_SIZE must be a positive whole number"):
            make_unit("kernel void k() {}")


def test_long_texts_are_read_in_linear_time() -> None:
    """Each took minutes: comparisons that may be angle brackets, literals in one list, a table that is a text."""
    comparisons = "0<" * 20_000 + "1"
    for source in (
        f"struct S {{ void f(int a = {comparisons}); }};",
        f"template <int N = {comparisons}> void f() {{}}",
        "constant char* constant s[] = {" + '"a",' * 20_000 + "};",
    ):
        start = time.perf_counter()
        rewrite(f'# 1 "m"\n{source}\n', Sources("m", source))
        assert time.perf_counter() - start < 20
    start = time.perf_counter()
    (table,) = parse('@t = constant [400001 x i8] c"' + "a" * 400_000 + '\\00", align 1\n').globals.values()
    assert is_alike(table)
    assert time.perf_counter() - start < 5


def test_deeply_nested_classes_are_an_error_of_the_source() -> None:
    with pytest.raises(CompileError, match="nested too deeply"):
        make_unit("struct A {" * 1000 + "};" * 1000)


def test_function_constants_cost_time_in_proportion() -> None:
    count = 1500
    names = "\n".join(f"constant int c{j} [[function_constant({j})]];" for j in range(count))
    start = time.perf_counter()
    unit = make_unit(f"{names}\nkernel void k(device int* o) {{ o[0] = c{count - 1}; }}")
    assert time.perf_counter() - start < 12  # it was 25 s
    assert [constant.index for constant in unit.constants] == list(range(count))
    assert "__mc_constant_" not in unit.text
