"""MultiheadAttention against torch's: fuzzed arguments, state both ways, gradients."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import metalcore  # noqa: E402
import metalcore.nn as mnn  # noqa: E402
from metalcore.errors import ArgumentError  # noqa: E402

nn = torch.nn
CASES = 40


def _fuzzed(seed: int) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
    """Arguments of the constructor, query, key and value, and the other arguments of forward."""
    pick = random.Random(seed)
    torch.manual_seed(seed)
    heads, head_dim = pick.choice([1, 2, 3, 4]), pick.choice([1, 4, 8, 20])
    width = heads * head_dim
    made: dict[str, Any] = {"embed_dim": width, "num_heads": heads, "batch_first": pick.random() < 0.5}
    made.update({name: pick.random() < 0.3 for name in ("add_bias_kv", "add_zero_attn")}, bias=pick.random() < 0.8)
    if pick.random() < 0.4:
        made.update(kdim=pick.choice([5, width]), vdim=pick.choice([7, width]))
    batch, tokens, keys = pick.choice([0, 1, 3]), pick.choice([1, 4, 9]), pick.choice([1, 4, 9])
    kind = "self" if not {"kdim", "vdim"} & set(made) and pick.random() < 0.4 else "cross"
    keys = tokens if kind == "self" else keys

    def draw(length: int, size: int) -> Any:
        shape = (
            (length, size) if batch == 0 else (batch, length, size) if made["batch_first"] else (length, batch, size)
        )
        return torch.randn(shape, requires_grad=True)

    query = draw(tokens, width)
    inputs = [query] * 3
    if kind == "cross":
        inputs = [query, draw(keys, made.get("kdim", width)), draw(keys, made.get("vdim", width))]
    given: dict[str, Any] = {}
    rows = max(batch, 1)
    if pick.random() < 0.6:
        shape = pick.choice([(tokens, keys), (rows * heads, tokens, keys)])
        mask = torch.rand(shape) < 0.4
        mask[..., 0] = False  # a row that sees nothing is a case of its own
        given["attn_mask"] = mask if pick.random() < 0.5 else torch.randn(shape).masked_fill(mask, -torch.inf)
    elif tokens == keys and pick.random() < 0.5:
        mask = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        # With extra keys torch's hint hides them from the first queries; its mask, and ours, does not.
        given.update(attn_mask=mask, is_causal=not (made["add_bias_kv"] or made["add_zero_attn"]))
    if pick.random() < 0.5:
        padding = torch.rand((batch, keys) if batch else (keys,)) < 0.4
        padding[..., 0] = False
        like = given.get("attn_mask")
        as_float = like.is_floating_point() if like is not None else pick.random() < 0.3
        given["key_padding_mask"] = torch.zeros(padding.shape).masked_fill(padding, -torch.inf) if as_float else padding
    return made, inputs, given


def _pair(made: dict[str, Any]) -> tuple[Any, Any]:
    theirs, ours = nn.MultiheadAttention(**made), mnn.MultiheadAttention(**made)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return theirs, ours


def test_fuzzed_arguments() -> None:
    """Results and gradients of every input and parameter, with and without the weights."""
    for seed in range(CASES):
        made, inputs, given = _fuzzed(seed)
        theirs, ours = _pair(made)
        expected, _ = theirs(*inputs, need_weights=False, **given)
        found, none = ours(*inputs, need_weights=False, **given)
        assert none is None, seed
        message = f"seed {seed}: {made}, {list(given)}"
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, msg=lambda m, s=message: f"{s}\n{m}")
        grad = torch.randn_like(expected)
        leaves = [t for t in {id(t): t for t in inputs}.values()]
        a = torch.autograd.grad(expected, [*leaves, *theirs.parameters()], grad, allow_unused=True)
        b = torch.autograd.grad(found, [*leaves, *ours.parameters()], grad, allow_unused=True)
        for x, y in zip(a, b, strict=True):
            torch.testing.assert_close(y, x, rtol=1e-3, atol=1e-4, msg=lambda m, s=message: f"{s}\n{m}")
        for average in (True, False):
            one, two = (m(*inputs, average_attn_weights=average, **given) for m in (theirs, ours))
            assert torch.equal(one[0], two[0]) and torch.equal(one[1], two[1]), message
        theirs.load_state_dict(ours.state_dict(), strict=True)


def test_the_kernel_runs_where_no_weights_are_needed() -> None:
    x = torch.randn(2, 5, 8)
    module = mnn.MultiheadAttention(8, 2, batch_first=True)
    with metalcore.explain() as log:
        module(x, x, x)
        assert len(log) == 0
        module(x, x, x, need_weights=False)
    assert [row.op for row in log] == ["scaled_dot_product_attention"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_dtypes(dtype: Any) -> None:
    theirs, ours = _pair({"embed_dim": 32, "num_heads": 4, "batch_first": True})
    x = torch.randn(2, 7, 32, dtype=dtype)
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 4:] = True
    limit = 1e-12 if dtype == torch.float64 else 3e-2
    expected = theirs.to(dtype)(x, x, x, key_padding_mask=padding, need_weights=False)[0]
    found = ours.to(dtype)(x, x, x, key_padding_mask=padding, need_weights=False)[0]
    torch.testing.assert_close(found, expected, rtol=limit, atol=limit)


def test_a_row_that_sees_nothing_is_the_bias_of_the_output() -> None:
    _, ours = _pair({"embed_dim": 8, "num_heads": 2, "batch_first": True})
    x = torch.randn(2, 3, 8, requires_grad=True)
    mask = torch.zeros(3, 3, dtype=torch.bool)
    mask[1] = True
    found, _ = ours(x, x, x, attn_mask=mask, need_weights=False)
    torch.testing.assert_close(found[:, 1], ours.out_proj.bias.expand(2, 8))
    found.sum().backward()
    assert x.grad.isfinite().all()


def test_a_float_mask_gets_its_gradient() -> None:
    theirs, ours = _pair({"embed_dim": 8, "num_heads": 2})
    x = torch.randn(5, 2, 8)
    grads = []
    for module in (theirs, ours):
        mask = torch.zeros(5, 5, requires_grad=True)
        module(x, x, x, attn_mask=mask, need_weights=False)[0].square().sum().backward()
        grads.append(mask.grad)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)


def test_extra_keys_are_seen_by_every_query() -> None:
    """The hint of causality does not hide what add_bias_kv and add_zero_attn put behind the keys."""
    _, ours = _pair({"embed_dim": 8, "num_heads": 2, "add_bias_kv": True, "add_zero_attn": True})
    x, mask = torch.randn(5, 2, 8), torch.ones(5, 5, dtype=torch.bool).triu(1)
    hinted, _ = ours(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)
    expected, weights = ours(x, x, x, attn_mask=mask)
    torch.testing.assert_close(hinted, expected, rtol=1e-4, atol=1e-5)
    assert weights.shape == (2, 5, 7) and (weights[..., 5:] > 0).all()


def test_copies_and_compilation() -> None:
    theirs, ours = _pair({"embed_dim": 16, "num_heads": 4, "batch_first": True})
    x, mask = torch.randn(2, 6, 16), torch.ones(6, 6, dtype=torch.bool).triu(1)
    expected = theirs(x, x, x, attn_mask=mask, need_weights=False)[0]
    for module in (ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        found = module(x, x, x, attn_mask=mask, need_weights=False)[0]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.compiler.reset()
    compiled = torch.compile(ours, fullgraph=True, backend="eager")
    found = compiled(x, x, x, attn_mask=mask, need_weights=False, is_causal=True)[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_dropout_in_training_alone() -> None:
    ours = mnn.MultiheadAttention(16, 4, dropout=0.5, batch_first=True)
    x = torch.randn(2, 6, 16)
    a, b = (ours(x, x, x, need_weights=False)[0] for _ in range(2))
    assert not torch.equal(a, b)
    ours.eval()
    a, b = (ours(x, x, x, need_weights=False)[0] for _ in range(2))
    assert torch.equal(a, b)


X = torch.zeros(2, 5, 8)
BAD: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "dimensions": ((X[None], X, X), {}, r"query must be of 2 or 3 dimensions, not of shape \(1, 2, 5, 8\)"),
    "width": ((X, X[..., :7], X), {}, r"key must be of 3 dimensions, the last 8, not of shape \(2, 5, 7\)"),
    "value": ((X, X, X[:, :4]), {}, r"value must be of shape \(2, 5, 8\) as key, not of shape \(2, 4, 8\)"),
    "batch": ((X, X[:1], X[:1]), {}, "key must be of batch 2 as query"),
    "padding": ((X, X, X), {"key_padding_mask": X[:, :4, 0]}, r"key_padding_mask must be of shape \(2, 5\)"),
    "mask": ((X, X, X), {"attn_mask": X}, r"attn_mask must be of shape \(5, 5\) or \(4, 5, 5\), not of shape"),
    "dtype": ((X, X, X), {"attn_mask": torch.zeros(5, 5).int()}, "attn_mask must be bool or float, not of dtype int32"),
    "hint": ((X, X, X), {"is_causal": True}, "attn_mask must be given with is_causal"),
}


def test_bad_arguments_are_named() -> None:
    ours = mnn.MultiheadAttention(8, 2, batch_first=True)
    for inputs, given, message in BAD.values():
        with pytest.raises(ArgumentError, match=f"MultiheadAttention: {message}"):
            ours(*inputs, need_weights=False, **given)
    nested = torch.nested.nested_tensor([X[0], X[0, :3]])
    for needed in (True, False):
        with pytest.raises(ArgumentError, match="query must be one block of memory, not a nested tensor"):
            ours(nested, nested, nested, need_weights=needed)
