"""kernels/fp8.h: every code of e4m3, and every half and bfloat16, against torch."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import metalcore  # noqa: E402
from metalcore.runtimes.text import include_dirs  # noqa: E402

DECODE = """
#include "fp8.h"
[[kernel]] void decode(
    device const uchar* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  y[i] = e4m3(x[i]);
}
"""
ENCODE = """
template <typename T>
[[kernel]] void encode(
    device const T* x [[buffer(0)]], device uchar* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  y[i] = to_e4m3(float(x[i]));
}
template [[host_name("half")]] [[kernel]] decltype(encode<half>) encode<half>;
template [[host_name("bfloat")]] [[kernel]] decltype(encode<bfloat>) encode<bfloat>;
template [[host_name("float")]] [[kernel]] decltype(encode<float>) encode<float>;
"""
CODES = torch.arange(256, dtype=torch.int32).to(torch.uint8)


@cache
def library(float_type: str = "float") -> Any:
    text = DECODE if float_type == "double" else DECODE + ENCODE
    return metalcore.Library(text, include_dirs=include_dirs(), float_type=float_type)


def decoded(kind: Any, float_type: str = "float") -> Any:
    y = torch.empty(256, dtype=kind)
    library(float_type).function("decode")(CODES, y, threads=256, group_size=32)
    return y


def encoded(name: str, x: Any) -> Any:
    y = torch.empty(x.shape, dtype=torch.uint8)
    library().function(name)(x, y, threads=x.numel(), group_size=32)
    return y


def expected(x: Any) -> Any:
    """Saturated, as caches are; a NaN stays one."""
    return x.float().clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)


def test_all_codes() -> None:
    truth = CODES.view(torch.float8_e4m3fn).float()
    found = decoded(torch.float32)
    assert torch.equal(found.isnan(), truth.isnan())
    assert found.isnan().sum() == 2
    number = ~truth.isnan()
    assert torch.equal(found[number].view(torch.int32), truth[number].view(torch.int32))  # -0 too
    assert found[number].abs().max() == 448
    assert torch.equal(encoded("float", found), CODES)


def test_a_file_that_decodes_compiles_with_double() -> None:
    truth = CODES.view(torch.float8_e4m3fn).double()
    assert torch.equal(decoded(torch.float64, "double").nan_to_num(1e9), truth.nan_to_num(1e9))


@pytest.mark.parametrize("name, dtype", [("half", torch.float16), ("bfloat", torch.bfloat16)])
def test_every_number_of_16_bits(name: str, dtype: Any) -> None:
    x = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)
    assert torch.equal(encoded(name, x), expected(x))


def test_floats_between() -> None:
    """Halves between neighbours, what lies next to them, and random numbers of every size."""
    values = CODES[:127].view(torch.float8_e4m3fn).double()
    ties = ((values[1:] + values[:-1]) / 2).float()
    up, down = torch.tensor(torch.inf), torch.tensor(-torch.inf)
    random = torch.Generator().manual_seed(20261116)
    drawn = torch.randn(100000, generator=random) * torch.exp2(torch.randint(-16, 12, (100000,), generator=random))
    edges = torch.tensor([447.0, 448.0, 449.0, 464.0, 465.0, 1e30, torch.inf, torch.nan, 1e-45, 2**-10, 2**-6])
    x = torch.cat([ties, torch.nextafter(ties, up), torch.nextafter(ties, down), drawn, edges])
    x = torch.cat([x, -x])
    assert torch.equal(encoded("float", x), expected(x))
