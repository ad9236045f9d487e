"""xLSTM modules without the package they are made after: names of the state, plain formulas, steps, refusals."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import metalcore.nn as mnn  # noqa: E402
from metalcore.errors import ArgumentError  # noqa: E402

F = torch.nn.functional
SIZE, TOKENS = 32, 11
INNER = 64  # of mLSTM: twice the size, rounded up to a multiple of 64

MLSTM_STATE = {
    "learnable_skip": (INNER,),
    "proj_up.weight": (2 * INNER, SIZE),
    "q_proj.weight": (16, 4, 4),
    "k_proj.weight": (16, 4, 4),
    "v_proj.weight": (16, 4, 4),
    "conv1d.conv.weight": (INNER, 1, 4),
    "conv1d.conv.bias": (INNER,),
    "mlstm_cell.igate.weight": (4, 3 * INNER),
    "mlstm_cell.igate.bias": (4,),
    "mlstm_cell.fgate.weight": (4, 3 * INNER),
    "mlstm_cell.fgate.bias": (4,),
    "mlstm_cell.outnorm.weight": (INNER,),
    "proj_down.weight": (SIZE, INNER),
}
SLSTM_STATE = {
    "conv1d.conv.weight": (SIZE, 1, 4),
    "conv1d.conv.bias": (SIZE,),
    "fgate.weight": (4, 8, 8),
    "igate.weight": (4, 8, 8),
    "zgate.weight": (4, 8, 8),
    "ogate.weight": (4, 8, 8),
    "slstm_cell._recurrent_kernel_": (4, 32, 8),
    "slstm_cell._bias_": (4 * SIZE,),
    "group_norm.weight": (SIZE,),
}
FEED_STATE = {
    "ffn_norm.weight": (SIZE,),
    "ffn.proj_up.weight": (128, SIZE),
    "ffn.proj_down.weight": (SIZE, 64),
}
STACK_STATE = {
    **{f"blocks.{i}.xlstm_norm.weight": (SIZE,) for i in range(3)},
    **{f"blocks.{i}.xlstm.{name}": shape for i in (0, 2) for name, shape in MLSTM_STATE.items()},
    **{f"blocks.1.xlstm.{name}": shape for name, shape in SLSTM_STATE.items()},
    **{f"blocks.1.{name}": shape for name, shape in FEED_STATE.items()},
    "post_blocks_norm.weight": (SIZE,),
}


def slstm_config(**changes: Any) -> mnn.sLSTMLayerConfig:
    given = {"embedding_dim": SIZE, "backend": "vanilla", "recurrent_weight_init": "standard"}
    return mnn.sLSTMLayerConfig(**given | changes)


def stack_config(**changes: Any) -> mnn.xLSTMBlockStackConfig:
    given: dict[str, Any] = {
        "mlstm_block": mnn.mLSTMBlockConfig(),
        "slstm_block": mnn.sLSTMBlockConfig(slstm_config()),
        "num_blocks": 3,
        "embedding_dim": SIZE,
        "slstm_at": [1],
    }
    return mnn.xLSTMBlockStackConfig(**given | changes)


def shaken(module: Any, dtype: Any = torch.float32) -> Any:
    """None of its weights 0 or 1."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return module.to(dtype)


def layers() -> dict[str, Any]:
    return {
        "mLSTM": mnn.mLSTMLayer(mnn.mLSTMLayerConfig(embedding_dim=SIZE)),
        "sLSTM": mnn.sLSTMLayer(slstm_config()),
        "sLSTM without convolution": mnn.sLSTMLayer(slstm_config(conv1d_kernel_size=0)),
        "sLSTM of width 1": mnn.sLSTMLayer(slstm_config(conv1d_kernel_size=1)),
    }


def states(found: Any) -> list[Any]:
    if isinstance(found, dict):
        found = [found[key] for key in sorted(found)]
    if isinstance(found, (tuple, list)):
        return [x for part in found for x in states(part)]
    return [] if found is None else [found]


def test_state_names() -> None:
    """Those of the package xlstm 2.0.6, whose state dicts load with strict=True."""
    stack = mnn.xLSTMBlockStack(stack_config())
    assert {name: tuple(x.shape) for name, x in stack.state_dict().items()} == STACK_STATE
    with_bias = set(mnn.xLSTMBlockStack(stack_config(bias=True, num_blocks=1, slstm_at=[])).state_dict())
    names = ("proj_up", "q_proj", "k_proj", "v_proj", "proj_down")
    assert {f"blocks.0.xlstm.{name}.bias" for name in names} <= with_bias
    assert set(mnn.xLSTMBlockStack(stack_config(add_post_blocks_norm=False)).state_dict()) == set(STACK_STATE) - {
        "post_blocks_norm.weight"
    }


def mlstm_by_formula(layer: Any, x: Any) -> Any:
    """All pairs of tokens at once, as a matrix."""
    inner, z = F.linear(x, layer.proj_up.weight).chunk(2, -1)
    conv = layer.conv1d.conv
    before = F.silu(F.conv1d(F.pad(inner.mT, (3, 0)), conv.weight, conv.bias, groups=INNER).mT)
    q, k = (torch.block_diag(*p.weight) @ before[..., None] for p in (layer.q_proj, layer.k_proj))
    v = torch.block_diag(*layer.v_proj.weight) @ inner[..., None]
    together = torch.cat((q, k, v), -2)[..., 0]
    cell = layer.mlstm_cell
    i, f = (F.linear(together, g.weight, g.bias).mT for g in (cell.igate, cell.fgate))
    q, k, v = (a[..., 0].unflatten(-1, (4, 16)).transpose(1, 2) for a in (q, k, v))
    sums = F.logsigmoid(f).cumsum(-1)
    log_d = sums[..., :, None] - sums[..., None, :] + i[..., None, :]
    log_d = log_d.masked_fill(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1), -math.inf)
    m = log_d.amax(-1, True)
    scores = (q @ k.mT) / 4.0 * (log_d - m).exp()
    h = scores @ v / (torch.maximum(scores.sum(-1, True).abs(), (-m).exp()) + 1e-6)
    h = F.layer_norm(h, (16,)).transpose(1, 2).flatten(2) * (1 + cell.outnorm.weight)
    return F.linear((h + layer.learnable_skip * before) * F.silu(z), layer.proj_down.weight)


def slstm_by_formula(layer: Any, x: Any) -> Any:
    """Token by token; the input gate is what the state calls fgate."""
    conv, cell = layer.conv1d.conv, layer.slstm_cell
    before = F.silu(F.conv1d(F.pad(x.mT, (3, 0)), conv.weight, conv.bias, groups=SIZE).mT)
    raw = [
        a @ torch.block_diag(*gate.weight).mT
        for a, gate in ((before, layer.fgate), (before, layer.igate), (x, layer.zgate), (x, layer.ogate))
    ]
    bias = cell._bias_.view(4, SIZE)
    kernels = [torch.block_diag(*cell._recurrent_kernel_.view(4, 4, 8, 8)[:, g]) for g in range(4)]
    y = c = n = m = x.new_zeros(x.shape[0], SIZE)
    rows = []
    for t in range(x.shape[1]):
        i, f, z, o = (raw[g][:, t] + y @ kernels[g].mT + bias[g] for g in range(4))
        kept = F.logsigmoid(f) + m
        new = i if t == 0 else torch.maximum(i, kept)
        c = (kept - new).exp() * c + (i - new).exp() * z.tanh()
        n = (kept - new).exp() * n + (i - new).exp()
        y, m = o.sigmoid() * c / n, new
        rows.append(y.unflatten(-1, (4, 8)))
    return F.layer_norm(torch.stack(rows, 1), (8,)).flatten(2) * (1 + layer.group_norm.weight)


@pytest.mark.parametrize(("name", "formula"), [("mLSTM", mlstm_by_formula), ("sLSTM", slstm_by_formula)])
def test_formula(name: str, formula: Any) -> None:
    """Results and gradients, of float32 beside float64."""
    layer = shaken(layers()[name])
    exact = copy.deepcopy(layer).double()
    x = torch.randn(2, 70, SIZE)
    factor = torch.randn(2, 70, SIZE)
    expected = formula(exact, x.double())
    found = layer(x)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(exact(x.double()), expected, rtol=1e-6, atol=1e-6)
    wanted = torch.autograd.grad((expected * factor).sum(), list(exact.parameters()))
    given = torch.autograd.grad((found * factor).sum(), list(layer.parameters()))
    for (parameter, _), a, b in zip(layer.named_parameters(), given, wanted, strict=True):
        assert float((a - b).abs().max()) < 1e-4 * max(1.0, float(b.abs().max())), parameter


def test_steps_equal_the_whole() -> None:
    """One by one from the start, and after a part at once; the states at the end are the same too."""
    modules = layers() | {"stack": mnn.xLSTMBlockStack(stack_config())}
    for name, module in modules.items():
        shaken(module)
        x = torch.randn(2, TOKENS, SIZE)
        is_stack = name == "stack"
        with torch.no_grad():
            whole, end = module(x, return_last_state=True)
            torch.testing.assert_close(module(x), whole, rtol=1e-5, atol=1e-5)
            for at in (0, 1, 2, 7):
                rows, state = [], {}
                if at:
                    first, state = module(x[:, :at], return_last_state=True)
                    rows.append(first)
                for t in range(at, TOKENS):
                    kept = [s.clone() for s in states(state)]
                    row, new = module.step(x[:, t : t + 1], **({"state": state} if is_stack else state))
                    assert all(torch.equal(a, b) for a, b in zip(kept, states(state), strict=True)), "state written"
                    rows.append(row)
                    state = new
                torch.testing.assert_close(torch.cat(rows, 1), whole, rtol=1e-5, atol=1e-5, msg=f"{name}, {at}")
                # A convolution's window has one row more after a step, which the next does not read.
                for a, b in zip(states(state), states(end), strict=True):
                    rows_of = (slice(None), slice(-b.shape[1], None)) if a.shape != b.shape and b.shape[1] else ...
                    if a.shape == b.shape or b.shape[1]:
                        torch.testing.assert_close(a[rows_of], b, rtol=1e-4, atol=1e-4, msg=f"{name}, {at}")


@pytest.mark.sweep
def test_parts_of_a_sequence_carry_gradients() -> None:
    stack = shaken(mnn.xLSTMBlockStack(stack_config())).double()
    x = torch.randn(1, TOKENS, SIZE, dtype=torch.float64)
    first, state = stack(x[:, :4], return_last_state=True)
    cut = torch.cat((first, stack(x[:, 4:], state)), 1)
    factor = torch.randn(cut.shape, dtype=torch.float64)
    parameters = list(stack.parameters())
    found = torch.autograd.grad((cut * factor).sum(), parameters)
    for a, b in zip(found, torch.autograd.grad((stack(x) * factor).sum(), parameters), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_layouts_of_slstm_weights() -> None:
    """A state of the layout for cuda loads where that for vanilla is asked for, and the other way round."""
    x = torch.randn(2, 5, 4 * SIZE)
    for first, second in (("cuda", "vanilla"), ("vanilla", "cuda"), ("cuda", "cuda")):
        one, other = (mnn.sLSTMCell(slstm_config(backend=backend)) for backend in (first, second))
        shaken(one)
        kept = {name: value.clone() for name, value in one.state_dict().items()}
        other.load_state_dict(kept, strict=True)
        for a, b in zip(one(x), other(x), strict=True):
            torch.testing.assert_close(a, b)


def test_shapes_of_slstm_results() -> None:
    x = torch.randn(3, 5, 4 * SIZE)
    plain = mnn.sLSTMCell(slstm_config())
    y, state = plain(x)
    assert y.shape == (3, 4, 5, 8) and state.shape == (4, 3, SIZE)
    rows = y.transpose(1, 2)
    for shape, expected in (
        ("SBH", rows.transpose(0, 1).flatten(2)),
        ("BSH", rows.flatten(2)),
        ("SBNH", rows.transpose(0, 1)),
    ):
        cell = mnn.sLSTMCell(slstm_config(input_shape="SBGNH", output_shape=shape))
        cell.load_state_dict(plain.state_dict())
        torch.testing.assert_close(cell(x.transpose(0, 1))[0], expected)
    torch.testing.assert_close(plain.step(x[:, :1])[0], y[:, :, :1])


def test_norm_and_convolution() -> None:
    torch.manual_seed(2)
    norm = shaken(mnn.MultiHeadLayerNorm(24, bias=True))
    x = torch.randn(2, 3, 5, 8)
    rows = x.transpose(1, 2).reshape(10, 24)
    expected = F.group_norm(rows, 3, 1 + norm.weight, norm.bias, norm.eps)
    torch.testing.assert_close(norm(x), expected.view(2, 5, 3, 8).transpose(1, 2), rtol=1e-5, atol=1e-5)
    plain = mnn.MultiHeadLayerNorm(24, residual_weight=False)
    torch.testing.assert_close(plain(x), F.layer_norm(x, (8,)), rtol=1e-5, atol=1e-5)

    conv = mnn.xLSTMCausalConv1d(mnn.CausalConv1dConfig(6, 4))
    x = torch.randn(2, 9, 6)
    whole = F.conv1d(F.pad(x.mT, (3, 0)), conv.conv.weight, conv.conv.bias, groups=6).mT
    torch.testing.assert_close(conv(x), whole)
    for before in (1, 3, 5):  # fewer tokens than the kernel sees, as many, more
        torch.testing.assert_close(conv(x[:, before:], x[:, :before]), whole[:, before:])
    assert mnn.xLSTMCausalConv1d(mnn.CausalConv1dConfig(6, 0))(x) is x


def test_feed_forward() -> None:
    x = torch.randn(2, 3, SIZE)
    functions = {
        "gelu": F.gelu,
        "relu": F.relu,
        "relu^2": lambda a: F.relu(a) ** 2,
        "sigmoid": torch.sigmoid,
        "swish": F.silu,
        "selu": F.selu,
    }
    for name, function in functions.items():
        part = mnn.GatedFeedForward(mnn.FeedForwardConfig(act_fn=name, embedding_dim=SIZE))
        gate, up = part.proj_up(x).chunk(2, -1)
        torch.testing.assert_close(part(x), part.proj_down(function(gate) * up), msg=name)


@pytest.mark.sweep
def test_copies_and_half_precision() -> None:
    stack = shaken(mnn.xLSTMBlockStack(stack_config()))
    x = torch.randn(2, TOKENS, SIZE)
    expected = stack(x)
    for other in (copy.deepcopy(stack), pickle.loads(pickle.dumps(stack))):
        torch.testing.assert_close(other(x), expected)
    half = copy.deepcopy(stack).half()
    y, state = half(x.half(), return_last_state=True)
    assert y.dtype == torch.float16 and state["block_0"]["mlstm_state"][0].dtype == torch.float32
    assert float((y.float() - expected).detach().abs().mean()) < 0.05
    assert half.step(x[:, :1].half(), state)[0].dtype == torch.float16
    assert stack(x[:, :0]).shape == (2, 0, SIZE)


def test_a_config_is_left_as_it_was() -> None:
    config = stack_config(dropout=0.5)
    before = copy.deepcopy(config)
    stack = mnn.xLSTMBlockStack(config)
    assert config == before
    assert stack.blocks[1].xlstm.dropout.p == 0.5 and stack.blocks[0].xlstm.dropout.p == 0.5
    x = torch.randn(1, 3, SIZE)
    assert not torch.equal(stack(x), stack(x))


M, S = mnn.mLSTMLayerConfig, slstm_config
LAYERS = layers()
ROW = torch.zeros(1, 1, SIZE)
REFUSED: list[tuple[str, Any]] = [
    ("mLSTMLayer: embedding_dim", lambda: mnn.mLSTMLayer(M())),
    ("mLSTMLayer: num_heads", lambda: mnn.mLSTMLayer(M(embedding_dim=SIZE, num_heads=5))),
    ("mLSTMLayer: num_heads", lambda: mnn.mLSTMLayer(M(embedding_dim=SIZE, num_heads=0))),
    ("mLSTMLayer: qkv_proj_blocksize", lambda: mnn.mLSTMLayer(M(embedding_dim=SIZE, qkv_proj_blocksize=3))),
    ("mLSTMLayer: proj_factor", lambda: mnn.mLSTMLayer(M(embedding_dim=SIZE, proj_factor=0.0))),
    ("mLSTMCell: num_heads", lambda: mnn.mLSTMCell(mnn.mLSTMCellConfig(8, SIZE, 3))),
    ("sLSTMCell: hidden_size", lambda: mnn.sLSTMCell(mnn.sLSTMCellConfig())),
    ("sLSTMCell: num_heads", lambda: mnn.sLSTMCell(mnn.sLSTMCellConfig(hidden_size=6))),
    ("sLSTMCell: function", lambda: mnn.sLSTMCell(S(function="lstm"))),
    ("sLSTMCell: gradient_recurrent_cut", lambda: mnn.sLSTMCell(S(gradient_recurrent_cut=True))),
    ("sLSTMLayer: output_shape", lambda: mnn.sLSTMLayer(S(output_shape="BSH"))),
    ("GatedFeedForward: act_fn", lambda: mnn.GatedFeedForward(mnn.FeedForwardConfig(act_fn="tan", embedding_dim=8))),
    ("xLSTMCausalConv1d: kernel_size", lambda: mnn.xLSTMCausalConv1d(mnn.CausalConv1dConfig(6, -1))),
    ("xLSTMCausalConv1d: channel_mixing", lambda: mnn.xLSTMCausalConv1d(mnn.CausalConv1dConfig(6, 4, True, True))),
    ("xLSTMBlockStack: slstm_at", lambda: mnn.xLSTMBlockStack(stack_config(slstm_at=[3]))),
    ("xLSTMBlockStack: slstm_block", lambda: mnn.xLSTMBlockStack(stack_config(slstm_block=None))),
    ("xLSTMBlockStack: num_blocks", lambda: mnn.xLSTMBlockStack(stack_config(num_blocks=0))),
    ("MultiHeadLayerNorm: input", lambda: mnn.MultiHeadLayerNorm(8)(torch.zeros(1, 2, 8))),
    ("MultiHeadLayerNorm: input", lambda: mnn.MultiHeadLayerNorm(8)(torch.zeros(1, 2, 3, 5))),
    ("mLSTMLayer: x", lambda: LAYERS["mLSTM"](torch.zeros(1, 2, SIZE + 1))),
    ("mLSTMLayer.step: x", lambda: LAYERS["mLSTM"].step(torch.zeros(1, 2, SIZE))),
    ("mLSTMCell.step: mlstm_state", lambda: LAYERS["mLSTM"].step(ROW, mlstm_state=ROW)),
    ("mLSTMCell.step: mlstm_state[0] (c)", lambda: LAYERS["mLSTM"].step(ROW, mlstm_state=(ROW, ROW, ROW))),
    ("mLSTMCell: q", lambda: LAYERS["mLSTM"].mlstm_cell(ROW, ROW, ROW)),
    ("xLSTMCausalConv1d: conv_state", lambda: LAYERS["mLSTM"].step(ROW, conv_state=(ROW[..., 1:],))),
    ("sLSTMLayer: x", lambda: LAYERS["sLSTM"](torch.zeros(2, SIZE))),
    ("sLSTMLayer.step: x", lambda: LAYERS["sLSTM"].step(torch.zeros(2, SIZE))),
    ("sLSTMCell: state", lambda: LAYERS["sLSTM"].step(ROW, slstm_state=torch.zeros(4, 2, SIZE))),
    ("sLSTMCell: input", lambda: LAYERS["sLSTM"].slstm_cell(ROW)),
    ("sLSTMCell.step: input", lambda: LAYERS["sLSTM"].slstm_cell.step(torch.zeros(1, 2, 4 * SIZE))),
]


def test_refusals_name_the_argument() -> None:
    for start, call in REFUSED:
        with pytest.raises(ArgumentError) as caught:
            call()
        assert str(caught.value).startswith(f"{start} must be "), caught.value
