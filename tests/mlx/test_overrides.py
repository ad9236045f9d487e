"""metalcore.mlx.overrides and the modules of metalcore.mlx.nn that mlx.nn has too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metalcore.errors import ArgumentError

mx: Any = pytest.importorskip("mlx.core")
nn: Any = pytest.importorskip("mlx.nn")
mnn: Any = pytest.importorskip("metalcore.mlx.nn")
metal: Any = pytest.importorskip("metalcore.mlx")
metalcore: Any = pytest.importorskip("metalcore")

X = mx.random.normal((2, 6, 16), key=mx.random.key(0))
OWN = {name: getattr(mx.fast, name) for name in ("layer_norm", "rms_norm", "rope", "scaled_dot_product_attention")}


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-5, atol=1e-5)


def kernels(call: Any) -> str:
    with metalcore.explain() as log:
        mx.eval(call())
    return str(log)


def test_modules_of_mlx_run_on_the_kernels() -> None:
    attend, layer = nn.MultiHeadAttention(16, 2), nn.LayerNorm(16)
    calls = {
        "rms_norm_forward": lambda: nn.RMSNorm(16)(X),
        "layer_norm_forward": lambda: layer(X),
        "rope": lambda: nn.RoPE(8)(X, offset=3),
        "attention": lambda: attend(X, X, X),
    }
    for kernel, call in calls.items():
        expected = call()
        assert kernel not in kernels(call)
        with metal.overrides():
            assert kernel in kernels(call)
            close(call(), expected)
    assert all(getattr(mx.fast, name) is own for name, own in OWN.items())


def test_blocks_nest_and_are_undone() -> None:
    with metal.overrides("rms_norm"):
        assert metal.active_overrides() == ("rms_norm",)
        with pytest.raises(KeyError), metal.overrides("layer_norm", "rope"):
            assert metal.active_overrides() == ("layer_norm", "rms_norm", "rope")
            raise KeyError
        with metal.overrides(enabled=False):
            assert metal.active_overrides() == () and mx.fast.rms_norm is OWN["rms_norm"]
        assert metal.active_overrides() == ("rms_norm",)
    assert metal.active_overrides() == () and mx.fast.rms_norm is OWN["rms_norm"]
    with pytest.raises(ArgumentError, match="no override named 'gelu'; there are layer_norm, rms_norm"):
        metal.overrides("gelu").__enter__()


def test_what_the_library_does_not_take_is_left_to_mlx() -> None:
    deep = mx.ones((1, 1, 2, 300))  # above what the kernels of attention take
    expected = mx.fast.scaled_dot_product_attention(deep, deep, deep, scale=0.1)
    with metal.overrides():
        close(mx.fast.scaled_dot_product_attention(deep, deep, deep, scale=0.1), expected)
        with pytest.raises(ValueError, match=r"\[rms_norm\] Received unsupported type"):
            mx.fast.rms_norm(X.astype(mx.int32), None, 1e-5)


def test_modules() -> None:
    attend = nn.MultiHeadAttention(16, 2, bias=True)
    mask = attend.create_additive_causal_mask(6)
    pairs: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[Any, ...]]] = [
        ("RMSNorm", (16,), {"eps": 1e-6}, (X,)),
        ("LayerNorm", (16,), {}, (X,)),
        ("LayerNorm", (16,), {"bias": False}, (X,)),
        ("LayerNorm", (16,), {"affine": False}, (X,)),
        ("RoPE", (8,), {"traditional": True, "scale": 0.5}, (X, 7)),
        ("Softmax", (), {}, (X,)),
        ("MultiHeadAttention", (16, 2), {"bias": True}, (X, X, X, mask)),
    ]
    for name, arguments, named, inputs in pairs:
        ours, theirs = (getattr(home, name)(*arguments, **named) for home in (mnn, nn))
        assert isinstance(ours, type(theirs)) and repr(ours) == repr(theirs)
        ours.update(theirs.parameters())
        close(ours(*inputs), theirs(*inputs))
        if not theirs.parameters():
            continue
        gradients = [nn.value_and_grad(m, lambda *a, m=m: (m(*a) ** 2).sum())(*inputs)[1] for m in (ours, theirs)]
        flat = [dict(nn.utils.tree_flatten(g)) for g in gradients]
        assert flat[0].keys() == flat[1].keys()
        for key, gradient in flat[0].items():
            np.testing.assert_allclose(np.array(gradient), np.array(flat[1][key]), rtol=1e-3, atol=1e-4)
