"""metalcore.mlx.fast: mx.fast's functions by its own signatures, against float64 and against mlx."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from metalcore.errors import ArgumentError
from metalcore.runtimes.mlx import has_metal

mx: Any = pytest.importorskip("mlx.core")
fast: Any = pytest.importorskip("metalcore.mlx.fast")
metal: Any = pytest.importorskip("metalcore.mlx")

DTYPES = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}


def normal(*shape: int, seed: int = 0) -> Any:
    return mx.random.normal(shape, key=mx.random.key(seed))


def layouts(width: int = 24) -> dict[str, Any]:
    return {
        "vector": normal(width),
        "rows": normal(7, width),
        "batches": normal(2, 3, 5, width),
        "transposed": normal(width, 7).T,
        "strided": normal(5, 2 * width)[:, ::2],
        "broadcast": mx.broadcast_to(normal(1, width), (6, width)),
        "no rows": mx.zeros((0, width)),
    }


def wide(x: Any) -> Any:
    return None if x is None else np.array(x.astype(mx.float32)).astype(np.float64)


def check(found: Any, expected: Any, like: Any, tolerance: float) -> None:
    """Close to float64, of mlx's shape and dtype, and no worse than mlx where that is worse than the tolerance."""
    assert (found.shape, found.dtype) == (like.shape, like.dtype)
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    error, theirs = (np.abs(wide(x) - expected).max(initial=0) / scale for x in (found, like))
    assert error <= max(tolerance, 1.05 * theirs)


def rms(x: Any, w: Any, eps: float) -> Any:
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return y if w is None else y * w


def layer(x: Any, w: Any, b: Any, eps: float) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    y = rms(centred, w, eps)
    return y if b is None else y + b


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms(dtype: str) -> None:
    kind, tolerance = getattr(mx, dtype), DTYPES[dtype]
    for given in layouts().values():
        x = given.astype(kind)
        for w in (None, normal(24, seed=1).astype(kind), normal(24, seed=1)):
            check(fast.rms_norm(x, w, 1e-5), rms(wide(x), wide(w), 1e-5), mx.fast.rms_norm(x, w, 1e-5), tolerance)
            for b in (None, normal(24, seed=2).astype(kind), normal(24, seed=2)):
                expected = layer(wide(x), wide(w), wide(b), 1e-5)
                check(fast.layer_norm(x, w, b, 1e-5), expected, mx.fast.layer_norm(x, w, b, 1e-5), tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(dtype: str) -> None:
    for given in layouts().values():
        x = given.astype(getattr(mx, dtype))
        for axis in (-1, 0, None, tuple(range(x.ndim)), (0, -1)[: x.ndim]):
            axes = axis if axis is not None else tuple(range(x.ndim))
            e = np.exp(wide(x) - wide(x).max(initial=-math.inf))
            expected = e / e.sum(axes, keepdims=True)
            check(fast.softmax(x, axis), expected, mx.softmax(x, axis=axis), DTYPES[dtype])
    assert fast.softmax(mx.arange(4), precise=True).dtype == mx.float32
    assert fast.softmax(mx.array([True, False])).dtype == mx.float32


def turned(x: Any, dims: int, traditional: bool, base: Any, scale: float, offset: Any, freqs: Any) -> Any:
    """rope in NumPy's float64."""
    half = dims // 2
    turns = base ** (np.arange(half) / half) if freqs is None else freqs
    angles = scale * (np.asarray(offset)[..., None] + np.arange(x.shape[-2]))[..., None] / turns
    if angles.ndim == 3:
        angles = angles.reshape(len(angles), *[1] * (x.ndim - 3), *angles.shape[1:])
    first, second = (slice(0, dims, 2), slice(1, dims, 2)) if traditional else (slice(0, half), slice(half, dims))
    a, b, y = x[..., first], x[..., second], x.copy()
    y[..., first], y[..., second] = a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)
    return y


ROPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "a part of the head": {"dims": 6},
    "offset and scale": {"offset": 5000, "scale": 0.5},
    "offset in an array": {"offset": mx.array(90000)},
    "offsets": {"offset": mx.array([3, 100000])},
    "freqs": {"base": None, "freqs": mx.array([1.0, 3.0, 9.0, 100.0, 1e4])},
    "freqs and offsets": {"base": None, "freqs": mx.array([1.0, 3.0, 9.0, 100.0, 1e4]), "offset": mx.array([7, 9])},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("changes", ROPES.values(), ids=ROPES)
def test_rope(changes: dict[str, Any], dtype: str) -> None:
    x = normal(2, 3, 5, 10).astype(getattr(mx, dtype))
    for traditional in (False, True):
        given = {"dims": 10, "traditional": traditional, "base": 1e4, "scale": 1.0, "offset": 0, "freqs": None}
        given |= changes
        dims = given.pop("dims")
        plain = {n: np.array(v) if isinstance(v, mx.array) else v for n, v in given.items()}
        for each in (x, x[:, 0], x[:, None], x.swapaxes(1, 2), x[:, :, :1], x[:, :0]):
            like = mx.fast.rope(each, dims, **given)
            check(fast.rope(each, dims, **given), turned(wide(each), dims, **plain), like, DTYPES[dtype])


def test_attention_is_there_too() -> None:
    q, k = normal(2, 4, 9, 16), normal(2, 2, 11, 16, seed=1)
    for mask in (None, "causal", normal(9, 11, seed=2) > 0):
        found = fast.scaled_dot_product_attention(q, k, k, scale=0.25, mask=mask, stream=mx.cpu)
        expected = mx.fast.scaled_dot_product_attention(q, k, k, scale=0.25, mask=mask)
        np.testing.assert_allclose(np.array(found), np.array(expected), atol=2e-6)


def test_float64_is_computed_in_float64() -> None:
    x = mx.array(np.random.default_rng(0).standard_normal((4, 24)), mx.float64)
    with mx.stream(mx.cpu):
        found = fast.rms_norm(x, None, 1e-5)
    assert found.dtype == mx.float64
    np.testing.assert_allclose(np.array(found), rms(np.array(x), None, 1e-5), rtol=1e-14)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "rope", "softmax"])
def test_gradients_are_those_of_mlx(name: str) -> None:
    x, w, b = normal(2, 5, 24), normal(24, seed=1), normal(24, seed=2)
    turn = {"traditional": True, "base": 1e4, "scale": 1.0, "offset": mx.array([3, 4])}
    calls: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
        "rms_norm": (lambda x, w: fast.rms_norm(x, w, 1e-5), lambda x, w: mx.fast.rms_norm(x, w, 1e-5), (x, w)),
        "layer_norm": (lambda *a: fast.layer_norm(*a, 1e-5), lambda *a: mx.fast.layer_norm(*a, 1e-5), (x, w, b)),
        "rope": (lambda x: fast.rope(x, 8, **turn), lambda x: mx.fast.rope(x, 8, **turn), (x,)),
        "softmax": (lambda x: fast.softmax(x, (0, 1)), lambda x: mx.softmax(x, axis=(0, 1)), (x,)),
    }
    ours, theirs, inputs = calls[name]
    numbers, weights = tuple(range(len(inputs))), normal(2, 5, 24, seed=3)
    found, expected = (
        mx.grad(lambda *a, f=f: (f(*a) * weights).sum(), argnums=numbers)(*inputs) for f in (ours, theirs)
    )
    for gradient, truth in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(gradient), np.array(truth), rtol=1e-4, atol=1e-5)


ROPE = {"traditional": False, "base": 1e4, "scale": 1.0, "offset": 0}
X = normal(2, 5, 24)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fast.rms_norm(np.ones((2, 2)), None, 1e-5), "fast.rms_norm: x must be an mlx array, not of type"),
        (lambda: fast.rms_norm(X.astype(mx.int32), None, 1e-5), "rms_norm: x must be float32, .* not of dtype int32"),
        (lambda: fast.rms_norm(mx.array(1.0), None, 1e-5), "rms_norm: x must be of one dimension or more"),
        (lambda: fast.rms_norm(X, mx.ones(23), 1e-5), r"rms_norm: weight must be of shape \(24,\), as the last axis"),
        (lambda: fast.rms_norm(X, mx.ones((1, 24)), 1e-5), r"rms_norm: weight must be of shape \(24,\)"),
        (lambda: fast.rms_norm(X, None, -1.0), "rms_norm: eps must be a number that is not negative, not -1.0"),
        (lambda: fast.layer_norm(X, None, mx.ones(3), 1e-5), "layer_norm: bias must be of shape"),
        (lambda: fast.rope(X[0], 8, **ROPE), r"rope: x must be of shape \(batch, ..., tokens, dim\), not of shape"),
        (lambda: fast.rope(X, 7, **ROPE), "rope: dims must be even, from 2 to 24"),
        (lambda: fast.rope(X, 26, **ROPE), "rope: dims must be even, from 2 to 24"),
        (lambda: fast.rope(X, 8, **ROPE | {"base": None}), "rope: base must be a number where freqs is None"),
        (lambda: fast.rope(X, 8, **ROPE, freqs=mx.ones(4)), "rope: base must be .* beside freqs"),
        (lambda: fast.rope(X, 8, **ROPE | {"base": None}, freqs=mx.ones(3)), r"rope: freqs must be of shape \(4,\)"),
        (lambda: fast.rope(X, 8, **ROPE | {"offset": 1.5}), "rope: offset must be an int or an mlx array of integers"),
        (lambda: fast.rope(X, 8, **ROPE | {"offset": mx.ones(2)}), "rope: offset must be int64.* not of dtype float32"),
        (lambda: fast.rope(X, 8, **ROPE | {"offset": mx.arange(3)}), "rope: offset must be an int, or an array of one"),
        (lambda: fast.rope(X, 8, **ROPE | {"scale": "1"}), "rope: scale must be a finite number, not '1'"),
        (lambda: fast.softmax(X, 3), "softmax: axis must be None, or axes of x, which has 3, not 3"),
        (lambda: fast.softmax(X, (0, -3)), "softmax: axis must be of axes that are all different"),
        (lambda: fast.softmax(X, precise=1), "softmax: precise must be True or False, not 1"),
        (lambda: fast.softmax(X, stream=3), "fast.softmax: stream must be a stream or a device of mlx"),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


@pytest.mark.parametrize("given", [{"offset": 3}, {"traditional": True}, {"offset": mx.array([7, 0])}, {"dims": 6}])
def test_rope_has_a_gradient_of_freqs(given: dict[str, Any]) -> None:
    """As mlx's own has; also inside of its transforms, and of x beside it."""
    x = mx.random.normal((2, 3, 5, 8), key=mx.random.key(3))
    named = ROPE | {"base": None, "scale": 0.7, "dims": 8} | given
    freqs = mx.array([1.0, 3.0, 10.0, 40.0])[: named["dims"] // 2]

    def loss(f: Any) -> Any:
        return lambda x, freqs: (f(x, freqs=freqs, **named) ** 3 * x).sum()

    expected = mx.grad(loss(mx.fast.rope), argnums=(0, 1))(x, freqs)
    for transform in (lambda f: f, mx.compile):
        found = transform(mx.grad(loss(fast.rope), argnums=(0, 1)))(x, freqs)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-4, atol=1e-4)
    several = mx.stack([freqs, 2 * freqs])
    rows = mx.vmap(mx.grad(loss(fast.rope), argnums=1), in_axes=(None, 0))(x, several)
    truth = mx.stack([mx.grad(loss(mx.fast.rope), argnums=1)(x, f) for f in several])
    np.testing.assert_allclose(np.array(rows), np.array(truth), rtol=1e-4, atol=1e-4)


def test_an_offset_in_an_array_needs_no_gradient() -> None:
    offset = mx.array([3, 4])
    found, expected = (
        mx.grad(mx.checkpoint(lambda x, o, m=m: (m.rope(x, 8, **ROPE | {"offset": o}) ** 2 * x).sum()))
        for m in (fast, mx.fast)
    )
    np.testing.assert_allclose(np.array(found(X, offset)), np.array(expected(X, offset)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stream", [mx.cpu, mx.Device(mx.cpu), mx.new_stream(mx.cpu)], ids=["kind", "device", "stream"])
def test_streams(stream: Any) -> None:
    expected = np.array(mx.fast.rms_norm(X, None, 1e-5))
    np.testing.assert_allclose(np.array(fast.rms_norm(X, None, 1e-5, stream=stream)), expected, atol=1e-6)
    np.testing.assert_allclose(np.array(metal.rms_norm(X, (24,), eps=1e-5, stream=stream)), expected, atol=1e-6)
    q, _ = metal.linalg.qr(X, stream=stream)
    assert q.shape == (2, 5, 5)


@pytest.mark.skipif(has_metal(), reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(ArgumentError, match=r"mlx.silu: stream must be of the CPU, as this mlx has no GPU"):
        metal.silu(X, stream=mx.gpu)
