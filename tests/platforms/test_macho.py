"""Kernels and the runtime for a Mac, made here and read back. Nothing here runs on one."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from metalcore.engine import pipeline
from metalcore.engine.codegen import macho, own_functions
from metalcore.engine.codegen.closed_object import check_object, read, undefined
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.model import NativeKernel, ScalarKernel, Variant
from metalcore.engine.optimiser import child, llvm
from metalcore.engine.runtime import native_library
from metalcore.engine.target import AARCH64, MACOS, X86_64, Platform, baseline
from metalcore.engine.toolchain import compile_c, link_shared
from metalcore.errors import MetalcoreError
from tests.engine.runtime.test_closed_object import BAD, RUN
from tests.platforms.images import problems

MACS = [Platform(MACOS, AARCH64), Platform(MACOS, X86_64)]
pytestmark = pytest.mark.parametrize("mac", MACS, ids=lambda mac: mac.machine)
# Barriers (coroutines), a constant table, private arrays that want memset and memcpy, halves, atomics, a product.
SOURCE = """
#include <metal_stdlib>
using namespace metal;
constant float table[] = {1, 2, 3, 5, 7, 11, 13, 17};
struct Large { float of[64]; };
kernel void many(device float* x, device half* h, device atomic_uint* n, device Large* large,
                 uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {
  threadgroup float shared[256];
  float own[16] = {};
  for (uint j = 0; j < 64; j++) own[(j * i) % 16] += exp(x[i]) * table[j % 8];
  shared[t] = simd_sum(own[i % 16]);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  large[i] = large[i + 1];
  h[i] = half(shared[255 - t]) * h[i];
  atomic_fetch_add_explicit(n, uint(fmax(x[i], own[t % 16])), memory_order_relaxed);
}
"""


@functools.cache
def many() -> ScalarKernel:
    return lower(make_unit(SOURCE), "many", {})


def shared(folder: Path, text: str, mac: Platform) -> str:
    (folder / "a.c").write_text(text)
    compile_c(str(folder / "a.c"), str(folder / "a.o"), where=mac)
    link_shared([str(folder / "a.o")], str(folder / "a.so"), mac)
    return str(folder / "a.so")


@pytest.fixture
def built() -> Iterator[list[NativeKernel]]:
    """Folders of kernels, removed at the end."""
    kernels: list[NativeKernel] = []
    yield kernels
    for each in kernels:
        shutil.rmtree(Path(each.path).parent)


@pytest.mark.feature("API", "code for macOS: compiled, linked and read back on Linux, not yet run")
@pytest.mark.parametrize("mode", ("fast", "checked", "sanitize"))
def test_a_kernel(mac: Platform, mode: str, built: list[NativeKernel]) -> None:
    variant = Variant(layout="line", single=False, checked=mode != "fast", sanitized=mode == "sanitize")
    built.append(pipeline.build(many(), variant, baseline(mac)))
    data = Path(built[0].path).read_bytes()
    assert list(problems(data, mac)) == []
    found = macho.read(data)
    assert (found.exported, found.missing, found.starts) == ({"mc_run"}, frozenset(), ())
    assert {segment for segment, _, _ in macho.sections(data)} <= {"__TEXT", "__DATA_CONST", "__DATA"}


def test_the_runtime(mac: Platform) -> None:
    for library, exported in ((native_library.RUNTIME, "mc_call"), (native_library.SANITIZER, "mc_sanitize")):
        data = native_library.build(library, baseline(mac))
        assert list(problems(data, mac)) == []
        found = macho.read(data)
        assert exported in found.exported and found.starts == ()
        # zig resolves each against what libSystem has, so none of these is a guess; none is Linux's.
        assert not found.missing & {"syscall", "__tls_get_addr", "__errno_location"}


def test_what_libsystem_has_not(mac: Platform, tmp_path: Path) -> None:
    text = "int futex(void);\n" + RUN.replace("return 1", "return futex()")
    with pytest.raises(MetalcoreError, match="undefined symbol: _futex"):
        shared(tmp_path, text, mac)


@pytest.mark.parametrize("words", BAD)
def test_what_is_refused(mac: Platform, words: str, tmp_path: Path) -> None:
    with pytest.raises(MetalcoreError, match=words):
        check_object(shared(tmp_path, BAD[words], mac))


def test_what_is_taken(mac: Platform, tmp_path: Path) -> None:
    check_object(shared(tmp_path, RUN, mac))
    check_object(shared(tmp_path, BAD["uses getpid"], mac), allowed=["getpid"])


ZEROS = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @mc_run(ptr %to, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %n, i1 false)
  ret void
}
"""


def test_own_functions_take_the_place_of_libsystems(mac: Platform, tmp_path: Path) -> None:
    own, kernel, path = (str(tmp_path / name) for name in ("own.o", "kernel.o", "kernel.so"))
    Path(kernel).write_bytes(llvm.emit_object(ZEROS, target=baseline(mac)))
    link_shared([kernel], path, mac)
    assert undefined(path) == {"bzero" if mac.machine == AARCH64 else "__bzero"} <= own_functions.NAMES
    Path(own).write_bytes(own_functions.object_file(baseline(mac)))
    link_shared([kernel, own], path, mac)
    check_object(path)


LARGE_FRAME = """
declare void @use(ptr)
define void @mc_run() "probe-stack"="inline-asm" "stack-probe-size"="32768" {
  %frame = alloca [100000 x i8]
  call void @use(ptr %frame)
  ret void
}
"""


def test_large_frames_are_touched_without_help(mac: Platform) -> None:
    """No function of the system's (___chkstk_darwin) takes part."""
    assert macho.read(llvm.emit_object(LARGE_FRAME, target=baseline(mac))).missing == {"use"}


def test_both_code_generators(mac: Platform) -> None:
    """Small kernels come from llvmlite's LLVM, large ones from zig's."""
    text = "define i32 @mc_run(i32 %x) { %y = mul i32 %x, 7 \n ret i32 %y }\n"
    data = child.emit_object(text, target=baseline(mac))
    assert macho.read(data).exported == {"mc_run"}


def test_a_file_that_is_cut_off(mac: Platform, tmp_path: Path) -> None:
    path = Path(shared(tmp_path, RUN, mac))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(MetalcoreError, match="ends within its load commands"):
        check_object(str(path))
    assert undefined(str(path)) == frozenset() and path.stat().st_size == 100
    with pytest.raises(ValueError, match="Mach-O"):
        next(macho.commands(b"\x7fELF" + bytes(28)))
    assert read(shared(tmp_path, RUN, mac)).libraries == ("/usr/lib/libSystem.B.dylib",)
