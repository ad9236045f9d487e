"""Every template of MLX's Metal headers compiles, in float, half and bfloat."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from metalcore.engine.frontend.model import Unit
from tests.foreign import batch, coverage
from tests.foreign.arrays import FLOATS
from tests.foreign.corpus import sources

SOURCES = {path.stem: path for path in sources("mlx")}
# Headers whose kernels MLX itself cannot have in a type, and why.
ABSENT = {("fft.h", "bfloat16"): "radix.h initialises T with a float, which no bfloat takes"}
# Kernels that are no templates.
PLAIN = {"generate_bluestein_twiddles"}
# MLX writes a kernel around these functions; ours are in indexing.metal.
WRAPPED = {"gather_impl": "gather_two", "scatter_impl": "scatter_one"}


@functools.cache
def unit(path: Path) -> Unit:
    return batch.read_unit(path)


@pytest.mark.feature("corpus", "MLX: every kernel template compiles in float, half and bfloat")
@pytest.mark.parametrize("name", SOURCES)
def test_every_instantiation_compiles_to_scalar_ir(name: str) -> None:
    """One clang run per file gives IR with one entry point for each instantiation."""
    made = unit(SOURCES[name])
    assert made.functions
    numbers = {kernel.marker for kernel in made.kernels}
    for values in batch.constant_choices(made):
        assert batch.entries(batch.lower_all(made, values)) == numbers


@pytest.mark.sweep
def test_no_template_is_left_out() -> None:
    """Each kernel of each header is instantiated by a file that includes the header, in each type that it can have."""
    found = [(coverage.included(u), coverage.instantiated(u), u) for u in map(unit, SOURCES.values())]
    everything = coverage.templates()
    assert len(everything) > 100, "the headers were not read"
    missing = []
    for template in everything:
        name = WRAPPED.get(template.name, template.name)
        types: set[str] = set()
        count = 0
        for headers, made, _ in found:
            if template.header in headers and name in made:
                types |= made[name]
                count += 1
        wanted = {t for t in FLOATS if (template.header, t) not in ABSENT}
        if not count or (template.name not in PLAIN and not wanted <= types):
            missing.append(f"{template.header}: {template.name} ({', '.join(sorted(wanted - types)) or 'not at all'})")
    assert not missing, "not instantiated:\n" + "\n".join(missing)


def test_overloads_are_all_instantiated() -> None:
    """`block_masked_gemm` has two templates of one name: with types of masks, and with bool masks."""
    overloads = [t for t in coverage.templates() if t.name == "block_masked_gemm"]
    expressions = [k.expression for k in unit(SOURCES["steel_gemm_masked"]).kernels]
    with_types = [e for e in expressions if e.count(",") == 11]
    with_flag = [e for e in expressions if e.count(",") == 10]
    assert len(overloads) == 2 and with_types and with_flag
    assert len(with_types) + len(with_flag) == len(expressions)


@pytest.mark.sweep
def test_every_header_is_read() -> None:
    """No header of MLX's kernels is beside the corpus, helpers included."""
    seen = set().union(*(coverage.included(unit(path)) for path in SOURCES.values()))
    left = {coverage.relative(path) for path in coverage.headers()} - seen
    assert not left, f"included by no file of ours: {sorted(left)}"
