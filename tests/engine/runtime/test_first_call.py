"""What an empty cache costs: the engine's own parts are made beside each other, and only for who needs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from metalcore.engine.frontend.braces import has_lists_of_one

pytest.importorskip("torch")

REGISTER = """
import metalcore.torch.register
from metalcore.engine.runtime.native_library import _load, is_built
assert not is_built() and not _load.cache_info().currsize
"""
FIRST = """
import threading, torch, metalcore
before = threading.active_count()
x, w = torch.randn(4, 96), torch.randn(96)
y = metalcore.rms_norm(x, (96,), w)
assert torch.allclose(y, torch.nn.functional.rms_norm(x, (96,), w), atol=1e-5)
from metalcore.engine.runtime.native_library import _load, _shares_openmp, is_built
assert is_built() and _shares_openmp and _load.cache_info().currsize == 1
for thread in threading.enumerate():
    if thread.name.startswith(("metalcore-header", "metalcore-prepare")):
        thread.join(60)
assert threading.active_count() == before, threading.enumerate()
import sys
from metalcore.torch.dispatch import EAGER
assert list(EAGER) == ["rms_norm"] and not [name for name in sys.modules if name.startswith("metalcore.ops.linalg")]
assert "torch._dynamo" not in sys.modules
"""
TRACED = """
import torch, metalcore
x, w = torch.randn(4, 96), torch.randn(96)
def both(x):
    return metalcore.rms_norm(metalcore.gelu(x), (96,), w)
compiled = torch.compile(both, fullgraph=True, backend="aot_eager")(x)
assert torch.equal(compiled, both(x))
"""


def run(program: str, cache: Path | None = None) -> None:
    environment = {**os.environ, **({"METALCORE_CACHE": str(cache)} if cache else {})}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_registering_ops_builds_nothing(tmp_path: Path) -> None:
    run(REGISTER, tmp_path)
    assert not list(tmp_path.rglob("*.so")) and not list(tmp_path.rglob("*.pch"))


def test_the_first_op_in_an_empty_cache(tmp_path: Path) -> None:
    run(FIRST, tmp_path)
    kinds = [path.parent.name for path in (*tmp_path.rglob("*.so"), *tmp_path.rglob("*.pch"))]
    assert sorted(kinds) == ["headers", "kernels", "runtime"]


def test_a_first_call_where_torch_traces() -> None:
    run(TRACED)


def test_an_enumeration_is_no_list_of_one_value() -> None:
    """Lists of one value cost a run of clang more."""
    assert has_lists_of_one("uint4 k = {7};")
    assert not has_lists_of_one("enum : uint { rows = V <= 2 ? 4 : 1 };")
    assert not has_lists_of_one("enum class Kind { one };")
    assert has_lists_of_one("enum Kind { one }; uint4 k = {7};")
