"""patch_model on small models of transformers: the same results and training, and everything undone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import metalcore  # noqa: E402
from metalcore.errors import ArgumentError  # noqa: E402
from tests.torch.models import FAMILIES, check_patched, first_run, make, tokens, train  # noqa: E402

LAYERS = 2
NORMS = {**dict.fromkeys(FAMILIES, 2 * LAYERS + 1), "qwen3": 9, "olmo2": 9, "gemma2": 9, "gemma3": 13}
LEFT = {f"model.layers.{i}.mlp.experts": "there is no fused form of its gate" for i in range(LAYERS)}
OPS = {"rms_norm", "rope", "scaled_dot_product_attention", "cross_entropy"}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gives_the_same_and_is_undone(family: str) -> None:
    model, batch = make(family), tokens(1)[0]
    forwards = [module.forward for module in model.modules()]
    before, expected = first_run(model, batch)
    assert metalcore.patch_model(model) is model
    activations = 0 if family == "gpt_oss" else 2
    counts = {"norm": NORMS[family], "activation": activations, "rope": 2, "attention": 2, "loss": 1}
    assert model.metalcore_patch.counts == counts
    assert model.metalcore_patch.left == (LEFT if family == "gpt_oss" else {})
    check_patched(model, batch, before, expected, OPS)
    assert metalcore.unpatch_model(model) is model
    assert [module.forward for module in model.modules()] == forwards
    assert not any(name in module.__dict__ for module in model.modules() for name in ("forward", "_apply_gate"))
    assert model.config._attn_implementation in ("sdpa", "eager")
    assert "_loss_function" not in model.__dict__ and not hasattr(model, "metalcore_patch")


_CONVERGENCE = [(torch.float32, 1e-4), pytest.param(torch.bfloat16, 2e-2, marks=pytest.mark.sweep)]


@pytest.mark.parametrize(("dtype", "limit"), _CONVERGENCE, ids=str)
def test_convergence(dtype: Any, limit: float) -> None:
    """50 steps of a Llama, patched and not."""
    model, batches = make("llama", dtype), tokens(50)
    plain = train(model, batches)
    patched = train(metalcore.patch_model(model), batches)
    assert model.metalcore_patch.counts["attention"] == LAYERS
    assert max(abs(a - b) for a, b in zip(plain, patched, strict=True)) < limit
    assert plain[-1] < 0.6 * plain[0]  # it learns


@pytest.mark.parametrize("family", ["qwen2", "gemma", "mistral", "mixtral", "gpt_oss", "gemma2"])
def test_convergence_of_other_families(family: str) -> None:
    model, batches = make(family), tokens(8)
    plain = train(model, batches)
    patched = train(metalcore.patch_model(model), batches)
    assert max(abs(a - b) for a, b in zip(plain, patched, strict=True)) < 1e-4


def test_other_models_of_the_process_are_not_touched() -> None:
    first, second = make("llama"), make("llama")
    metalcore.patch_model(first)
    batch = tokens(1)[0]
    with metalcore.explain() as log:
        second(input_ids=batch, labels=batch)
    assert len(log) == 0


def test_parts_copies_and_patching_twice() -> None:
    model = metalcore.patch_model(make("llama"), only=("norm",))
    assert model.metalcore_patch.counts == {"norm": 5, "activation": 0, "rope": 0, "attention": 0, "loss": 0}
    metalcore.patch_model(model)
    assert model.metalcore_patch.counts["rope"] == 2
    twin = copy.deepcopy(model)
    batch = tokens(1)[0]
    torch.testing.assert_close(twin(input_ids=batch).logits, model(input_ids=batch).logits)
    twin.model.norm.weight.data.zero_()
    assert model(input_ids=batch).logits.abs().sum() > 0  # the copy has weights of its own
    assert twin(input_ids=batch).logits.abs().sum() == 0
    metalcore.unpatch_model(twin)
    assert all("forward" not in module.__dict__ for module in twin.modules())
    assert "forward" in model.model.norm.__dict__


def test_calls_that_no_op_takes_run_the_models_own_code() -> None:
    model = make("llama", torch.float64)
    batch = tokens(1)[0]
    expected = model(input_ids=batch, labels=batch)
    metalcore.patch_model(model)
    with metalcore.explain() as log:
        found = model(input_ids=batch, labels=batch)
    torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=0)
    assert found.loss == expected.loss
    assert len(log) > 0 and all(row.by_torch for row in log)


def test_loss_options_of_transformers() -> None:
    model = make("llama")
    batch = tokens(1)[0]
    labels = batch.clone()
    labels[:, :5] = -100
    given: dict[str, Any] = {"input_ids": batch, "labels": labels, "num_items_in_batch": torch.tensor(40)}
    expected = model(**given).loss
    metalcore.patch_model(model)
    torch.testing.assert_close(model(**given).loss, expected, rtol=1e-5, atol=1e-5)


_COMPILED = ["llama", *(pytest.param(f, marks=pytest.mark.sweep) for f in ("phi3", "gpt_oss", "olmo2", "gemma2"))]


@pytest.mark.parametrize("family", _COMPILED)
def test_generation_and_compilation(family: str) -> None:
    model = make(family).eval()
    batch = tokens(1, batch=1, length=5)[0]
    options: dict[str, Any] = {"max_new_tokens": 5, "do_sample": False}
    expected = model.generate(batch, **options)
    logits = model(input_ids=batch).logits
    metalcore.patch_model(model)
    assert torch.equal(model.generate(batch, **options), expected)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(input_ids=batch, use_cache=False).logits, logits, rtol=1e-4, atol=1e-4)


def test_other_models_are_refused() -> None:
    with pytest.raises(ArgumentError, match="one of transformers"):
        metalcore.patch_model(torch.nn.Linear(2, 2))
    for bad in (None, 3, "model"):
        with pytest.raises(ArgumentError, match=r"patch_model: model must be a torch.nn.Module, not of type"):
            metalcore.patch_model(bad)
        with pytest.raises(ArgumentError, match=r"unpatch_model: model must be a torch.nn.Module"):
            metalcore.unpatch_model(bad)
    with pytest.raises(ArgumentError, match=r"only must be a list of some of .*, not 'norm'"):
        metalcore.patch_model(torch.nn.Linear(2, 2), only="norm")
    with pytest.raises(ArgumentError, match="only must be a list of some of"):
        metalcore.patch_model(make("llama"), only=("norms",))
