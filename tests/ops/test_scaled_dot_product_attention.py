"""scaled_dot_product_attention beside the error rule: bad input, layouts, shapes that go together, torch's checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.ops.base.attention_arguments import Arguments
from tests.ops import contract
from tests.ops.attention_cases import assert_near, assert_same_bits, kernels, randn, results

attention = metalcore.scaled_dot_product_attention
theirs = torch.nn.functional.scaled_dot_product_attention
X = torch.zeros(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("arguments", "named", "words"),
    [
        ((X.int(), X, X), {}, "query must be float32, float16, bfloat16 or float64, not of dtype int32"),
        ((X, X.half(), X), {}, "key must be of the dtype of query, float32, not of dtype float16"),
        ((X, X, X.double()), {}, "value must be of the dtype of query, float32, not of dtype float64"),
        ((X, X[0], X), {}, r"key must be of as many dimensions as query, 4, not of shape \(2, 3, 4\)"),
        ((X, X, X.to("meta")), {}, "value must be on the device of query, cpu, not on meta"),
        ((X, X, X), {"sinks": torch.zeros(2, device="meta")}, "sinks must be on the device of query, cpu, not on meta"),
        ((X[0, 0, 0], X[0, 0, 0], X[0, 0, 0]), {}, r"query must be of shape \(..., rows, depth\), not of shape \(4,\)"),
        ((X, X[..., :3], X), {}, r"key must be of the depth of query, 4, not of shape \(1, 2, 3, 3\)"),
        ((X, X, X[:, :, :2]), {}, r"value must be of as many rows as key, 3, not of shape \(1, 2, 2, 4\)"),
        ((X, X, X[:, :1]), {}, r"value must be of as many heads as key, 2, not of shape \(1, 1, 3, 4\)"),
        (
            (torch.zeros(1, 4, 3, 4), X, X),
            {},
            "key must be of 4 heads, as query, or of a divisor of that with enable_gqa=True, not of 2",
        ),
        (
            (torch.zeros(1, 3, 3, 4), X, X),
            {"enable_gqa": True},
            "key must be of as many heads as divide those of query, 3, not of 2",
        ),
        ((X, X.expand(2, 2, 3, 4), X.expand(3, 2, 3, 4)), {}, "query and key and value must be of leading dimensions"),
        (
            (torch.zeros(1, 1, 3, 257),) * 3,
            {},
            r"query must be of a depth from 1 to 256, not of shape \(1, 1, 3, 257\)",
        ),
        ((X[..., :0], X[..., :0], X), {}, "query must be of a depth from 1 to 256"),
        ((X, X, torch.zeros(1, 2, 3, 300)), {}, "value must be of a depth from 1 to 256"),
        ((X, X, X, torch.zeros(2, 3)), {}, r"attn_mask must be of a shape .* to \(1, 2, 3, 3\), not of shape \(2, 3\)"),
        ((X, X, X, torch.zeros(1, 1, 1, 3, 3)), {}, "attn_mask must be of a shape that can be broadcast"),
        ((X, X, X, torch.zeros(3, 3).half()), {}, "attn_mask must be bool, or of the dtype of query, float32, not"),
        ((X, X, X, torch.zeros(3, 3).long()), {}, "attn_mask must be bool, or of the dtype of query, float32, not"),
        ((X, X, X, "causal"), {}, "attn_mask must be a torch tensor, a NumPy array or an mlx array, not of type str"),
        ((X, X, X, None, 1.0), {}, "dropout_p must be from 0 to below 1, not 1.0"),
        ((X, X, X, None, -0.1), {}, "dropout_p must be from 0 to below 1, not -0.1"),
        ((X, X, X, None, float("nan")), {}, "dropout_p must be from 0 to below 1, not nan"),
        ((X, X, X), {"scale": float("inf")}, "scale must be None or a finite number, not inf"),
        ((X, X, X), {"softcap": -1.0}, "softcap must be 0, which is off, or a number above it, not -1.0"),
        (
            (X, X, X),
            {"window_size": (-2, 0)},
            r"window_size must be two whole numbers from 0 on, or -1 .* not \(-2, 0\)",
        ),
        ((X, X, X), {"window_size": 3}, r"window_size must be a pair \(left, right\), not 3"),
        ((X, X, X), {"window_size": (1.5, 0)}, "window_size must be two whole numbers"),
        (
            (X, X, X),
            {"alibi_slopes": torch.zeros(3)},
            r"alibi_slopes must be of shape \(2,\) or \(1, 2\), not .* \(3,\)",
        ),
        ((X, X, X), {"alibi_slopes": torch.zeros(2).int()}, "alibi_slopes must be float32"),
        (
            (X, X, X),
            {"sinks": torch.zeros(3)},
            r"sinks must be of shape \(2,\), one for each head, not of shape \(3,\)",
        ),
        ((X, X.numpy(), X), {}, "arrays must be of one framework; query is a torch tensor, key is a NumPy array"),
        ((X, X, X, X.numpy()[0, 0, :, :3]), {}, "arrays must be of one framework; .* attn_mask is a NumPy array"),
        ((X.numpy(), X, X), {}, "arrays must be of one framework; query is a NumPy array, key is a torch tensor"),
        (([[1.0]], X, X), {}, "query must be a torch tensor, a NumPy array or an mlx array, not of type list"),
    ],
)
def test_bad_arguments_are_named(arguments: Any, named: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=f"scaled_dot_product_attention: {words}"):
        attention(*arguments, **named)


def test_all_bad_arguments_are_tried() -> None:
    """The usual run takes two cases of a long list; this one takes them all at once."""
    (marked,) = [m for m in test_bad_arguments_are_named.pytestmark if m.name == "parametrize"]  # type: ignore[attr-defined]
    for arguments, named, words in marked.args[1]:
        with pytest.raises(ArgumentError, match=f"scaled_dot_product_attention: {words}"):
            attention(*arguments, **named)


def test_alibi_has_no_gradient() -> None:
    slopes = torch.ones(2, requires_grad=True)
    with pytest.raises(ArgumentError, match="alibi_slopes must be without requires_grad"):
        attention(X.clone().requires_grad_(), X, X, alibi_slopes=slopes)


def turned(array: Any) -> Any:
    """The same array, in memory as (batch, rows, heads, depth)."""
    return array.transpose(1, 2).contiguous().transpose(1, 2)


def given(q: Any, k: Any, v: Any) -> Arguments:
    return Arguments.of("test", q, k, v, None, None, None, True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_before_heads_are_taken_as_they_lie(dtype: torch.dtype) -> None:
    q, k, v = (randn(2, h, n, 33, seed=n, dtype=dtype) for h, n in ((4, 40), (2, 41), (2, 41)))
    run = lambda *x: attention(*x, is_causal=True, enable_gqa=True)  # noqa: E731
    expected = results(run, q, k, v)
    for layouts in ((turned, turned, turned), (turned, lambda x: x, lambda x: x)):
        found = [layout(x) for layout, x in zip(layouts, (q, k, v), strict=True)]
        taken = given(*found)
        assert taken.query_rows_first and taken.key_rows_first == (layouts[1] is turned)
        for x, y in zip(found, (taken.query, taken.key, taken.value), strict=True):
            assert x.data_ptr() == y.data_ptr() and y.is_contiguous()
        fresh = [x.detach().requires_grad_() for x in found]
        out = run(*fresh)
        assert out.stride() == turned(out.detach()).stride()  # as torch's: heads join the depth without a copy
        gradients = torch.autograd.grad(out, fresh, randn(*out.shape, seed=9, dtype=dtype))
        assert_same_bits([out.detach(), *gradients], expected)


def test_keys_and_values_of_two_layouts() -> None:
    q, k = randn(2, 2, 40, 33), randn(2, 2, 41, 33, seed=1)
    expected = attention(q, k, k[..., :9])
    assert torch.equal(attention(q, turned(k), k[..., :9]), expected)
    assert torch.equal(attention(q, k, turned(k[..., :9])), expected)
    assert not given(q, turned(k), k).key_rows_first


def test_views_that_are_not_contiguous() -> None:
    q, k, v = (randn(2, 2, n, 16, seed=n) for n in (33, 40, 41))
    v = v[:, :, :40]
    expected = attention(q, k, v)
    whole = torch.zeros(2, 2, 40, 32)
    whole[..., ::2] = k
    assert torch.equal(attention(q, whole[..., ::2], v), expected)
    assert torch.equal(attention(q.transpose(0, 3).contiguous().transpose(0, 3), k, v), expected)
    packed = torch.cat([k, v], -1)
    assert torch.equal(attention(q, packed[..., :16], packed[..., 16:]), expected)
    numpy = metalcore.scaled_dot_product_attention(*(turned(x).numpy() for x in (q, k, v)))
    assert np.array_equal(numpy, expected.numpy())


def test_shapes_from_two_dimensions_to_five() -> None:
    q, k = randn(2, 3, 2, 9, 8), randn(2, 3, 2, 11, 8, seed=1)
    mask = randn(9, 11, seed=2) > 0
    whole, lse = attention(q, k, k, mask, return_lse=True)
    assert whole.shape == (2, 3, 2, 9, 8) and lse.shape == (2, 3, 2, 9)
    for at in ((0,), (1, 2), (1, 2, 0)):
        out, part = attention(q[at], k[at], k[at], mask, return_lse=True)
        assert torch.equal(out, whole[at]) and torch.equal(part, lse[at])
    assert_near([whole], [theirs(q.double(), k.double(), k.double(), mask)], 1e-6)


def test_masks_of_all_shapes_that_go_together() -> None:
    q, k = randn(2, 3, 2, 9, 8), randn(2, 3, 2, 11, 8, seed=1)
    for shape in ((11,), (9, 1), (2, 1, 11), (3, 1, 9, 11), (2, 1, 1, 9, 11), (2, 3, 2, 1, 1), (1, 3, 1, 9, 1), ()):
        bias = randn(*shape, seed=3)
        wide = bias.double().expand(2, 3, 2, 9, 11)
        assert_near([attention(q, k, k, bias)], [theirs(q.double(), k.double(), k.double(), wide)], 1e-6)
        seen = bias > -1
        assert_near([attention(q, k, k, seen)], [theirs(q.double(), k.double(), k.double(), wide > -1)], 1e-6)


def test_batches_of_one_are_repeated() -> None:
    q, k, v = randn(3, 2, 9, 8), randn(1, 2, 11, 8, seed=1), randn(3, 2, 11, 8, seed=2)
    expected = results(attention, q, k.expand(3, 2, 11, 8), v)
    found = results(attention, q, k, v)
    assert_same_bits([found[0], found[1], found[3]], [expected[0], expected[1], expected[3]])
    assert_near([found[2]], [expected[2].sum(0, keepdim=True)], 1e-6)
    assert attention(q[:1], k, v).shape == (3, 2, 9, 8)


def test_one_key_head_needs_no_flag() -> None:
    q, k = randn(2, 4, 9, 8), randn(2, 1, 11, 8, seed=1)
    assert_near([attention(q, k, k)], [theirs(q.double(), k.double(), k.double())], 1e-6)


def test_values_of_a_depth_of_their_own() -> None:
    q, v = randn(1, 2, 40, 256), randn(1, 2, 40, 5, seed=1)
    assert_near([attention(q, q, v)], [theirs(q.double(), q.double(), v.double())], 1e-6)
    assert_near([attention(v, v, q)], [theirs(v.double(), v.double(), q.double())], 1e-6)


def test_opcheck() -> None:
    q, k = randn(1, 2, 5, 8, grad=True), randn(1, 1, 6, 8, seed=1, grad=True)
    bias, sinks = randn(5, 6, grad=True), randn(2, grad=True)
    numbers = (None, 0.0, True, 0.3, 5.0, -1, -1, False, False, -1, True)
    assert contract.opcheck("scaled_dot_product_attention", q, k, k, bias, None, sinks, *numbers)


def test_compiles_to_one_graph() -> None:
    run = lambda q, k, b: attention(q, k, k, b, is_causal=True, enable_gqa=True, softcap=3.0)  # noqa: E731
    assert contract.compiled_agrees(run, randn(2, 4, 33, 8), randn(2, 2, 33, 8, seed=1), randn(33, 33))


def test_dropout_in_a_compiled_graph() -> None:
    q = randn(1, 1, 33, 33)
    graph = torch.compile(lambda x: attention(x, x, x, dropout_p=0.5), fullgraph=True, backend="aot_eager")
    torch.manual_seed(2)
    expected = attention(q, q, q, dropout_p=0.5)
    torch.manual_seed(2)
    assert torch.equal(graph(q), expected)
    assert not torch.equal(graph(q), expected)


@pytest.mark.sweep
def test_launches_of_a_gpu() -> None:
    assert contract.gpu_launches_agree("scaled_dot_product_attention", *contract.floats(*[(1, 2, 150, 80)] * 3))


def test_autocast_takes_dtypes_together_as_torch_does() -> None:
    q, k, v = randn(1, 2, 33, 16), randn(1, 2, 33, 16, seed=1, dtype=torch.bfloat16), randn(1, 2, 33, 16, seed=2)
    sinks, bias = randn(2, seed=4), randn(33, 33, seed=5)
    with torch.autocast("cpu", torch.bfloat16):
        found = attention(q, k, v, bias, sinks=sinks)
    low = [x.bfloat16() for x in (q, k, v, bias)]
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, attention(*low, sinks=sinks))


def test_short_queries_share_a_pass_over_the_keys() -> None:
    """Of few queries the query heads of a key head are rows of one simdgroup."""
    q, k = randn(1, 8, 3, 64, dtype=torch.bfloat16), randn(1, 2, 50, 64, seed=1, dtype=torch.bfloat16)
    found, launched = kernels(lambda: attention(q, k, k, enable_gqa=True))
    wide = theirs(q.double(), k.double(), k.double(), enable_gqa=True)
    assert len(launched) == 1
    assert_near([found], [wide], 2**-8)
