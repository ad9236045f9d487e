"""packed_float3 and its kin: layout, conversion, swizzles, arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.include.probe import DTYPES, launch, parts, row

SCALARS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat", "float")


@pytest.mark.feature("types", "packed vector sizes and alignments")
def test_sizes_have_no_padding() -> None:
    names = [f"packed_{s}{n}" for s in SCALARS for n in (2, 3, 4)]
    sizes = row([f"sizeof({n})" for n in names] + [f"alignof({n})" for n in names], "uint")
    want = [DTYPES[s].itemsize * n for s in SCALARS for n in (2, 3, 4)]
    assert sizes == want + [DTYPES[s].itemsize for s in SCALARS for _ in (2, 3, 4)]


@pytest.mark.feature("types", "packed vectors")
def test_rows_of_three_floats_in_memory() -> None:
    source = """
kernel void rows(device const packed_float3* a [[buffer(0)]], device packed_float3* b [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  float3 v = a[i];
  b[i] = v.zyx + a[i];
  b[i].x += 100;
  b[i].yz *= 2;
  b[i][1] -= 1;
}"""
    a = np.arange(30, dtype=np.float32).reshape(10, 3)
    b = np.zeros_like(a)
    launch(source, "rows", [a, b], 10, 10)
    want = a[:, ::-1] + a
    want[:, 0] += 100
    want[:, 1:] *= 2
    want[:, 1] -= 1
    assert np.array_equal(b, want)


def test_arithmetic_mixes_with_vectors_and_scalars() -> None:
    setup = "packed_float3 p = packed_float3(1, 2, 3); float3 v = float3(10, 20, 30); packed_float3 q(v.xy, 5);"
    made = {
        "p + q": [11, 22, 8],
        "p * 2": [2, 4, 6],
        "2 - p": [1, 0, -1],
        "p * v": [10, 40, 90],
        "v / p": [10, 10, 10],
        "-p": [-1, -2, -3],
        "float3(p.zyx)": [3, 2, 1],
        "max(p, q)": [10, 20, 5],
        "clamp(p, 0, 2)": [1, 2, 2],
    }
    assert row([c for e in made for c in parts(e, 3)], setup=setup) == [x for want in made.values() for x in want]
    assert row(["dot(p, p)", "length(packed_float2(3, 4))", "all(p == p)", "p[2]"], setup=setup) == [14, 5, 1, 3]


def test_compound_assignment() -> None:
    setup = "packed_int4 p = packed_int4(1, 2, 3, 4); p += 1; p *= int4(2); p -= packed_int4(1); p <<= 1; ++p;"
    assert row(parts("p", 4), "int", setup=setup) == [7, 11, 15, 19]


def test_packed_members_of_a_struct() -> None:
    header = "struct Particle { packed_float3 position; float mass; packed_half2 spin; };"
    setup = "Particle p; p.position = float3(1, 2, 3); p.mass = 4; p.spin = half2(0.5h, 0.25h); Particle q = p;"
    expressions = ["sizeof(Particle)", "q.position.y", "float3(q.position).z", "q.spin.y", "q.mass"]
    assert row(expressions, header=header, setup=setup) == [20, 2, 3, 0.25, 4]
