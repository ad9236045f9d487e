"""xLSTM on MLX beside the modules for torch: weights, results, gradients, token by token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")
torch = pytest.importorskip("torch")

from mlx import nn  # noqa: E402
from mlx.utils import tree_flatten  # noqa: E402

import metalcore.mlx.nn as mnn  # noqa: E402
import metalcore.nn as tnn  # noqa: E402
from metalcore.errors import ArgumentError  # noqa: E402


def config(backend: str = "cuda", **changes: Any) -> Any:
    slstm = mnn.sLSTMLayerConfig(embedding_dim=32, backend=backend, recurrent_weight_init="standard")
    given: dict[str, Any] = {"num_blocks": 3, "embedding_dim": 32, "slstm_at": [1]}
    return mnn.xLSTMBlockStackConfig(mnn.mLSTMBlockConfig(), mnn.sLSTMBlockConfig(slstm), **given | changes)


@pytest.mark.parametrize("backend", ["cuda", "vanilla"])
def test_as_for_torch(backend: str) -> None:
    torch.manual_seed(1)
    theirs = tnn.xLSTMBlockStack(config(backend, bias=True))
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    ours = mnn.xLSTMBlockStack(config(backend, bias=True))
    ours.load_weights(mnn.xlstm_weights(theirs.state_dict()), strict=True)
    x, factor = (torch.randn(2, 20, 32) for _ in range(2))
    expected = theirs(x)
    (expected * factor).sum().backward()
    given, weight = mx.array(x.numpy()), mx.array(factor.numpy())
    found, _ = ours(given)
    np.testing.assert_allclose(np.array(found), expected.detach().numpy(), rtol=1e-5, atol=1e-5)

    rows, state = [], None
    for part in (given[:, :7], given[:, 7:8], given[:, 8:9], given[:, 9:]):
        y, state = ours(part, state)
        rows.append(np.array(y))
    np.testing.assert_allclose(np.concatenate(rows, 1), np.array(found), rtol=1e-5, atol=1e-5)

    _, gradients = nn.value_and_grad(ours, lambda m: (m(given)[0] * weight).sum())(ours)
    wanted = dict(mnn.xlstm_weights({n: p.grad for n, p in theirs.named_parameters()}))
    flat = dict(tree_flatten(gradients))
    assert set(flat) == set(wanted)
    for name, gradient in wanted.items():
        scale = max(1.0, float(mx.abs(gradient).max()))
        assert float(mx.abs(flat[name] - gradient).max()) < 1e-4 * scale, name


def test_refusals_and_first_weights() -> None:
    for argument, made in (
        ("slstm_at", lambda: mnn.xLSTMBlockStack(config(slstm_at=[3]))),
        ("function", lambda: mnn.sLSTMCell(mnn.sLSTMCellConfig(hidden_size=8, function="lstm"))),
        ("output_shape", lambda: mnn.sLSTMCell(mnn.sLSTMCellConfig(hidden_size=8, output_shape="SBH"))),
        ("num_heads", lambda: mnn.mLSTMCell(mnn.mLSTMCellConfig(8, 32, 3))),
        ("x", lambda: mnn.MultiHeadLayerNorm(8)(mx.zeros((1, 2, 3, 5)))),
    ):
        with pytest.raises(ArgumentError, match=f": {argument} must be"):
            made()
    gates = mnn.sLSTMCell(mnn.sLSTMCellConfig(hidden_size=8, bias_init="small_init")).bias[1]
    assert np.array(gates).tolist() == [[3.0, 6.0]] * 4
    ours, theirs = mnn.xLSTMBlockStack(config()), tnn.xLSTMBlockStack(config())
    first = dict(tree_flatten(ours.parameters()))
    for name, expected in mnn.xlstm_weights(theirs.state_dict()):
        assert first[name].shape == expected.shape
        if name.endswith(("slstm_cell.bias", "fgate.bias", "norm.weight", "skip")):
            np.testing.assert_allclose(np.array(first[name]), np.array(expected), rtol=1e-5, atol=1e-5)
