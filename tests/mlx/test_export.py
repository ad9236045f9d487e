"""mx.export_function on functions that call the ops: the file holds mlx's own primitives and needs no metalcore."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metalcore.errors import TransformError
from metalcore.health.draw import Values
from metalcore.health.verify import draw_sample
from metalcore.ops import function

mx: Any = pytest.importorskip("mlx.core")
metal: Any = pytest.importorskip("metalcore.mlx")
fast: Any = pytest.importorskip("metalcore.mlx.fast")
COMPOSED: Any = pytest.importorskip("metalcore.mlx.compositions").COMPOSED

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


def test_compositions_are_the_ops() -> None:
    """Fuzzed arguments of every op that has one."""
    for noun in COMPOSED:
        for index in range(8):
            arrays: list[Any] = []

            def made(value: Values, arrays: list[Any] = arrays) -> Any:
                arrays.append(value.mlx("float32"))
                return arrays[-1]

            arguments, named = draw_sample_of(noun, index).made(made)
            expected = function(noun)(*arguments, **named)
            found = metal.export.exported(function(noun))(*arguments, **named)
            pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
            for a, b in pairs:
                assert (a.shape, a.dtype) == (b.shape, b.dtype), noun
                np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-4, atol=1e-4, err_msg=noun)


def draw_sample_of(noun: str, index: int) -> Any:
    from metalcore.ops import find

    return draw_sample(find(noun), index)


def test_an_op_without_a_composition_says_so(tmp_path: Path) -> None:
    target = mx.array([3, 0])
    words = r"metalcore.cross_entropy cannot be exported: .* there is one for bias_gelu"
    with pytest.raises(TransformError, match=words):
        mx.export_function(str(tmp_path / "f"), lambda x: metal.cross_entropy(x, target), X[0, :2, 0])
    close(metal.silu(X), mx.sigmoid(X) * X)  # and it is not taken for exporting any more
