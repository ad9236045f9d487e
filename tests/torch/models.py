"""Small models of transformers with random weights, and a training loop for them."""

from __future__ import annotations

import copy
from typing import Any

import torch

FAMILIES = {
    "llama": "Llama",
    "mistral": "Mistral",
    "mixtral": "Mixtral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "phi3": "Phi3",
    "granite": "Granite",
    "olmo2": "Olmo2",
    "gpt_oss": "GptOss",
    "gemma": "Gemma",
    "gemma2": "Gemma2",
    "gemma3": "Gemma3",
}
VOCABULARY = 97
WINDOW = 7
OPTIONS: dict[str, dict[str, Any]] = {
    "mistral": {"sliding_window": WINDOW},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "qwen2": {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    "phi3": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "granite": {"attention_multiplier": 0.2, "residual_multiplier": 0.5, "logits_scaling": 2.0},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": WINDOW},
    "gemma2": {"sliding_window": WINDOW, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 16},
    "gemma3": {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
}
"""What makes a family differ from Llama is on: windows shorter than the sequences, soft caps, sinks, factors."""


def configure(family: str, **options: Any) -> Any:
    import transformers

    kind = f"{FAMILIES[family]}Config" if family != "gemma3" else "Gemma3TextConfig"
    given: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return getattr(transformers, kind)(**{**given, **OPTIONS.get(family, {}), **options})


def first_run(model: Any, batch: torch.Tensor) -> tuple[Any, dict[str, torch.Tensor]]:
    """Outputs, and the gradients of the loss, which the model forgets."""
    before = model(input_ids=batch, labels=batch)
    before.loss.backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
    model.zero_grad()
    return before, gradients


def check_patched(
    model: Any, batch: torch.Tensor, before: Any, gradients: dict[str, torch.Tensor], ops: set[str]
) -> None:
    """The same outputs and gradients, by these ops and none of torch's."""
    import metalcore

    with metalcore.explain() as log:
        after = model(input_ids=batch, labels=batch)
        after.loss.backward()
    assert {row.op for row in log if not row.op.endswith("_backward")} >= ops
    assert not any(row.by_torch for row in log)
    torch.testing.assert_close(after.logits, before.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(after.loss, before.loss, rtol=1e-5, atol=1e-5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-3, atol=1e-5, msg=name)


def make(family: str, dtype: torch.dtype = torch.float32, **options: Any) -> Any:
    """A causal language model of two layers, on the CPU, its norms' weights and sinks not all alike."""
    import transformers

    config = configure(family, **options)
    torch.manual_seed(7)
    model = getattr(transformers, f"{FAMILIES[family]}ForCausalLM")(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "sinks" in name:
                parameter += 0.1 * torch.randn_like(parameter)
    return model.to(dtype).train()


def tokens(steps: int, batch: int = 4, length: int = 33) -> list[torch.Tensor]:
    """Sequences that can be learnt: each token follows from the one before."""
    generator = torch.Generator().manual_seed(11)
    follow = torch.randperm(VOCABULARY, generator=generator)
    made = []
    for _ in range(steps):
        rows = [torch.randint(0, VOCABULARY, (batch,), generator=generator)]
        for _ in range(length - 1):
            rows.append(follow[rows[-1]])
        made.append(torch.stack(rows, 1))
    return made


def train(model: Any, batches: list[torch.Tensor], rate: float = 1e-3) -> list[float]:
    """The loss of each step."""
    model = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    losses = []
    for batch in batches:
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
