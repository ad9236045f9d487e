"""as_type: the same bits as another type."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.include.probe import compiles, parts, row


@pytest.mark.feature("types", "as_type")
def test_scalars() -> None:
    assert row(
        ["as_type<uint>(1.0f)", "as_type<int>(-0.0f)", "as_type<ushort>(1.0h)", "as_type<ushort>(bfloat(1.0f))"], "long"
    ) == [
        *(0x3F800000, -(1 << 31), 0x3C00, 0x3F80),
    ]
    assert row(["as_type<float>(0x40490fdbu)", "as_type<half>(ushort(0x3555))", "as_type<bfloat>(ushort(0xc000))"]) == [
        *(np.float32(np.pi), np.float16(1 / 3), -2.0),
    ]


def test_vectors_and_their_parts() -> None:
    assert row(parts("as_type<uint2>(0x0123456789abcdeful)", 2), "uint") == [0x89ABCDEF, 0x01234567]
    assert row(
        ["as_type<ulong>(uint2(1, 2))", "as_type<uint>(uchar4(1, 2, 3, 4))", "as_type<uint>(half2(1, 2))"], "ulong"
    ) == [
        *((2 << 32) + 1, 0x04030201, 0x40003C00),
    ]
    assert row(parts("as_type<uchar4>(0x01020304u)", 4), "uchar") == [4, 3, 2, 1]
    assert row(parts("as_type<float4>(uint4(0x3f800000, 0x40000000, 0, 0x80000000))", 4)) == [1, 2, 0, 0]
    assert row(parts("as_type<half4>(float2(as_type<float>(0x40003c00u), 0))", 4), "half") == [1, 2, 0, 0]


def test_sizes_must_agree() -> None:
    with pytest.raises(SyntaxError):
        compiles("kernel void k(device float* d [[buffer(0)]]) { d[0] = as_type<ushort>(d[0]); }")
