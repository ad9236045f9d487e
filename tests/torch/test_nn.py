"""Modules: the results and states of torch's namesakes, copies, pickles."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import metalcore.nn as mnn  # noqa: E402
from metalcore.errors import ArgumentError  # noqa: E402

nn = torch.nn
torch.manual_seed(1)
X = torch.randn(3, 8)
CLASSES = torch.tensor([1, 0, 7])
CLASS_WEIGHT = torch.rand(8) + 0.1
BAGS = (torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 2]))
SAME: dict[str, tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...]]] = {
    "RMSNorm": ((8,), {"eps": 1e-3}, (X,)),
    "LayerNorm": (((8,),), {"eps": 1e-3}, (X,)),
    "GELU": ((), {"approximate": "tanh"}, (X,)),
    "SiLU": ((), {}, (X,)),
    "Softmax": ((0,), {}, (X,)),
    "LogSoftmax": ((), {"dim": -1}, (X,)),
    "EmbeddingBag": ((10, 4), {"mode": "mean", "padding_idx": 4}, BAGS),
    "CrossEntropyLoss": ((CLASS_WEIGHT,), {"label_smoothing": 0.1, "ignore_index": 0}, (X, CLASSES)),
    "KLDivLoss": ((), {"reduction": "batchmean"}, (X.log_softmax(-1), X.softmax(-1))),
}


@pytest.mark.parametrize("name", SAME)
def test_namesake(name: str) -> None:
    """Same arguments, same state both ways, same result and gradients, after a copy and a pickle too."""
    args, kwargs, inputs = SAME[name]
    theirs, ours = getattr(nn, name)(*args, **kwargs), getattr(mnn, name)(*args, **kwargs)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter))
    ours.load_state_dict(theirs.state_dict(), strict=True)
    expected = theirs(*inputs)
    assert isinstance(ours, type(theirs))
    for module in (ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        torch.testing.assert_close(module(*inputs), expected, rtol=1e-5, atol=1e-6)
    if expected.requires_grad:
        ours(*inputs).square().sum().backward()
        expected.square().sum().backward()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
    theirs.load_state_dict(ours.state_dict(), strict=True)


@pytest.mark.parametrize(("ours", "theirs"), [("FusedAddRMSNorm", "RMSNorm"), ("FusedAddLayerNorm", "LayerNorm")])
def test_norm_with_residual(ours: str, theirs: str) -> None:
    plain, fused = getattr(nn, theirs)(8, eps=1e-5), getattr(mnn, ours)(8, eps=1e-5)
    nn.init.normal_(plain.weight)
    fused.load_state_dict(plain.state_dict(), strict=True)
    y, residual = fused(X, 2 * X)
    torch.testing.assert_close(residual, 3 * X)
    torch.testing.assert_close(y, plain(3 * X), rtol=1e-5, atol=1e-6)
    with pytest.raises(ArgumentError, match="normalized_shape"):
        getattr(mnn, ours)((2, 8))


def test_activations_without_a_namesake() -> None:
    gate, up = X, X.flip(0)
    both = torch.cat([gate, up], -1)
    torch.testing.assert_close(mnn.SwiGLU()(both), nn.functional.silu(gate) * up, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(mnn.SwiGLU()(gate, up), mnn.SwiGLU()(both))
    torch.testing.assert_close(mnn.GEGLU()(gate, up), nn.functional.gelu(gate) * up, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(mnn.Softcap(2.0)(X), 2 * torch.tanh(X / 2), rtol=1e-5, atol=1e-6)
    bias = mnn.BiasGELU(8, "tanh")
    nn.init.normal_(bias.bias)
    expected = nn.functional.gelu(X + bias.bias, approximate="tanh")
    torch.testing.assert_close(bias(X), expected, rtol=1e-5, atol=1e-6)
    silu = mnn.BiasSiLU(8)
    nn.init.normal_(silu.bias)
    torch.testing.assert_close(silu(X), nn.functional.silu(X + silu.bias), rtol=1e-5, atol=1e-6)


def test_silu_in_place_writes_its_input() -> None:
    x = X.clone()
    assert mnn.SiLU(inplace=True)(x) is x
    torch.testing.assert_close(x, nn.functional.silu(X))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved: bool) -> None:
    """Rotating keeps lengths, and the product of q and k depends on their distance alone."""
    rope = mnn.RotaryEmbedding(8, max_positions=32, interleaved=interleaved)
    q, k = torch.randn(1, 2, 1, 8).expand(1, 2, 5, 8), torch.randn(1, 1, 1, 8).expand(1, 1, 5, 8)
    a, b = rope(q, k)
    torch.testing.assert_close(a.norm(dim=-1), q.norm(dim=-1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(a[..., 0, :], q[..., 0, :])
    scores = a @ b.transpose(-1, -2)
    torch.testing.assert_close(scores[..., 3, 1], scores[..., 4, 2], rtol=1e-4, atol=1e-5)
    moved = rope(q, k, torch.arange(7, 12)[None])
    torch.testing.assert_close(moved[0] @ moved[1].transpose(-1, -2), scores, rtol=1e-4, atol=1e-4)
    assert rope.state_dict() == {}
    with pytest.raises(ArgumentError, match="dim"):
        mnn.RotaryEmbedding(7)


def test_causal_convolution_loads_conv1d() -> None:
    plain = nn.Conv1d(4, 4, 3, groups=4, padding=2)
    ours = mnn.CausalConv1d(4, 3)
    ours.load_state_dict(plain.state_dict(), strict=True)
    x = torch.randn(2, 4, 7)
    torch.testing.assert_close(ours(x), plain(x)[..., :7], rtol=1e-5, atol=1e-6)


def test_causal_convolution_of_a_config_is_that_of_xlstm() -> None:
    ours = mnn.CausalConv1d(mnn.CausalConv1dConfig(6, 4))
    assert isinstance(ours, mnn.xLSTMCausalConv1d)
    assert set(ours.state_dict()) == {"conv.weight", "conv.bias"}
    x = torch.randn(2, 9, 6)
    again = pickle.loads(pickle.dumps(mnn.CausalConv1d(6, 4, activation="silu")))
    again.load_state_dict({name.removeprefix("conv."): value for name, value in ours.state_dict().items()})
    torch.testing.assert_close(again(x.mT).mT, nn.functional.silu(ours(x)), rtol=1e-5, atol=1e-6)


def test_what_an_op_does_not_have_is_refused() -> None:
    with pytest.raises(ArgumentError, match="max_norm"):
        mnn.EmbeddingBag(10, 4, max_norm=1.0)
    with pytest.raises(ArgumentError, match="dim"):
        mnn.Softmax()(X)


def test_modules_compile_in_one_graph_and_save() -> None:
    model = nn.Sequential(mnn.RMSNorm(8), nn.Linear(8, 8), mnn.GELU())
    expected = model(X)
    torch.compiler.reset()
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(X), expected)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file, weights_only=False)(X), expected)


def test_public_face() -> None:
    import metalcore

    assert metalcore.nn.RMSNorm is mnn.RMSNorm and set(SAME) <= set(mnn.__all__)
