"""patch_model on a small xLSTM of transformers: the same logits, training and generation, and everything undone."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import metalcore  # noqa: E402
from tests.torch.models import VOCABULARY, check_patched, first_run, tokens, train  # noqa: E402

modeling = pytest.importorskip("transformers.models.xlstm.modeling_xlstm")
if modeling.external_xlstm:
    pytest.skip("transformers takes the modules of the package xlstm", allow_module_level=True)

OPS = {"rms_norm", "layer_norm", "swiglu", "mlstm_chunkwise", "cross_entropy"}


def make(**options: Any) -> Any:
    given = {
        "vocab_size": VOCABULARY,
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_blocks": 2,
        "num_heads": 4,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "return_last_states": True,
    }
    torch.manual_seed(7)
    model = transformers.xLSTMForCausalLM(transformers.xLSTMConfig(**given | options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return model.train()


@pytest.mark.parametrize("options", [{"use_bias": True}, {"mode": "train", "chunk_size": 35}], ids=str)
def test_same_and_undone(options: dict[str, Any]) -> None:
    model, batch = make(use_cache=False, **options), tokens(1, length=70)[0]
    before, expected = first_run(model, batch)
    metalcore.patch_model(model)
    assert model.metalcore_patch.counts == {"norm": 7, "activation": 2, "rope": 0, "attention": 2, "loss": 1}
    assert model.metalcore_patch.left == {}
    check_patched(model, batch, before, expected, OPS)
    metalcore.unpatch_model(model)
    assert not any("forward" in module.__dict__ for module in model.modules())
    assert torch.equal(model(input_ids=batch).logits, before.logits)


def test_one_matrix_for_gate_and_up() -> None:
    """transformers 5.22.2 does not get as far as making a whole model of this kind."""
    config = transformers.xLSTMConfig(hidden_size=128, num_heads=4, weight_mode="fused")
    part, x = modeling.xLSTMFeedForward(config), torch.randn(2, 3, 128)
    expected = part(x)
    assert metalcore.patch_model(part).metalcore_patch.counts["activation"] == 1
    torch.testing.assert_close(part(x), expected, rtol=1e-5, atol=1e-6)


def test_generation_and_states() -> None:
    model, batch = make().eval(), tokens(1, batch=2, length=19)[0]
    rows = []
    for patched in (False, True):
        if patched:
            metalcore.patch_model(model)
        found = model.generate(batch, max_new_tokens=12, min_new_tokens=12, do_sample=False)
        with torch.no_grad(), metalcore.explain() as log:
            start = model(input_ids=batch[:, :18], use_cache=True)
            end = model(input_ids=batch[:, 18:], cache_params=start.cache_params, use_cache=True)
        rows.append((found, start.logits, end.logits, end.cache_params.rnn_state))
    assert {"mlstm_step", "mlstm_chunkwise"} <= {row.op for row in log} and not any(row.by_torch for row in log)
    assert torch.equal(rows[0][0], rows[1][0])
    torch.testing.assert_close(rows[1][1:3], rows[0][1:3], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(rows[1][3], rows[0][3], rtol=1e-3, atol=1e-4)


@pytest.mark.sweep
def test_training_and_other_calls() -> None:
    model, batches = make(), tokens(8)
    plain, patched = train(model, batches), train(metalcore.patch_model(model), batches)
    assert max(abs(a - b) for a, b in zip(plain, patched, strict=True)) < 1e-3
    double = metalcore.patch_model(make().double())  # no kernels of it in patched models: their own code runs
    with metalcore.explain() as log:
        double(input_ids=batches[0])
    assert all(row.by_torch for row in log)
    half = make().half()
    expected = half(input_ids=batches[0]).logits
    found = metalcore.patch_model(half)(input_ids=batches[0]).logits
    assert float((found - expected).detach().abs().mean()) < 0.1
