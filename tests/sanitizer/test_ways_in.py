"""The ways in: `metalcore sanitize`, `metalcore run --sanitize`, `pytest --metal-sanitize`, threads and modes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.engine.modes import current_mode, sanitize_process
from metalcore.tools import cli

pytest_plugins = ["pytester"]
PROJECT = Path(__file__).parent / "project"
# In pieces: a report looks for the text in all Python files that are loaded, and is to find the programs' own.
KERNEL = "\n".join(
    ["kernel void k(device int* x, uint i [[thread_position_in_grid]]) {", "  x[i] = 7 / x[i];", "}", ""]
)
PROGRAM = f'''import sys, threading
import numpy as np, metalcore

SOURCE = """
{KERNEL}"""


def launch(value):
    x = np.array([1, value], np.int32)
    metalcore.Library(SOURCE).function("k")(x, threads=2)
    return x.tolist()


print(launch(0), sys.argv[1:], __name__)
'''


class Ran:
    """Exit status and output of one command."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)

    def run(*words: str) -> Ran:
        monkeypatch.setattr("sys.argv", ["metalcore", *words])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        captured = capsys.readouterr()
        return Ran(int(leaving.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def program(tmp_path: Path) -> Any:
    def write(text: str = "", name: str = "program.py") -> str:
        (tmp_path / name).write_text(PROGRAM.replace('}\n"""', f'}}\n// {tmp_path.name}"""') + text)
        return name

    return write


@pytest.mark.feature("API", "metalcore sanitize PROGRAM.py: every launch in sanitize mode, a report at the end")
def test_a_program_with_a_finding(command: Any, program: Any) -> None:
    done = command("sanitize", program(), "--format", "-h", "a b")
    assert (done.status, done.out) == (1, "[7, 0] ['--format', '-h', 'a b'] __main__\n")
    assert done.err == (
        "error[division-by-zero]: an integer is divided by zero\n"
        " --> program.py:6:12\n"
        "  |\n"
        "5 | kernel void k(device int* x, uint i [[thread_position_in_grid]]) {\n"
        "6 |   x[i] = 7 / x[i];\n"
        "  |            ^\n"
        "7 | }\n"
        "  = kernel: k\n"
        "  = thread: (1, 0, 0) of the grid, threadgroup (0, 0, 0), simdgroup 0, lane 1\n"
        "  = launched: at program.py:13\n"
        "  = help: test the divisor before the division\n"
        "\n"
        "metalcore sanitize: 1 error\n"
    )


def test_a_clean_program_and_one_without_kernels(command: Any, program: Any, tmp_path: Path) -> None:
    done = command("sanitize", "--silence", "division-by-zero,race", program())
    assert (done.status, done.err) == (0, "metalcore sanitize: nothing found\n")
    (tmp_path / "plain.py").write_text("import sys\nassert 'numpy' in sys.argv\nsys.exit(0)\n")
    done = command("sanitize", "plain.py", "numpy")
    assert (done.status, done.err) == (
        0,
        "metalcore sanitize: nothing found\nmetalcore sanitize: no kernel was launched\n",
    )


@pytest.mark.parametrize(
    ("last", "status", "shown"),
    [
        ("sys.exit(7)", 7, ""),
        ("sys.exit()", 1, ""),
        ("sys.exit('in words')", 1, "in words\n"),
        ("raise OSError('of the program')", 1, "OSError: of the program\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
        ("import nothing_of_this_name", 1, "ModuleNotFoundError: No module named 'nothing_of_this_name'\n"),
    ],
)
def test_the_end_of_a_program(command: Any, program: Any, last: str, status: int, shown: str) -> None:
    done = command("sanitize", program(last + "\n"))
    assert done.status == status
    before, _, report = done.err.partition("error[division-by-zero]")
    assert before.endswith(shown) and report.endswith("metalcore sanitize: 1 error\n")
    if not last.startswith("sys.exit"):  # the traceback starts in the program
        assert before.startswith("Traceback (most recent call last):\n  File ") and "sanitize.py" not in before
        assert "program.py" in before.splitlines()[1]


def test_threads_and_fast_blocks_are_sanitized_and_checked_blocks_are_not(command: Any, program: Any) -> None:
    text = (
        "with metalcore.mode('fast'):\n    launch(0)\n"
        "with metalcore.mode('sanitize') as own:\n    launch(0)\n"
        "with metalcore.mode('checked'):\n    launch(0)\n"
        "assert len(own) == 1\n"
        "def later():\n    import time\n    time.sleep(0.05)\n    launch(0)\n"
        "threading.Thread(target=later).start()\n"
    )
    done = command("sanitize", "--format", "json", "-o", "report.json", program(text))
    assert done.status == 1 and done.err == "metalcore sanitize: 1 error; the report is in report.json\n"
    (finding,) = json.loads(Path("report.json").read_text())["findings"]
    assert finding["properties"]["count"] == 3 and finding["file"] == "program.py"


def test_fail_fast_and_exit_code(command: Any, program: Any) -> None:
    done = command("sanitize", "--fail-fast", "--exit-code", "42", program("print('never')\n"))
    assert (done.status, done.out) == (42, "") and "SanitizerError" in done.err
    assert done.err.endswith("metalcore sanitize: 1 error\n")
    done = command("sanitize", "--exit-code", "0", "--format", "github", program())
    assert done.status == 0 and done.err.startswith("::error file=program.py,line=6,col=12,title=")
    done = command("sanitize", "--exit-code", "0", "-o", "-", "--format", "json", program())
    assert json.loads(done.out.partition("\n")[2])["summary"]["error"] == 1 and done.err == ""


def test_a_module(command: Any, program: Any, tmp_path: Path) -> None:
    program(name="as_a_module.py")
    done = command("sanitize", "-m", "as_a_module", "--an-option")
    assert (done.status, done.out) == (1, "[7, 0] ['--an-option'] __main__\n")
    assert command("sanitize", "-m", "nobody_wrote_this").status == 2
    assert sys.path.count(str(tmp_path)) == 0


def test_annotations_in_github_actions(command: Any, program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = program()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(Path.cwd().parent))
    done = command("sanitize", name)
    assert done.status == 1 and f"\n::error file={Path.cwd().name}/program.py,line=6,col=12," in done.err
    assert " --> program.py:6:12\n" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing.py"], "there is no file nothing.py"),
        ([], "name a Python program"),
        (
            ["k.metal"],
            "k.metal is not a Python program: invalid syntax (k.metal, line 1); for one kernel: metalcore run",
        ),
        (["zero.py"], "zero.py is not a Python program"),
        (["--silence", "rase", "program.py"], "unknown kind of finding 'rase': the kinds are out-of-bounds, "),
        (["--also", "everything", "program.py"], "unknown kind of finding 'everything'"),
        (["--format", "xml", "program.py"], "'xml' is not one of"),
        (["--output", "no/such/folder/r.txt", "program.py"], "cannot write no/such/folder/r.txt: No such file"),
        (["--output", ".", "program.py"], "cannot write .: Is a directory"),
        (["--exit-code", "256", "program.py"], "256"),
        (["--schedule-seed", "x", "program.py"], "'x' is not a valid integer"),
        (["--unknown", "program.py"], "--unknown"),
        (["-m", "no.such.module"], "there is no module named no.such.module"),
    ],
)
def test_wrong_use(command: Any, tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "program.py").write_text("print('it ran')\n")
    (tmp_path / "k.metal").write_text(KERNEL)
    (tmp_path / "zero.py").write_bytes(b"x = 1\0\n")
    done = command("sanitize", *words)
    assert (done.status, done.out) == (2, "") and message in done.err and "Traceback" not in done.err


def test_a_report_that_cannot_be_written_at_the_end(command: Any, program: Any) -> None:
    done = command(
        "sanitize", "-o", "report.txt", program("import os\nos.remove('report.txt')\nos.mkdir('report.txt')\n")
    )
    assert done.status == 2 and "cannot write report.txt" in done.err


@pytest.mark.feature("API", "metalcore run --sanitize: one kernel in sanitize mode")
def test_one_kernel(command: Any, program: Any, tmp_path: Path) -> None:
    (tmp_path / "k.metal").write_text(KERNEL)
    words = ("run", "--sanitize", "k.metal", "k", "zeros:int32:4", "--save", "x=x.npy", "--format", "github")
    done = command(*words)
    assert done.status == 1 and "mode sanitize" in done.out and np.load("x.npy").tolist() == [0, 0, 0, 0]
    assert done.err.startswith("::error file=k.metal,line=2,col=12,title=division-by-zero in kernel k::")
    assert command(*words, "--fail-fast", "--repeat", "3").status == 1
    assert command(*words, "--silence", "division-by-zero").status == 0
    assert command(*words, "--silence", "nonsense").status == 2
    assert command(*words, "--mode", "fast").status == 2
    done = command("run", "k.metal", "k", "ones:int32:4", "--format", "json")
    assert done.status == 2 and "go with --sanitize" in done.err
    assert command("run", "--sanitize", "missing.metal", "k").status == 2
    done = command("run", "--sanitize", program(), "--mode")
    assert (done.status, done.out) == (1, "[7, 0] ['--mode'] __main__\n")


@pytest.mark.feature("API", "metalcore sanitize: kernels of torch.mps.compile_shader and mx.fast.metal_kernel")
def test_programs_for_a_mac(command: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("mlx.core")
    (tmp_path / "mac.py").write_text(
        "import torch, mlx.core as mx\n"
        f'lib = torch.mps.compile_shader("""\n{KERNEL}// Mac\n""")\n'
        "lib.k(torch.zeros(3, dtype=torch.int32, device='mps'))\n"
        "kernel = mx.fast.metal_kernel(name='shift', input_names=['a'], output_names=['b'], source='''\n"
        "    uint i = thread_position_in_grid.x;\n"
        "    b[i] = 1 << a[i];\n"
        "''')\n"
        "kernel(inputs=[mx.full((40,), 32, mx.int32)], output_shapes=[(40,)], output_dtypes=[mx.int32],\n"
        "       grid=(40, 1, 1), threadgroup=(32, 1, 1))\n"
    )
    done = command("sanitize", "--format", "json", "-o", "-", "mac.py")
    assert done.status == 1, done.err
    found = [(f["rule"], f["file"], f["line"], f["properties"]["count"]) for f in json.loads(done.out)["findings"]]
    assert found == [("division-by-zero", "mac.py", 4, 3), ("shift-past-width", "mac.py", 11, 40)]


def test_the_mode_of_the_process_ends() -> None:
    report = metalcore.Report()
    seen: list[str] = []
    with sanitize_process(report):
        thread = threading.Thread(target=lambda: seen.append(current_mode()))
        thread.start()
        thread.join()
        assert seen == ["sanitize"] and current_mode() == "sanitize"
    assert current_mode() == "checked" and report.launches == 0


def run_pytest(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *words]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "PYTEST_"))}
    environment.update(PYTHONDONTWRITEBYTECODE="1", COLUMNS="200")
    return subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.feature("API", "pytest --metal-sanitize: tests in sanitize mode fail with what was found")
def test_a_project_with_one_line_in_its_settings() -> None:
    pytest.importorskip("xdist")
    done = run_pytest("-n", "1")  # the summary is written in another process than the tests
    assert done.returncode == 1, done.stderr
    assert "4 failed, 4 passed, 1 xfailed" in done.stdout
    for name in ("test_bad", "test_bad_in_a_thread", "test_bad_in_a_fixture"):
        assert f"FAILED test_kernels.py::{name} - Failed: metal sanitizer: 1 error (division" in done.stdout
    for name in ("test_good", "test_silenced", "test_left_alone", "test_looks_itself"):
        assert f"PASSED test_kernels.py::{name}\n" in done.stdout
    assert "error[division-by-zero]: an integer is divided by zero\n  --> test_kernels.py:12:17\n" in done.stdout
    assert "metal sanitizer: 1 error in 7 launches of 7 tests; tests with findings: 5\n" in done.stdout
    section = done.stdout.partition("assert [0] == [7]")[2]
    assert "- metal sanitizer -" in section  # what may be why a test failed by itself


def test_the_plug_in_does_nothing_unless_asked() -> None:
    done = run_pytest("-o", "metal_sanitize=false", "-k", "good or bad or looks", "-q")
    assert done.returncode == 0 and "5 passed" in done.stdout and "metal sanitizer:" not in done.stdout, done.stdout
    program = (
        "import sys, metalcore.pytest_plugin; print([m for m in sys.modules if m in ('numpy', 'metalcore.engine')])"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert loaded.stdout == "[]\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--metal-sanitize", "--metal-sanitize-silence", "rase"], "--metal-sanitize: unknown kind of finding 'rase'"),
        (["--metal-sanitize", "marked.py"], "marked.py::test: the marker metal_sanitize takes schedule_seed, also"),
    ],
)
def test_wrong_use_of_the_plug_in(pytester: pytest.Pytester, words: list[str], message: str) -> None:
    pytester.makepyfile(marked="import pytest\n@pytest.mark.metal_sanitize(silent=['race'])\ndef test(): pass\n")
    done = pytester.runpytest_inprocess(*words)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*{message}*"])


def test_options_of_the_plug_in(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    pytester.makepyfile(
        test_it=f'''
import numpy as np, metalcore, pytest
LIBRARY = metalcore.Library("""{KERNEL}// options""")

@pytest.mark.metal_sanitize(schedule_seed=5, also=["not-finite"])
def test(metal_sanitizer):
    assert metal_sanitizer.schedule_seed == 5 and "not-finite" in metal_sanitizer.kinds
    assert "unwritten-output" in metal_sanitizer.kinds and "race" not in metal_sanitizer.kinds

@pytest.fixture
def late():
    yield
    LIBRARY.function("k")(np.zeros(1, np.int32), threads=1)

def test_late(late):
    pass
'''
    )
    words = (
        "--metal-sanitize-seed",
        "3",
        "--metal-sanitize-also",
        "unwritten-output",
        "--metal-sanitize-silence",
        "race",
    )
    done = pytester.runpytest_inprocess("--metal-sanitize", *words)
    done.assert_outcomes(passed=2, errors=1)  # what teardown does is an error of the teardown
    done.stdout.fnmatch_lines(["::error file=test_it.py,line=3,col=12,title=division-by-zero in kernel k::*"])
