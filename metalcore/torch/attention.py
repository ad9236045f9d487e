"""Attention of transformers' models by metalcore.scaled_dot_product_attention, through its AttentionInterface.

The interface has two functions: one makes the mask of a step, once for all layers; the other attends, in each layer.
Where every key is a token, causal and sliding-window masks are numbers, not arrays: the first function then hands on a
tensor of no elements whose shape holds them (see span). transformers passes 4-dimensional tensors through untouched.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch

import metalcore
from metalcore.arrays.torch_private import is_traced
from metalcore.ops.base.attention import DEEPEST
from metalcore.torch.forwards import taken

NAME = "metalcore"  # of the implementation, in the config and in transformers' tables
BEFORE = "metalcore_attention"  # attribute of a patched attention module: the implementation it had before
OP = "scaled_dot_product_attention"


def span(q_length: int, offset: int, window: int, device: Any) -> torch.Tensor:
    """In place of a mask: query i sees the keys j <= i + offset, and j > i + offset - window where window is not 0."""
    return torch.empty((0, window, q_length, offset), dtype=torch.bool, device=device)


def _is_span(mask: torch.Tensor, query: torch.Tensor) -> bool:
    return mask.dim() == 4 and mask.shape[0] == 0 and query.shape[0] != 0


def make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: int = 0,
    attention_mask: torch.Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    config: Any = None,
    device: Any = "cpu",
    **others: Any,
) -> Any:
    """None or a span where numbers say it all; else the bool mask that transformers makes for sdpa.

    None means what it means to sdpa: causal from the first key on, or every key for a single query.
    """
    from transformers.masking_utils import sdpa_mask

    # With allow_is_causal_skip the pattern is causal, sliding or chunked; a chunk is no window.
    plain = local_size is None or local_size == getattr(config, "sliding_window", None)
    if allow_is_causal_skip and plain and batch_size and _readable(attention_mask, q_offset):
        offset = int(q_offset) - kv_offset
        visible = offset + q_length
        window = local_size if local_size is not None and local_size < visible else 0
        if offset >= 0 and visible <= kv_length and _no_padding(attention_mask, kv_offset, visible):
            if not window and (offset == 0 if q_length > 1 else visible == kv_length):
                return None
            return span(q_length, offset, window, device)
    return sdpa_mask(
        batch_size,
        q_length,
        kv_length,
        q_offset,
        kv_offset,
        attention_mask=attention_mask,
        local_size=local_size,
        allow_is_causal_skip=False,
        device=device,
        **others,
    )


def _readable(*tensors: Any) -> bool:
    """A traced program cannot ask for values: a static cache's length, a padding mask."""
    traced = torch.compiler.is_compiling() or is_traced()
    return not traced or not any(isinstance(t, torch.Tensor) for t in tensors)


def _no_padding(attention_mask: torch.Tensor | None, start: int, length: int) -> bool:
    if attention_mask is None:
        return True
    seen = attention_mask[:, start : start + length]
    return seen.shape[1] == length and bool(seen.all())


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **others: Any,
) -> Any:
    """query (batch, heads, tokens, dim); gives (batch, tokens, heads, dim), and no weights."""
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal) and query.shape[2] > 1
    query, key, value = _cast(query, key, value)
    if not taken(OP, query, key, value, reason=_reason(query, value, others)):
        return _theirs(module, query, key, value, attention_mask, causal, scaling, dropout, others)
    window, visible = (-1, -1), key.shape[2]
    if attention_mask is None:
        visible = query.shape[2] if causal else visible  # a static cache has room behind the tokens
    else:
        causal = False  # the mask says it
        if _is_span(attention_mask, query):
            window, visible = (attention_mask.shape[1] - 1, 0), attention_mask.shape[3] + query.shape[2]
            attention_mask = None
        elif attention_mask.dtype != torch.bool:
            attention_mask = attention_mask.to(query.dtype)
    key, value = key[:, :, :visible], value[:, :, :visible]
    found = metalcore.scaled_dot_product_attention(
        query,
        key,
        value,
        attention_mask,
        dropout,
        causal,
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
        softcap=others.get("softcap") or 0.0,
        window_size=window,
        sinks=others.get("s_aux"),
    )
    return found.transpose(1, 2).contiguous(), None


def _cast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Under autocast rope may leave queries and keys in float32 beside values in half precision; torch's
    attention takes all in the type of autocast."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device) or any(t.dtype == torch.float64 for t in tensors):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(t.to(dtype) for t in tensors)


def _reason(query: torch.Tensor, value: torch.Tensor, others: dict[str, Any]) -> str:
    """Why the op does not take a call, beside dtypes and devices."""
    if max(query.shape[-1], value.shape[-1]) > DEEPEST:
        return f"head dimension above {DEEPEST}"
    for name in ("output_attentions", "position_bias", "cache"):
        if others.get(name) is not None and others[name] is not False:
            return f"{name} is given"
    return ""


def _theirs(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scaling: float | None,
    dropout: float,
    others: dict[str, Any],
) -> Any:
    """The implementation that the module had before, with the mask that it expects."""
    from transformers import AttentionInterface

    if mask is not None and _is_span(mask, query):
        mask = _explicit(query.shape[2], key.shape[2], mask.shape[3], mask.shape[1], query.device)
    name = getattr(module, BEFORE, "sdpa")
    if name != "eager":
        function = AttentionInterface._global_mapping[name]
        return function(module, query, key, value, mask, dropout=dropout, scaling=scaling, is_causal=causal, **others)
    if mask is None and causal:
        mask = _explicit(query.shape[2], key.shape[2], 0, 0, query.device)
    if mask is not None and mask.dtype == torch.bool:
        mask = query.new_zeros(()).masked_fill(~mask, torch.finfo(query.dtype).min)
    eager = inspect.unwrap(type(module).forward).__globals__["eager_attention_forward"]
    return eager(module, query, key, value, mask, dropout=dropout, scaling=scaling, **others)


def _explicit(tokens: int, keys: int, offset: int, window: int, device: Any) -> torch.Tensor:
    row = torch.arange(tokens, device=device)[:, None] + offset
    column = torch.arange(keys, device=device)[None]
    mask = column <= row
    return (mask & (column > row - window) if window else mask)[None, None]


def use_attention(model: torch.nn.Module, modules: dict[str, Any], left: dict[str, str]) -> int:
    """Let these attention modules of a model attend by our op; how many do. The others' reason goes to `left`."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError:
        left["attention"] = "this transformers has no AttentionInterface and AttentionMaskInterface"
        return 0
    getattr(metalcore, OP)  # looked up once here: torch.compile then sees a plain function of the package
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, make_mask)
    _own_configs(model)
    names: dict[int, str] = {}
    for name, module in modules.items():
        config = module.config
        if "ALL_ATTENTION_FUNCTIONS" not in inspect.unwrap(type(module).forward).__code__.co_names:
            left[f"attention of {name}"] = "its forward does not use transformers' AttentionInterface"
            continue
        if id(config) not in names:
            reason = _other_choice(model, config)
            if reason:
                left[f"attention of {name.partition('layers.')[0].rstrip('.') or type(model).__name__}"] = reason
            names[id(config)] = "" if reason else config._attn_implementation
            if not reason:
                config._attn_implementation_internal = NAME  # the property would set sub-configs too
        if names[id(config)]:
            module.__dict__[BEFORE] = names[id(config)]
    return sum(BEFORE in module.__dict__ for module in modules.values())


def restore_attention(model: torch.nn.Module) -> None:
    module: Any
    for module in model.modules():
        before = module.__dict__.pop(BEFORE, None)
        if before is not None and module.config._attn_implementation == NAME:
            module.config._attn_implementation_internal = before


def _other_choice(model: torch.nn.Module, config: Any) -> str:
    """Why a config's attention stays as it is: somebody chose it, rather than transformers."""
    owners = (m for m in model.modules() if hasattr(m, "_supports_sdpa") and m.config is config)
    owner = next(owners, None)
    usual = "sdpa" if getattr(owner, "_supports_sdpa", True) else "eager"
    if config._attn_implementation != usual:
        return f"its implementation was set to {config._attn_implementation}"
    if getattr(config, "output_attentions", False):
        return "its config asks for attention weights"
    return ""


def _own_configs(model: torch.nn.Module) -> None:
    """Models may share a config object: this one gets copies, which differ in the attention alone."""
    from transformers import PretrainedConfig

    copies: dict[int, tuple[Any, Any]] = {}  # by the id of the original, which is kept with it

    def own(config: Any) -> Any:
        if id(config) not in copies:
            made = copy.copy(config)
            copies[id(config)] = (config, made)
            for name in config.sub_configs:
                if isinstance(config.__dict__.get(name), PretrainedConfig):
                    made.__dict__[name] = own(config.__dict__[name])
        return copies[id(config)][1]

    for module in model.modules():
        for name, value in module.__dict__.items():
            if isinstance(value, PretrainedConfig):
                module.__dict__[name] = own(value)
