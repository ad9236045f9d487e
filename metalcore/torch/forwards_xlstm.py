"""What patch_model puts into the modules of transformers' xLSTM: norms, the gated activation, the matrix memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import metalcore
from metalcore.ops.base.mlstm_parts import DEEPEST
from metalcore.torch.forwards import MARK, taken


def _norm(self: Any, x: torch.Tensor) -> Any:
    """x / rms(x) * weight + bias, either of which may be None."""
    if not taken("rms_norm", x, *(() if self.weight is None else (self.weight,))):
        return type(self).forward(self, x)
    found = metalcore.rms_norm(x, (self.num_features,), self.weight, self.eps)
    return found if self.bias is None else found + self.bias


def _heads_norm(self: Any, x: torch.Tensor) -> Any:
    """Each head of (batch, tokens, heads, depth) for itself; the result has all of them in one dimension."""
    reason = "" if tuple(x.shape[2:]) == (self.num_heads, self.head_dim) else f"of shape {tuple(x.shape)}"
    if not taken("layer_norm", x, reason=reason):
        return type(self).forward(self, x)
    found = metalcore.layer_norm(x, (self.head_dim,), None, None, self.eps).flatten(2)
    return self._apply_weight_bias(found)


def _feed_forward(self: Any, x: torch.Tensor) -> Any:
    if self.config.weight_mode == "single":
        gate, up = self.proj_up_gate(x), self.proj_up(x)
    else:
        gate, up = self.proj_up_gate_z(x).split(self.up_proj_dim, -1)
    return self.proj_down(metalcore.swiglu(gate, up) if taken("swiglu", gate, up) else self.act_fn(gate) * up)


def _mlstm(
    self: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    igate: torch.Tensor,
    fgate: torch.Tensor,
    c_initial: torch.Tensor | None = None,
    n_initial: torch.Tensor | None = None,
    m_initial: torch.Tensor | None = None,
    return_last_states: bool | None = None,
    mode: str | None = None,
) -> Any:
    """In training and inference, for any number of tokens; states in float32, m as (batch, heads, 1)."""
    chosen = mode or self.config.mode
    wants = self.config.return_last_states if return_last_states is None else return_last_states
    states: Any = (c_initial, n_initial, m_initial)
    arrays, tokens = (query, key, value, igate, fgate), query.shape[2]
    noun = "mlstm_step" if tokens == 1 and "inference" in chosen else "mlstm_chunkwise"
    reason = ""
    if not ("train" in chosen or "inference" in chosen) or (self.config.mode == "train_with_padding" and wants):
        reason = f"mode {chosen}"  # which theirs refuses, in its own words
    elif tokens == 0 or max(query.shape[-1], value.shape[-1]) > DEEPEST:
        reason = f"{tokens} tokens of depths {query.shape[-1]} and {value.shape[-1]}"
    elif 0 < sum(s is None for s in states) < 3:
        reason = "some of the states alone"
    if not taken(noun, *arrays, reason=reason):
        return type(self).forward(self, *arrays, *states, return_last_states, mode)
    if c_initial is not None:
        # The model writes new states over these, which the gradient still needs.
        states = tuple(s.to(torch.float32, copy=torch.is_grad_enabled()) for s in states)
    if noun == "mlstm_step":
        if c_initial is None:
            batch, heads, _, depth = query.shape
            made = ((depth, value.shape[-1]), (depth,), (1,))
            states = tuple(query.new_zeros((batch, heads, *s), dtype=torch.float32) for s in made)
        q, k, v, i, f = (x.squeeze(2) for x in arrays)
        c, n, m = states
        h, last = metalcore.mlstm_step(q, k, v, i, f, c, n, m, self.config.eps)
        return h.unsqueeze(2), last
    q, k, v, i, f = arrays
    c, n, m = states
    h, (c, n, m) = metalcore.mlstm_chunkwise(q, k, v, i, f, c, n, m, return_last_states=True, eps=self.config.eps)
    return (h, (c, n, m.unsqueeze(-1))) if wants or "inference" in chosen else h


XLSTM: dict[str, tuple[str, Callable[..., Any]]] = {
    "xLSTMRMSNorm": ("norm", _norm),
    "xLSTMMultiHeadLayerNorm": ("norm", _heads_norm),
    "xLSTMFeedForward": ("activation", _feed_forward),
    "xLSTMBackend": ("attention", _mlstm),  # what stands in attention's place
}
"""The kind of part, and its forward, by class."""

for _, _forward in XLSTM.values():
    setattr(_forward, MARK, _forward.__name__)
