"""Modules over the ops. Those with a namesake in torch.nn take its constructor arguments and load its state."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

import metalcore
from metalcore.errors import ArgumentError
from metalcore.ops import nouns
from metalcore.torch.multihead import MultiheadAttention
from metalcore.torch.xlstm_parts import xLSTMCausalConv1d

# Looked up once here: torch.compile then sees plain functions of the package.
for _noun in nouns():
    getattr(metalcore, _noun)


class RMSNorm(nn.RMSNorm):
    """torch.nn.RMSNorm by metalcore.rms_norm."""

    def forward(self, x: Tensor) -> Any:
        return metalcore.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class LayerNorm(nn.LayerNorm):
    """torch.nn.LayerNorm by metalcore.layer_norm."""

    def forward(self, input: Tensor) -> Any:
        return metalcore.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class FusedAddRMSNorm(nn.RMSNorm):
    """(norm(x + residual), x + residual) in one launch; the state is that of torch.nn.RMSNorm."""

    def __init__(self, normalized_shape: int, eps: float = 1e-6, device: Any = None, dtype: Any = None) -> None:
        super().__init__(normalized_shape, eps, device=device, dtype=dtype)
        _one_dimension("FusedAddRMSNorm", self.normalized_shape)

    def forward(self, x: Tensor, residual: Tensor) -> Any:  # type: ignore[override]
        return metalcore.fused_add_rms_norm(x, residual, self.weight, cast(float, self.eps))


class FusedAddLayerNorm(nn.LayerNorm):
    """(norm(x + residual), x + residual) in one launch; the state is that of torch.nn.LayerNorm."""

    def __init__(self, normalized_shape: int, eps: float = 1e-5, device: Any = None, dtype: Any = None) -> None:
        super().__init__(normalized_shape, eps, device=device, dtype=dtype)
        _one_dimension("FusedAddLayerNorm", self.normalized_shape)

    def forward(self, x: Tensor, residual: Tensor) -> Any:  # type: ignore[override]
        return metalcore.fused_add_layer_norm(x, residual, self.weight, self.bias, self.eps)


class GELU(nn.GELU):
    """torch.nn.GELU by metalcore.gelu."""

    def forward(self, input: Tensor) -> Any:
        return metalcore.gelu(input, approximate=self.approximate)


class SiLU(nn.SiLU):
    """torch.nn.SiLU by metalcore.silu. `inplace` writes the result over the input, as torch's does."""

    def forward(self, input: Tensor) -> Any:
        found = metalcore.silu(input)
        return input.copy_(found) if self.inplace else found


class _Bias(nn.Module):
    def __init__(self, num_features: int, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_features = num_features
        self.bias = nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype))

    def extra_repr(self) -> str:
        return str(self.num_features)


class BiasGELU(_Bias):
    """gelu(x + bias), for a linear layer without a bias of its own."""

    def __init__(self, num_features: int, approximate: str = "none", device: Any = None, dtype: Any = None) -> None:
        super().__init__(num_features, device, dtype)
        self.approximate = approximate

    def forward(self, x: Tensor) -> Any:
        return metalcore.bias_gelu(x, self.bias, self.approximate)


class BiasSiLU(_Bias):
    """silu(x + bias), for a linear layer without a bias of its own."""

    def forward(self, x: Tensor) -> Any:
        return metalcore.bias_silu(x, self.bias)


class _Gated(nn.Module):
    """Takes gate and up, or one tensor whose last dimension holds both."""

    noun = ""

    def forward(self, gate: Tensor, up: Tensor | None = None) -> Any:
        if up is None:
            gate, up = gate.chunk(2, -1)
        return getattr(metalcore, self.noun)(gate, up)


class SwiGLU(_Gated):
    """silu(gate) * up."""

    noun = "swiglu"


class GEGLU(_Gated):
    """gelu(gate) * up."""

    noun = "geglu"


class Softmax(nn.Softmax):
    """torch.nn.Softmax by metalcore.softmax."""

    def forward(self, input: Tensor) -> Any:
        return metalcore.softmax(input, _dim(self, input))


class LogSoftmax(nn.LogSoftmax):
    """torch.nn.LogSoftmax by metalcore.log_softmax."""

    def forward(self, input: Tensor) -> Any:
        return metalcore.log_softmax(input, _dim(self, input))


class Softcap(nn.Module):
    """cap * tanh(x / cap)."""

    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, x: Tensor) -> Any:
        return metalcore.softcap(x, self.cap)

    def extra_repr(self) -> str:
        return f"cap={self.cap}"


class EmbeddingBag(nn.EmbeddingBag):
    """torch.nn.EmbeddingBag by metalcore.embedding_bag. `max_norm`, `scale_grad_by_freq` and `sparse` are refused."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, usual in (("max_norm", None), ("scale_grad_by_freq", False), ("sparse", False)):
            if getattr(self, name) != usual:
                raise ArgumentError(f"EmbeddingBag: {name} must be {usual}, not {getattr(self, name)!r}")

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Any:
        return metalcore.embedding_bag(
            input,
            self.weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )


class RotaryEmbedding(nn.Module):
    """Rotary position embedding of q and k, (..., tokens, dim): tables of cos and sin for `max_positions` positions.

    The tables hold `dim / 2` angles a position and are not part of the state.
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self, dim: int, max_positions: int = 2048, base: float = 10000.0, interleaved: bool = False, device: Any = None
    ) -> None:
        super().__init__()
        if dim <= 0 or dim % 2:
            raise ArgumentError(f"RotaryEmbedding: dim must be even and above 0, not {dim}")
        self.dim, self.max_positions, self.base, self.interleaved = dim, max_positions, base, interleaved
        frequencies = base ** (-torch.arange(0, dim, 2, device=device, dtype=torch.float64) / dim)
        angles = torch.arange(max_positions, device=device, dtype=torch.float64)[:, None] * frequencies
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def forward(self, q: Tensor, k: Tensor, position_ids: Tensor | None = None) -> Any:
        cos, sin = self.cos, self.sin
        if position_ids is None:
            cos, sin = cos[: q.shape[-2]], sin[: q.shape[-2]]
        return metalcore.rope(q, k, cos, sin, position_ids, self.interleaved)

    def extra_repr(self) -> str:
        return f"{self.dim}, max_positions={self.max_positions}, base={self.base}, interleaved={self.interleaved}"


class CrossEntropyLoss(nn.CrossEntropyLoss):
    """torch.nn.CrossEntropyLoss by metalcore.cross_entropy; `z_loss` adds z_loss * logsumexp(input)^2, `float32_loss`
    keeps the loss of half-precision logits in float32."""

    def __init__(self, *args: Any, z_loss: float = 0.0, float32_loss: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.z_loss, self.float32_loss = z_loss, float32_loss

    def forward(self, input: Tensor, target: Tensor) -> Any:
        return metalcore.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
            float32_loss=self.float32_loss,
        )


class KLDivLoss(nn.KLDivLoss):
    """torch.nn.KLDivLoss by metalcore.kl_div."""

    def forward(self, input: Tensor, target: Tensor) -> Any:
        return metalcore.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class CausalConv1d(nn.Conv1d):
    """Depthwise convolution that sees no later token, x (batch, channels, tokens); the state is that of
    torch.nn.Conv1d(channels, channels, kernel_size, groups=channels).

    `CausalConv1d(config)`, with a config of xLSTM, is an xLSTMCausalConv1d: layout and state are those of the package.
    """

    def __new__(cls, *args: Any, **named: Any) -> Any:
        config = args[0] if args else named.get("config")
        return xLSTMCausalConv1d(config) if hasattr(config, "feature_dim") else super().__new__(cls)

    def __init__(
        self,
        channels: int,
        kernel_size: int,
        bias: bool = True,
        activation: str | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(channels, channels, kernel_size, groups=channels, bias=bias, device=device, dtype=dtype)
        self.activation = activation

    def forward(self, x: Tensor, state: Tensor | None = None) -> Any:
        """With `state`, what metalcore.causal_conv1d gives then."""
        return metalcore.causal_conv1d(x, self.weight.squeeze(1), self.bias, state, self.activation)


def _dim(module: Any, input: Tensor) -> int:
    if module.dim is None:
        raise ArgumentError(f"{type(module).__name__}: dim must be given, not None")
    return int(module.dim)


def _one_dimension(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 1:
        raise ArgumentError(f"{name}: normalized_shape must be one number, not {shape}")


__all__ = [
    "GEGLU",
    "GELU",
    "BiasGELU",
    "BiasSiLU",
    "CausalConv1d",
    "CrossEntropyLoss",
    "EmbeddingBag",
    "FusedAddLayerNorm",
    "FusedAddRMSNorm",
    "KLDivLoss",
    "LayerNorm",
    "LogSoftmax",
    "MultiheadAttention",
    "RMSNorm",
    "RotaryEmbedding",
    "SiLU",
    "Softcap",
    "Softmax",
    "SwiGLU",
]
