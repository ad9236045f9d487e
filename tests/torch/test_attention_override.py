"""The override of torch.nn.functional.scaled_dot_product_attention: what the op takes, and what is left to torch."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import metalcore  # noqa: E402
from tests.ops.attention_cases import assert_near, kernels, randn  # noqa: E402

F = torch.nn.functional
NOUN = "scaled_dot_product_attention"
X = torch.zeros(1, 2, 3, 4)


def ran(*arguments: Any, **named: Any) -> tuple[Any, str]:
    """The result of torch's function under the override, and what computed it: our kernels or torch, with its why."""
    with metalcore.overrides(NOUN), metalcore.explain() as log:
        found = F.scaled_dot_product_attention(*arguments, **named)
    (row,) = log
    return found, f"torch: {row.reason}" if row.by_torch else row.kernels[0]


def test_the_op_takes_torchs_arguments() -> None:
    original = F.scaled_dot_product_attention
    q, k, v = (randn(2, h, n, 33, seed=n) for h, n in ((4, 40), (2, 41), (2, 41)))
    k, v = k.requires_grad_(), v.requires_grad_()
    mask = randn(40, 41, seed=3)
    wide = (q.double(), k.double(), v.double())
    for arguments, named in (
        ((mask,), {"enable_gqa": True}),
        ((mask > 0, 0.0, False), {"enable_gqa": True, "scale": 0.3}),
        ((None, 0.0, True), {"enable_gqa": True}),
        ((), {"attn_mask": None, "dropout_p": 0.0, "is_causal": True, "enable_gqa": True}),
    ):
        found, kernel = ran(q, k, v, *arguments, **named)
        assert kernel.startswith("attention_forward")
        exact = [a.double() if a is mask else a for a in arguments]
        assert_near([found], [original(*wide, *exact, **named)], 1e-6)
        assert found.requires_grad
    found, kernel = ran(query=q, key=q, value=q)
    assert kernel.startswith("attention_forward")
    assert F.scaled_dot_product_attention is original


@pytest.mark.parametrize(
    ("arguments", "named", "why"),
    [
        ((torch.zeros(1, 1, 3, 300),) * 3, {}, "a depth above 256"),
        ((X, X, torch.zeros(1, 2, 3, 300)), {}, "a depth above 256"),
        ((X.double(),) * 3, {}, "query is float64"),
        ((X[0, 0],) * 3, {}, "2 dimensions"),
        ((X, X, X, None, 1.0), {}, "dropout_p must be from 0 to below 1"),
        ((X.bfloat16(), X.bfloat16(), X.bfloat16(), torch.zeros(3, 3)), {}, "the tensors have different dtypes"),
        ((torch.zeros(1, 1, 3, 4), X, X), {}, "must be of 1 heads"),
    ],
)
def test_what_is_left_to_torch(arguments: Any, named: dict[str, Any], why: str) -> None:
    found, by = ran(*arguments, **named)
    assert by.startswith("torch: ") and why in by
    expected = F.scaled_dot_product_attention(*arguments, **named)
    assert found.shape == expected.shape and torch.equal(found, expected)


def test_errors_are_torchs() -> None:
    for arguments in ((X, X[..., :3], X), (X, X.half(), X), (X, X, X, torch.zeros(2, 3))):
        with pytest.raises(Exception) as expected:
            F.scaled_dot_product_attention(*arguments)
        with metalcore.overrides(NOUN), pytest.raises(expected.type) as found:
            F.scaled_dot_product_attention(*arguments)
        assert str(found.value) == str(expected.value)


def test_modules_of_torch_run_the_op() -> None:
    module = torch.nn.MultiheadAttention(16, 2, batch_first=True)
    x = randn(2, 9, 16)
    expected, _ = module(x, x, x, need_weights=False)
    with metalcore.overrides(NOUN):
        (found, _), launched = kernels(lambda: module(x, x, x, need_weights=False))
    assert launched[0].startswith("attention_forward")
    assert_near([found], [expected], 1e-6)


def test_on_by_default_only_where_it_is_faster() -> None:
    """Without a name the override runs where benchmarks/attention.py saw it win; by name it runs everywhere."""
    q = randn(1, 8, 512, 64)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (q, {"is_causal": True}, ""),
        (q.half(), {"is_causal": True}, ""),
        (q, {}, "only causal attention"),
        (q, {"attn_mask": torch.ones(512, 512, dtype=torch.bool)}, "only causal attention"),
        (q.bfloat16(), {"is_causal": True}, "torch multiplies bfloat16"),
        (q[:, :, :64], {"is_causal": True}, "fewer than"),
        (randn(1, 64, 64, 128), {"is_causal": True}, "fewer than 256 queries or keys"),
        (randn(1, 8, 512, 128), {"is_causal": True}, "float32 of a depth above 96"),
        (randn(1, 8, 512, 128).half(), {"is_causal": True}, ""),
    ]
    for x, named, why in cases:
        for by_default in (True, False):
            block = metalcore.overrides() if by_default else metalcore.overrides(NOUN)
            with block, metalcore.explain() as log:
                found = F.scaled_dot_product_attention(x, x, x, **named)
            (row,) = log
            assert row.by_torch is (by_default and why != ""), (named, row.reason)
            assert why in row.reason or not by_default
            assert_near([found], [F.scaled_dot_product_attention(x, x, x, **named)], 0.02)
