"""What the emitted code looks like: no gather where a load would do, no mask where control flow is uniform."""

from __future__ import annotations

import re

import pytest

from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.lockstep import vectorise
from metalcore.engine.optimiser import llvm

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def scalar_ir(source: str, name: str = "k", math_mode: str = "safe") -> str:
    unit = make_unit(HEAD + source, path=None, include_dirs=[], defines={}, math_mode=math_mode)
    return llvm.optimise_scalar(lower(unit, name, None).ir)


def assembly(source: str, *, checked: bool = False, layout: str = "line") -> str:
    module = vectorise(
        scalar_ir(source), layout=layout, single=False, checked=checked, width=llvm.vector_width(), tail=False
    )
    kept: dict[str, str] = {}
    llvm.emit_object(module.ir, kept.__setitem__)
    return kept["kernel.s"]


WIDTH = llvm.vector_width()
REGISTER, COUNT = {8: ("ymm", 4), 16: ("zmm", 2)}.get(WIDTH, ("", 0))  # of 32 lanes
needs_avx2 = pytest.mark.skipif(not COUNT, reason="looks for AVX2 or AVX-512 instructions")
MASKS = r"mask|blendv|vpcmp|gather|\{%k"


@needs_avx2
def test_a_line_is_read_and_written_with_plain_vectors() -> None:
    text = assembly(
        "kernel void k(device const float* x, device float* y, uint i [[thread_position_in_grid]]) { y[i] = x[i] * 3; }"
    )
    assert not re.search(r"gather|vmaskmov|insertps|vpinsr|blendv|\{%k", text)
    assert len(re.findall(rf"vmulps.*{REGISTER}", text)) == COUNT


@needs_avx2
def test_a_loop_over_a_row_has_no_mask() -> None:
    text = assembly("""kernel void k(device const float* x, device float* y, constant uint& n,
        uint i [[thread_index_in_simdgroup]]) {
      float s = 0;
      for (uint j = i; j < n; j += 32) s += x[j];
      y[i] = s;
    }""")
    loops = re.findall(r"\n(\.LBB\d+_\d+):\n((?:\t.*\n)+?)\tj\w+\t\1\n", text)
    plain = [body for _, body in loops if len(re.findall(rf"vaddps.*{REGISTER}", body)) >= COUNT]
    assert [body for body in plain if not re.search(MASKS, body)], "a tight loop without masks"


@needs_avx2
def test_records_are_read_whole() -> None:
    text = assembly(
        "kernel void k(device const float4* x, device float4* y, uint i [[thread_position_in_grid]]) {\n"
        "  y[i] = x[i].wzyx; }"
    )
    assert not re.search(r"gather|vmovss|vinsertps|vextractps", text)


@pytest.mark.skipif(WIDTH != 16, reason="AVX2 has no masked rows of 8 or 16 bits")
@pytest.mark.parametrize("kind", ["half", "bfloat", "short", "char", "bool"])
def test_the_end_of_a_row_of_small_numbers_is_read_and_written_whole(kind: str) -> None:
    text = assembly(f"""kernel void k(device const {kind}* x, device {kind}* y, constant uint& n,
        uint i [[thread_index_in_simdgroup]]) {{ for (uint j = i; j < n; j += 32) y[j] = x[j]; }}""")
    assert re.search(r"vmovdqu(8|16).*\{%k", text) and not re.search(r"vpinsr[bw]|vpextr[bw]", text)


@needs_avx2
@pytest.mark.parametrize("function", ["exp", "log", "tanh", "sin", "rsqrt"])
def test_math_is_not_a_call(function: str) -> None:
    text = assembly(
        f"kernel void k(device float* x, uint i [[thread_position_in_grid]]) {{ x[i] = {function}(x[i]); }}"
    )
    calls = re.findall(r"\tcall\w*\t(\S+)", text)
    assert not [c for c in calls if "@" in c or re.match(r"[a-z_]+f?$", c)]


@needs_avx2
def test_checks_cost_one_scalar_test_per_simdgroup() -> None:
    source = (
        "kernel void k(device const float* x, device float* y, uint i [[thread_position_in_grid]]) { y[i] = x[i] * 3; }"
    )
    text = assembly(source, checked=True)
    assert not re.search(r"vpcmp|vmaskmov|\{%k", text)


def test_optimised_scalar_code_has_no_vectors() -> None:
    text = scalar_ir("""kernel void k(device const float4* x, device float4* y, uint i [[thread_position_in_grid]]) {
      float4 v = x[i]; y[i] = v * v + v.yzwx; }""")
    body = text[text.index("define") : text.index("\n}")]
    assert not re.search(r"<\d+ x ", body)


def test_only_long_kernels_ask_early_for_data() -> None:
    start = "kernel void k(device const float* x, device float* y, uint i [[thread_position_in_grid]]) { float v = *x;"
    assert "prefetch" not in assembly(start + "y[i] = v + 1; }")
    terms = "".join(f"v = v * x[i] + {n};" for n in range(8))
    assert len(re.findall("prefetch", assembly(f"{start} {terms} y[i] = v; }}"))) == 4  # two lines read, two written


def test_the_same_source_gives_the_same_code() -> None:
    """Blocks and values are kept in sets, whose order changes from run to run; the code must not."""
    text = scalar_ir("""kernel void k(device int* x, constant int& n, uint i [[thread_position_in_grid]]) {
      int v = x[i];
      for (int j = 0; j < n; ++j) {
        if (v == j) break;
        for (int m = v; m > 0; m /= 2) { if (x[m] == 3) continue; if (x[m] == j) v += 2; else v ^= m; }
        if (v > 100) return;
        switch (v & 3) { case 0: v += x[j]; break; case 1: x[i] = j; break; default: v -= 1; }
      }
      x[i] = v;
    }""")
    options = {"layout": "line", "single": False, "checked": True, "width": 8}
    codes = {vectorise(text, **options).ir for _ in range(4)}  # type: ignore[arg-type]
    assert len(codes) == 1
