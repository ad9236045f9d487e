"""Models of Hugging Face transformers on the library's ops: norms, gated activations, rope, attention and loss.

Only the instance is changed: each module of the model gets a `forward` of its own, and unpatch_model takes it away
again, so that the class's function is found as before. Other models of the process are not touched.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any, TypeVar

import torch

from metalcore.errors import ArgumentError
from metalcore.torch.attention import restore_attention, use_attention
from metalcore.torch.forwards import CHOICES, FUSED, GATED, MARK, NORMS, causal_loss, rotary
from metalcore.torch.forwards_xlstm import XLSTM

Model = TypeVar("Model", bound=torch.nn.Module)

FAMILIES = {
    "llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "qwen2": "llama",
    "qwen3": "llama",
    "phi3": "llama",
    "granite": "llama",
    "olmo2": "llama",
    "gpt_oss": "llama",
    "gemma": "gemma",
    "gemma2": "gemma",
    "gemma3": "gemma",
    "xlstm": "xlstm",
}
"""The families of transformers that are known, and whose norm theirs is."""

TABLES = {"gpt_oss": "half", "phi3": "partial", "olmo2": "float32"}
"""The families whose rotary embedding differs from Llama's, and in what."""

SLOTS = ("forward", "_apply_gate", "_loss_function")
"""The attributes of a module that a patch hides."""


@dataclass
class Patched:
    """What patch_model did: how many modules of each kind, and what it left alone, with the reason."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CHOICES, 0))
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        done = ", ".join(f"{kind}: {count}" for kind, count in self.counts.items())
        return "\n".join([done, *(f"{name}: {why}" for name, why in self.left.items())])


def patch_model(model: Model, only: Collection[str] = CHOICES) -> Model:
    """Let a model of Hugging Face transformers run on the library's ops, in place; returns the model.

    Families: Llama, Mistral, Mixtral, Qwen2, Qwen3, Gemma, Gemma2, Gemma3, Phi3, Granite, Olmo2, GPT-OSS, xLSTM. With
    `only`, some of "norm", "activation", "rope", "attention" (in xLSTM the matrix memory), "loss".
    `model.metalcore_patch` says what was done. A call that an op does not take (another dtype or device, a weight of
    another dtype than the input) runs the model's own code.
    Attention is left alone where its implementation was chosen by hand. `unpatch_model` undoes it.

    >>> import metalcore, transformers
    >>> size = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, vocab_size=9)
    >>> model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**size))
    >>> print(metalcore.patch_model(model).metalcore_patch)
    norm: 5, activation: 2, rope: 2, attention: 2, loss: 1
    """
    _check_model("patch_model", model)
    if isinstance(only, str) or not isinstance(only, Collection) or not set(only) <= set(CHOICES):
        raise ArgumentError(f"patch_model: only must be a list of some of {', '.join(CHOICES)}, not {only!r}")
    if not any(map(_family, model.modules())):
        raise ArgumentError(
            f"patch_model: model must be one of transformers of the families {', '.join(FAMILIES)}, "
            f"not {type(model).__name__}"
        )
    unpatch_model(model)
    report = Patched()
    attention: dict[str, Any] = {}
    for name, module in model.named_modules():
        _patch_module(name or type(model).__name__, module, only, report)
        if "attention" in only and _attends(module):
            attention[name] = module
    if attention:
        report.counts["attention"] = use_attention(model, attention, report.left)
    model.__dict__[MARK] = report
    return model


def unpatch_model(model: Model) -> Model:
    """Undo patch_model: every module has its class's functions again, and attention its implementation.

    >>> import metalcore, torch
    >>> metalcore.unpatch_model(torch.nn.Linear(2, 2))  # nothing to undo
    Linear(in_features=2, out_features=2, bias=True)
    """
    _check_model("unpatch_model", model)
    for module in model.modules():
        for slot in SLOTS:
            if hasattr(module.__dict__.get(slot), MARK):
                del module.__dict__[slot]
        module.__dict__.pop(MARK, None)
    restore_attention(model)
    return model


def _check_model(name: str, model: object) -> None:
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError(f"{name}: model must be a torch.nn.Module, not of type {type(model).__name__}")


def _family(module: torch.nn.Module) -> str:
    """The folder of transformers that a module's forward comes from, if it is a known one."""
    match = re.fullmatch(r"transformers\.models\.(\w+)\.modeling_\w+", getattr(type(module).forward, "__module__", ""))
    return match[1] if match and match[1] in FAMILIES else ""


def _patch_module(name: str, module: Any, only: Collection[str], report: Patched) -> None:
    family = _family(module)
    if not family:
        return
    kind = _kind(module)
    found: tuple[str, str, Callable[..., Any]] | str | None = None
    if family == "xlstm" and kind in XLSTM:
        what, function = XLSTM[kind]
        found = (what, "forward", function)
    elif kind.endswith("RMSNorm"):
        found = ("norm", "forward", NORMS[FAMILIES[family]])
    elif kind.endswith("Experts"):
        found = _experts(module)
    elif kind.endswith("MLP") and not hasattr(module, "experts"):
        found = _gated(module)
    elif kind.endswith("Attention"):
        found = _rope(type(module).forward, TABLES.get(family, ""))
    elif kind.endswith("ForCausalLM"):
        found = _loss(module)
    if found is None:
        return
    if isinstance(found, str):
        report.left[name] = found
        return
    what, slot, function = found
    if what not in only:
        return
    if slot in module.__dict__:
        report.left[name] = f"it has a {slot} of its own"
        return
    module.__dict__[slot] = function if what == "loss" else MethodType(function, module)
    report.counts[what] += 1


def _kind(module: torch.nn.Module) -> str:
    return str(type(module).forward.__qualname__).removesuffix(".forward")


def _attends(module: Any) -> bool:
    """Whether a module is the attention of a family."""
    return bool(_family(module)) and _kind(module).endswith("Attention") and hasattr(module, "config")


def _gated(module: Any) -> tuple[str, str, Callable[..., Any]] | str:
    """act(gate) * up, by where gate and up come from, and by the activation."""
    if all(hasattr(module, n) for n in ("gate_proj", "up_proj", "down_proj", "act_fn")):
        form, activation = "two projections", type(module.act_fn).__name__
    elif all(hasattr(module, n) for n in ("gate_up_proj", "down_proj", "activation_fn")):
        form, activation = "one projection", type(module.activation_fn).__name__
    else:
        return "it has no gate_proj, up_proj, down_proj and act_fn"
    if activation not in FUSED:
        return f"there is no fused form of the activation {activation}"
    return "activation", "forward", GATED[form]


def _experts(module: Any) -> tuple[str, str, Callable[..., Any]] | str:
    """act(gate) * up of experts, which transformers calls between its grouped products."""
    if type(module)._apply_gate.__name__ != "_default_apply_gate":
        return "there is no fused form of its gate"
    activation = type(module.act_fn).__name__
    if activation not in FUSED:
        return f"there is no fused form of the activation {activation}"
    if module.config._experts_implementation == "eager":
        return "its experts run one by one, in their own code"
    return "activation", "_apply_gate", GATED["experts"]


def _rope(forward: Any, tables: str) -> tuple[str, str, Callable[..., Any]] | str:
    """The same code, with a namespace of its own in which the rotary embedding is ours."""
    name = "apply_rotary_pos_emb"
    if (
        not isinstance(forward, FunctionType)
        or hasattr(forward, "__wrapped__")
        or name not in forward.__code__.co_names
    ):
        return f"its forward does not call {name} directly"
    theirs = forward.__globals__[name]
    if list(inspect.signature(theirs).parameters)[:4] != ["q", "k", "cos", "sin"]:
        return f"its {name} takes other arguments"
    namespace = {**forward.__globals__, name: rotary(theirs, tables)}
    copy = FunctionType(forward.__code__, namespace, forward.__name__, forward.__defaults__, forward.__closure__)
    copy.__kwdefaults__, copy.__qualname__, copy.__doc__ = forward.__kwdefaults__, forward.__qualname__, forward.__doc__
    setattr(copy, MARK, "rope")
    return "rope", "forward", copy


def _loss(module: Any) -> tuple[str, str, Callable[..., Any]] | str:
    theirs = module.loss_function
    if getattr(theirs, "__name__", "") != "ForCausalLMLoss":
        return f"its loss is {getattr(theirs, '__name__', theirs)}"
    return "loss", "_loss_function", causal_loss(theirs)
