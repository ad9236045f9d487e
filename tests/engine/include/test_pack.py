"""Normalised integers: pack and unpack."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.include.probe import parts, probe, row


@pytest.mark.feature("types", "unpack functions")
def test_unpack() -> None:
    v = np.array([0x80FF007F, 0x7F8100FF, 0, 0xFFFFFFFF], np.uint32)
    lanes = (v[:, None] >> np.array([0, 8, 16, 24], np.uint32)) & 255
    got = probe(parts("unpack_unorm4x8_to_float(v)", 4), v=v)
    np.testing.assert_array_equal(got, lanes.astype(np.float32) / np.float32(255))
    got = probe(parts("unpack_snorm4x8_to_float(v)", 4), v=v)
    signed = lanes.astype(np.uint8).astype(np.int8)
    np.testing.assert_array_equal(got, np.maximum(signed.astype(np.float32) / np.float32(127), -1))
    got = probe(parts("unpack_unorm2x16_to_float(v)", 2) + parts("unpack_snorm2x16_to_float(v)", 2), v=v)
    words = ((v[:, None] >> np.array([0, 16], np.uint32)) & 65535).astype(np.uint16)
    np.testing.assert_array_equal(got[:, :2], words.astype(np.float32) / np.float32(65535))
    np.testing.assert_array_equal(
        got[:, 2:], np.maximum(words.astype(np.int16).astype(np.float32) / np.float32(32767), -1)
    )


def test_unpack_of_odd_widths() -> None:
    v = np.array([(3 << 30) | (1023 << 20) | (512 << 10) | 1], np.uint32)
    assert probe(parts("unpack_unorm10a2_to_float(v)", 4), v=v)[0].tolist() == [
        np.float32(1) / np.float32(1023),
        np.float32(512) / np.float32(1023),
        1.0,
        1.0,
    ]
    w = np.array([(31 << 11) | (32 << 5) | 1], np.uint16)
    assert probe(parts("unpack_unorm565_to_float(w)", 3), w=w)[0].tolist() == [
        1.0,
        np.float32(32) / np.float32(63),
        np.float32(1) / np.float32(31),
    ]


@pytest.mark.feature("types", "pack functions")
def test_pack_clamps_and_rounds_to_even() -> None:
    c = np.array([[0, 1, 0.5, 2], [-1, 0.25, 1 / 255, np.nan]], np.float32)
    got = probe(["pack_float_to_unorm4x8(c)", "pack_float_to_snorm4x8(c)"], "uint", c=c)
    assert got.tolist() == [[0xFF80FF00, 0x7F407F00], [0x00014000, 0x00002081]]
    got = probe(
        ["pack_float_to_unorm2x16(c.xy)", "pack_float_to_snorm2x16(c.xy)", "pack_float_to_unorm10a2(c)"], "uint", c=c
    )
    assert got.tolist() == [
        [0xFFFF0000, 0x7FFF0000, (3 << 30) | (512 << 20) | (1023 << 10)],
        [0x40000000, 0x20008001, (4 << 20) | (256 << 10)],
    ]
    assert row(["pack_float_to_unorm565(float3(1, 0.5f, 0))", "pack_half_to_unorm4x8(half4(1, 0, 1, 0))"], "uint") == [
        (31 << 11) | (32 << 5),
        0x00FF00FF,
    ]


def test_every_byte_survives_a_round_trip() -> None:
    v = (np.arange(256, dtype=np.uint32) * np.uint32(0x01010101)).astype(np.uint32)
    got = probe(
        [
            "pack_float_to_unorm4x8(unpack_unorm4x8_to_float(v))",
            "pack_half_to_unorm4x8(unpack_unorm4x8_to_half(v))",
            "pack_float_to_srgb_unorm4x8(unpack_unorm4x8_srgb_to_float(v))",
        ],
        "uint",
        v=v,
    )
    assert np.array_equal(got, np.stack([v, v, v], axis=1))


def test_srgb_curve() -> None:
    v = np.array([0x000080FF], np.uint32)
    assert probe(parts("unpack_unorm4x8_srgb_to_float(v)", 3), v=v)[0].tolist() == pytest.approx(
        [1, 0.2158605, 0], rel=1e-5
    )
