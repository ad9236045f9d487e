"""Small models of transformers with random weights, and a training loop for them."""

from __future__ import annotations

import copy
from typing import Any

import torch

FAMILIES = {
    "llama": "Llama",
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "gemma": "Gemma",
    "gemma2": "Gemma2",
    "gemma3": "Gemma3",
}
VOCABULARY = 97


def make(family: str, dtype: torch.dtype = torch.float32, layers: int = 2) -> Any:
    """A causal language model of two layers, on the CPU, its norms' weights not all alike."""
    import transformers

    name = FAMILIES[family]
    config = getattr(transformers, f"{name}Config" if family != "gemma3" else "Gemma3TextConfig")(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(7)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
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
