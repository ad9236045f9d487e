"""What patch_model puts into the modules of a model: the same mathematics as theirs, by the library's ops.

Each asks first whether the op takes the call; where it does not, the module's own code runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import metalcore
from metalcore.runtimes.watch import left_to_torch, recorders

MARK = "metalcore_patch"  # what unpatch_model knows our functions by
CHOICES = ("norm", "activation", "rope", "attention", "loss")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def taken(name: str, *tensors: torch.Tensor, reason: str = "") -> bool:
    """Whether an op takes these tensors: one dtype of those it has, on a device it runs on, no `reason` against it."""
    first = tensors[0]
    if reason:
        pass
    elif first.dtype not in _DTYPES or any(t.dtype != first.dtype for t in tensors):
        reason = f"dtypes {', '.join(str(t.dtype).removeprefix('torch.') for t in tensors)}"
    elif first.device.type not in ("cpu", "mps"):
        reason = f"on {first.device.type}"
    if reason and recorders and not torch.compiler.is_compiling():
        left_to_torch(name, reason, tensors)
    return not reason


def _llama_norm(self: Any, hidden_states: torch.Tensor) -> Any:
    """weight * (x / rms(x)).to(dtype): rounded once here, after the product, where theirs rounds twice."""
    if not taken("rms_norm", hidden_states, self.weight):
        return type(self).forward(self, hidden_states)
    return metalcore.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)


def _gemma_norm(self: Any, x: torch.Tensor) -> Any:
    """(x / rms(x) * (1 + weight)).to(dtype), with 1 + weight in float32."""
    if not taken("rms_norm", x):
        return type(self).forward(self, x)
    return metalcore.rms_norm(x, self.weight.shape, 1.0 + self.weight.float(), self.eps)


FUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "SiLUActivation": ("swiglu", ()),
    "SiLU": ("swiglu", ()),
    "GELUActivation": ("geglu", ("none",)),
    "GELUTanh": ("geglu", ("tanh",)),
}
"""The op of act(gate) * up and its other arguments, by the class of the activation in transformers."""


def _fused(act: Any, gate: torch.Tensor, up: torch.Tensor) -> Any:
    name, arguments = FUSED[type(act).__name__]
    if not taken(name, gate, up):
        return act(gate) * up
    return getattr(metalcore, name)(gate, up, *arguments)


def _two_projections(self: Any, x: torch.Tensor) -> Any:
    return self.down_proj(_fused(self.act_fn, self.gate_proj(x), self.up_proj(x)))


def _one_projection(self: Any, hidden_states: torch.Tensor) -> Any:
    """Phi3: one matrix gives gate and up."""
    return self.down_proj(_fused(self.activation_fn, *self.gate_up_proj(hidden_states).chunk(2, -1)))


def _experts(self: Any, gate_up_out: torch.Tensor) -> Any:
    """The gate of all experts' tokens at once, between the grouped products: _apply_gate of transformers."""
    return _fused(self.act_fn, *gate_up_out.chunk(2, -1))


NORMS: dict[str, Callable[..., Any]] = {"llama": _llama_norm, "gemma": _gemma_norm}
GATED: dict[str, Callable[..., Any]] = {
    "two projections": _two_projections,
    "one projection": _one_projection,
    "experts": _experts,
}


def rotary(theirs: Callable[..., Any], tables: str) -> Callable[..., Any]:
    """apply_rotary_pos_emb of transformers: q (batch, heads, tokens, dim), cos (batch, tokens, width).

    `tables` says how a family differs: "half" has one angle a pair, "partial" turns the first `width` elements,
    "float32" rounds after the rotation alone. A function each: torch.compile takes these for the functions of
    transformers that they stand for, and would look for `tables` in those.
    """

    def whole(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        if unsqueeze_dim != 1 or cos.shape[-1] != q.shape[-1] or not taken("rope", q, k, cos, sin):
            return theirs(q, k, cos, sin, unsqueeze_dim)
        return metalcore.rope(q, k, cos, sin)

    def half(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        if unsqueeze_dim != 1 or 2 * cos.shape[-1] != q.shape[-1] or not taken("rope", q, k, cos, sin):
            return theirs(q, k, cos, sin, unsqueeze_dim)
        return metalcore.rope(q, k, cos, sin)

    def part(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        if unsqueeze_dim != 1 or not taken("rope", q, k, cos, sin):
            return theirs(q, k, cos, sin, unsqueeze_dim)
        return metalcore.rope(q, k, cos, sin, rotary_dim=cos.shape[-1])

    def float32(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        exact = cos.dtype == sin.dtype == torch.float32 and cos.device == q.device
        if unsqueeze_dim != 1 or not exact or cos.shape[-1] != q.shape[-1] or not taken("rope", q, k):
            return theirs(q, k, cos, sin, unsqueeze_dim)
        return metalcore.rope(q, k, cos, sin)

    return {"": whole, "half": half, "partial": part, "float32": float32}[tables]


def _causal_loss(
    theirs: Callable[..., Any],
    logits: torch.Tensor,
    labels: torch.Tensor,
    vocab_size: int,
    num_items_in_batch: Any = None,
    ignore_index: int = -100,
    shift_labels: torch.Tensor | None = None,
    **kwargs: Any,
) -> Any:
    """The loss of a causal language model: each token predicts the next; the logits are not copied in float32."""
    if not taken("cross_entropy", logits):
        return theirs(logits, labels, vocab_size, num_items_in_batch, ignore_index, shift_labels, **kwargs)
    if shift_labels is None:
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    target = shift_labels.reshape(-1).to(logits.device)
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss = metalcore.cross_entropy(
        logits.reshape(-1, vocab_size), target, ignore_index=ignore_index, reduction=reduction, float32_loss=True
    )
    return loss if num_items_in_batch is None else loss / num_items_in_batch


def causal_loss(theirs: Callable[..., Any]) -> Callable[..., Any]:
    made = partial(_causal_loss, theirs)
    setattr(made, MARK, "loss")
    return made


for _forward in (*NORMS.values(), *GATED.values()):
    setattr(_forward, MARK, _forward.__name__)
