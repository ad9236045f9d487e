"""The command line: what it prints, saves and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metalcore.tools import cli

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAXPY = str(EXAMPLES / "saxpy.metal")


class Ran:
    """Exit status and output of one command."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> Ran:
        monkeypatch.setattr("sys.argv", ["metalcore", *words])
        status = 0
        try:
            cli.main()
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Ran(status, captured.out, captured.err)

    return run


@pytest.mark.feature("API", "metalcore run FILE.metal: arrays from files and made ones, outputs saved")
def test_run(command: Any, tmp_path: Path) -> None:
    x = np.arange(10, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    words = ["run", SAXPY, "saxpy", str(tmp_path / "x.npy"), "ones:float32:10", "2.5", "--threads", "10"]
    done = command(*words, "--group-size", "4", "--save", f"1={tmp_path / 'y.npy'}", "--save", str(tmp_path / "all"))
    assert done.status == 0, done.err
    expected = 2.5 * x + 1
    assert np.load(tmp_path / "y.npy").tolist() == expected.tolist()
    assert np.load(tmp_path / "all" / "y.npy").tolist() == expected.tolist()
    assert np.load(tmp_path / "x.npy").tolist() == x.tolist()
    assert "saxpy" in done.out and "13.25" not in done.err
    assert "23.5" in done.out  # the largest value


def test_run_with_everything(command: Any, tmp_path: Path) -> None:
    file = tmp_path / "k.metal"
    file.write_text("""
    #include "part.h"
    constant int add [[function_constant(0)]];
    kernel void k(device T* out [[buffer(0)]], constant uint2& v [[buffer(1)]], device float* unused [[buffer(2)]],
                  constant half& h [[buffer(3)]], threadgroup uint* shared [[threadgroup(0)]],
                  uint2 p [[thread_position_in_grid]], uint lid [[thread_index_in_threadgroup]]) {
      shared[lid] = p.x + 8 * p.y;
      threadgroup_barrier(metal::mem_flags::mem_threadgroup);
      out[p.x + 8 * p.y] = T(shared[lid] + v.x * v.y + add) + T(h);
    }
    """)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "part.h").write_text("typedef KIND T;\n")
    done = command(
        "run", str(file), "k", "zeros:int32:2x8", "3,5", "none", "-2.0", "--threadgroups", "1x2", "--group-size", "8x1",
        "-c", "add=100", "--threadgroup-memory", "0=64", "-I", str(tmp_path / "include"), "-D", "KIND=int",
        "--mode", "fast", "--math-mode", "fast", "--repeat", "3", "--save", f"out={tmp_path / 'o.npy'}",
    )  # fmt: skip
    assert done.status == 0, done.err
    assert np.load(tmp_path / "o.npy").tolist() == (np.arange(16).reshape(2, 8) + 113).tolist()
    assert "median of 3" in done.out


@pytest.mark.feature("API", "metalcore run: mistakes are short messages with an exit status")
@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["run", "nothing.metal", "k"], 2, "there is no file nothing.metal"),
        (["run", "nothing.py"], 2, "there is no file nothing.py"),
        (["run", SAXPY], 2, "KERNEL"),
        (["run", SAXPY, "saxpi", "1"], 1, "saxpi"),
        (["run", SAXPY, "saxpy", "missing.npy", "ones:float32:4", "1"], 2, "there is no file missing.npy"),
        (["run", SAXPY, "saxpy", "ones:float33:4", "ones:float32:4", "1"], 2, "float33"),
        (["run", SAXPY, "saxpy", "ones:float32:axb", "ones:float32:4", "1"], 2, "is not a shape"),
        (["run", SAXPY, "saxpy", "twos:float32:4", "ones:float32:4", "1"], 2, "arrays are made by"),
        (["run", SAXPY, "saxpy", "words", "ones:float32:4", "1"], 2, "is not a kernel argument"),
        (["run", SAXPY, "saxpy", "ones:int32:4", "ones:float32:4", "1"], 1, "x"),
        (["run", SAXPY, "saxpy", "ones:float32:4", "ones:float32:4"], 1, "a"),
        (
            ["run", SAXPY, "saxpy", "ones:float32:4", "ones:float32:4", "1", "--threads", "many"],
            2,
            "one to three sizes",
        ),
        (["run", SAXPY, "saxpy", "ones:float32:4", "ones:float32:4", "1", "--group-size", "2048"], 1, "1024"),
        (["run", SAXPY, "saxpy", "ones:float32:4", "ones:float32:4", "1", "--save", "7=a.npy"], 2, "no array '7'"),
        (["run", SAXPY, "saxpy", "ones:float32:4", "ones:float32:4", "1", "-c", "x"], 2, "NAME=VALUE"),
        (["run", SAXPY, "saxpy", "ones:float32:4", "ones:float32:4", "1", "-c", "x=1"], 1, "constant"),
        (["inspect", "nothing.metal"], 2, "there is no file"),
        (["inspect", SAXPY, "-k", "other"], 2, "no kernel 'other'"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_mistakes(command: Any, words: list[str], status: int, message: str) -> None:
    done = command(*words)
    assert done.status == status, done.err
    assert message in done.err


def test_bad_msl_and_faults(command: Any, tmp_path: Path) -> None:
    file = tmp_path / "bad.metal"
    file.write_text("kernel void f(device float* x) {\n  x[0] = nobody;\n}\n")
    done = command("run", str(file), "f", "ones:float32:4")
    assert done.status == 1 and "bad.metal:2" in done.err and "nobody" in done.err
    done = command("run", str(EXAMPLES / "broken.metal"), "blur", "ones:float32:64", "zeros:float32:64")
    assert done.status == 1 and "blur" in done.err and "64" in done.err


@pytest.mark.feature("API", "metalcore inspect: entry points and arguments, as text or JSON")
def test_inspect(command: Any) -> None:
    done = command("inspect", SAXPY)
    assert done.status == 0
    for shown in ("saxpy", "buffer(0)", "device float*", "read and write", "thread_position_in_grid"):
        assert shown in done.out
    found = json.loads(command("inspect", SAXPY, "--json").out)
    (function,) = found["functions"]
    assert function["name"] == "saxpy" and function["max_threads"] == 1024
    assert [argument["name"] for argument in function["arguments"]] == ["x", "y", "a", "i"]
    assert [argument.get("writable") for argument in function["arguments"]] == [False, True, False, None]
    assert function["arguments"][3] == {
        "name": "i", "kind": "builtin", "attribute": "thread_position_in_grid", "type": "uint",
    }  # fmt: skip
    assert found["constants"] == []


def test_inspect_many_kernels_and_constants(command: Any, tmp_path: Path) -> None:
    file = tmp_path / "many.metal"
    kernels = "\n".join(f"kernel void k{i}(device float* x) {{ x[0] = {i}; }}" for i in range(40))
    file.write_text("constant bool flag [[function_constant(3)]];\n" + kernels)
    done = command("inspect", str(file), "--json")
    found = json.loads(done.out)
    assert len(found["functions"]) == 40 and "arguments" not in found["functions"][0]
    assert found["constants"][0]["index"] == 3 and found["constants"][0]["name"] == "flag"
    assert "--kernel" in command("inspect", str(file)).out
    assert "buffer(0)" in command("inspect", str(file), "-k", "k7").out


@pytest.mark.feature("API", "metalcore doctor: a kernel really compiled and run")
def test_doctor(command: Any) -> None:
    done = command("doctor")
    assert done.status == 0, done.out
    for shown in ("ziglang", "llvmlite", "clang version", "cache folder", "microseconds", "All is well"):
        assert shown in done.out
    for shown in ("a kernel by engine", "a kernel by torch.mps", "a kernel by MLX", "engine agrees with NumPy"):
        assert shown in done.out


@pytest.mark.feature("API", "metalcore demo: kernels agree with NumPy, a broken one is caught")
def test_demo(command: Any) -> None:
    done = command("demo", "--quick")
    assert done.status == 0, done.out
    for name in ("saxpy", "gelu", "rms_norm", "softmax", "matmul", "histogram"):
        assert name in done.out
    assert "wrong" not in done.out and "caught" in done.out and "broken.metal" in done.out


def test_help(command: Any) -> None:
    for words in (["--help"], ["run", "--help"], ["inspect", "-h"], ["doctor", "--help"], ["demo", "--help"]):
        done = command(*words)
        assert done.status == 0 and "Usage:" in done.out
    assert "PROGRAM.py" in command("run", "--help").out
    assert "0.1" in command("--version").out
