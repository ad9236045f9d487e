"""Products with matrices of small integers: few and many rows, dtypes of scales, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError


def parts(outs: int = 5, width: int = 8, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    random = torch.Generator().manual_seed(0)
    packed = torch.randint(0, 256, (outs, width // 2), dtype=torch.uint8, generator=random)
    scales, zeros = torch.rand(2, outs, -(-width // 4), generator=random).to(dtype)
    return {"packed": packed, "scales": scales, "zeros": zeros, "group_size": 4}


@pytest.mark.parametrize("rows", [1, 3, 5, 100])
def test_rows_do_not_depend_on_each_other(rows: int) -> None:
    x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(1))
    weight = metalcore.dequantize_int4(**parts())
    assert torch.allclose(metalcore.matmul_int4(x, **parts()), x @ weight.T, rtol=1e-5, atol=1e-5)


def test_codes_that_begin_at_any_byte() -> None:
    """Many rows read four codes at a time."""
    x, given = torch.randn(33, 8), parts()
    room = torch.empty(given["packed"].numel() + 1, dtype=torch.uint8)
    shifted = room[1:].view_as(given["packed"]).copy_(given["packed"])
    assert shifted.data_ptr() % 4 == 1
    assert torch.equal(metalcore.matmul_int4(x, **{**given, "packed": shifted}), metalcore.matmul_int4(x, **given))


def test_scales_of_another_dtype_than_x() -> None:
    x, given = torch.randn(3, 8).to(torch.bfloat16), parts()
    expected = x.double() @ metalcore.dequantize_int4(**given).double().T
    found = metalcore.matmul_int4(x, **given)
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found.double(), expected, rtol=1e-2, atol=1e-2)


def test_nan_and_infinity_reach_their_own_row_alone() -> None:
    x = torch.ones(6, 8)
    x[1, 2], x[4, 3] = float("nan"), float("inf")
    given = parts()
    given["packed"] = torch.full_like(given["packed"], 0xFF)
    given["zeros"] = torch.zeros_like(given["zeros"])
    for rows in (x, x[1:5]):  # many, few
        found, expected = metalcore.matmul_int4(rows, **given), rows @ metalcore.dequantize_int4(**given).T
        assert expected.isnan().any() and expected.isinf().any()
        torch.testing.assert_close(found, expected, equal_nan=True)


BAD: list[tuple[str, dict[str, Any]]] = [
    ("x", {"x": torch.zeros(2, 7)}),
    ("x", {"x": torch.zeros(())}),
    ("x", {"x": torch.zeros(2, 8, dtype=torch.int64)}),
    ("packed", {"packed": torch.zeros(5, 4)}),
    ("scales", {"scales": torch.zeros(5, 3)}),
    ("scales", {"scales": torch.zeros(5, 2, requires_grad=True)}),
    ("zeros", {"zeros": torch.zeros(5)}),
    ("zeros", {"zeros": torch.zeros(5, 2, dtype=torch.float16)}),
    ("group_size", {"group_size": -4}),
]


@pytest.mark.parametrize(("argument", "given"), BAD)
def test_matmul_int4_refuses(argument: str, given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=f"matmul_int4: {argument} must be"):
        metalcore.matmul_int4(**{"x": torch.zeros(2, 8), **parts(), **given})


BAD_BYTES: list[tuple[str, dict[str, Any]]] = [
    ("x", {"x": torch.zeros(2, 7)}),
    ("weight_int8", {"weight_int8": torch.zeros(3, 6, dtype=torch.uint8)}),
    ("weight_int8", {"weight_int8": torch.zeros(6, dtype=torch.int8)}),
    ("scales", {"scales": torch.zeros(6)}),
    ("scales", {"scales": torch.zeros(3, 4)}),
    ("scales", {"scales": torch.zeros(3, dtype=torch.int32)}),
    ("scales", {"scales": torch.zeros(3, requires_grad=True)}),
]


@pytest.mark.parametrize(("argument", "given"), BAD_BYTES)
def test_matmul_int8_refuses(argument: str, given: dict[str, Any]) -> None:
    good = {"x": torch.zeros(2, 6), "weight_int8": torch.zeros(3, 6, dtype=torch.int8), "scales": torch.zeros(3)}
    with pytest.raises(ArgumentError, match=f"matmul_int8: {argument} must be"):
        metalcore.matmul_int8(**{**good, **given})
