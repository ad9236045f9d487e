"""What C++ leaves undefined has a value or is a fault, in every mode, also where LLVM or clang know the operands."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault
from tests.engine.language.helpers import HEADER, feature

MODES = ("checked", "fast", "sanitize")


def values(rows: Sequence[tuple[str, int]], before: str = "", given: Sequence[int] = (0, 1, -1, 33)) -> None:
    """Runs `out[row] = expression` for all rows in one kernel, by 32 threads, in three modes; `b` holds *given*."""
    body = "\n".join(f"  out[{row} * 32 + i] = ulong(long({text}));" for row, (text, _) in enumerate(rows))
    source = f"{HEADER}{before}\nkernel void k(device ulong* out, device const int* b, uint i [[thread_position_in_grid]]) {{\n{body}\n}}"
    function = metalcore.Library(source).function("k")
    for mode in MODES:
        out = np.full((len(rows), 32), 99, np.uint64)
        with metalcore.mode(mode):
            function(out.reshape(-1), np.array(given, np.int32), threads=32)
        for row, (text, wanted) in enumerate(rows):
            assert set(out[row].tolist()) == {wanted & (1 << 64) - 1}, (mode, text, out[row, 0])


def faults(body: str, words: str = "out of bounds", before: str = "", given: Sequence[int] = (0, 1, 2, 3)) -> None:
    """A KernelFault in checked mode, a finding in sanitize mode; what came before it is not lost."""
    source = f"{HEADER}{before}\nkernel void k(device uint* out, device uint* b, uint i [[thread_position_in_grid]]) {{\n  out[i] = 5; {body}\n}}"
    function = metalcore.Library(source).function("k")
    out = np.zeros(32, np.uint32)
    with pytest.raises(KernelFault, match=words):
        function(out, np.array(given, np.uint32), threads=32)
    assert 0 not in out[1:] or "out[i] =" in body, body
    with metalcore.mode("sanitize") as report:
        function(out, np.array(given, np.uint32), threads=32)
    assert {f.kind for f in report.findings} & {"out-of-bounds", "misaligned"}, body


@pytest.mark.feature("language", "integer division by zero and INT_MIN / -1 have a value, constants too")
def test_division() -> None:
    low = -(1 << 31)
    values(
        [
            ("b[0] / b[0]", 0),
            ("b[0] % b[0]", 0),
            ("7 / b[0]", 0),
            ("7 % b[0]", 7),
            ("5u / 0u", 0),
            ("5u % 0u", 5),
            ("b[3] / 0", 0),
            ("b[3] % 0", 33),
            ("INT_MIN / b[2]", low),
            ("INT_MIN % b[2]", 0),
            ("INT_MIN / -1", low),
            ("(b[0] + INT_MIN) / -1", low),
            ("(long(1) << 63) / b[2]", -(1 << 63)),
            ("uint(i + 3) / uint(b[0])", 0),
            ("uint4(9, 8, 7, 6)[b[1]] % uint(b[0])", 8),
            ("(uint4(5) % uint4(0)).y", 5),
            ("short(-32768) / short(b[2])", 32768),
            ("ulong(b[3]) % ulong(b[0])", 33),
            ("K", 7),
        ],
        before="constant uint K = 7u % 0u;",
    )


@pytest.mark.feature(
    "language", "shifts past the width take the low bits of the count, scalars and vectors, constants too"
)
def test_shifts() -> None:
    values(
        [
            ("1u << b[3]", 2),
            ("1u << 33", 2),
            ("8 >> b[3]", 4),
            ("-8 >> 33", -4),
            ("1ul << (b[3] + 32)", 2),
            ("1ul << 65", 2),
            ("1u << b[2]", 1 << 31),
            ("1u << -1", 1 << 31),
            ("(1u << 33) == 2 ? 7 : 8", 7),
            ("uchar(1) << 9", 512),
            ("uchar(1) << b[3]", 2),
            ("(uint4(1) << 33).y", 2),
            ("(uint4(1) << uint4(b[3])).w", 2),
            ("(int2(-8) >> b[3]).x", -4),
            ("(uchar4(1) << uchar4(9)).z", 2),
            ("(ushort2(1) << ushort2(ushort(b[3]))).x", 2),
            ("(long3(16) >> long3(66)).z", 4),
            ("K", 2),
            ("shifted<34>()", 4),
            ("compound(b[3])", 2),
            ("packed(33)", 6),
        ],
        before="""constant uint K = 1u << 33;
        template <int N> uint shifted() { return 1u << N; }
        uint compound(int n) { uint x = 1; x <<= n; return x; }
        uint packed(uint n) { packed_uint3 p = packed_uint3(uint3(3)); p <<= n; return p.y; }""",
    )


@pytest.mark.feature("language", "a shift past the width is a note of the sanitizer, which fails nothing")
def test_a_shift_is_a_note() -> None:
    source = "kernel void k(device uint* o, uint i [[thread_position_in_grid]]) { o[i] = 1u << (i + 16); }"
    out = np.zeros(32, np.uint32)
    with metalcore.mode("sanitize", fail_fast=True) as report:
        metalcore.Library(source).function("k")(out, threads=32)
    assert [(d.rule, d.level) for d in report.diagnostics] == [("shift-past-width", "note")]
    assert out[20] == 16


@pytest.mark.feature("language", "floats that no integer holds become the nearest one, NaN 0, constants too")
def test_conversions() -> None:
    values(
        [
            ("int(1e20f)", (1 << 31) - 1),
            ("int(1e20f * b[1])", (1 << 31) - 1),
            ("int(-INFINITY)", -(1 << 31)),
            ("int(NAN)", 0),
            ("int(as_type<float>(0x7fc00000 + b[0]))", 0),
            ("uint(-3.0f)", 0),
            ("uint(-3.0f * b[1])", 0),
            ("uchar(300.0f)", 44),
            ("uchar(300.0f * b[1])", 44),
            ("long(1e30f * b[1])", (1 << 63) - 1),
        ]
    )


@pytest.mark.feature(
    "language", "a missing return, an unset variable, an odd bool and an endless loop behave the same way each time"
)
def test_other_promises() -> None:
    values(
        [
            ("open(b[0])", 0),
            ("open(b[1])", 3),
            ("never(b[1])", 4),
            ("unset(b[0]) == unset(b[0])", 1),
            ("truth(b[3])", 1),
        ],
        before="""int open(int x) { if (x) return 3; }
        int never(int x) { if (x == 7) __builtin_unreachable(); return 4; }
        int unset(int x) { int y; if (x) y = 4; return y; }
        int truth(int x) { uchar byte = uchar(x); thread bool* t = (thread bool*)&byte; return *t ? 1 : 0; }""",
    )


POINTERS = {
    "a pointer made from a number is a fault where it is read or written": (
        "device uint& r = *(device uint*)(size_t)(i * 8); out[i] = r;",
        "*(device uint*)(size_t)(i * 8) = 3;",
        "(*(device uint4*)(size_t)(i * 16)) = uint4(i);",
        "out[i] = *(device uint*)(size_t)(b[i & 3] * 8 + i % 3);",
        "out[i] = *(threadgroup uint*)(size_t)(i * 8 + 16);",
        "for (uint j = 0; j < b[2]; j++) out[i] += *(device uint*)(size_t)(i * 8 + j * 4);",
    ),
    "null is a fault where it is read or written, and no code is lost": (
        "*(device uint*)0 = 1;",
        "out[i] = *(device uint*)nullptr;",
        "device uint* p = nullptr; if (b[0] == 1) p = b; *p = 4;",
    ),
}


@pytest.mark.parametrize("bodies", [feature("language", name, bodies) for name, bodies in POINTERS.items()])
def test_pointers_to_nothing(bodies: tuple[str, ...]) -> None:
    for body in bodies:
        faults(body)


@pytest.mark.feature("language", "a constant index past a private array, a vector or a constant table is a fault")
def test_known_indices() -> None:
    tables = "constant uint t[4] = {1, 2, 3, 4};\nconstant uint one[1] = {3};\nconstant uint same[4] = {7, 7, 7, 7};"
    fill = "uint a[4]; for (int j = 0; j < 4; j++) a[j] = b[j]; "
    for body in (
        fill + "out[i] = a[1024];",
        fill + "uint s = 0; for (int j = 0; j <= 4; j++) s += a[j]; out[i] = s;",
        fill + "uint s = 0; thread uint* p = a; for (int j = 0; j <= 4; j++) s += *p++; out[i] = s;",
        fill + "a[-1] = 3; out[i] = a[b[0]];",
        "uint x = b[1]; thread uint* p = &x; p[1] = 5; out[i] = x;",
        "float4 v = float4(b[0], b[1], 2, 3); out[i] = v[7];",
        "float2x2 m(1.0f); out[i] = m[9][0];",
        "array<uint, 4> a = {b[0], 2, 3, 4}; out[i] = a[9];",
        "uint a[1] = {3}; out[i] = a[b[1]];",
        "out[i] = t[9];",
        "uint s = 0; for (int j = 0; j <= 4; j++) s += t[j]; out[i] = s;",
        "out[i] = one[b[1]];",
        "out[i] = same[b[3] + 1];",
    ):
        source = f"{HEADER}{tables}\nkernel void k(device uint* out, device uint* b, uint i [[thread_position_in_grid]]) {{\n  {body}\n}}"
        function = metalcore.Library(source).function("k")
        with pytest.raises(KernelFault, match="out of bounds at <metal>:7:"):
            function(np.zeros(32, np.uint32), np.arange(4, dtype=np.uint32), threads=32)


@pytest.mark.feature(
    "language", "indices inside private arrays and tables, ends of arrays as pointers, rows of a matrix"
)
def test_good_indices() -> None:
    values(
        [("sum(b[3])", 10), ("walk()", 10), ("row(b[1])", 5), ("t[b[1]]", 2), ("t[3]", 4), ("one[b[0]]", 3)],
        before="""constant uint t[4] = {1, 2, 3, 4};
        constant uint one[1] = {3};
        uint sum(uint n) { uint a[4]; for (uint j = 0; j < 4; j++) a[j] = j + 1; uint s = 0; for (uint j = 0; j < 4; j++) s += a[j]; return s; }
        uint walk() { uint a[4] = {1, 2, 3, 4}; uint s = 0; thread uint* e = a + 4; for (thread uint* p = a; p != e; p++) s += *p; return s; }
        uint row(uint r) { uint m[2][3] = {{1, 2, 3}, {4, 5, 6}}; return m[r - 1][4]; }""",
    )
