"""metalcore.mlx.scaled_dot_product_attention against mx.fast's, and its gradient against that of the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metalcore.errors import ArgumentError

mx: Any = pytest.importorskip("mlx.core")
metal: Any = pytest.importorskip("metalcore.mlx")
SCALE = 33**-0.5


def normal(*shape: int, seed: int = 0, dtype: Any = None) -> Any:
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype or mx.float32)


def arrays(queries: int = 40, keys: int = 70, dtype: Any = None) -> list[Any]:
    heads = ((4, queries), (2, keys), (2, keys))
    return [normal(2, h, n, 33, seed=i, dtype=dtype) for i, (h, n) in enumerate(heads)]


def formula(q: Any, k: Any, v: Any, scale: float, mask: Any = None, sinks: Any = None) -> Any:
    """Unfused."""
    each = q.shape[1] // k.shape[1]
    k, v = mx.repeat(k, each, 1), mx.repeat(v, each, 1)
    scores = scale * (q @ k.swapaxes(-1, -2))
    if isinstance(mask, str):
        mask = mx.arange(k.shape[2]) <= mx.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    if mask is not None:
        scores = mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores + mask
    if sinks is not None:
        scores = mx.concatenate([scores, mx.broadcast_to(sinks[:, None, None], (*scores.shape[:3], 1))], -1)
    return mx.softmax(scores, -1, precise=True)[..., : k.shape[2]] @ v


def agree(found: Any, expected: Any, tolerance: float = 2e-5) -> None:
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(
        np.asarray(found.astype(mx.float32)), np.asarray(expected.astype(mx.float32)), rtol=tolerance, atol=tolerance
    )


MASKS: dict[str, Any] = {
    "none": None,
    "causal": "causal",
    "bool": normal(40, 70, seed=5) > -0.5,
    "bool of keys": (normal(70, seed=5) > -0.5)[None],
    "added": normal(4, 1, 70, seed=6),
    "added of a batch": normal(2, 1, 40, 70, seed=7),
}


def test_values() -> None:
    q, k, v = arrays()
    for mask in MASKS.values():
        found = metal.scaled_dot_product_attention(q, k, v, scale=SCALE, mask=mask)
        agree(found, mx.fast.scaled_dot_product_attention(q, k, v, scale=SCALE, mask=mask))
    sinks = normal(4, seed=8)
    found = metal.scaled_dot_product_attention(q, k, v, scale=SCALE, mask="causal", sinks=sinks)
    agree(found, mx.fast.scaled_dot_product_attention(q, k, v, scale=SCALE, mask="causal", sinks=sinks))


def test_causal_is_aligned_at_the_last_key() -> None:
    """As MLX's; torch's, and metalcore.scaled_dot_product_attention(is_causal=True), are aligned at the first."""
    q, k, v = arrays(3, 70)
    found = metal.scaled_dot_product_attention(q, k, v, scale=SCALE, mask="causal")
    agree(found, mx.fast.scaled_dot_product_attention(q, k, v, scale=SCALE, mask="causal"))
    whole = metal.scaled_dot_product_attention(q[:, :, 2:], k, v, scale=SCALE)
    agree(found[:, :, 2:], whole)


def test_half_precision_and_one_query() -> None:
    q, k, v = arrays(1, 300, mx.bfloat16)
    found = metal.scaled_dot_product_attention(q, k, v, scale=SCALE)
    agree(found, mx.fast.scaled_dot_product_attention(q, k, v, scale=SCALE), 0.02)


def test_dtypes_are_promoted_as_mlx_does() -> None:
    q, k, v = arrays()
    q, added = q.astype(mx.bfloat16), normal(40, 70, seed=9).astype(mx.bfloat16)
    found = metal.scaled_dot_product_attention(q, k, v, scale=SCALE, mask=added)
    agree(found, mx.fast.scaled_dot_product_attention(q, k, v, scale=SCALE, mask=added))


def test_gradients() -> None:
    inputs = [*arrays(), MASKS["added"], normal(4, seed=8)]
    weights = normal(2, 4, 40, 33, seed=11)

    def loss(attend: Any) -> Any:
        return lambda q, k, v, mask, sinks: (attend(q, k, v, scale=SCALE, mask=mask, sinks=sinks) * weights).sum()

    value, found = mx.value_and_grad(loss(metal.scaled_dot_product_attention), argnums=(0, 1, 2, 3, 4))(*inputs)
    truth, expected = mx.value_and_grad(loss(formula), argnums=(0, 1, 2, 3, 4))(*inputs)
    np.testing.assert_allclose(value.item(), truth.item(), rtol=1e-4)
    for a, b in zip(found, expected, strict=True):
        agree(a, b, 2e-4)
    for mask in (MASKS["causal"], MASKS["bool"]):

        def gradients(attend: Any, mask: Any = mask) -> Any:
            return mx.grad(lambda *x: loss(attend)(*x, mask, None), argnums=(0, 1, 2))(*inputs[:3])

        for a, b in zip(gradients(metal.scaled_dot_product_attention), gradients(formula), strict=True):
            agree(a, b, 2e-4)


def test_flash_attn_func_keeps_its_signature() -> None:
    q, k, v = (x.swapaxes(1, 2) for x in arrays())
    found = metal.flash_attn_func(q, k, v, 0.0, SCALE, True)
    turned = [x.swapaxes(1, 2) for x in (q, k, v)]
    agree(found.swapaxes(1, 2), mx.fast.scaled_dot_product_attention(*turned, scale=SCALE, mask="causal"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": mx.zeros((4, 40, 33))}, r"q must be an mlx array of shape \(batch, heads, rows, depth\), not of shape"),
        ({"k": mx.zeros((2, 3, 70, 33))}, "value must be of as many heads as key, 3"),
        ({"scale": "0.1"}, "scale must be a finite number, not '0.1'"),
        ({"mask": "other"}, """mask must be None, "causal" or an mlx array, not 'other'"""),
        ({"mask": mx.zeros((40, 3))}, r"mask must be of a shape that can be broadcast to \(2, 4, 40, 70\), not"),
        ({"mask": mx.zeros((1, 1, 1, 1, 1))}, "mask must be of a shape that can be broadcast"),
        ({"sinks": mx.zeros((3,))}, r"sinks must be of shape \(4,\), one for each head, not of shape \(3,\)"),
        ({"mask": np.zeros((40, 70))}, "takes mlx arrays, not ndarray"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, Any], words: str) -> None:
    q, k, v = arrays()
    with pytest.raises(ArgumentError, match=words):
        metal.scaled_dot_product_attention(**({"q": q, "k": k, "v": v, "scale": SCALE} | change))


def test_dtypes_that_do_not_promote() -> None:
    q, k, v = arrays(dtype=mx.bfloat16)
    with pytest.raises(ArgumentError, match="mask must be of a dtype that promotes to that of the result"):
        metal.scaled_dot_product_attention(q, k, v, scale=SCALE, mask=mx.zeros((40, 70)))
    with pytest.raises(ArgumentError, match="sinks must be an mlx array whose dtype promotes"):
        metal.scaled_dot_product_attention(q, k, v, scale=SCALE, sinks=mx.zeros((4,)))
    with pytest.raises(ArgumentError, match="q, k and v must be of float32, float16, bfloat16"):
        metal.scaled_dot_product_attention(*(x.astype(mx.int32) for x in (q, k, v)), scale=SCALE)
