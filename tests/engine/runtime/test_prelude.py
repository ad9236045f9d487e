"""Lines that a kernel's host puts in front of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import metalcore
from metalcore.tools.cli import cli

SOURCE = (
    "kernel void k(device float* o, uint i [[thread_position_in_grid]]) {\n  o[i] = twice(simd_sum(float(i)));\n}\n"
)
USING = "using namespace metal;\n"
PRELUDE = USING + "float twice(float x) {\n  return N * x; }\n"


def run(prelude: str, **options: object) -> float:
    out = np.zeros(32, np.float32)
    metalcore.Library(SOURCE, prelude=prelude, **options).function("k")(out, threads=32)  # type: ignore[arg-type]
    assert len(set(out.tolist())) == 1
    return float(out[0])


@pytest.mark.feature("API", "Library(prelude=...): lines that the host puts in front of a source")
def test_it_stands_in_front_of_the_source() -> None:
    assert run(PRELUDE, defines={"N": 2}) == 992
    assert run("#define N 3\n" + PRELUDE) == 1488  # another text, another kernel: it is part of the cache's key
    assert run("#define N 4\n" + PRELUDE) == 1984


def test_lines_keep_their_numbers() -> None:
    with pytest.raises(
        metalcore.errors.CompileError, match=r"<metal>:2: error: use of undeclared identifier 'twice'"
    ) as at:
        run(USING)
    assert (at.value.filename, at.value.lineno) == ("<metal>", 2)
    with pytest.raises(metalcore.errors.CompileError, match=r"<prelude>:3: error: .*'N'\n    return N") as at:
        run(PRELUDE)
    assert (at.value.filename, at.value.lineno) == ("<prelude>", 3)
    with pytest.raises(metalcore.errors.CompileError, match="<prelude>:1: error: 'double'"):
        run("double d;")
    library = metalcore.Library(SOURCE.replace("o[i] =", "o[i + 32] ="), prelude=PRELUDE, defines={"N": 2})
    with pytest.raises(metalcore.errors.KernelFault, match="<metal>:2:"):
        library.function("k")(np.zeros(32, np.float32), threads=32)


def test_a_template_of_the_prelude_has_its_place_when_it_is_instantiated() -> None:
    prelude = "template <typename T>\nT twice(T x) {\n  return x.nothing; }\n" + USING
    with pytest.raises(metalcore.errors.CompileError, match="<prelude>:3: error"):
        run(prelude)


HINTS = {
    "using namespace metal": ("o[i] = simd_sum(1.0f);", 'prelude="using namespace metal;"'),
    "MLX": ("o[i] = elem_to_loc<int>(i, o);", "mlx/backend/metal/kernels/utils.h"),
    "ggml": ("device const block_q4_0* x = 0; o[i] = x[0].d;", "ggml-common.h"),
}


@pytest.mark.parametrize("name", HINTS)
@pytest.mark.feature("API", "a hint at prelude= where a well-known one is missing")
def test_a_hint_where_one_is_missing(name: str) -> None:
    body, hint = HINTS[name]
    source = f"kernel void k(device float* o, uint i [[thread_position_in_grid]]) {{ {body} }}"
    with pytest.raises(metalcore.errors.CompileError) as error:
        metalcore.Library(source)
    assert "may put lines in front of it" in str(error.value) and hint in str(error.value)


def test_no_hint_where_none_is_missing() -> None:
    for text in (USING + "int f() { return simd_sun; }", "int f() { return a; }"):
        with pytest.raises(metalcore.errors.CompileError) as error:
            metalcore.Library(text)
        assert "hint" not in str(error.value)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(metalcore.errors.ArgumentError, match="prelude must be MSL text, not int"):
        metalcore.Library(SOURCE, prelude=3)  # type: ignore[arg-type]
    with pytest.raises(metalcore.errors.CompileError, match=r"the prelude:1: .*zero byte"):
        metalcore.Library(SOURCE, prelude="\0")


def test_the_command_line(tmp_path: Path) -> None:
    kernel, prelude = tmp_path / "k.metal", tmp_path / "host.h"
    kernel.write_text(SOURCE)
    prelude.write_text("#define N 2\n" + PRELUDE)
    words = ["run", str(kernel), "k", "zeros:float32:32", "--prelude", str(prelude)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0 and "992" in result.output, result.output
    result = CliRunner().invoke(cli, ["inspect", str(kernel), "--prelude", str(prelude)])
    assert result.exit_code == 0 and "k" in result.output
    result = CliRunner().invoke(cli, ["inspect", str(kernel), "--prelude", "no_such_file"])
    assert result.exit_code == 2 and "no_such_file" in result.output
