"""The generator alone: every kernel has a meaning, is the same each time, compiles, and shrinks."""

from __future__ import annotations

import numpy as np
import pytest

from metalcore.engine.frontend import lower, make_unit
from tests.stress import tree as t
from tests.stress.check import difference, inputs
from tests.stress.generate import generate
from tests.stress.launch import run
from tests.stress.printer import expression, literal, msl
from tests.stress.shrink import shrink, size
from tests.stress.types import BOOL, CHAR, FLOAT, HALF, INT, LONG, UINT
from tests.stress.validate import Invalid, validate
from tests.stress.walk import nodes


@pytest.mark.parametrize("seed", range(1000, 1040))
def test_kernels_have_a_meaning(seed: int) -> None:
    kernel = generate(seed)
    validate(kernel)
    run(kernel, inputs(kernel))


def test_same_seed_same_kernel() -> None:
    assert generate(5) == generate(5)
    assert msl(generate(5)) == msl(generate(5))
    assert msl(generate(5)) != msl(generate(6))


@pytest.mark.parametrize("seed", range(1000, 1005))
def test_kernels_compile(seed: int) -> None:
    unit = make_unit(msl(generate(seed)), path=None, include_dirs=(), defines={}, math_mode="safe")
    assert lower(unit, "k", None).arguments


def test_features_all_turn_up() -> None:
    """One look at many kernels: nothing that the generator can write is left out by accident."""
    kinds: set[str] = set()
    for seed in range(1, 150):
        kernel = generate(seed)
        for _, node in nodes(kernel):
            kinds.add(node.function if isinstance(node, t.Library) else type(node).__name__)
        kinds |= {f"threads:{kernel.threads[1] > 1}", f"shared:{bool(kernel.shared)}"}
    for wanted in ("Switch", "While", "DoWhile", "For", "Break", "Continue", "Return", "Barrier", "Atomic", "Call"):
        assert wanted in kinds
    for wanted in ("simd_sum", "simd_shuffle", "simd_ballot", "simd_prefix_exclusive_sum", "quad_sum", "fma", "mulhi"):
        assert wanted in kinds
    assert {"threads:True", "threads:False", "shared:True", "AsType", "Swizzle", "Construct", "Member"} <= kinds


def test_literals() -> None:
    assert literal(INT, -(2**31)) == "(-2147483647 - 1)"
    assert literal(CHAR, -5) == "char((-5))"
    assert literal(LONG, 5) == "5l"
    assert literal(FLOAT, np.float32(1e-45)) == "1.401298464324817e-45f"
    assert literal(FLOAT, np.float32(1e20)) == "1.0000000200408773e+20f"
    assert literal(HALF, np.float16(-0.5)) == "(-0.5h)"
    assert expression(t.binary("+", t.Lit(UINT, 1), t.Var(INT, "x"))) == "(1u + x)"


def test_simd_function_on_the_way_out_of_a_loop_is_refused() -> None:
    total = t.Decl(UINT, "s", t.Library(UINT, "simd_sum", (t.Lit(UINT, 1),)))
    leave = t.If(t.binary("<", t.Var(UINT, "lane"), t.Lit(UINT, 3)), (total, t.Break()))
    attribute = t.Attribute(UINT, "lane", "thread_index_in_simdgroup")
    loop = t.While(t.Lit(BOOL, True), (leave,))
    kernel = t.Kernel(0, (), (), (), (), (attribute,), (), (loop,), (1, 1, 1), (1, 1, 1))
    with pytest.raises(Invalid, match="leads out"):
        validate(kernel)


def test_shrinker_finds_the_statement_that_matters() -> None:
    """A made-up fault, `the kernel holds a division`, must leave little else."""

    def fails(kernel: t.Kernel) -> bool:
        return any(isinstance(node, t.Binary) and node.op == "/" for _, node in nodes(kernel))

    kernel = next(k for k in map(generate, range(1, 99)) if fails(k) and size(k) > 300)
    small = shrink(kernel, fails)
    assert fails(small)
    assert size(small) < 12
    assert len(msl(small).splitlines()) < 20
    assert small.threads == (1, 1, 1)


def test_difference_names_thread_and_slot() -> None:
    buffer = t.Buffer("o_float", FLOAT, "output", 16, 8)
    a, b = np.zeros(16, np.float32), np.zeros(16, np.float32)
    a[3] = b[3] = np.nan
    assert difference(buffer, a, b) == ""
    b[9] = -0.0
    assert difference(buffer, a, b).startswith("o_float[9] (thread 1, slot 1): expected np.float32(0.0) (0x0)")
