"""What Apple's compiler refuses is refused here, with a message that says what and where."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import ArgumentError, CompileError, LaunchError, UnknownFunction, UnsupportedFeature
from tests.engine.language.helpers import HEADER, feature

# name, source, words of the message, the line it must name (the header takes two)
CASES = [
    feature(
        "rejected",
        "recursion",
        "int f(int n) { return n < 2 ? 1 : n * f(n - 1); }\nkernel void k(device int* o) { o[0] = f(o[0]); }",
        "recurs",
        3,
    ),
    feature(
        "rejected",
        "recursion over two functions",
        "int g(int n);\nint f(int n) { return n < 2 ? 1 : g(n - 1); }\nint g(int n) { return f(n) + 1; }\n"
        "kernel void k(device int* o) { o[0] = f(o[0]); }",
        "recurs",
        None,
    ),
    feature("rejected", "double", "kernel void k(device float* o) {\n double x = 1; o[0] = x; }", "double", 4),
    feature(
        "rejected",
        "implicit conversion of float to bfloat",
        "kernel void k(device bfloat* o, device float* x) {\n o[0] = x[0]; }",
        "bfloat|float",
        4,
    ),
    feature(
        "rejected",
        "a pointer without an address space",
        "void f(int* p) { *p = 1; }\nkernel void k(device int* o) { }",
        "address space",
        3,
    ),
    feature(
        "rejected",
        "a local pointer without an address space",
        "kernel void k(device int* o) {\n float* p = 0; o[0] = p == 0; }",
        "address space",
        4,
    ),
    feature(
        "rejected",
        "a reference without an address space",
        "void f(int& p) { p = 1; }\nkernel void k(device int* o) { int x; f(x); o[0] = x; }",
        "address space",
        3,
    ),
    feature(
        "rejected",
        "a threadgroup variable outside a kernel",
        "threadgroup int s[4];\nkernel void k(device int* o) { o[0] = s[0]; }",
        "threadgroup",
        3,
    ),
    feature(
        "rejected",
        "a threadgroup variable in an ordinary function",
        "int f() { threadgroup int s[4]; s[0] = 1; return s[0]; }\nkernel void k(device int* o) { o[0] = f(); }",
        "threadgroup",
        3,
    ),
    feature(
        "rejected",
        "a threadgroup variable whose initialiser is no constant",
        "kernel void k(device int* o) {\n threadgroup int s = o[0]; o[0] = s; }",
        "initialiser of threadgroup variable 's' is not a constant",
        3,
    ),
    feature(
        "rejected",
        "virtual functions",
        "struct A {\n virtual int f() { return 1; } };\nkernel void k(device int* o) { o[0] = 1; }",
        "virtual",
        4,
    ),
    feature("rejected", "goto", "kernel void k(device int* o) {\n goto end;\n end: o[0] = 1; }", "goto", 4),
    feature("rejected", "new and delete", "kernel void k(device int* o) {\n auto p = new int; o[0] = 1; }", "new", 4),
    feature("rejected", "exceptions", "kernel void k(device int* o) {\n throw 1; }", "exception", 4),
    feature("rejected", "an undeclared name", "kernel void k(device int* o) {\n o[0] = missing; }", "missing", 4),
    feature("rejected", "a syntax error", "kernel void k(device int* o) {\n o[0] = 1 }", "expected", 4),
    feature(
        "rejected",
        "writing to a constant buffer",
        "kernel void k(constant int* c) {\n c[0] = 1; }",
        "const|read-only|assign",
        4,
    ),
    feature(
        "rejected",
        "a device pointer made from a threadgroup one",
        "kernel void k(device int* o) {\n threadgroup int s[2]; device int* p = s; p[0] = 1; }",
        "address space|cannot|invalid",
        4,
    ),
    feature(
        "rejected",
        "a kernel that returns a value",
        "kernel int k(device int* o) {\n return o[0]; }",
        "void|return",
        None,
    ),
]


@pytest.mark.parametrize(("source", "words", "line"), CASES)
def test_rejected(source: str, words: str, line: int | None) -> None:
    with pytest.raises(CompileError, match=f"(?i){words}") as caught:
        metalcore.Library(HEADER + source).function("k")
    assert isinstance(caught.value, SyntaxError)
    if line is not None:
        assert f":{line}" in str(caught.value) or f"line {line}" in str(caught.value), str(caught.value)


UNSUPPORTED = [
    feature(
        "not yet",
        "textures",
        "kernel void k(texture2d<float, access::read> t [[texture(0)]], device float* o) { o[0] = 1; }",
        "texture",
    ),
    feature(
        "not yet",
        "samplers",
        "kernel void k(device float* o) { constexpr sampler s(filter::linear); o[0] = 1; }",
        "sampler",
    ),
    feature(
        "not yet",
        "vertex and fragment functions",
        "vertex float4 v(uint i [[vertex_id]]) { return float4(i); }\nkernel void k(device float* o) { o[0] = 1; }",
        "vertex",
    ),
]


@pytest.mark.parametrize(("source", "words"), UNSUPPORTED)
def test_unsupported(source: str, words: str) -> None:
    with pytest.raises(UnsupportedFeature, match=f"(?i){words}"):
        metalcore.Library(HEADER + source).function("k")


GOOD = (
    HEADER + "kernel void k(device float* o, constant uint& n, uint i [[thread_position_in_grid]]) { o[i] = float(n); }"
)


@pytest.mark.feature("rejected", "an unknown kernel")
def test_unknown_kernel() -> None:
    with pytest.raises(UnknownFunction, match="other"):
        metalcore.Library(GOOD).function("other")


@pytest.mark.feature("rejected", "a wrong number of arguments")
def test_wrong_count() -> None:
    function = metalcore.Library(GOOD).function("k")
    with pytest.raises(ArgumentError):
        function(np.zeros(4, np.float32), threads=4)
    with pytest.raises(ArgumentError):
        function(np.zeros(4, np.float32), 1, 2, threads=4)


@pytest.mark.feature("rejected", "an array of the wrong dtype")
def test_wrong_dtype() -> None:
    function = metalcore.Library(GOOD).function("k")
    with pytest.raises(ArgumentError, match="o"):
        function(np.zeros(4, np.float64), 1, threads=4)


@pytest.mark.feature("rejected", "a number out of range of its type")
def test_number_out_of_range() -> None:
    function = metalcore.Library(GOOD).function("k")
    with pytest.raises((ArgumentError, OverflowError), match="n"):
        function(np.zeros(4, np.float32), -1, threads=4)


@pytest.mark.feature("rejected", "a read-only array where the kernel writes")
def test_read_only() -> None:
    function = metalcore.Library(GOOD).function("k")
    out = np.zeros(4, np.float32)
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match=r"read-only|readonly|writ"):
        function(out, 1, threads=4)


@pytest.mark.feature("rejected", "more than 31 buffers")
def test_too_many_buffers() -> None:
    with pytest.raises((LaunchError, CompileError), match="31"):
        metalcore.Library(HEADER + "kernel void k(device int* o [[buffer(31)]]) { o[0] = 1; }").function("k")


@pytest.mark.feature("API", "a grid of no threads does nothing")
def test_empty_grid() -> None:
    out = np.full(2, 7, np.float32)
    metalcore.Library(GOOD).function("k")(out, 1, threads=0, group_size=32)
    assert out.tolist() == [7, 7]


@pytest.mark.feature("rejected", "a source that is not text")
def test_not_text() -> None:
    with pytest.raises((ArgumentError, TypeError)):
        metalcore.Library(b"kernel void k() {}")  # type: ignore[arg-type]
