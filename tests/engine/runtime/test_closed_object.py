"""A kernel's shared object that has more to it than a kernel is not taken."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path

import pytest

from metalcore.engine.codegen import own_functions
from metalcore.engine.codegen.closed_object import check_object, undefined
from metalcore.engine.toolchain import compile_c, link_shared
from metalcore.errors import MetalcoreError

RUN = '__attribute__((visibility("default"))) int mc_run(void) { return 1; }\n'
BAD = {
    "uses getpid": "int getpid(void);\n" + RUN.replace("return 1", "return getpid()"),
    "runs code when it is loaded": "static volatile int x;\n"
    "__attribute__((constructor)) void start(void) { x = 1; }\n" + RUN,
    "for each thread": "static __thread volatile int x;\n" + RUN.replace("return 1", "return ++x"),
    "exports mc_run, other": RUN + RUN.replace("mc_run", "other"),
}


def shared(folder: Path, text: str, *more: str) -> str:
    (folder / "a.c").write_text(text)
    compile_c(str(folder / "a.c"), str(folder / "a.o"))
    link_shared([str(folder / "a.o"), *more], str(folder / "a.so"))
    return str(folder / "a.so")


@pytest.mark.feature("API", "a kernel's machine code leaves no name to the process and runs nothing when it is loaded")
def test_what_is_refused(tmp_path: Path) -> None:
    check_object(shared(tmp_path, RUN))
    for words, text in BAD.items():
        with pytest.raises(MetalcoreError, match=words):
            check_object(shared(tmp_path, text))
    check_object(shared(tmp_path, BAD["uses getpid"]), allowed=["getpid"])


def test_fmax_and_fmin(tmp_path: Path) -> None:
    kinds = {"fmax": "double", "fmin": "double", "fmaxf": "float", "fminf": "float"}
    text = "".join(
        f"{kind} {name}({kind}, {kind});\n"
        f'__attribute__((visibility("default"))) {kind} my_{name}({kind} a, {kind} b) {{ return {name}(a, b); }}\n'
        for name, kind in kinds.items()
    )
    (tmp_path / "own.o").write_bytes(own_functions.object_file())
    library = ctypes.CDLL(shared(tmp_path, text, str(tmp_path / "own.o")))
    for name, kind in kinds.items():
        function = getattr(library, "my_" + name)
        real = ctypes.c_double if kind == "double" else ctypes.c_float
        function.argtypes, function.restype = [real, real], real
        best = max if "max" in name else min
        assert [function(2, -3), function(-3, 2)] == [best(2, -3)] * 2
        assert [function(math.nan, 1), function(1, math.nan)] == [1, 1]
        assert math.isnan(function(math.nan, math.nan))


def test_own_functions_are_a_kernels_own(tmp_path: Path) -> None:
    text = "void* memset(void*, int, unsigned long);\n" + RUN.replace(
        "return 1", "char a[99]; memset(a, 7, sizeof a); return a[98]"
    )
    volatile = text.replace("char a", "volatile char a").replace("memset(a", "memset((void*)a")
    assert undefined(shared(tmp_path, volatile)) <= own_functions.NAMES
    (tmp_path / "own.o").write_bytes(own_functions.object_file())
    check_object(shared(tmp_path, volatile, str(tmp_path / "own.o")))
