"""Models of Hugging Face transformers on the library's ops: norms, gated activations, rotary embedding and loss.

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
from metalcore.torch.forwards import CHOICES, GATED, MARK, NORMS, causal_loss, rotary

Model = TypeVar("Model", bound=torch.nn.Module)

FAMILIES = {
    "llama": "llama",
    "mistral": "llama",
    "qwen2": "llama",
    "qwen3": "llama",
    "gemma": "gemma",
    "gemma2": "gemma",
    "gemma3": "gemma",
}
"""The families of transformers that are known, and whose norm theirs is."""


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

    Families: Llama, Mistral, Qwen2, Qwen3, Gemma, Gemma2, Gemma3. `only`: some of "norm", "activation",
    "rope", "loss". `model.metalcore_patch` says what was done. A call that an op does not take (another dtype or
    device, a weight of another dtype than the input) runs the model's own code. `unpatch_model` undoes it.
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
    for name, module in model.named_modules():
        _patch_module(name or type(model).__name__, module, only, report)
    model.__dict__[MARK] = report
    return model


def unpatch_model(model: Model) -> Model:
    """Undo patch_model: every module has its class's forward again."""
    _check_model("unpatch_model", model)
    for module in model.modules():
        forward = module.__dict__.get("forward")
        if hasattr(forward, MARK):
            del module.__dict__["forward"]
        if hasattr(module.__dict__.get("_loss_function"), MARK):
            del module.__dict__["_loss_function"]
        module.__dict__.pop(MARK, None)
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
    kind = type(module).forward.__qualname__.removesuffix(".forward")
    found: tuple[str, Callable[..., Any]] | str | None = None
    if kind.endswith("RMSNorm"):
        found = ("norm", NORMS[FAMILIES[family]])
    elif kind.endswith("MLP"):
        found = _gated(module)
    elif kind.endswith("Attention"):
        found = _attention(type(module).forward)
    elif kind.endswith("ForCausalLM"):
        found = _loss(module)
    if found is None:
        return
    if isinstance(found, str):
        report.left[name] = found
        return
    what, forward = found
    if what not in only:
        return
    if what == "loss":
        module.__dict__["_loss_function"] = forward
    elif "forward" in module.__dict__:
        report.left[name] = "it has a forward of its own"
        return
    else:
        module.__dict__["forward"] = MethodType(forward, module)
    report.counts[what] += 1


def _gated(module: Any) -> tuple[str, Callable[..., Any]] | str:
    """act(gate_proj(x)) * up_proj(x), by the activation."""
    if not all(hasattr(module, n) for n in ("gate_proj", "up_proj", "down_proj", "act_fn")):
        return "it has no gate_proj, up_proj, down_proj and act_fn"
    activation = type(module.act_fn).__name__
    if activation not in GATED:
        return f"there is no fused form of the activation {activation}"
    return "activation", GATED[activation]


def _attention(forward: Any) -> tuple[str, Callable[..., Any]] | str:
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
    namespace = {**forward.__globals__, name: rotary(theirs)}
    copy = FunctionType(forward.__code__, namespace, forward.__name__, forward.__defaults__, forward.__closure__)
    copy.__kwdefaults__, copy.__qualname__, copy.__doc__ = forward.__kwdefaults__, forward.__qualname__, forward.__doc__
    setattr(copy, MARK, "rope")
    return "rope", copy


def _loss(module: Any) -> tuple[str, Callable[..., Any]] | str:
    if "_loss_function" in module.__dict__:
        return "it has a loss function of its own"
    theirs = module.loss_function
    if getattr(theirs, "__name__", "") != "ForCausalLMLoss":
        return f"its loss is {getattr(theirs, '__name__', theirs)}"
    return "loss", causal_loss(theirs)
