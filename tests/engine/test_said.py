"""os_log and assert: what threads say, in which order, in which mode."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.model import Variant
from metalcore.engine.pipeline import build
from metalcore.errors import AssertionFault, CompileError, KernelFault, UnsupportedFeature


def kernel(body: str, parameters: str = "", head: str = "", **options: Any) -> metalcore.Function:
    parameters = f"{parameters}, " if parameters else ""
    source = f"{head}\nkernel void k({parameters}uint i [[thread_position_in_grid]]) {{\n  {body}\n}}\n"
    return metalcore.Library("#include <metal_stdlib>\nusing namespace metal;\n" + source, **options).function("k")


def said(function: metalcore.Function, *args: Any, threads: Any = 1, **named: Any) -> list[str]:
    with metalcore.captured_log() as lines:
        function(*args, threads=threads, **named)
    return [line.text for line in lines]


@pytest.mark.feature("debugging", "os_log: log, log_debug, log_info, log_error, log_fault")
def test_a_line_has_its_place() -> None:
    function = kernel('os_log_default.log("i is %u", i);\n  os_log_default.log_error("half of it: %.2f", i * 0.5f);')
    with metalcore.captured_log() as lines:
        function(threads=2)
    assert [(line.text, line.thread, line.level, line.line) for line in lines] == [
        ("i is 0", (0, 0, 0), "default", 4 + 1),
        ("half of it: 0.00", (0, 0, 0), "error", 4 + 2),
        ("i is 1", (1, 0, 0), "default", 4 + 1),
        ("half of it: 0.50", (1, 0, 0), "error", 4 + 2),
    ]
    assert str(lines[1]).endswith(":6: [error] thread (0, 0, 0): half of it: 0.00")
    assert lines[0].kernel == "k"


@pytest.mark.parametrize(
    ("format", "value", "text"),
    [
        ("%d", "-5", "-5"),
        ("%i", "char(-3)", "-3"),
        ("%u", "ushort(65535)", "65535"),
        ("%5d|", "42", "   42|"),
        ("%-5d|", "42", "42   |"),
        ("%+05d", "42", "+0042"),
        ("%x", "255u", "ff"),
        ("%#X", "255u", "0XFF"),
        ("%x", "-1", "ffffffff"),
        ("%lx", "-1l", "ffffffffffffffff"),
        ("%lu", "18446744073709551615ul", "18446744073709551615"),
        ("%ld", "-9223372036854775807l - 1", "-9223372036854775808"),
        ("%o", "8", "10"),
        ("%c%c", "'h', 'i'", "hi"),
        ("%f", "0.1f", "0.100000"),
        ("%.9g", "0.1f", "0.100000001"),
        ("%e", "12345.0f", "1.234500e+04"),
        ("%a", "1.5f", "0x1.8000000000000p+0"),
        ("%g", "INFINITY", "inf"),
        ("%g", "-INFINITY", "-inf"),
        ("%g", "NAN", "nan"),
        ("%g", "half(0.5h)", "0.5"),
        ("%g", "bfloat(3.0bf)", "3"),
        ("%d", "true", "1"),
        ("%d", "Colour::blue", "7"),
        ("%d", "2.5f", "2.5"),
        ("%f", "3", "3.000000"),
        ("100%%", "", "100%"),
        ("%v2d", "int2(1, -2)", "1,-2"),
        ("%v3.1f", None, None),
        ("%v4f", "float4(0, 0.5, 1, 2)", "0.000000,0.500000,1.000000,2.000000"),
        ("%v3hlu", "uint3(1, 2, 3)", "1,2,3"),
        ("%.1v3f", "packed_float3(1, 2, 3)", "1.0,2.0,3.0"),
        ("%d %d", "int2(4, 5)", "4 5"),
        ('a\\tb\\"', "", 'a\tb"'),
        ("%p", "(device void*)0", "0x0"),
    ],
)
def test_values(format: str, value: str | None, text: str | None) -> None:
    head = "enum class Colour : uchar { blue = 7 };"
    if value is None:
        with pytest.raises(CompileError, match="no conversion"):
            kernel(f'os_log_default.log("{format}", float3(1));', head=head)(threads=1)
        return
    given = f", {value}" if value else ""
    assert said(kernel(f'os_log_default.log("{format}"{given});', head=head)) == [text]


@pytest.mark.parametrize("threads", [None, 1])
def test_lines_are_in_the_order_of_the_threads(threads: int | None) -> None:
    function = kernel('if (i % 3 == 1) for (uint n = 0; n < i % 4; ++n) os_log_default.log("%u %u", i, n);')
    before = metalcore.get_num_threads()
    metalcore.set_num_threads(threads or 2)
    try:
        found = said(function, threads=1000, group_size=96)
    finally:
        metalcore.set_num_threads(before)
    assert found == [f"{i} {n}" for i in range(1000) if i % 3 == 1 for n in range(i % 4)]


def test_two_dimensions_and_groups_at_the_edge() -> None:
    function = metalcore.Library("""
kernel void k(uint2 at [[thread_position_in_grid]]) { metal::os_log_default.log("%u %u", at.x, at.y); }
""").function("k")
    found = said(function, threads=(37, 5), group_size=(16, 2))
    assert found == [f"{x} {y}" for y in range(5) for x in range(37)]


def test_beside_a_barrier() -> None:
    function = metalcore.Library("""
#include <metal_stdlib>
using namespace metal;
constexpr os_log mine("subsystem", "category");
kernel void k(device float* x [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
  threadgroup float shared[96];
  shared[i] = x[i];
  mine.log("before %g", x[i]);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] = shared[95 - i];
  if (i == 40) mine.log_info("after %g", x[i]);
}
""").function("k")
    x = np.arange(96, dtype=np.float32)
    found = said(function, x, threads=96, group_size=96)
    expected = [f"before {i}" for i in range(96)]
    expected.insert(41, "after 55")
    assert found == expected
    assert (x == np.arange(96)[::-1]).all()


def test_fast_mode_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    function = kernel('assert(i > 5); os_log_default.log("%u", i); x[i] = 1;', "device int* x [[buffer(0)]]")
    x = np.zeros(3, np.int32)
    with metalcore.mode("fast"), metalcore.captured_log() as lines:
        function(x, threads=3)
    assert lines == [] and x.tolist() == [1, 1, 1]
    assert capfd.readouterr().err == ""


def test_stderr_has_the_first_lines(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_LOG_LINES", "2")
    kernel('os_log_default.log("hello from %u", i);')(threads=5)
    first, second, rest = capfd.readouterr().err.splitlines()
    assert first.endswith("thread (0, 0, 0): hello from 0") and second.endswith("thread (1, 0, 0): hello from 1")
    assert rest == "kernel 'k': 3 more lines of os_log (METALCORE_LOG_LINES=2)"


@pytest.mark.feature("debugging", "assert: a fault of the launch; NDEBUG takes it out")
def test_an_assertion_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "wrong.metal"
    path.write_text("""kernel void wrong(device int* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  x[i] = i;
  assert(i != 3 && i < 90);
  assert(i < 1000);
}
""")
    x = np.zeros(100, np.int32)
    with pytest.raises(AssertionFault) as error:
        metalcore.Library(path).function("wrong")(x, threads=100)
    assert isinstance(error.value, KernelFault) and isinstance(error.value, AssertionError)
    message = str(error.value)
    assert "wrong.metal:3 by thread (3, 0, 0)" in message and "i != 3 && i < 90; 10 more" in message
    assert (x == np.arange(100)).all()  # a kernel goes on behind it
    metalcore.Library(path, defines={"NDEBUG": 1}).function("wrong")(x, threads=100)


def test_an_assertion_in_sanitize_mode() -> None:
    function = kernel('assert(i < 2); os_log_default.log("%u", i);')
    with metalcore.mode("sanitize") as report, metalcore.captured_log() as lines:
        function(threads=4)
    (finding,) = report.findings
    assert (finding.kind, finding.thread, finding.count, finding.detail) == ("assertion-failed", (2, 0, 0), 2, "i < 2")
    assert [line.text for line in lines] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('os_log_default.log("%d");', "more conversions than values"),
        ('os_log_default.log("%d", 1, 2);', "fewer conversions than values"),
        ('os_log_default.log("none", i);', "fewer conversions than values"),
        ('os_log_default.log("%s", "text");', "no conversion of numbers"),
        ('os_log_default.log("%v4d", int3(1));', "more conversions than values"),
    ],
)
def test_formats_that_do_not_fit(body: str, words: str) -> None:
    with pytest.raises(CompileError, match=words) as error:
        kernel(body)(threads=1)
    assert ":5:" in str(error.value)


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ('if (i & 1) os_log_default.log("%u", i); else os_log_default.log("%u", i * 10);', "0 1 20 3"),
        (
            'switch (i) { case 0: os_log_default.log("zero"); break; default: os_log_default.log("%u", i); }',
            "zero 1 2 3",
        ),
        ('for (int n = 0;; ++n) { if (n > int(i)) break; os_log_default.log("%d", n); }', "0 0 1 0 1 2 0 1 2 3"),
        ("f(int(i) - 1); f(7);", "7 7 1 7 2 7"),
        ('int x = (assert(i < 9), 3); os_log_default.log("%d" "|", x);', "3| 3| 3| 3|"),
    ],
)
def test_in_branches_and_loops(body: str, lines: str) -> None:
    head = 'void f(int d) { if (d > 0) os_log_default.log("%d", d); }'
    assert said(kernel(body, head=head), threads=4) == lines.split()


def test_where_float_is_read_as_double() -> None:
    assert said(kernel('os_log_default.log("%.17g", 1.0f / 3);', float_type="double")) == ["0.33333333333333331"]


def test_what_cannot_be_said() -> None:
    with pytest.raises(CompileError, match="os_log takes numbers, vectors of numbers and pointers"):
        kernel('S s = {1}; os_log_default.log("%d", s);', head="struct S { int a; };")(threads=1)


def test_long_lines_do_not_fill_the_memory(capfd: pytest.CaptureFixture[str]) -> None:
    function = kernel('for (int n = 0; n < 200; ++n) os_log_default.log("' + "x" * 20_000 + '");')
    with metalcore.captured_log() as lines:
        function(threads=32)
    assert 1 << 26 < sum(len(line.text) for line in lines) < (1 << 26) + 32 * 20_000
    assert "more to say by os_log than is kept" in capfd.readouterr().err


def test_a_format_that_is_chosen_at_run_time() -> None:
    with pytest.raises(UnsupportedFeature, match="string literal"):
        kernel('os_log_default.log(i > 2 ? "large" : "small");')(threads=4)


def test_in_a_sealed_worker(capfd: pytest.CaptureFixture[str]) -> None:
    function = kernel('os_log_default.log("%u", i); assert(i != 70);')
    fails = pytest.raises(AssertionFault, match=r"thread \(70, 0, 0\)")
    with metalcore.isolate(), metalcore.captured_log() as lines, fails:
        function(threads=100)
    assert [line.text for line in lines] == [str(i) for i in range(100)]


def test_the_drop_ins() -> None:
    torch = pytest.importorskip("torch")
    library = metalcore.compile_shader("""
#include <metal_stdlib>
using namespace metal;
kernel void k(device float* x, uint i [[thread_position_in_grid]]) { os_log_default.log("%g", x[i]); assert(x[i] < 2); }
""")
    with metalcore.captured_log() as lines, pytest.raises(AssertionFault, match=r"x\[i\] < 2"):
        library.k(torch.arange(3.0))
    assert [line.text for line in lines] == ["0", "1", "2"]


def test_python_threads_do_not_mix() -> None:
    function = kernel('os_log_default.log("%d", x[i]);', "device const int* x [[buffer(0)]]")
    wrong: list[Any] = []

    def work(n: int) -> None:
        x = np.full(40, n, np.int32)
        for _ in range(20):
            if said(function, x, threads=40) != [str(n)] * 40:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_more_than_there_is_room_for(capfd: pytest.CaptureFixture[str]) -> None:
    function = kernel('for (int n = 0; n < 40000; ++n) os_log_default.log("%d", n); assert(i != 31);')
    with metalcore.captured_log() as lines, pytest.raises(AssertionFault):
        function(threads=32)
    assert len(lines) == 32 * 32768  # lines of 65,536 sayings; an assertion is never left out
    assert "more to say by os_log than is kept" in capfd.readouterr().err
    assert lines[32767].text == "32767" and lines[32767].thread == (0, 0, 0)


def test_what_is_said_costs_fast_mode_nothing() -> None:
    """The same machine code as without, cut at its barriers too."""
    body = "tile[i] = x[i]; threadgroup_barrier(mem_flags::mem_threadgroup); x[i] = tile[95 - i] * 2 + 1;"
    codes = []
    for more in ("", 'assert(x[i] < 1e9f); os_log_default.log("%g %v2d", x[i], int2(i));'):
        source = f"""#include <metal_stdlib>
using namespace metal;
kernel void k(device float* x [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {{
  threadgroup float tile[96];
  {body} {more}
}}
"""
        built = build(lower(make_unit(source), "k", None), Variant.choose((96, 1, 1), checked=False))
        assert built.places == ()
        codes.append(Path(built.path).read_bytes())
    assert codes[0] == codes[1]
