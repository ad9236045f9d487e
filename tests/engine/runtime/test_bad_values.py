"""Values that no option, argument or variable can take: each is an error of the package that names what was given."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import MetalcoreError

SOURCE = """constant int N [[function_constant(0)]];
constant int2 V [[function_constant(1)]];
kernel void f(device float* x, uint i [[thread_position_in_grid]]) { x[i] = N + V.y; }"""
PLAIN = "kernel void f(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 1; }"
HUGE: Any = 10**5000
TWO = np.array([1, 2])


def library(**options: Any) -> Any:
    return metalcore.Library(PLAIN, **options)


def constants(given: Any) -> Any:
    return metalcore.Library(SOURCE).function("f", constants=given)


def launch(**options: Any) -> None:
    metalcore.Library(PLAIN).function("f")(np.zeros(4, np.float32), threads=4, **options)


def kernel(**changes: Any) -> Any:
    made = {"name": "k", "input_names": ["x"], "output_names": ["y"], "source": "y[0] = x[0];"}
    call = {"inputs": [np.ones(4, np.float32)], "output_shapes": [(1,)], "output_dtypes": [np.float32]}
    call |= {"grid": (1, 1, 1), "threadgroup": (1, 1, 1)}
    made |= {name: value for name, value in changes.items() if name in made}
    call |= {name: value for name, value in changes.items() if name not in made}
    return metalcore.metal_kernel(**made)(**call)


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "define, huge": (lambda: library(defines={"A": HUGE}), r"defines\['A'\] is a number of 16610 bits"),
    "define, long": (lambda: library(defines={"A": "x" * 200_000}), "defines has 200017 characters in all, .* header"),
    "defines, many": (lambda: library(defines={f"A{i}": 1 for i in range(100_000)}), "defines has .* characters"),
    "define, array": (lambda: library(defines={"A": TWO}), r"defines\['A'\]=array\(\[1, 2\]\) must be text or"),
    "folder, long": (lambda: library(include_dirs=["/a" * 100_000]), "include_dirs: a path has at most 4096 bytes"),
    "folders, many": (lambda: library(include_dirs=["/a" * 500] * 500), "include_dirs has .* characters in all"),
    "prelude, no text": (lambda: library(prelude="\ud800"), "the prelude:1: it is not text"),
    "prelude, long": (lambda: library(prelude=" " * 9_000_000), "has 9.0 MB of text, more than 8 MB"),
    "path with zero": (lambda: metalcore.Library(pathlib.Path("a\0b.metal")), "the path of a Metal file"),
    "path, no text": (lambda: metalcore.Library(pathlib.Path(os.fsdecode(b"/tmp/\xff.metal"))), "the path of a Metal"),
    "path, memory": (lambda: metalcore.Library(pathlib.Path("/proc/self/mem")), "/proc/self/mem.* cannot be read"),
    "path, long": (lambda: metalcore.Library("a" * 5000 + ".metal"), "cannot be read: File name too long"),
    "path, folder": (lambda: metalcore.Library("/tmp/"), "/tmp is a folder"),
    "constants, number": (lambda: constants(3), "constants=3 must be a dict"),
    "constants, list": (lambda: constants([1]), r"constants=\[1\] must be a dict"),
    "constants, text": (lambda: constants("ab"), "constants='ab' must be a dict"),
    "constant, huge": (lambda: constants({0: HUGE}), "function constant 0: 16610 bits are more than any type has"),
    "constant, array": (lambda: constants({0: TWO, 1: TWO}), "function constant 'N' is int"),
    "constant, dict": (lambda: constants({0: {}}), "function constant 0 takes a number, .* not {}"),
    "constant, set": (lambda: constants({"N": {1}}), "function constant 'N' takes a number"),
    "timeout, huge": (lambda: launch(timeout=10**400), "timeout= is a number that no float holds"),
    "also": (lambda: metalcore.mode("sanitize", also=3), "also=3 must be a list"),  # type: ignore[arg-type]
    "require, number": (lambda: metalcore.isolate(require=3), "require=3 must be"),  # type: ignore[arg-type]
    "require, lists": (lambda: metalcore.isolate(require=[[]]), r"require=\[\[\]\] must be"),  # type: ignore[list-item]
    "require, None": (lambda: metalcore.isolate(require=None), "require=None must be"),  # type: ignore[arg-type]
    "input_names": (lambda: kernel(input_names=3), "`input_names` must be a list of names, not 3"),
    "inputs": (lambda: kernel(inputs=3), "`inputs` must be a list, not int"),
    "grid": (lambda: kernel(grid=3), "`grid` must be three integers, not 3"),
    "threadgroup": (lambda: kernel(threadgroup=None), "`threadgroup` must be three integers, not None"),
    "output_shapes": (lambda: kernel(output_shapes=[3]), "output 'y': 3 is not a shape"),
    "template": (lambda: kernel(template=3), "`template` must be a list of"),
    "template, no pair": (lambda: kernel(template=[3]), "`template` must be a list of"),
    "init_value": (lambda: kernel(init_value="a"), "`init_value` must be a number, not 'a'"),
    "sparse": (lambda: metalcore.silu(torch.eye(3).to_sparse()), "silu: input must be .* not a sparse tensor"),
    "sparse_csr": (lambda: metalcore.silu(torch.eye(3).to_sparse_csr()), "silu: input must be .* not a sparse tensor"),
}
SHAPES: tuple[Any, ...] = (None, 2.5, 1 << 62, 1 << 45, HUGE, (1 << 62, 0), (1,) * 70, "ab")
BAD |= {f"shape {i}": (lambda n=shape: metalcore.shared_array(n), "shared_array: ") for i, shape in enumerate(SHAPES)}
DTYPES: tuple[Any, ...] = ("V0", "S", "(2,2)f4", "nosuch", object, 3)
BAD |= {f"dtype {d}": (lambda t=dtype: metalcore.shared_array(3, t), "shared_array") for d, dtype in enumerate(DTYPES)}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("case", BAD)
def test_bad_values(case: str) -> None:
    call, words = BAD[case]
    with pytest.raises(MetalcoreError, match=words):
        call()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("METALCORE_THREADS", "abc"), ("METALCORE_THREADS", "9" * 99), ("METALCORE_DUMP", "/dev/null/x")],
)
def test_variables(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from metalcore import settings

    monkeypatch.setenv(variable, value)
    with pytest.raises(MetalcoreError, match=variable):
        settings.num_threads() if variable == "METALCORE_THREADS" else settings.dump_dir()


def test_what_is_odd_but_right() -> None:
    class Colour(str, Enum):
        RED = "7"

    x = np.zeros(4, np.float32)
    odd = metalcore.Library(PLAIN.replace("= 1", "= C"), defines={"C": Colour.RED})
    odd.function("f")(x, threads=4, timeout=1e300)
    assert x.tolist() == [7] * 4
    metalcore.Library(SOURCE).function("f", {0: np.int32(3), "V": TWO})(x, threads=4)
    assert x.tolist() == [5] * 4
