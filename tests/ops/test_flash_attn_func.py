"""flash_attn_func: FlashAttention's layout, alignment and arguments, on the kernels of scaled_dot_product_attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from tests.ops import contract
from tests.ops.attention_cases import assert_near, assert_same_bits, randn, results

flash = metalcore.flash_attn_func
X = torch.zeros(1, 3, 2, 4)


def arrays(queries: int, keys: int, dtype: torch.dtype = torch.float32) -> list[Any]:
    shapes = ((2, queries, 4, 33), (2, keys, 2, 33), (2, keys, 2, 33))
    return [randn(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes)]


def truth(q: Any, k: Any, v: Any, seen: Any = None, **named: Any) -> Any:
    wide = (x.transpose(1, 2) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(*wide, seen, enable_gqa=True, **named).transpose(1, 2)


@pytest.mark.parametrize("queries, keys", [(40, 70), (70, 40), (1, 70)])
def test_causal_and_window_are_aligned_at_the_last_key(queries: int, keys: int) -> None:
    q, k, v = arrays(queries, keys)
    place = torch.arange(queries)[:, None] + keys - queries
    at = torch.arange(keys)
    for named, seen in (
        ({"causal": True}, at <= place),
        ({"window_size": (9, 2)}, (at >= place - 9) & (at <= place + 2)),
        ({"window_size": (9, 2), "causal": True}, (at >= place - 9) & (at <= place)),
    ):
        expected = results(lambda *x, seen=seen: truth(*x, seen), *(x.double() for x in (q, k, v)))
        assert_near(results(lambda *x, named=named: flash(*x, **named), q, k, v), expected, 1e-6)
        assert not flash(q, k, v, **named)[:, ~seen.any(-1)].any()


def test_arguments_by_position() -> None:
    """dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs."""
    q, k, v = arrays(40, 70)
    slopes = randn(4, seed=4).abs()
    out, lse, probs = flash(q, k, v, 0.0, 0.2, True, (9, -1), 5.0, slopes, True, True)
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    same, sums = metalcore.scaled_dot_product_attention(
        *turned, scale=0.2, window_size=(9, 0), softcap=5.0, alibi_slopes=slopes, enable_gqa=True, return_lse=True
    )
    assert_same_bits([out, lse], [same.transpose(1, 2), sums])
    assert probs is None and lse.shape == (2, 4, 40) and out.is_contiguous()
    assert torch.equal(flash(q, k, v, 0.0, 0.2, True, (9, -1), 5.0, slopes), out)


def test_arrays_are_taken_as_they_lie() -> None:
    """No copy of q, k or v: the peak of a call is its result and the logarithms."""
    q, k, v = arrays(40, 70)
    seen: list[Any] = []
    with metalcore.explain() as log:
        seen.append(flash(q, k, v))
    (row,) = log
    assert row.shapes.startswith("2x40x4x33 2x70x2x33 2x70x2x33")
    assert_near(seen, [truth(q.double(), k.double(), v.double())], 1e-6)


def test_opcheck_and_one_graph() -> None:
    q, k = randn(1, 5, 2, 8, grad=True), randn(1, 6, 1, 8, seed=1, grad=True)
    numbers = (None, 0.0, False, 0.3, 0.0, -1, 0, True, True, -1, True)
    assert contract.opcheck("flash_attn_func", q, k, k, None, None, None, *numbers)
    assert contract.compiled_agrees(lambda q, k: flash(q, k, k, causal=True), q, k)


@pytest.mark.parametrize(
    ("arguments", "named", "words"),
    [
        ((X[0], X, X), {}, r"q must be of shape \(batch, rows, heads, depth\), not of shape \(3, 2, 4\)"),
        ((X, X[0], X), {}, r"k must be of shape \(batch, rows, heads, depth\), not of shape \(3, 2, 4\)"),
        ((X, X, 3), {}, r"v must be of shape \(batch, rows, heads, depth\), not int"),
        ((X, X.half(), X), {}, "k must be of the dtype of q, float32, not of dtype float16"),
        (
            (X, torch.zeros(1, 3, 3, 4), torch.zeros(1, 3, 3, 4)),
            {},
            "k must be of as many heads as divide those of q, 2",
        ),
        ((torch.zeros(1, 1, 1, 300),) * 3, {}, "q must be of a depth from 1 to 256"),
        ((X, X, X, 1.0), {}, "dropout_p must be from 0 to below 1, not 1.0"),
        ((X, X, X), {"window_size": (-3, 0)}, "window_size must be two whole numbers"),
        ((X, X, X), {"softmax_scale": "a"}, "softmax_scale must be None or a finite number, not 'a'"),
        ((X, X, X), {"softcap": -1.0}, "softcap must be 0, which is off"),
        ((X, X, X), {"alibi_slopes": torch.zeros(3)}, r"alibi_slopes must be of shape \(2,\) or \(1, 2\)"),
    ],
)
def test_bad_arguments_are_named(arguments: Any, named: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=f"flash_attn_func: {words}"):
        flash(*arguments, **named)
