"""<simd/simd.h>: the names that headers shared between host and Metal use."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from tests.engine.language.helpers import HEADER, launch

SCALARS = ("bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat", "float")


@pytest.mark.feature("types", "the names of <simd/simd.h>: vector_float3, simd_float4x4, simd::float2 and all others")
def test_every_name_is_its_type() -> None:
    checks = []
    for t in SCALARS:
        checks += [f"is_same_v<simd_{t}1, {t}>", f"is_same_v<vector_{t}1, {t}>"]
        for n in (2, 3, 4):
            checks += [f"is_same_v<{name}, {t}{n}>" for name in (f"vector_{t}{n}", f"simd_{t}{n}", f"simd::{t}{n}")]
            packed = f"packed_{t}{n}"
            checks += [f"is_same_v<simd_{packed}, {packed}>", f"is_same_v<simd::{packed}, {packed}>"]
    for t in ("half", "float"):
        for shape in (f"{c}x{r}" for c in (2, 3, 4) for r in (2, 3, 4)):
            names = (f"matrix_{t}{shape}", f"simd_{t}{shape}", f"simd::{t}{shape}")
            checks += [f"is_same_v<{name}, {t}{shape}>" for name in names]
    source = "#include <simd/simd.h>\nkernel void k(device int* o) { o[0] = " + " + ".join(checks) + "; }"
    out = np.zeros(1, np.int32)
    launch(source, out, threads=1)
    assert out[0] == len(checks)


@pytest.mark.parametrize("header", ["simd", "vector_types", "matrix_types", "types", "packed"])
def test_a_shared_struct(header: str) -> None:
    source = f"""#include <simd/{header}.h>
    using namespace simd;
    struct U {{ vector_float3 p; matrix_float4x4 m; simd_uint2 s; simd_packed_float4 q; simd_bool b; }};
    kernel void k(device float* o, constant U& u) {{ float3 v = u.p; o[0] = v.z + u.m[1].y + u.s.y + u.q.w + u.b; }}"""
    out = np.zeros(1, np.float32)
    p, m = np.arange(4, dtype=np.float32), np.eye(4, dtype=np.float32) * 10
    s, q = np.array([100, 200], np.uint32), np.full(4, 1000, np.float32)
    u = p.tobytes() + m.tobytes() + s.tobytes() + q.tobytes() + b"\1" + bytes(7)
    launch(source, out, u, threads=1)
    assert out[0] == 2 + 10 + 200 + 1000 + 1


def test_the_names_are_free_without_the_header() -> None:
    out = np.zeros(1, np.float32)
    own = "struct vector_float3 { float x; }; float simd(float x) { return x; }"
    launch(f"{own} kernel void k(device float* o) {{ vector_float3 v = {{3}}; o[0] = simd(v.x); }}", out, threads=1)
    assert out[0] == 3


@pytest.mark.feature("not yet", "quaternions (<simd/quaternion.h>)")
def test_quaternions_are_refused() -> None:
    with pytest.raises(metalcore.errors.UnsupportedFeature, match=r"<simd/quaternion\.h>"):
        metalcore.Library(f"{HEADER}#include <simd/quaternion.h>\n")
