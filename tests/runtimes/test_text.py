"""The text that each framework gets: checked as text, for every variant that the first cases of every op launch."""

from __future__ import annotations

import re

import pytest

from metalcore.errors import ArgumentError, LaunchError
from metalcore.ops import find, nouns
from metalcore.ops.rms_norm import FORWARD
from metalcore.runtimes.kernel import Kernel, Variant
from metalcore.runtimes.slots import Slots, launch_size, make_variant
from metalcore.runtimes.text import metal_kernel_text, parameter_dtypes, shader_text, unique_key
from tests.runtimes.cases import launches

BUFFERS = 31


def variants(noun: str) -> list[Variant]:
    found = [launch.variant for dtype in find(noun).dtypes for i in range(6) for launch in launches(noun, dtype, i)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("noun", nouns())
def test_every_variant(noun: str) -> None:
    """What neither framework has is gone: includes of our headers, function constants, attributes in a header."""
    found = variants(noun)
    assert found
    for variant in found:
        shader, kernel = shader_text(variant), metal_kernel_text(variant)
        for text in (shader, kernel.header, kernel.source):
            assert text.isascii()
            assert '#include "' not in text and "function_constant" not in text
        assert shader.count("[[host_name(") == (1 if variant.types else 0)
        assert "[[" not in kernel.header + kernel.source
        code = re.sub(r"//[^\n]*", "", kernel.header)
        assert not re.search(r"\bthreadgroup \w+ \w+\[", code)  # see the next test
        buffers = [p for p in variant.kernel.parameters if p.kind != "thread"]
        assert {n.rpartition("_")[0] for n in (*kernel.input_names, *kernel.output_names)} == {p.name for p in buffers}
        assert len(buffers) <= BUFFERS and kernel.output_names
        assert "" not in parameter_dtypes(variant)


def test_threadgroup_memory_stays_in_the_kernel() -> None:
    """Metal: variables in the threadgroup address space cannot be declared in a non-qualified function."""
    text = metal_kernel_text(FORWARD.variant(("float16", "float32", 4), (True,)))
    assert "threadgroup float partial[32];" in text.source
    assert "uint block = threadgroup_position_in_grid.x;" in text.source
    assert text.template == (("T", "float16"), ("W", "float32"), ("V_value", 4))


def test_names_tell_constants_apart() -> None:
    """MLX keeps one compiled library for each name."""
    names = {unique_key(FORWARD.variant(("float32", "float32", 1), (c,))) for c in (True, False)}
    assert len(names) == 2 and all(name.isidentifier() for name in names)


def test_limits() -> None:
    kernel = Kernel("rms_norm", "rms_norm_forward", ("has_weight",))
    assert launch_size(kernel, (3, 2), (64,)) == ((192, 2, 1), (64, 1, 1))
    with pytest.raises(LaunchError, match="1 to 1024"):
        launch_size(kernel, (1,), (2048,))
    with pytest.raises(LaunchError, match="fewer than 4294967296"):
        launch_size(kernel, (1 << 27,), (64,))
    with pytest.raises(ArgumentError, match="no float64"):
        make_variant(kernel, ("float64", "float64", 1), (True,))
    slots = Slots(make_variant(kernel, ("float32", "float16", 1), (True,)))
    with pytest.raises(ArgumentError, match="weight holds float16, not float32"):
        slots.check_dtype(slots.slots[1], "float32")
