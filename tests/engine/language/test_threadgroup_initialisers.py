"""Threadgroup variables that have a value before the threads start: each group anew, in every mode."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from tests.engine.language.helpers import HEADER, Array, feature

PARAMETERS = "device float* o, uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]"
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
MODES = ("checked", "fast", "sanitize")


def run(
    body: str, before: str = "", mode: str = "checked", group: int = 64, groups: int = 5
) -> tuple[Array, list[str]]:
    """o of 5 groups of threads, and the kinds of what the sanitizer found."""
    function = metalcore.Library(f"{HEADER}{before}\nkernel void k({PARAMETERS}) {{ {body} }}").function("k")
    out = np.full(group * groups, -1, np.float32)
    with metalcore.mode(mode) as report:
        function(out, threads=out.size, group_size=group)
    return out, [finding.kind for finding in report.findings] if mode == "sanitize" else []


# What the variable holds, declared in every form, and each group spoils it for the next one.
FORMS = [
    feature("threadgroup memory", "an initialiser: float s = 3", "threadgroup float s = 3;", "s", 3),
    feature("threadgroup memory", "an initialiser: uint s{}", "threadgroup uint s{};", "s", 0),
    feature("threadgroup memory", "an initialiser: short s(5)", "threadgroup short s(5);", "s", 5),
    feature(
        "threadgroup memory", "an initialiser: float b[33] = {0}", "threadgroup float b[33] = {0};", "b[t % 33]", 0
    ),
    feature(
        "threadgroup memory",
        "an initialiser of an aligned array",
        "threadgroup half b[3] __attribute__((aligned(16))) = {half(1), half(2)};",
        "b[0] + 10 * b[1] + b[2]",
        21,
    ),
    feature(
        "threadgroup memory",
        "an initialiser behind __attribute__ and alignas",
        "__attribute__((aligned(32))) threadgroup int a = 2; alignas(16) threadgroup uchar b[5] = {200, 1};",
        "a + b[0] + b[4]",
        202,
    ),
    feature(
        "threadgroup memory",
        "several declarators, some with an initialiser",
        "threadgroup int a = 2, b, c[2] = {3, 4}; if (t == 0) b = 0;",
        "a + c[0] + c[1]",
        9,
    ),
    feature(
        "threadgroup memory", "an initialiser of a vector", "threadgroup float4 v = float4(1, 2, 3, 4);", "v.w - v.x", 3
    ),
    feature(
        "threadgroup memory",
        "an initialiser of a struct",
        "threadgroup S s = {1, int2(2, 3), {4, 5}};",
        "s.a + s.b.y + s.h[1]",
        9,
    ),
    feature(
        "threadgroup memory",
        "an initialiser that is a constant expression",
        "threadgroup uint n = N * sizeof(S);",
        "n",
        72,
    ),
    feature("threadgroup memory", "an initialiser of a const array", "threadgroup const int c[2] = {6, 7};", "c[1]", 7),
]
BEFORE = "struct S { float a; int2 b; half h[3]; };\nconstant constexpr uint N = 3;"


@pytest.mark.parametrize(("declaration", "read", "value"), FORMS)
def test_it_is_set_for_every_group(declaration: str, read: str, value: float) -> None:
    name = read.split("[")[0].split(".")[0].split(" ")[0]
    spoil = "" if "const int" in declaration else f"((threadgroup uchar*)&{name})[0] = 99;"
    body = f"{declaration} float r = {read}; {BARRIER} if (t == 0) {{ {spoil} }} o[i] = r;"
    for mode in MODES:
        for group in (64, 32, 40, 8):
            out, found = run(body, BEFORE, mode, group)
            assert set(out.tolist()) == {value} and found == [], (mode, group)


@pytest.mark.feature("threadgroup memory", "an initialiser in a template, and with a function constant")
def test_templates_and_function_constants() -> None:
    source = f"""{HEADER}constant int K [[function_constant(0)]];
template <typename T> kernel void f({PARAMETERS}) {{
  threadgroup T s[2] = {{T(3), T(sizeof(T))}}; threadgroup int n = K; o[i] = s[0] * 100 + s[1] * 10 + n; }}
template [[host_name("h")]] [[kernel]] decltype(f<half>) f<half>;
template [[host_name("f")]] [[kernel]] decltype(f<float>) f<float>;"""
    library = metalcore.Library(source)
    for name, value in (("h", 327), ("f", 347)):
        out = np.zeros(64, np.float32)
        library.function(name, constants={"K": 7})(out, threads=64)
        assert set(out.tolist()) == {value}
    with pytest.raises(metalcore.errors.ConstantError, match="K"):
        library.function("h")


def test_it_is_set_once_not_in_every_round() -> None:
    body = (
        f"for (int j = 0; j < 3; j++) {{ threadgroup float s = 1; {BARRIER} if (t == 0) s += 1; {BARRIER} o[i] = s; }}"
    )
    for mode in MODES:
        out, found = run(body, mode=mode)
        assert set(out.tolist()) == {4} and found == []


def test_the_sanitizer_still_finds_what_is_wrong_with_it() -> None:
    assert run("threadgroup float s = 1; s += t; o[i] = s;", mode="sanitize")[1]  # no barrier
    body = f"threadgroup float a = 1, b[64]; {BARRIER} o[i] = a + b[t];"
    assert run(body, mode="sanitize")[1] == ["uninitialised-threadgroup-memory"]
    body = f"threadgroup float a[64] = {{1}}; a[t] += 1; {BARRIER} o[i] = a[63 - t];"
    assert run(body, mode="sanitize")[1] == []


def test_an_address_is_refused_by_name() -> None:
    body = "threadgroup Q q = {table}; o[i] = q.p[1];"
    with pytest.raises(metalcore.errors.UnsupportedFeature, match="initialised with an address"):
        run(body, "constant float table[2] = {1, 2};\nstruct Q { constant float* p; };")
