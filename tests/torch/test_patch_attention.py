"""patch_model's attention: masks as numbers, generation with caches, configs of the instance alone."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import metalcore  # noqa: E402
from metalcore.torch import attention  # noqa: E402
from tests.torch.models import FAMILIES, WINDOW, configure, make, tokens  # noqa: E402

OP = "scaled_dot_product_attention"
ONLY = ("attention",)
WILD: dict[str, Any] = {"initializer_range": 0.2}
"""Weights that make the softmax choose: a wrong mask then shows."""
CACHED = ["llama", "mistral", "phi3", "gpt_oss", "gemma2", "gemma3"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_with_and_without_padding(family: str, dtype: Any) -> None:
    limit, options = (1e-4, WILD) if dtype == torch.float32 else (2e-2, {})
    if dtype != torch.float32 and family in ("mixtral", "gpt_oss"):
        options = {"num_experts_per_tok": 4}  # all: a last bit decides between two experts that are nearly alike
    model, batch = make(family, dtype, **options).eval(), tokens(1, batch=3, length=21)[0]
    mask = torch.ones_like(batch)
    mask[0, :5] = mask[1, 18:] = 0
    with torch.no_grad():
        expected = model(input_ids=batch).logits, model(input_ids=batch, attention_mask=mask).logits
        metalcore.patch_model(model, only=ONLY)
        assert model.metalcore_patch.counts["attention"] == 2
        with metalcore.explain() as log:
            found = model(input_ids=batch).logits, model(input_ids=batch, attention_mask=mask).logits
    assert {row.op for row in log} == {OP} and not any(row.by_torch for row in log) and len(log) == 4
    torch.testing.assert_close(found[0], expected[0], rtol=limit, atol=limit)
    torch.testing.assert_close(found[1][mask.bool()], expected[1][mask.bool()], rtol=limit, atol=limit)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("family", CACHED)
def test_generation_gives_the_same_tokens(family: str, cache: str) -> None:
    """The prompt is longer than the window, the rows are padded on the left; then a prompt of one token."""
    model = make(family, **WILD).eval()
    batch = tokens(1, batch=2, length=WINDOW + 3)[0]
    mask = torch.ones_like(batch)
    mask[0, :4] = 0
    given: dict[str, Any] = {
        "max_new_tokens": 6,
        "do_sample": False,
        "eos_token_id": None,
        "cache_implementation": cache,
    }

    def generate() -> list[Any]:
        padded = model.generate(batch, attention_mask=mask, **given)
        return [padded, model.generate(batch, **given), model.generate(batch[:1, :1], **given)]

    expected = generate()
    metalcore.patch_model(model)
    with metalcore.explain() as log:
        found = generate()
    assert sum(row.op == OP for row in log) == 2 * 6 * 3 and not any(row.by_torch for row in log)
    for theirs, ours in zip(expected, found, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("family", ["mistral", "gemma3", "gpt_oss"])
def test_other_ways_to_generate(family: str) -> None:
    """Beams reorder the cache, drafts of several tokens are looked up and cut off again; no cache; sampling."""
    model, batch = make(family, **WILD).eval(), tokens(1, batch=2, length=WINDOW + 3)[0]
    given: dict[str, Any] = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None}

    def generate() -> list[Any]:
        torch.manual_seed(5)
        drawn = model.generate(batch, **{**given, "do_sample": True})
        beams, uncached = model.generate(batch, num_beams=3, **given), model.generate(batch, use_cache=False, **given)
        return [drawn, beams, uncached, model.generate(batch[:1], prompt_lookup_num_tokens=3, **given)]

    expected = generate()
    metalcore.patch_model(model, only=ONLY)
    for theirs, ours in zip(expected, generate(), strict=True):
        assert torch.equal(ours, theirs)


def test_packed_sequences_do_not_see_each_other() -> None:
    model, batch = make("llama", **WILD).eval(), tokens(1, batch=2, length=10)[0]
    positions = torch.cat([torch.arange(6), torch.arange(4)]).expand(2, -1)
    metalcore.patch_model(model)
    with torch.no_grad():
        packed = model(input_ids=batch, position_ids=positions, use_cache=False).logits
        apart = [model(input_ids=part).logits for part in batch.split([6, 4], 1)]
    torch.testing.assert_close(packed, torch.cat(apart, 1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["DynamicCache", "StaticCache"])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_a_prompt_in_parts(family: str, kind: str) -> None:
    """Several queries behind a cache: the causal mask is aligned with the last key, not with the first."""
    model, batch = make(family, **WILD).eval(), tokens(1, batch=2, length=24)[0]

    def run() -> Any:
        more = {"max_cache_len": 30} if kind == "StaticCache" else {}
        cache = getattr(transformers, kind)(config=model.config, **more)
        with torch.no_grad():
            parts = [
                model(input_ids=batch[:, a:b], past_key_values=cache).logits
                for a, b in ((0, 5), (5, 6), (6, 15), (15, 24))
            ]
        return torch.cat(parts, 1)

    with torch.no_grad():
        whole = model(input_ids=batch, use_cache=False).logits
    expected = run()
    torch.testing.assert_close(expected, whole, rtol=1e-4, atol=1e-4)
    metalcore.patch_model(model, only=ONLY)
    torch.testing.assert_close(run(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("window", [None, 1, 3, 8, 50])
@pytest.mark.parametrize(("q_length", "kv_length", "q_offset", "kv_offset"), [
    (5, 5, 0, 0), (5, 9, 0, 0), (5, 9, 4, 0), (5, 12, 4, 0), (1, 9, 8, 0), (1, 9, 4, 0), (4, 9, 12, 7), (1, 7, 20, 14),
])  # fmt: skip
def test_a_span_is_the_mask_that_transformers_makes(
    q_length: int, kv_length: int, q_offset: int, kv_offset: int, window: int | None
) -> None:
    from transformers.masking_utils import causal_mask_function, sdpa_mask, sliding_window_causal_mask_function

    config = configure("mistral", sliding_window=window)
    function = causal_mask_function if window is None else sliding_window_causal_mask_function(window)
    given: dict[str, Any] = {"mask_function": function, "local_size": window}
    expected = sdpa_mask(1, q_length, kv_length, q_offset, kv_offset, allow_is_causal_skip=False, **given)
    made = attention.make_mask(1, q_length, kv_length, torch.tensor(q_offset), kv_offset, config=config, **given)
    assert made is None or made.numel() == 0
    torch.manual_seed(3)
    module = torch.nn.Identity()
    q, k = torch.randn(1, 2, q_length, 8), torch.randn(1, 2, kv_length, 8)
    found, weights = attention.attend(module, q, k, k, made, scaling=0.3)
    theirs, _ = attention.attend(module, q, k, k, expected, scaling=0.3)
    assert weights is None
    torch.testing.assert_close(found, theirs, rtol=1e-5, atol=1e-6)
    own, _ = attention.attend(module, q.double(), k.double(), k.double(), made, scaling=0.3)  # transformers' sdpa
    torch.testing.assert_close(own.float(), theirs, rtol=1e-5, atol=1e-6)


def test_no_mask_of_queries_by_keys_is_made() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Masks(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.dtype == torch.bool and out.numel() >= 24 * 24:
                made.append(tuple(out.shape))
            return out

    made: list[tuple[int, ...]] = []
    model, batch = make("gemma3").eval(), tokens(1, batch=2, length=24)[0]
    with torch.no_grad(), Masks():
        model(input_ids=batch, attention_mask=torch.ones_like(batch))
    assert made  # the window of their own
    metalcore.patch_model(model, only=ONLY)
    made.clear()
    with torch.no_grad(), Masks():
        model(input_ids=batch, attention_mask=torch.ones_like(batch))
    assert not made


def test_models_of_one_config_are_not_touched(tmp_path: Path) -> None:
    config = configure("llama")
    first, second = transformers.LlamaForCausalLM(config), transformers.LlamaForCausalLM(config)
    batch = tokens(1)[0]
    metalcore.patch_model(first)
    with metalcore.explain() as log:
        second(input_ids=batch)
    assert len(log) == 0 and config._attn_implementation == "sdpa" and second.config is config
    assert first.config is first.model.config is first.model.layers[1].self_attn.config
    assert first.config._attn_implementation == "metalcore"
    twin = copy.deepcopy(first)
    twin.save_pretrained(tmp_path)
    assert "metalcore" not in (tmp_path / "config.json").read_text()
    metalcore.unpatch_model(first)
    assert first.config._attn_implementation == "sdpa" and first.config.to_dict() == config.to_dict()
    assert attention.BEFORE not in first.model.layers[0].self_attn.__dict__
    with metalcore.explain() as log:
        first(input_ids=batch)
        twin(input_ids=batch)
    assert sum(row.op == OP for row in log) == 2  # the copy's
    assert metalcore.unpatch_model(twin).config._attn_implementation == "sdpa"


def test_a_config_inside_another() -> None:
    text = configure("gemma3").to_dict()
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
              "image_size": 16, "patch_size": 8}  # fmt: skip
    config = transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    model = transformers.Gemma3ForConditionalGeneration(config).eval()
    batch = tokens(1)[0]
    with torch.no_grad():
        expected = model(input_ids=batch).logits
        metalcore.patch_model(model)
        torch.testing.assert_close(model(input_ids=batch).logits, expected, rtol=1e-4, atol=1e-4)
    assert model.metalcore_patch.counts["attention"] == 2
    own = model.config
    assert own.text_config is model.model.language_model.config and own.text_config._attn_implementation == "metalcore"
    assert own._attn_implementation == own.vision_config._attn_implementation == "sdpa"
    assert config.text_config._attn_implementation == "sdpa"
    metalcore.unpatch_model(model)
    assert own.text_config._attn_implementation == "sdpa"


def test_an_implementation_that_was_chosen_stays() -> None:
    model = make("llama", attn_implementation="eager")
    metalcore.patch_model(model)
    assert model.metalcore_patch.counts["attention"] == 0 and model.config._attn_implementation == "eager"
    assert model.metalcore_patch.left == {"attention of model": "its implementation was set to eager"}
    model = metalcore.patch_model(make("gemma2", output_attentions=True))
    assert model.metalcore_patch.left == {"attention of model": "its config asks for attention weights"}
    assert metalcore.patch_model(make("gemma2"), only=("norm",)).metalcore_patch.left == {}
    bare = metalcore.patch_model(transformers.LlamaModel(configure("llama", attn_implementation="eager")))
    assert list(bare.metalcore_patch.left) == ["attention of LlamaModel"]
    model = metalcore.patch_model(make("llama"))
    model.set_attn_implementation("eager")  # chosen later
    assert metalcore.unpatch_model(model).config._attn_implementation == "eager"


def test_weights_that_are_asked_for_come_from_their_own_code() -> None:
    model, batch = make("gemma2").eval(), tokens(1, length=12)[0]
    expected = model(input_ids=batch, output_attentions=True).attentions
    metalcore.patch_model(model)
    with metalcore.explain() as log:
        found = model(input_ids=batch, output_attentions=True).attentions
    assert [row.reason for row in log if row.op == OP] == ["output_attentions is given"] * 2
    for theirs, ours in zip(expected, found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["mistral", "gemma2", "gpt_oss"])
def test_calls_that_the_op_does_not_take(family: str) -> None:
    """float64, with windows and a cache: sdpa and eager get the masks that they expect."""
    options = {"experts_implementation": "eager"} if family == "gpt_oss" else {}  # no grouped products in float64
    model, batch = make(family, torch.float64, **WILD, **options).eval(), tokens(1, batch=2, length=12)[0]
    expected = model(input_ids=batch).logits
    given: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None}
    written = model.generate(batch, **given)
    metalcore.patch_model(model)
    with metalcore.explain() as log:
        torch.testing.assert_close(model(input_ids=batch).logits, expected, rtol=1e-12, atol=1e-12)
        assert torch.equal(model.generate(batch, **given), written)
    assert len(log) > 0 and all(row.by_torch for row in log)


@pytest.mark.parametrize("family", ["llama", "gpt_oss"])
def test_autocast(family: str) -> None:
    """Queries and keys in float32 beside values in bfloat16, as the rotary embedding leaves them."""
    options = {"num_experts_per_tok": 4} if family == "gpt_oss" else {}
    model, batch = make(family, **options), tokens(1, length=12)[0]

    def run() -> tuple[Any, Any]:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            out = model(input_ids=batch, labels=batch)
        out.loss.backward()
        return out.loss, model.model.layers[0].self_attn.k_proj.weight.grad.clone()

    expected = run()
    metalcore.patch_model(model)
    with metalcore.explain() as log:
        found = run()
    assert not any(row.by_torch for row in log if row.op == OP)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-3, atol=1e-3)
    assert (found[1] - expected[1]).norm() < 2e-2 * expected[1].norm()


def test_masks_of_four_dimensions() -> None:
    """Given by hand: bool, and float of another dtype than the model's."""
    model, batch = make("llama", torch.bfloat16).eval(), tokens(1, batch=2, length=8)[0]
    seen = torch.rand(2, 1, 8, 8) < 0.5
    seen |= torch.eye(8, dtype=torch.bool)
    added = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    with torch.no_grad():
        expected = model(input_ids=batch, attention_mask=seen).logits
        metalcore.patch_model(model, only=ONLY)
        for mask in (seen, added, added.bfloat16()):
            found = model(input_ids=batch, attention_mask=mask).logits
            torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
