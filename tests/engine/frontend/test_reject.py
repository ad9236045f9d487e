"""What Apple's compiler refuses is refused, with the line; what the engine lacks is named."""

# ruff: noqa: E501

import pytest

from metalcore.engine.frontend import lower, make_unit
from metalcore.errors import CompileError, UnsupportedFeature


def build(source: str) -> None:
    unit = make_unit(source)
    for name in unit.functions:
        lower(unit, name, None)


REFUSED = {
    "recursion": ("float f(float x) { return x < 1 ? 1 : x * f(x - 1); }\nkernel void k(device float* x) { x[0] = f(x[0]); }", 1, "recursion.*f -> f"),
    "mutual": ("float g(float x);\nfloat f(float x) { return g(x) + 1; }\nfloat g(float x) { return x > 0 ? f(x - 1) : 0; }\nkernel void k(device float* x) { x[0] = f(1); }", 2, "recursion.*f -> g -> f"),
    "double": ("kernel void k(device float* x) {\n  double y = 1; }", 2, "'double'"),
    "bfloat from float": ("kernel void k(device bfloat* x, device float* y) {\n  x[0] = y[0]; }", 2, "float to bfloat"),
    "bfloat from a constant": ("kernel void k(device bfloat* x) {\n  bfloat y = 1.0f; x[0] = y; }", 2, "float to bfloat"),
    "bfloat in a template": ("template <typename T> void s(device T* x, float v) {\n x[0] = v; }\nkernel void k(device bfloat* x) { s(x, x[1]); }", 2, "float to bfloat"),
    "bfloat from half": ("kernel void k(device bfloat* x, device half* y) {\n  x[0] = y[0]; }", 2, "half"),
    "pointer parameter": ("void f(float* x) {}\nkernel void k(device float* x) {}", 1, "pointer needs an address space"),
    "reference parameter": ("struct S { int a; };\nvoid f(const S& x) {}", 2, "reference needs an address space"),
    "pointer variable": ("struct S { int a; };\nkernel void k(device float* x) { S s;\n S* p = &s; }", 3, "pointer needs"),
    "pointer cast": ("kernel void k(device float* x) {\n device int* p = (int*)x; }", 2, "pointer needs an address space"),
    "global threadgroup variable": ("threadgroup float b[4];", 1, "only inside a kernel"),
    "threadgroup variable in a function": ("void f() {\n threadgroup float b[4]; }", 2, "only inside a kernel"),
    "threadgroup variable with an initialiser that is no constant": (
        "kernel void k(device int* o, uint i [[thread_position_in_grid]]) {\n threadgroup uint b = i; o[i] = b; }",
        1,
        "initialiser of threadgroup variable 'b' is not a constant",
    ),
    "slot bound twice": ("kernel void k(device int* a [[buffer(1)]], device int* b [[buffer(1)]]) {}", 1, "bound twice"),
    "slot out of range": ("kernel void k(device int* a [[buffer(31)]]) {}", 1, "0 to 30"),
    "virtual": ("struct A { virtual int f() { return 1; } };", 1, "virtual"),
    "throw": ("kernel void k() { throw 1; }", 1, "exceptions"),
    "new": ("kernel void k() { thread int* p = new int; }", 1, "'new'"),
    "delete": ("void f(thread int* p) { delete p; }", 1, "'delete'"),
    "goto": ("kernel void k() { again: goto again; }", 1, "'goto'"),
    "value without attribute": ("kernel void k(device int* a,\n uint n) {}", 1, "thread attribute"),
    "float thread position": ("kernel void k(float i [[thread_position_in_grid]]) {}", 1, "integer type"),
    "result": ("kernel int k() { return 1; }", 1, "returns void"),
    "position attributes of two widths": (
        "kernel void k(device int* a,\n  uint i [[thread_position_in_grid]],\n  uint3 g [[threads_per_grid]]) {}",
        1,
        "all vector types with the same number of elements: 'i' .* has 1 and 'g' .* has 3",
    ),
    "defined twice": ("kernel void k() {}\nkernel void k(device int* a) {}", 2, "defined twice"),
    "unknown template": ("template [[host_name(\"x\")]] kernel void q<float>(device float* x);", 1, "'q'"),
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.feature("rejected", n)) for n in REFUSED])
def test_refused(name: str) -> None:
    source, line, message = REFUSED[name]
    with pytest.raises(CompileError, match=message) as caught:
        build(source)
    assert (caught.value.filename, caught.value.lineno) == ("<metal>", line)
    assert isinstance(caught.value, SyntaxError)


UNSUPPORTED = {
    "textures": "using namespace metal;\nkernel void k(texture2d<float> t [[texture(0)]]) {}",
    "texture types": "using namespace metal;\nvoid f(texture2d<float> t) {}",
    "samplers": "using namespace metal;\nvoid f() { constexpr sampler s(coord::normalized); }",
    "ray tracing": "using namespace metal;\nusing namespace raytracing;",
    "threadgroup variables with a constructor": "struct P { float a; P() { a = 1; } };\nkernel void k(device P* x) { threadgroup P s[2]; s[0] = x[0]; }",
    "inline assembly": 'kernel void k() {\n  asm("nop"); }',
    "vertex functions": "\nvertex float4 v(uint i [[vertex_id]]) { return float4(0); }",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.feature("rejected", f"named as not supported yet: {n}")) for n in UNSUPPORTED],
)
def test_unsupported(name: str) -> None:
    feature = "textures" if name == "texture types" else name
    with pytest.raises(UnsupportedFeature, match=rf"<metal>:2: {feature}"):
        build(UNSUPPORTED[name])


ACCEPTED = {
    "explicit bfloat": "kernel void k(device bfloat* x, device half* y) { x[0] = bfloat(1.5f); x[1] = bfloat(y[0]); x[2] = 3; }",
    "bfloat arithmetic": "kernel void k(device bfloat* x, device float* y) { y[0] = x[0] * 2.0f; x[1] = x[2] + x[3]; }",
    "half from bfloat": "kernel void k(device bfloat* x, device half* y) { y[0] = static_cast<half>(x[0]); }",
    "tail recursion": "int f(int n, int a) { if (n > 0) { return f(n - 1, a + n); } return a; }\nkernel void k(device int* x) { x[0] = f(x[1], 0); }",
    "function pointers": "float twice(float x) { return 2 * x; }\nfloat call(float (*op)(float), float x) { return op(x); }\nkernel void k(device float* x) { x[0] = call(twice, x[1]); }",
    "deleted functions": "struct A { A(thread const A&) = delete; };",
    "multiplication": "kernel void k(device int* x, constant int& n) { int a = n; int b = a * n; x[0] = a & b; x[1] = (a * b); }",
    "names like keywords": "struct A { int vertex; int texture; }; kernel void k(device int* x) { A a; a.vertex = 1; x[0] = a.vertex; }",
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    build(ACCEPTED[name])
