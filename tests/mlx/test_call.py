"""metalcore.mlx: values, gradients and transforms of MLX, against mlx's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metalcore.errors import ArgumentError, IndexRangeError, TransformError
from metalcore.ops import nouns
from metalcore.runtimes.mlx import has_metal

mx: Any = pytest.importorskip("mlx.core")
nn: Any = pytest.importorskip("mlx.nn")
metal: Any = pytest.importorskip("metalcore.mlx")

X = mx.random.normal((4, 33), key=mx.random.key(0))
W = mx.random.normal((33,), key=mx.random.key(1))


def ours(x: Any, w: Any = None) -> Any:
    return metal.rms_norm(x, (x.shape[-1],), w, 1e-6)


def plain(x: Any, w: Any = None) -> Any:
    return mx.fast.rms_norm(x, w, 1e-6)


def agree(a: Any, b: Any) -> None:
    assert a.shape == b.shape
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-6)


def test_every_noun_is_there() -> None:
    assert set(dir(metal)) == set(nouns())
    assert all(callable(getattr(metal, noun)) for noun in nouns())
    with pytest.raises(AttributeError, match="no attribute 'no_such_op'"):
        getattr(metal, "no_such_op")  # noqa: B009


def test_gradients() -> None:
    """One and several inputs, None for one of them, inside mx.grad, mx.value_and_grad and mx.vjp."""

    def loss(f: Any) -> Any:
        return lambda *inputs: (f(*inputs) ** 2 * X).sum()

    agree(ours(X, W), plain(X, W))
    for inputs in ((X, W), (X,)):
        numbers = tuple(range(len(inputs)))
        value, grads = mx.value_and_grad(loss(ours), argnums=numbers)(*inputs)
        expected, truths = mx.value_and_grad(loss(plain), argnums=numbers)(*inputs)
        agree(value, expected)
        for grad, truth in zip(grads, truths, strict=True):
            agree(grad, truth)
    _, (grad,) = mx.vjp(lambda w: ours(X, w), [W], [mx.ones_like(X)])
    agree(grad, mx.grad(lambda w: plain(X, w).sum())(W))


def test_lazy_inputs_and_layouts() -> None:
    """Inputs that are not evaluated, and gradients that come broadcast or transposed."""
    x = mx.exp(X.T * 0.1)
    agree(ours(x.T, W), plain(x.T, W))
    agree(mx.grad(lambda x: ours(x.T, W).sum())(x), mx.grad(lambda x: plain(x.T, W).sum())(x))
    agree(mx.grad(lambda x: ours(x, W).T.sum())(X), mx.grad(lambda x: plain(x, W).T.sum())(X))
    agree(ours(ours(X, W), W), plain(plain(X, W), W))


@pytest.mark.parametrize("targets", [mx.array([3, 0, 32, 5]), mx.argmax(X, axis=-1)], ids=["int32", "uint32"])
def test_integer_inputs_and_several_launches(targets: Any) -> None:
    value, grad = mx.value_and_grad(lambda x: metal.cross_entropy(x, targets))(X)
    expected, truth = mx.value_and_grad(lambda x: nn.losses.cross_entropy(x, targets, reduction="mean"))(X)
    agree(value, expected)
    agree(grad, truth)


def test_indices_as_mlx_gives_them() -> None:
    order = mx.argsort(X, axis=-1)[:, :5]
    assert order.dtype == mx.uint32
    value, grad = mx.value_and_grad(lambda x: (metal.gather(x, 1, order) ** 2).sum())(X)
    expected, truth = mx.value_and_grad(lambda x: (mx.take_along_axis(x, order, 1) ** 2).sum())(X)
    agree(value, expected)
    agree(grad, truth)


def test_modules() -> None:
    class Layer(nn.Module):  # type: ignore[misc]
        def __init__(self, norm: Any) -> None:
            super().__init__()
            self._norm, self.weight, self.out = norm, W, nn.Linear(33, 2)
            self.out.update({"weight": mx.ones((2, 33)) * X[:2], "bias": mx.zeros((2,))})

        def __call__(self, x: Any) -> Any:
            return self.out(self._norm(x, self.weight)).sum()

    (value, grads), (expected, truths) = (
        nn.value_and_grad(layer, lambda x, layer=layer: layer(x))(X) for layer in (Layer(ours), Layer(plain))
    )
    agree(value, expected)
    agree(grads["weight"], truths["weight"])
    agree(grads["out"]["weight"], truths["out"]["weight"])


def test_checkpoint_and_empty() -> None:
    agree(mx.grad(lambda x: mx.checkpoint(ours)(x, W).sum())(X), mx.grad(lambda x: plain(x, W).sum())(X))
    assert mx.grad(lambda x: ours(x, W).sum())(mx.zeros((0, 33))).shape == (0, 33)


def test_no_gradient_is_cut_silently() -> None:
    """Second gradients, forward mode and inputs that have no gradient are errors, not zeros."""
    targets, weight = mx.array([3, 0, 32, 5]), mx.ones((33,))
    with pytest.raises(TransformError, match="can be differentiated once"):
        mx.grad(lambda x: mx.grad(lambda x: (ours(x, W) ** 3).sum())(x).sum())(X)
    with pytest.raises(TransformError, match=r"no forward-mode derivative \(mx.jvp\)"):
        mx.jvp(ours, [X], [X])
    with pytest.raises(TransformError, match=r"weight has no gradient: use mx.stop_gradient"):
        mx.grad(lambda w: metal.cross_entropy(X, targets, w))(weight)
    stopped = mx.grad(lambda x: metal.cross_entropy(x, targets, mx.stop_gradient(mx.abs(x[0]))))(X)
    assert stopped.shape == X.shape


def test_bad_input() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match=r"metalcore.mlx.rms_norm takes mlx arrays, not ndarray"):
        metal.rms_norm(np.ones((2, 2), np.float32), (2,))
    with pytest.raises(ArgumentError, match="takes mlx arrays, not Tensor"):
        metal.rms_norm(X, (33,), torch.ones(33))
    with pytest.raises(ArgumentError, match="takes mlx arrays, not list"):
        metal.rms_norm([1.0], (1,))
    with pytest.raises(ArgumentError, match="rms_norm: weight must be of shape"):
        metal.rms_norm(X, (33,), W[:3])
    if not has_metal():
        with pytest.raises(IndexRangeError, match="target 99 of row 1"):
            metal.cross_entropy(X, mx.array([0, 99, 1, 2]))


def test_metalcore_itself_takes_mlx_arrays() -> None:
    import metalcore

    agree(metalcore.rms_norm(X, (33,), W, 1e-6), plain(X, W))
    with pytest.raises(ArgumentError, match="rms_norm: weight must be an mlx array, not ndarray"):
        metalcore.rms_norm(X, (33,), np.ones(33, np.float32))


@pytest.mark.skipif("softmax" not in nouns(), reason="it is not there yet")
def test_gradient_of_a_broadcast_input() -> None:
    mask = W[None, :] * 0.1
    grads = [
        mx.grad(lambda m, f=f: (f(X, m) * X).sum())(mask)
        for f in (lambda x, m: metal.softmax(x, -1, mask=m), lambda x, m: mx.softmax(x + m, axis=-1))
    ]
    assert grads[0].shape == mask.shape
    agree(*grads)
