"""xLSTM modules beside those of the package `xlstm`, where it is installed: state, results, gradients, steps."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("xlstm")

from xlstm import (  # noqa: E402
    FeedForwardConfig,
    mLSTMBlockConfig,
    mLSTMLayerConfig,
    sLSTMBlockConfig,
    sLSTMLayerConfig,
    xLSTMBlockStackConfig,
)
from xlstm import mLSTMBlock as TheirMBlock  # noqa: E402
from xlstm import mLSTMLayer as TheirMLayer  # noqa: E402
from xlstm import sLSTMBlock as TheirSBlock  # noqa: E402
from xlstm import sLSTMLayer as TheirSLayer  # noqa: E402
from xlstm import xLSTMBlockStack as TheirStack  # noqa: E402
from xlstm.blocks.mlstm.cell import mLSTMCell as TheirMCell  # noqa: E402
from xlstm.blocks.mlstm.cell import mLSTMCellConfig  # noqa: E402
from xlstm.blocks.slstm.cell import sLSTMCell as TheirSCell  # noqa: E402
from xlstm.blocks.slstm.cell import sLSTMCell_cuda, sLSTMCellConfig  # noqa: E402
from xlstm.components.conv import CausalConv1d, CausalConv1dConfig  # noqa: E402
from xlstm.components.ln import MultiHeadLayerNorm  # noqa: E402

import metalcore.nn as mnn  # noqa: E402

TOKENS = 70  # more than a chunk
VANILLA: dict[str, Any] = {"backend": "vanilla", "recurrent_weight_init": "standard"}


def stack_config(**changes: Any) -> Any:
    given: dict[str, Any] = {
        "mlstm_block": mLSTMBlockConfig(mlstm=mLSTMLayerConfig(num_heads=4)),
        "slstm_block": sLSTMBlockConfig(
            slstm=sLSTMLayerConfig(num_heads=4, **VANILLA), feedforward=FeedForwardConfig(proj_factor=1.3)
        ),
        "context_length": TOKENS,
        "num_blocks": 3,
        "embedding_dim": 64,
        "slstm_at": [1],
    }
    return xLSTMBlockStackConfig(**given | changes)


def mlstm_layer(**changes: Any) -> Any:
    return mLSTMLayerConfig(**{"embedding_dim": 64, "context_length": TOKENS} | changes)


def slstm_layer(**changes: Any) -> Any:
    return sLSTMLayerConfig(**{"embedding_dim": 64} | VANILLA | changes)


CASES: dict[str, tuple[Any, Any, Any, tuple[int, ...], int]] = {
    "MultiHeadLayerNorm": (MultiHeadLayerNorm, mnn.MultiHeadLayerNorm, 24, (2, 3, 5, 8), 1),
    "CausalConv1d": (CausalConv1d, mnn.CausalConv1d, CausalConv1dConfig(24, 4), (2, 9, 24), 1),
    "CausalConv1d without bias": (
        CausalConv1d,
        mnn.xLSTMCausalConv1d,
        CausalConv1dConfig(24, 3, False),
        (2, 9, 24),
        1,
    ),
    "mLSTMCell": (TheirMCell, mnn.mLSTMCell, mLSTMCellConfig(TOKENS, 64, 4), (2, TOKENS, 64), 3),
    "mLSTMLayer": (TheirMLayer, mnn.mLSTMLayer, mlstm_layer(), (2, TOKENS, 64), 1),
    "mLSTMLayer with bias": (
        TheirMLayer,
        mnn.mLSTMLayer,
        mlstm_layer(bias=True, num_heads=2, qkv_proj_blocksize=8, proj_factor=1.3, conv1d_kernel_size=3),
        (1, 5, 64),
        1,
    ),
    "sLSTMCell": (TheirSCell, mnn.sLSTMCell, sLSTMCellConfig(hidden_size=64, **VANILLA), (2, TOKENS, 256), 1),
    "sLSTMCell, tokens first": (
        TheirSCell,
        mnn.sLSTMCell,
        sLSTMCellConfig(hidden_size=64, num_heads=2, input_shape="SBGNH", output_shape="SBH", **VANILLA),
        (7, 2, 256),
        1,
    ),
    "sLSTMLayer": (TheirSLayer, mnn.sLSTMLayer, slstm_layer(), (2, TOKENS, 64), 1),
    "sLSTMLayer without convolution": (
        TheirSLayer,
        mnn.sLSTMLayer,
        slstm_layer(conv1d_kernel_size=0, num_heads=1, group_norm_weight=False),
        (1, 5, 64),
        1,
    ),
    "mLSTMBlock": (TheirMBlock, mnn.mLSTMBlock, mLSTMBlockConfig(mlstm_layer(), 1, 0), (2, 9, 64), 1),
    "sLSTMBlock": (
        TheirSBlock,
        mnn.sLSTMBlock,
        sLSTMBlockConfig(slstm_layer(), FeedForwardConfig(act_fn="swish", bias=True), 1, 0),
        (2, 9, 64),
        1,
    ),
    "xLSTMBlockStack": (TheirStack, mnn.xLSTMBlockStack, stack_config(), (2, TOKENS, 64), 1),
    "xLSTMBlockStack of sLSTM": (
        TheirStack,
        mnn.xLSTMBlockStack,
        stack_config(mlstm_block=None, num_blocks=2, add_post_blocks_norm=False),
        (2, 9, 64),
        1,
    ),
    "xLSTMBlockStack of mLSTM": (
        TheirStack,
        mnn.xLSTMBlockStack,
        stack_config(slstm_block=None, slstm_at=[], num_blocks=2, bias=True),
        (2, 9, 64),
        1,
    ),
}


def pair(name: str) -> tuple[Any, Any]:
    """Both with the same weights, none of them 0 or 1."""
    theirs, ours, config, _, _ = CASES[name]
    torch.manual_seed(1)
    theirs = theirs(config)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    ours = ours(copy.deepcopy(config))
    ours.load_state_dict(theirs.state_dict(), strict=True)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    return theirs, ours


def inputs(name: str) -> tuple[Any, ...]:
    *_, shape, count = CASES[name]
    torch.manual_seed(2)
    return tuple(torch.randn(shape, requires_grad=True) for _ in range(count))


def flat(found: Any) -> list[Any]:
    if isinstance(found, dict):
        return [x for key in sorted(found) for x in flat(found[key])]
    if isinstance(found, (tuple, list)):
        return [x for part in found for x in flat(part)]
    return [] if found is None else [found]


def close(a: Any, b: Any, bound: float = 1e-5) -> None:
    for x, y in zip(flat(a), flat(b), strict=True):
        torch.testing.assert_close(x, y, rtol=bound, atol=bound)


@pytest.mark.parametrize("name", CASES)
def test_forward_and_gradients(name: str) -> None:
    theirs, ours = pair(name)
    gradients, results = [], []
    for module in (theirs, ours):
        given = inputs(name)
        results.append(flat(module(*given)))
        torch.manual_seed(3)
        (results[-1][0] * torch.randn(results[-1][0].shape)).sum().backward()
        gradients.append({n: p.grad for n, p in (*module.named_parameters(), *zip("qkv", given, strict=False))})
    close(results[1], results[0])
    for n, expected in gradients[0].items():
        scale = max(1.0, float(expected.abs().max()))
        assert float((gradients[1][n] - expected).abs().max()) < 1e-4 * scale, n
    with torch.inference_mode():
        close(ours.eval()(*inputs(name)), theirs.eval()(*inputs(name)))


STEPPED = ("CausalConv1d", "mLSTMCell", "mLSTMLayer", "sLSTMLayer", "xLSTMBlockStack", "xLSTMBlockStack of sLSTM")
STATE = {"CausalConv1d": "conv_state", "mLSTMCell": "mlstm_state"}


@pytest.mark.parametrize("name", STEPPED)
def test_steps(name: str) -> None:
    theirs, ours = pair(name)
    given = inputs(name)
    state: Any = [None, None]
    rows = []
    with torch.no_grad():
        for t in range(min(9, given[0].shape[1])):
            row = [x[:, t : t + 1] for x in given]
            found = []
            for i, module in enumerate((theirs, ours)):
                if "Layer" in name:
                    named = state[i] or {}
                elif "Stack" in name:
                    named = {"state": state[i]}
                else:
                    named = {STATE[name]: state[i]}
                y, state[i] = module.step(*(x.clone() for x in row), **named)
                found.append(y)
            close(found[1], found[0])
            close(state[1], state[0])
            state[1] = copy.deepcopy(state[0])  # theirs go on in ours
            rows.append(found[1])
        whole = ours(*given)
        close(torch.cat(rows, 1), whole[:, : len(rows)])


def test_convolution_and_slstm_layer_carry_on_as_theirs() -> None:
    theirs, ours = pair("sLSTMLayer")
    (x,) = inputs("sLSTMLayer")
    states = [module(x[:, :20], return_last_state=True)[1] for module in (theirs, ours)]
    close(states[1], states[0])
    found = [
        module(x[:, 20:], return_last_state=True, **state) for module, state in zip((theirs, ours), states, strict=True)
    ]
    close(found[1], found[0])


@pytest.mark.parametrize("backend", ["cuda", "vanilla"])
def test_weights_of_their_cuda_cell(backend: str) -> None:
    """Its state lies in another way than that of the vanilla cell; both load into either."""
    cuda = sLSTMCell_cuda(sLSTMCellConfig(hidden_size=64, num_heads=4), skip_backend_init=True)
    vanilla = TheirSCell(sLSTMCellConfig(hidden_size=64, num_heads=4, **VANILLA))
    torch.manual_seed(4)
    with torch.no_grad():
        kernel, bias = torch.randn(4, 16, 4, 16) / 4, torch.randn(4, 4, 16)
        for cell in (cuda, vanilla):
            cell._recurrent_kernel_.copy_(cell._recurrent_kernel_ext2int(kernel))
            cell._bias_.copy_(cell._bias_ext2int(bias))
    x = torch.randn(2, 5, 256)
    for theirs in (cuda, vanilla):
        ours = mnn.sLSTMCell(mnn.sLSTMCellConfig(hidden_size=64, num_heads=4, backend=backend))
        ours.load_state_dict(theirs.state_dict(), strict=True)
        close(ours(x), vanilla(x))


@pytest.mark.parametrize(("low", "high"), [(-30.0, -10.0), (-3.0, 3.0), (10.0, 40.0)])
def test_input_gates_far_from_zero(low: float, high: float) -> None:
    """What an empty memory has for m is seen in eps alone."""
    theirs, ours = pair("mLSTMCell")
    with torch.no_grad():
        for cell in (theirs, ours):
            cell.igate.bias.copy_(torch.linspace(low, high, 4))
        close(ours(*inputs("mLSTMCell")), theirs(*inputs("mLSTMCell")))


def test_first_weights() -> None:
    """What does not come from chance is the same: forget gates, norms, skips."""
    config = stack_config()
    theirs, ours = TheirStack(config).state_dict(), mnn.xLSTMBlockStack(config).state_dict()
    fixed = [n for n in theirs if n.endswith(("fgate.bias", "norm.weight", "learnable_skip", "_bias_"))]
    assert len(fixed) >= 8
    for name in fixed:
        torch.testing.assert_close(ours[name], theirs[name])
    for name, weight in theirs.items():
        if weight.dim() > 1 and "recurrent" not in name and float(weight.std()) > 0:
            assert 0.8 < float(ours[name].std() / weight.std()) < 1.25, name
