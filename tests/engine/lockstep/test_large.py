"""A kernel with very many accesses in branches within branches, as a tile with edges has them unrolled."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.ir import parse
from metalcore.engine.lockstep import vectorise
from metalcore.engine.lockstep.gathers import MANY_ACCESSES
from metalcore.engine.optimiser import llvm

DEEP, EACH, PITCH = 11, 12, 160
BODY = "".join(
    f"if (n > {j}) {{ " + " ".join(f"y[at + {j * EACH + e}] = T(x[at + {j * EACH + e}] + T({e}));" for e in range(EACH))
    for j in range(DEEP)
)
SOURCE = f"""template <typename T> kernel void k(device const T* x [[buffer(0)]], device T* y [[buffer(1)]],
    device const uint* limits [[buffer(2)]], uint i [[thread_position_in_grid]]) {{
  uint n = limits[i], at = i * {PITCH};
  {BODY} {"}" * DEEP}
}}
template [[host_name("k_float")]] kernel decltype(k<float>) k<float>;
template [[host_name("k_half")]] kernel decltype(k<half>) k<half>;
template [[host_name("k_char")]] kernel decltype(k<char>) k<char>;
"""


@pytest.mark.parametrize(
    "name, mode",
    [
        ("float", "checked"),
        *(pytest.param(n, m, marks=pytest.mark.sweep) for n in ("half", "char") for m in ("checked", "fast")),
        pytest.param("float", "sanitize", marks=pytest.mark.sweep),
    ],
)
def test_many_accesses_under_masks(name: str, mode: str) -> None:
    """They are calls of small functions: the same values, and nothing beside the lanes that are there."""
    assert DEEP * EACH * 2 > MANY_ACCESSES
    dtype = {"float": np.float32, "half": np.float16, "char": np.int8}[name]
    rng = np.random.default_rng(11)
    x = rng.integers(-50, 50, (45, PITCH)).astype(dtype)
    limits = rng.integers(0, DEEP + 1, 45).astype(np.uint32)
    y = np.full((45, PITCH), 99, dtype)
    with metalcore.mode(mode):
        metalcore.Library(SOURCE).function(f"k_{name}")(x, y, limits, threads=45, group_size=45)
    place = np.arange(PITCH)
    expected = np.where(place < limits[:, None] * EACH, x + (place % EACH).astype(dtype), dtype(99))
    assert np.array_equal(y, expected)


def test_an_access_past_the_end_under_masks_is_found() -> None:
    limits = np.arange(45, dtype=np.uint32) % (DEEP + 1)
    x, y = np.zeros((45, PITCH), np.float32), np.zeros(44 * PITCH, np.float32)
    with pytest.raises(metalcore.errors.KernelFault, match=r"buffer .y. "):
        metalcore.Library(SOURCE).function("k_float")(x, y, limits, threads=45, group_size=45)


def test_an_access_under_a_mask_is_one_call() -> None:
    """In a kernel this large; it would be some 150 lines where it stands."""
    unit = make_unit(SOURCE, path=None, include_dirs=[], defines={}, math_mode="safe")
    scalar = parse(llvm.optimise_scalar(parse(lower(unit, "k_float", None).ir), guarded=True))
    text = vectorise(scalar, layout="line", single=True, checked=True, width=8, tail=False).ir
    calls = text.count("call void @mc.access.store.float") + text.count("call void @mc.pattern.store.float")
    assert calls >= DEEP * EACH
    assert text.count("\n") < 60_000  # 137,000 where each access stands in full
