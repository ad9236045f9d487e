"""Multi-head attention with projections, as torch.nn has it, on metalcore.scaled_dot_product_attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import metalcore
from metalcore.ops.base.check import refuse

NAME = "MultiheadAttention"


class MultiheadAttention(nn.MultiheadAttention):
    """torch.nn.MultiheadAttention by metalcore.scaled_dot_product_attention: its arguments, its state, its results.

    With `need_weights=True`, torch's default, the weights are asked for and torch's own code makes them: that needs the
    whole matrix of queries by keys. Pass `need_weights=False` to have the kernel. Nested tensors are refused.
    `is_causal` is a hint, as in torch: `attn_mask` must be given too, and is then not read where there is no padding
    and no extra key (`add_bias_kv`, `add_zero_attn`).

    >>> import torch, metalcore.nn
    >>> attention = metalcore.nn.MultiheadAttention(16, 4, batch_first=True)
    >>> x = torch.ones(2, 5, 16)
    >>> out, weights = attention(x, x, x, need_weights=False)
    >>> out.shape, weights
    (torch.Size([2, 5, 16]), None)
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            if tensor.is_nested:
                refuse(NAME, name, "one block of memory", "a nested tensor: pad it and give key_padding_mask")
        if need_weights:
            return super().forward(
                query, key, value, key_padding_mask, True, attn_mask, average_attn_weights, is_causal
            )
        self._check(query, key, value, key_padding_mask, attn_mask, is_causal)
        batched = query.dim() == 3
        q, k, v = (self._heads(x, batched) for x in self._project(query, key, value))
        given = k.shape[2]
        if self.bias_k is not None and self.bias_v is not None:
            k, v = self._with_token(k, self.bias_k), self._with_token(v, self.bias_v)
        if self.add_zero_attn:
            k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        extra = k.shape[2] - given
        causal = is_causal and key_padding_mask is None and extra == 0
        mask = None if causal else self._mask(attn_mask, key_padding_mask, q, extra)
        dropout = self.dropout if self.training else 0.0
        out = metalcore.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
        out = out.transpose(1, 2).flatten(2)  # (batch, tokens, embed_dim)
        if not batched:
            out = out.squeeze(0)
        elif not self.batch_first:
            out = out.transpose(0, 1)
        return self.out_proj(out), None

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if weight is not None and query is key and key is value:
            q, k, v = F.linear(query, weight, bias).chunk(3, -1)
            return q, k, v
        weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight) if weight is None else weight.chunk(3)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
        return q, k, v

    def _heads(self, x: Tensor, batched: bool) -> Tensor:
        """(batch, heads, tokens, head_dim)"""
        if not batched:
            x = x.unsqueeze(0)
        elif not self.batch_first:
            x = x.transpose(0, 1)
        batch, tokens, _ = x.shape
        return x.reshape(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)

    def _with_token(self, x: Tensor, token: Tensor) -> Tensor:
        """x (batch, heads, tokens, head_dim) with one more token, (1, 1, embed_dim), at the end of each row."""
        row = token.reshape(1, self.num_heads, 1, self.head_dim).to(x.dtype)
        return torch.cat([x, row.expand(x.shape[0], -1, -1, -1)], 2)

    def _mask(self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, q: Tensor, extra: int) -> Tensor | None:
        """Both masks in one that broadcasts to (batch, heads, tokens, keys); where bool, True attends."""
        masks = []
        if attn_mask is not None:
            masks.append(attn_mask if attn_mask.dim() == 2 else attn_mask.view(q.shape[0], -1, *attn_mask.shape[1:]))
        if key_padding_mask is not None:
            masks.append(key_padding_mask.reshape(q.shape[0], 1, 1, -1))
        masks = [F.pad(mask, (0, extra)) if extra else mask for mask in masks]  # 0 and False: the extra keys are seen
        if not masks:
            return None
        if all(mask.dtype == torch.bool for mask in masks):
            hidden = masks[0] if len(masks) == 1 else masks[0] | masks[1]
            return ~hidden
        added = [_float_mask(mask, q.dtype) for mask in masks]
        return added[0] if len(added) == 1 else added[0] + added[1]

    def _check(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        is_causal: bool,
    ) -> None:
        """Shapes and dtypes, by the names of torch's arguments."""
        dims = query.dim()
        if dims not in (2, 3):
            refuse(NAME, "query", "of 2 or 3 dimensions", f"of shape {tuple(query.shape)}")
        for name, x, width in (("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim)):
            if x.dim() != dims or x.shape[-1] != width:
                refuse(NAME, name, f"of {dims} dimensions, the last {width}", f"of shape {tuple(x.shape)}")
        if key.shape[:-1] != value.shape[:-1]:
            refuse(NAME, "value", f"of shape {(*key.shape[:-1], self.vdim)} as key", f"of shape {tuple(value.shape)}")
        tokens, keys = query.shape[0], key.shape[0]
        batch: tuple[int, ...] = ()
        if dims == 3:
            at = 0 if self.batch_first else 1
            tokens, keys = query.shape[1 - at], key.shape[1 - at]
            batch = (query.shape[at],)
            if key.shape[at] != query.shape[at]:
                refuse(NAME, "key", f"of batch {query.shape[at]} as query", f"of shape {tuple(key.shape)}")
        rows = math.prod(batch) * self.num_heads
        for name, mask, shapes in (
            ("key_padding_mask", key_padding_mask, ((*batch, keys),)),
            ("attn_mask", attn_mask, ((tokens, keys), (rows, tokens, keys))),
        ):
            if mask is None:
                continue
            if mask.dtype != torch.bool and not mask.is_floating_point():
                refuse(NAME, name, "bool or float", f"of dtype {str(mask.dtype).removeprefix('torch.')}")
            if tuple(mask.shape) not in shapes:
                refuse(NAME, name, f"of shape {' or '.join(map(str, shapes))}", f"of shape {tuple(mask.shape)}")
        if is_causal and attn_mask is None:
            refuse(NAME, "attn_mask", "given with is_causal, which is a hint about it", "None")


def _float_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask that is added; torch's bool True hides."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)


__all__ = ["MultiheadAttention"]
