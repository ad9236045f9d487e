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
CHOICES = ("norm", "activation", "rope", "loss")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _taken(name: str, *tensors: torch.Tensor) -> bool:
    """Whether an op takes these tensors: one dtype of those it has, on a device it runs on."""
    first = tensors[0]
    reason = ""
    if first.dtype not in _DTYPES or any(t.dtype != first.dtype for t in tensors):
        reason = f"dtypes {', '.join(str(t.dtype).removeprefix('torch.') for t in tensors)}"
    elif first.device.type not in ("cpu", "mps"):
        reason = f"on {first.device.type}"
    if reason and recorders and not torch.compiler.is_compiling():
        left_to_torch(name, reason, tensors)
    return not reason


def _llama_norm(self: Any, hidden_states: torch.Tensor) -> Any:
    """weight * (x / rms(x)).to(dtype): rounded once here, after the product, where theirs rounds twice."""
    if not _taken("rms_norm", hidden_states, self.weight):
        return type(self).forward(self, hidden_states)
    return metalcore.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)


def _gemma_norm(self: Any, x: torch.Tensor) -> Any:
    """(x / rms(x) * (1 + weight)).to(dtype), with 1 + weight in float32."""
    if not _taken("rms_norm", x):
        return type(self).forward(self, x)
    return metalcore.rms_norm(x, self.weight.shape, 1.0 + self.weight.float(), self.eps)


def _swiglu(self: Any, x: torch.Tensor) -> Any:
    gate, up = self.gate_proj(x), self.up_proj(x)
    if not _taken("swiglu", gate, up):
        return self.down_proj(self.act_fn(gate) * up)
    return self.down_proj(metalcore.swiglu(gate, up))


def _geglu(self: Any, x: torch.Tensor, approximate: str) -> Any:
    gate, up = self.gate_proj(x), self.up_proj(x)
    if not _taken("geglu", gate, up):
        return self.down_proj(self.act_fn(gate) * up)
    return self.down_proj(metalcore.geglu(gate, up, approximate))


def _geglu_exact(self: Any, x: torch.Tensor) -> Any:
    return _geglu(self, x, "none")


def _geglu_tanh(self: Any, x: torch.Tensor) -> Any:
    return _geglu(self, x, "tanh")


NORMS: dict[str, Callable[..., Any]] = {"llama": _llama_norm, "gemma": _gemma_norm}
GATED: dict[str, Callable[..., Any]] = {
    "SiLUActivation": _swiglu,
    "SiLU": _swiglu,
    "GELUActivation": _geglu_exact,
    "GELUTanh": _geglu_tanh,
}
"""By the class of the activation in transformers."""


def rotary(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """apply_rotary_pos_emb of transformers: q (batch, heads, tokens, dim), cos (batch, tokens, dim)."""

    def apply_rotary_pos_emb(
        q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
    ) -> Any:
        if unsqueeze_dim != 1 or cos.shape[-1] != q.shape[-1] or not _taken("rope", q, k, cos, sin):
            return theirs(q, k, cos, sin, unsqueeze_dim)
        return metalcore.rope(q, k, cos, sin)

    return apply_rotary_pos_emb


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
    if not _taken("cross_entropy", logits):
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
