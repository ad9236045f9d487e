"""mx.export_function on functions that call the ops: the file holds mlx's own primitives and needs no metalcore."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from metalcore.errors import TransformError
from metalcore.health import routes
from metalcore.health.verify import ROUTES, draw_sample, verify_sample
from metalcore.ops import find, nouns
from tests.linalg.cases import CASES

mx: Any = pytest.importorskip("mlx.core")
metal: Any = pytest.importorskip("metalcore.mlx")
fast: Any = pytest.importorskip("metalcore.mlx.fast")
compositions: Any = pytest.importorskip("metalcore.mlx.compositions")
COMPOSED, NOT_COMPOSED = compositions.COMPOSED, compositions.NOT_COMPOSED

X = mx.random.normal((2, 3, 5, 16), key=mx.random.key(0))
W = mx.random.normal((16,), key=mx.random.key(1))
TURN = {"traditional": False, "base": 1e4, "scale": 1.0}
CALLS: dict[str, Callable[..., Any]] = {
    "rms_norm": lambda x, w: fast.rms_norm(x, w, 1e-5),
    "layer_norm": lambda x, w: fast.layer_norm(x, w, w, 1e-5),
    "rope": lambda x, w: fast.rope(x, 8, offset=mx.array([1, 7]), **TURN) + w,
    "softmax": lambda x, w: fast.softmax(x * w, (1, -1)),
    "attention": lambda x, w: fast.scaled_dot_product_attention(x * w, x, x, scale=0.25, mask="causal"),
    "a gradient": lambda x, w: mx.grad(lambda x, w: (fast.rms_norm(x, w, 1e-5) ** 3).sum(), argnums=1)(x, w),
    "logsumexp": lambda x, w: metal.logsumexp(x * w, (-1, -2)),
    "cross_entropy": lambda x, w: mx.grad(
        lambda x: metal.cross_entropy(x[0, 0] * w, mx.arange(x.shape[2]), z_loss=0.1)
    )(x),
    "windows": lambda x, w: metal.flash_attn_func(x, x * w, x, causal=True, window_size=(2, 0), softcap=9.0),
    "xLSTM": lambda x, w: metal.mlstm_chunkwise(x, x, x * w, *(x[..., :2].transpose(3, 0, 1, 2))),
    "a table": lambda x, w: metal.embedding_bag(mx.array([[0, 2], [3, 3]]), x[0, 0] * w, mode="max"),
    "quantized": lambda x, w: metal.matmul_int4(x * w, *metal.quantize_int4(mx.ones((8, 16)) * w, 4), 4),
    "singular values": lambda x, w: metal.linalg.polar(x * w)[1] + metal.linalg.svdvals(x).sum(),
    "compiled inside": lambda x, w: mx.compile(lambda x: metal.silu(x) + metal.geglu(x, x))(x) + w,
}


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.array(a), np.array(b), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", CALLS)
def test_round_trip(name: str, tmp_path: Path) -> None:
    call, path = CALLS[name], str(tmp_path / "f.mlxfn")
    mx.export_function(path, call, X, W)
    (found,) = mx.import_function(path)(X * 1.5, W)
    close(found, call(X * 1.5, W))
    with mx.exporter(path, call) as export:
        export(X, W)
        export(X[:1, :, :4] if name != "rope" else X[:, :2], W)
    close(mx.import_function(path)(X, W)[0], call(X, W))


def test_the_file_needs_no_metalcore(tmp_path: Path) -> None:
    path = tmp_path / "f.mlxfn"
    mx.export_function(str(path), CALLS["rms_norm"], X, W)
    inputs = "mx.ones((2, 3, 5, 16)), mx.ones(16)"
    code = f"import mlx.core as mx; print(round(mx.import_function({str(path)!r})({inputs})[0].sum().item()))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "480"


def by_the_error_rule(nouns: Iterable[str], cases: range, dtype: str) -> None:
    """Fuzzed cases against float64, gradients too. mlx's own exponentials and sums lose more than the kernels: three
    times what these may lose."""
    for noun in nouns:
        op = find(noun)
        for index in cases:
            sample = draw_sample(op, index)
            if sum(v.values.size for v in sample.values) < 100_000:
                found = verify_sample(op, sample, dtype, index, "exported")
                assert not found.problem, (noun, index, found.problem)
                for m in found.measures:
                    assert m.error <= 3 * m.limit, (noun, index, dtype, m)


@pytest.fixture(autouse=True)
def route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROUTES, "exported", metal.export.exported(routes.mlx))


FUSED = [noun for noun in COMPOSED if not noun.startswith("linalg_")]


def test_compositions_are_the_ops() -> None:
    by_the_error_rule(FUSED, range(2), "float32")


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("noun", FUSED)
def test_compositions_in_many_cases(noun: str, dtype: str) -> None:
    by_the_error_rule([noun], range(12), dtype)


@pytest.mark.parametrize("name", ["svd", *[n for n in CASES if n != "svd"]])
def test_linear_algebra(name: str, tmp_path: Path) -> None:
    """Through a file, against float64; what is no one thing, as signs of vectors, is left out by the case."""
    case, path = CASES[name], str(tmp_path / "f.mlxfn")
    arrays = [mx.array(t.numpy()) for t in case.inputs()]

    def call(*given: Any) -> list[Any]:
        return list(case.ours(*given, module=metal.linalg))

    if f"linalg_{name}" in NOT_COMPOSED or name == "topk_svd":
        with pytest.raises(TransformError, match=r"metalcore.linalg_\w+ cannot be exported: mlx writes its own"):
            mx.export_function(path, call, *arrays)
        return
    mx.export_function(path, call, *arrays)
    found = mx.import_function(path)(*arrays)
    for y, at_once, truth in zip(found, call(*arrays), case.reference(*case.inputs(torch.float64)), strict=True):
        assert (y.shape, y.dtype) == (at_once.shape, at_once.dtype)
        np.testing.assert_allclose(np.array(y), truth.numpy(), rtol=5e-5, atol=5e-5)


@pytest.mark.sweep
def test_linear_algebra_that_torch_has_not(tmp_path: Path) -> None:
    path, x = str(tmp_path / "f"), X[0, :, :, :4]

    def call(x: Any) -> list[Any]:
        q = metal.linalg.orthogonalize(x)
        return [q, *metal.linalg.polar(x), metal.linalg.newton_schulz(x), metal.linalg.complete_basis(q)]

    mx.export_function(path, call, x)
    *found, whole = mx.import_function(path)(x)
    *expected, _ = call(x)
    for a, b in zip(found, expected, strict=True):
        close(a, b)
    close(whole[..., :4], found[0])
    close(whole @ whole.swapaxes(-1, -2), mx.broadcast_to(mx.eye(5), whole.shape))


def test_every_op_has_a_composition_or_a_reason() -> None:
    every = {*nouns(), *nouns("linalg"), *nouns("precise")}
    assert set(COMPOSED) | set(NOT_COMPOSED) == every and not set(COMPOSED) & set(NOT_COMPOSED)
    page = (Path(__file__).parents[2] / "docs" / "guide" / "library_mlx.md").read_text()
    for noun in NOT_COMPOSED:
        part, _, name = noun.partition("_") if noun.startswith(("linalg_", "precise_")) else ("", "", noun)
        assert f"`{name}`" in page or f"`{part}.{name}`" in page or f"all of `{part}`" in page, noun


def test_an_op_without_a_composition_says_so(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    with pytest.raises(TransformError, match=r"metalcore.linalg_det cannot be exported: .* no LU factorisation"):
        mx.export_function(path, metal.linalg.det, X[..., :5])
    with pytest.raises(TransformError, match=r"metalcore.precise_sum cannot be exported: .* beyond float32"):
        mx.export_function(path, metal.precise.sum, X)
    with pytest.raises(TransformError, match=r"cannot be exported: .* its dropout drops; use dropout_p=0"):
        mx.export_function(path, lambda x: metal.flash_attn_func(x, x, x, 0.5), X)
    close(metal.silu(X), mx.sigmoid(X) * X)  # and it is not taken for exporting any more


def test_a_class_out_of_range_gives_nan(tmp_path: Path) -> None:
    path, target = str(tmp_path / "f"), mx.array([3, 0, -100, 2, 1])
    mx.export_function(path, lambda x, t: metal.cross_entropy(x, t, reduction="none"), X[0, 0], target)
    load = mx.import_function(path)
    close(load(X[0, 0], target)[0], metal.cross_entropy(X[0, 0], target, reduction="none"))
    found = np.array(load(X[0, 0], mx.array([16, -1, -100, 2, 1]))[0])
    assert np.isnan(found).tolist() == [True, True, False, False, False]
