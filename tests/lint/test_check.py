"""`metalcore check`: exit statuses, options, silencing, formats, and bodies of mx.fast.metal_kernel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from metalcore.lint import RULES
from metalcore.tools.cli import cli

ROOT = Path(__file__).resolve().parents[2]
CLEAN = "kernel void fill(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 1; }\n"
DIVIDES = """kernel void divide(
    device uint* x [[buffer(0)]],
    constant uint& n [[buffer(1)]],
    constant uint& spare [[buffer(2)]],
    uint i [[thread_position_in_grid]]) {
  x[i] /= n;
}
"""


def check(*words: str | Path) -> Result:
    """The command's outcome; click's own runner keeps standard error apart."""
    return CliRunner().invoke(cli, ["check", *map(str, words)])


def write(folder: Path, text: str, name: str = "kernel.metal") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def rules(result: Result) -> list[tuple[str, int]]:
    return [(d["rule"], d["line"]) for d in json.loads(result.stdout)["findings"]]


def test_nothing_found(tmp_path: Path) -> None:
    result = check(write(tmp_path, CLEAN))
    assert (result.exit_code, result.output) == (0, "metalcore check: nothing found\n")


def test_findings_have_file_line_and_remedy(tmp_path: Path) -> None:
    path = write(tmp_path, DIVIDES)
    result = check(path)
    assert result.exit_code == 1
    assert f"{path}:6:8" in result.output
    assert "note[integer-division]" in result.output and RULES["integer-division"].remedy in result.output
    assert "note[unused-parameter]" in result.output and "'spare'" in result.output


def test_choice_of_rules_and_levels(tmp_path: Path) -> None:
    path = write(tmp_path, DIVIDES)
    assert rules(check(path, "--format", "json")) == [("unused-parameter", 4), ("integer-division", 6)]
    assert rules(check(path, "--format", "json", "--only", "integer-division")) == [("integer-division", 6)]
    assert rules(check(path, "--format", "json", "--silence", "integer-division")) == [("unused-parameter", 4)]
    assert check(path, "--level", "warning").exit_code == 0


def test_unknown_rule_is_bad_use() -> None:
    for option in ("--silence", "--only", "--explain"):
        result = check(option, "integer-divsion", "any.metal")
        assert result.exit_code == 2
        assert "there is no rule 'integer-divsion'; did you mean integer-division?" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no file is given"),
        (("--metal-version", "new", "x.metal"), "--metal-version is a number such as 3.1, not 'new'"),
        (("-D", "1=2", "x.metal"), "-D takes NAME or NAME=VALUE, not '1=2'"),
    ],
)
def test_bad_use(words: tuple[str, ...], message: str) -> None:
    result = check(*words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_bad_files_do_not_keep_others_from_being_checked(tmp_path: Path) -> None:
    wrong = write(tmp_path, "kernel void f(device float* x) {\n  x[0] = missing;\n}\n", "wrong.metal")
    binary = tmp_path / "binary.metal"
    binary.write_bytes(b"\xff\xfe\x00")
    zero = write(tmp_path, "kernel void f() {}\0", "zero.metal")
    divides = write(tmp_path, DIVIDES)
    (tmp_path / "empty").mkdir()
    result = check(tmp_path / "none.metal", tmp_path / "empty", binary, zero, wrong, divides)
    assert result.exit_code == 2
    assert f"{tmp_path}/none.metal: there is no such file" in result.stderr
    assert f"{tmp_path}/empty: it is a folder with no .metal and no .py file in it" in result.stderr
    assert f"{binary}: line 1: it is not UTF-8 text" in result.stderr
    assert f"{zero}: it is not text, it holds a zero byte" in result.stderr
    assert f"{wrong}:2: error: use of undeclared identifier 'missing'" in result.stderr
    assert "integer-division" in result.output


def test_compile_errors_are_in_the_formats_for_machines(tmp_path: Path) -> None:
    path = write(tmp_path, "kernel void f(device float* x) {\n  x[0] = missing;\n}\n")
    result = check(path, "--format", "github")
    assert result.exit_code == 2
    assert "::error " in result.stdout and "line=2" in result.stdout and "missing" in result.stdout


def test_sarif_lists_rules_and_places(tmp_path: Path) -> None:
    result = check(write(tmp_path, DIVIDES), "--format", "sarif")
    assert result.exit_code == 1
    run = json.loads(result.output)["runs"][0]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} >= set(RULES)
    places = [r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in run["results"]]
    assert places == [4, 6]


def test_comments_silence_a_line_the_next_line_or_the_file(tmp_path: Path) -> None:
    beside = DIVIDES.replace("x[i] /= n;", "x[i] /= n;  // metalcore: silence(integer-division)")
    above = DIVIDES.replace("  x[i] /=", "  // metalcore: silence(integer-division)\n  // and why\n  x[i] /=")
    whole = "// metalcore: silence-file(integer-division, unused-parameter)\n" + DIVIDES
    assert rules(check(write(tmp_path, beside), "--format", "json")) == [("unused-parameter", 4)]
    assert rules(check(write(tmp_path, above), "--format", "json")) == [("unused-parameter", 4)]
    assert check(write(tmp_path, whole)).exit_code == 0


def test_comment_with_an_unknown_rule_is_a_finding(tmp_path: Path) -> None:
    result = check(write(tmp_path, CLEAN + "// metalcore: silence(no-such-rule)\n"), "--format", "json")
    assert result.exit_code == 1
    assert rules(result) == [("unknown-rule", 2)]


def test_includes_and_macros(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    header = write(tmp_path / "deep", "inline uint ratio(uint a, uint b) {\n  return a / b;\n}\n", "ratio.h")
    main = write(
        tmp_path,
        '#include "ratio.h"\nkernel void f(device uint* x, constant uint& n) { x[0] = ratio(x[0], DIVISOR); }\n',
    )
    result = check(main, "-I", tmp_path / "deep", "-D", "DIVISOR=n", "--format", "json")
    assert [(d["file"], d["line"]) for d in json.loads(result.output)["findings"]] == [(str(header), 2)]
    constant = check(main, "-I", tmp_path / "deep", "-D", "DIVISOR=3", "--silence", "unused-parameter")
    assert constant.exit_code == 0


def test_body_of_a_metal_kernel(tmp_path: Path) -> None:
    body = """uint elem = thread_position_in_grid.x;
T value = inp[elem];
if (elem < inp_shape[0]) {
  out[elem] = metal::exp(value) * T(inp_ndim + elem / inp_strides[0]);
}
"""
    assert rules(check(write(tmp_path, body), "--format", "json")) == [("integer-division", 4)]
    declared = "// metalcore: input inp bfloat16\n// metalcore: template T bfloat16\n" + body.replace(
        "inp[", "0.5f * inp["
    )
    found = rules(check(write(tmp_path, declared), "--format", "json", "--mlx", "--only", "implicit-bfloat"))
    assert found == [("implicit-bfloat", 4)]


def test_body_with_a_wrong_comment(tmp_path: Path) -> None:
    result = check(write(tmp_path, "// metalcore: input x float12\nx[0];\n"), "--mlx")
    assert result.exit_code == 2
    assert "line 1: input 'x' has dtype 'float12'" in result.stderr


def test_header_without_kernels_is_no_body(tmp_path: Path) -> None:
    header = "#pragma once\ninline float twice(float x) { if (x > 0) { return x; } return 2 * x; }\n"
    assert check(write(tmp_path, header, "twice.h")).exit_code == 0


def test_list_and_explain() -> None:
    listed = check("--list-rules")
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.output.splitlines()] == list(RULES)
    page = check("--explain", "divergent-barrier")
    assert page.exit_code == 0
    assert "## Wrong" in page.output and "## Right" in page.output


def test_examples_and_benchmarks_are_clean() -> None:
    files = [*sorted(ROOT.glob("examples/*.metal")), *sorted(ROOT.glob("benchmarks/kernels/*.metal"))]
    assert len(files) > 10
    result = check(*files)
    assert (result.exit_code, result.output) == (0, "metalcore check: nothing found\n")


PROGRAM = '''import torch, metalcore
import mlx.core as mx

SOURCE = """
kernel void divide(device uint* x, constant uint& n, uint i [[thread_position_in_grid]]) {
  x[i] /= n;
}
"""
shader = torch.mps.compile_shader(SOURCE)
body = mx.fast.metal_kernel(
    name="halves", input_names=["x", "n"], output_names=["y"],
    header="constant uint two = 2;",
    source="""
  uint i = thread_position_in_grid.x;
  y[i] = x[i / (n * two)];
""",
)
one_line = metalcore.Library("kernel void k(device uint* x,\\n constant uint& n) { x[0] /= n; }")
file = metalcore.Library("k.metal")
made = torch.mps.compile_shader("kernel" + SOURCE)
'''


def test_kernels_in_a_python_program(tmp_path: Path) -> None:
    path = write(tmp_path, PROGRAM, "program.py")
    result = check(path, "--format", "json", "--only", "integer-division")
    assert result.exit_code == 1, result.output
    assert rules(result) == [("integer-division", 6), ("integer-division", 15), ("integer-division", 18)]
    assert f"{path}:20: the source of compile_shader is made at run time: not checked" in result.stderr


def test_a_mistake_in_a_python_program_has_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, PROGRAM.replace("x[i] /= n;", "x[i] /= m;"), "program.py")
    result = check(path, "--format", "json")
    assert result.exit_code == 2
    wrong = [d for d in json.loads(result.stdout)["findings"] if d["rule"] == "compile-error"]
    assert [(d["file"], d["line"]) for d in wrong] == [(str(path), 6)]
    assert check(write(tmp_path, "def f(:", "broken.py")).exit_code == 2


def test_output_to_a_file(tmp_path: Path) -> None:
    result = check(write(tmp_path, DIVIDES), "--format", "json", "-o", tmp_path / "found.json")
    assert (result.exit_code, result.output) == (1, "")
    assert len(json.loads((tmp_path / "found.json").read_text())["findings"]) == 2


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / ".hidden").mkdir()
    write(tmp_path / "deep", DIVIDES)
    write(tmp_path / ".hidden", DIVIDES)
    write(tmp_path, PROGRAM, "program.py")
    found = json.loads(check(tmp_path, "--format", "json", "--only", "integer-division").stdout)["findings"]
    assert sorted({Path(d["file"]).name for d in found}) == ["kernel.metal", "program.py"] and len(found) == 4


def test_the_problem_matcher_reads_the_text(tmp_path: Path) -> None:
    first, second = json.loads((ROOT / ".github" / "metalcore-matcher.json").read_text())["problemMatcher"][0][
        "pattern"
    ]
    lines = check(write(tmp_path, DIVIDES), "--only", "integer-division").output.splitlines()
    said, place = (re.match(pattern["regexp"], line) for pattern, line in zip((first, second), lines, strict=False))
    assert said and place
    assert (said[first["severity"]], said[first["code"]]) == ("note", "integer-division")
    assert Path(place[second["file"]]).name == "kernel.metal"
    assert (place[second["line"]], place[second["column"]]) == ("6", "8")


def test_the_action_and_the_hook_run_the_command(tmp_path: Path) -> None:
    """Their own lines, in a shell; what installs the package is left out."""
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    install, run = action["runs"]["steps"]
    assert install["run"] == 'python -m pip install --quiet "$GITHUB_ACTION_PATH"'
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    write(tmp_path, DIVIDES)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "metalcore").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m metalcore "$@"\n')
    (bin_ / "metalcore").chmod(0o755)
    given = {"PATH": f"{bin_}:{os.environ['PATH']}", "PATHS": action["inputs"]["paths"]["default"]}
    environment = {**os.environ, **given, "OPTIONS": "--only integer-division"}
    done = subprocess.run(["bash", "-c", run["run"]], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "::notice file=kernel.metal,line=6" in done.stdout, done.stdout + done.stderr
    assert re.search(hook["files"], "kernel.metal") and re.search(hook["files"], "a/program.py")
    words = [*hook["entry"].split(), "kernel.metal", "--only", "integer-division"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "integer-division" in done.stdout
