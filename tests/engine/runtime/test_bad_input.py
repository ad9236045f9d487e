"""Input that is no input: each mistake is an error of the package that names the option and says what it takes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError, LaunchError

SOURCE = "kernel void f(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 1; }"
LIBRARY = metalcore.Library(SOURCE)


@pytest.mark.parametrize(
    ("defines", "words"),
    [
        ({"A": "1\0"}, r"defines\['A'\] holds a zero byte"),
        ({"A": "1\n2"}, r"defines\['A'\] holds the end of a line"),
        ({"A": "\ud800"}, r"defines\['A'\] is no text"),
        ({"A": b"x"}, r"defines\['A'\]=b'x' must be text or a number, not bytes"),
        ({"A": [1]}, r"defines\['A'\]=\[1\] must be text or a number, not list"),
        ({3: 1}, "the name 3, which is no identifier"),
        ({"A\0": 1}, "which is no identifier"),
        (3, "defines=3 must be a dict"),
        ("A", "defines='A' must be a dict"),
    ],
)
@pytest.mark.feature("rejected", "defines and include_dirs that are no text")
def test_defines(defines: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        metalcore.Library(SOURCE, defines=defines)


def test_numpy_numbers_are_defines() -> None:
    library = metalcore.Library(SOURCE.replace("= 1", "= N + H"), defines={"N": np.int32(3), "H": 0.5, "E": None})
    x = np.zeros(2, np.float32)
    library.function("f")(x, threads=2)
    assert x.tolist() == [3.5, 3.5]


@pytest.mark.parametrize(
    ("folders", "words"),
    [
        (["a\0b"], "a folder's name holds a zero byte"),
        ([b"/tmp"], "named by text or a path, not by b'/tmp'"),
        ([None], "named by text or a path, not by None"),
        (3, "include_dirs=3 must be a sequence of folders"),
        (None, "include_dirs=None must be a sequence of folders"),
        ({"a": 1}, "must be a sequence of folders"),
    ],
)
def test_include_dirs(folders: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        metalcore.Library(SOURCE, include_dirs=folders)


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (7, r"threadgroup_memory=7 must be a dict, as in \{0: 1024\}"),
        ([16], "must be a dict"),
        ({0: 7}, "must be a multiple of 16 bytes"),
        ({0: 32784}, "32784 bytes of threadgroup memory .* the limit is 32768"),
        ({31: 16}, r"has no \[\[threadgroup\(31\)\]\]"),
        ({True: 16}, r"has no \[\[threadgroup\(True\)\]\]"),
        ({"tile": 16}, r"has no \[\[threadgroup\(tile\)\]\]"),
    ],
)
def test_threadgroup_memory(memory: Any, words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        LIBRARY.function("f")(np.zeros(4, np.float32), threads=4, threadgroup_memory=memory)


@pytest.mark.feature("threadgroup memory", "a size for a number that the kernel has no argument for, as Metal takes it")
def test_threadgroup_memory_that_no_argument_takes() -> None:
    x, f = np.zeros(4, np.float32), LIBRARY.function("f")
    f(x, threads=4, threadgroup_memory={3: 1024})
    assert x.tolist() == [1] * 4
    with metalcore.mode("sanitize") as report:
        f(x, threads=4, threadgroup_memory={3: 1024})
        f(x, threads=4, threadgroup_memory={3: 1024})
    assert not report.findings and len(report) == 0
    (note,) = report.notes
    assert "has no [[threadgroup(3)]] argument" in note and f"note: {note}" in str(report)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors(layout: Any) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    with pytest.raises(ArgumentError, match="one block of memory, not a nested tensor: pass a list of its tensors"):
        LIBRARY.function("f")(nested, threads=2)
    table = metalcore.Library("kernel void g(device float* constant* x) { x[0][0] = 1; }").function("g")
    with pytest.raises(ArgumentError, match="item 0 must be one block of memory, not a nested tensor"):
        table([nested], threads=1)
    with pytest.raises(ArgumentError, match="argument 0 of f must be one block of memory, not a nested tensor"):
        metalcore.compile_shader(SOURCE).f(nested, threads=2)
    kernel = metalcore.metal_kernel(name="k", input_names=["a"], output_names=["y"], source="y[0] = a[0];")
    launch = {"output_shapes": [(1,)], "output_dtypes": [torch.float32], "grid": (1, 1, 1), "threadgroup": (1, 1, 1)}
    with pytest.raises(ValueError, match="input 'a' must be one block of memory, not a nested tensor"):
        kernel(inputs=[nested], **launch)


@pytest.mark.parametrize("path", ["x" * 5000, "/".join(["y" * 100] * 50)])
def test_a_cache_path_that_no_file_system_takes(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_CACHE", "/" + path)
    with pytest.raises(ArgumentError, match="METALCORE_CACHE is too long for a path"):
        metalcore.Library(SOURCE + " ")


WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "mlx"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
import metalcore
for what in ("nn", "optim", "patch_model", "overrides"):
    try:
        getattr(metalcore, what)
    except metalcore.errors.MissingPackage as error:
        assert isinstance(error, ModuleNotFoundError) and error.name == "torch"
        print(error)
try:
    from metalcore.nn import RMSNorm
except metalcore.errors.MissingPackage as error:
    print(error)
try:
    metalcore.mlx.gelu
except metalcore.errors.MissingPackage as error:
    print(error)
"""


def test_without_torch_the_error_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=120)
    words = "needs PyTorch, which is not installed: pip install 'metalcore-kernels[torch]'"
    names = ("metalcore.nn", "metalcore.optim", "metalcore.patch_model", "metalcore.overrides", "metalcore.nn")
    lines = [f"{name} {words}" for name in names]
    assert done.stdout.splitlines()[:5] == lines, done.stderr
    assert "needs MLX, which is not installed: pip install 'metalcore-kernels[mlx]'" in done.stdout
