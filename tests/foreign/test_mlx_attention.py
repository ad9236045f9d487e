"""MLX's attention and gated delta kernels against NumPy."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.foreign.arrays import EPSILON, FLOATS, Array, close, exact, generator, numbers, swept
from tests.foreign.corpus import library

SWITCHES = ("has_mask", "query_transposed", "do_causal", "bool_mask", "float_mask", "has_sinks")


def attention(q: Array, k: Array, v: Array, scale: float, allowed: Array | None = None) -> Array:
    """Softmax attention in float64: q is heads x queries x d, k and v are heads x keys x d."""
    scores = scale * exact(q) @ exact(k).transpose(0, 2, 1)
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ exact(v)


@pytest.mark.feature("corpus", "MLX: sdpa_vector")
@pytest.mark.parametrize("name", swept(FLOATS, ("float32", "bfloat16")))
def test_sdpa_vector(name: str) -> None:
    """Few queries against a cache of keys, with groups of heads that share one."""
    switches: dict[int | str, object] = dict.fromkeys(SWITCHES, False)
    kernel = library("mlx", "sdpa").function(f"sdpa_vector_64_{name}", switches)
    for heads, queries, keys in ((4, 1, 128), (2, 3, 77)):
        rng = generator(name, keys)
        q = numbers(rng, (heads, queries, 64), name)
        k, v = (numbers(rng, (heads // 2, keys, 64), name) for _ in range(2))
        out = np.zeros_like(q)
        kernel(
            q,
            k,
            v,
            out,
            np.int32(2),
            np.int32(keys),
            *map(np.uint64, (keys * 64, 64, keys * 64, 64)),
            np.float32(0.125),
            threadgroups=(heads, queries, 1),
            group_size=(1024, 1, 1),
        )
        want = attention(q, np.repeat(k, 2, 0), np.repeat(v, 2, 0), 0.125)
        close(out, want, name, 2, floor=1e-6 if name == "float32" else EPSILON[name] / 4)


@pytest.mark.feature("corpus", "MLX: sdpa_vector")
@pytest.mark.parametrize("shape", swept(((2, 4, 64), (3, 5, 45)), ((3, 5, 45),)))
def test_sdpa_vector_with_masks(shape: tuple[int, int, int]) -> None:
    heads, queries, keys = shape
    rng = generator(shape)
    q = numbers(rng, (heads, queries, 64), "float32")
    k, v = (numbers(rng, (heads, keys, 64), "float32") for _ in range(2))
    fixed = np.int32(1), np.int32(keys), *map(np.uint64, (keys * 64, 64, keys * 64, 64)), np.float32(0.125)
    launch = {"threadgroups": (heads, queries, 1), "group_size": (1024, 1, 1)}
    switches: dict[int | str, object] = dict.fromkeys(SWITCHES, False)
    out = np.zeros_like(q)
    library("mlx", "sdpa").function("sdpa_vector_64_float32", {**switches, "do_causal": True})(
        q, k, v, out, *fixed, **launch
    )
    causal = np.arange(keys) <= keys - queries + np.arange(queries)[:, None]
    close(out, attention(q, k, v, 0.125, causal), "float32", 2, floor=1e-6)
    mask = numbers(rng, (heads, queries, keys), "bool_")
    mask[..., 0] = True
    library("mlx", "sdpa").function("sdpa_vector_64_float32", {**switches, "has_mask": True, "bool_mask": True})(
        q, k, v, out, *fixed, mask, None, *map(np.int32, (1, keys, queries * keys)), **launch
    )
    close(out, attention(q, k, v, 0.125, mask), "float32", 2, floor=1e-6)


@pytest.mark.feature("corpus", "MLX: steel attention")
@pytest.mark.sweep
@pytest.mark.parametrize("name", FLOATS)
def test_steel_attention(name: str) -> None:
    """Blocks of 32 queries against blocks of 32 keys."""
    for heads, queries, keys in ((2, 64, 64), (2, 45, 53)):
        rng = generator("steel", name, keys)
        q = numbers(rng, (heads, queries, 64), name)
        k, v = (numbers(rng, (heads, keys, 64), name) for _ in range(2))
        out = np.zeros_like(q)
        blocks = -(-queries // 32), -(-keys // 32)
        params = struct.pack(
            "<6if7i12q",
            1,
            heads,
            64,
            queries,
            keys,
            1,
            0.125,
            *blocks,
            queries // 32,
            keys // 32,
            queries % 32,
            keys % 32,
            0,
            *(heads * queries * 64, queries * 64, 64),
            *(heads * keys * 64, keys * 64, 64) * 2,
            *(heads * queries * 64, queries * 64, 64),
        )
        switches: dict[int | str, object] = dict.fromkeys(("has_mask", "do_causal", "has_sinks", "save_lse"), False)
        aligned = {"align_Q": queries % 32 == 0, "align_K": keys % 32 == 0}
        library("mlx", "steel_attention").function(f"attention_64_{name}", {**switches, **aligned})(
            q, k, v, out, params, threadgroups=(blocks[0], heads, 1), group_size=(32, 4, 1)
        )
        close(out, attention(q, k, v, 0.125), name, 2, floor=1e-6 if name == "float32" else EPSILON[name])


def gated_delta(q: Array, k: Array, v: Array, state: Array, g: Array, beta: Array) -> tuple[Array, Array]:
    """state <- g state + beta (v - g state k) k', y = state q, step by step in float64."""
    batch, steps, heads = v.shape[:3]
    share = heads // k.shape[2]
    out, state = np.zeros(v.shape), exact(state).copy()
    for b in range(batch):
        for h in range(heads):
            for t in range(steps):
                key, query = exact(k[b, t, h // share]), exact(q[b, t, h // share])
                s = state[b, h] * float(g[b, t, h])
                s = s + np.outer((exact(v[b, t, h]) - s @ key) * float(beta[b, t, h]), key)
                state[b, h], out[b, t, h] = s, s @ query
    return out, state


def gated_delta_inputs(name: str, steps: int) -> tuple[Array, ...]:
    rng = generator(name, steps)
    q, k = (numbers(rng, (2, steps, 1, 32), name, 32**-0.5) for _ in range(2))
    v = numbers(rng, (2, steps, 2, 16), name)
    state = numbers(rng, (2, 2, 16, 32), "float32")
    g, beta = (rng.uniform(0.5, 1.0, (2, steps, 2)).astype(q.dtype) for _ in range(2))
    return q, k, v, state, g, beta


@pytest.mark.feature("corpus", "MLX: gated delta")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("form", swept(("seq", "chunk"), ("seq",)))
def test_gated_delta(form: str, name: str) -> None:
    kernel = library("mlx", "gated_delta_update").function(f"gated_delta_{form}_{name}", {"save_state": False})
    for steps in (16, 11):
        inputs = gated_delta_inputs(name, steps)
        out, state = np.zeros_like(inputs[2]), np.zeros_like(inputs[3])
        rows = 16 if form == "seq" else 2
        kernel(*inputs, out, state, np.int32(steps), threads=(32, rows, 4), group_size=(32, min(rows, 4), 1))
        want, last = gated_delta(*inputs)
        # Chunks take gates through fast exp and log.
        close(out, want, name, 2, floor=1e-4 if form == "chunk" else 4 * EPSILON["float32"])
        close(state, last, "float32", 16, floor=1e-4 if form == "chunk" else 1e-5)


@pytest.mark.feature("corpus", "MLX: gated delta")
@pytest.mark.parametrize("steps", (12, 7))
def test_gated_delta_gradient(steps: int) -> None:
    """The gradient agrees with differences of the float64 recurrence, along random directions."""
    lib = library("mlx", "gated_delta_update")
    q, k, v, state, g, beta = inputs = gated_delta_inputs("float32", steps)
    marks = -(-steps // 4)
    out, last = np.zeros_like(v), np.zeros_like(state)
    kept = np.zeros((4, marks, 16, 32), np.float32)
    launch = {"threads": (32, 16, 4), "group_size": (32, 4, 1)}
    lib.function("gated_delta_seq_float32", {"save_state": True})(*inputs, out, last, np.int32(steps), kept, **launch)
    rng = generator("cotangent", steps)
    weight_out, weight_state = numbers(rng, v.shape, "float32"), numbers(rng, state.shape, "float32")
    grads = {n: np.zeros(x.shape, np.float32) for n, x in zip("qkvsgb", inputs, strict=True)}
    lib.function("gated_delta_vjp_float32", {"save_state": True})(
        q,
        k,
        v,
        g,
        beta,
        weight_out,
        weight_state,
        kept,
        np.int32(steps),
        *(grads[n] for n in "qkvgbs"),
        **launch,
    )

    def loss(*values: Array) -> float:
        y, s = gated_delta(*values)
        return float((y * weight_out).sum() + (s * weight_state).sum())

    exact_inputs = [exact(x) for x in inputs]
    for i, n in enumerate("qkvsgb"):
        direction = rng.standard_normal(exact_inputs[i].shape)
        step = 1e-5
        ends = [[x + side * step * direction if j == i else x for j, x in enumerate(exact_inputs)] for side in (1, -1)]
        want = (loss(*ends[0]) - loss(*ends[1])) / (2 * step)
        got = float((exact(grads[n]) * direction).sum())
        assert got == pytest.approx(want, rel=1e-4, abs=1e-4), n
