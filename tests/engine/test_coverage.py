"""Which lines of MSL ran: exact counts of threads, in all modes but sanitize; pytest's summary and lcov's file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import metalcore
from metalcore.engine.coverage import Coverage

SOURCE = """inline int twice(int x) {
  if (x > 5)
    return 3;
  return 2 * x;
}
kernel void k(device int* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  for (int n = 0; n < 4; ++n)
    x[i] += twice(n);
  threadgroup_barrier(metal::mem_flags::mem_device);
  if (i > 77)
    x[i] = 0;
}
"""


def covered(mode: str, threads: int, group_size: int) -> Coverage:
    with metalcore.coverage() as found, metalcore.mode(mode):
        x = np.zeros(threads, np.int32)
        metalcore.Library("#include <metal_stdlib>\n" + SOURCE).function("k")(x, threads=threads, group_size=group_size)
        assert (x[:78] == 12).all() and (x[78:] == 0).all()
    return found


@pytest.mark.feature("debugging", "metalcore.coverage() and pytest --metal-coverage: lines of MSL that ran")
@pytest.mark.parametrize("mode", ["checked", "fast"])
@pytest.mark.parametrize(("threads", "group_size"), [(64, 32), (100, 64), (1, 1), (33, 33)])
def test_threads_are_counted(mode: str, threads: int, group_size: int) -> None:
    n = threads
    late = max(0, threads - 78)
    lines = {3: 4 * n, 4: 0, 5: 4 * n, 6: 4 * n, 8: 10 * n, 9: 4 * n, 10: n, 11: n, 12: late, 13: n}
    found = covered(mode, threads, group_size).files["<metal> k"]
    assert {line: count for line, count in found.items() if line not in (7, 8)} == {
        line: count for line, count in lines.items() if line != 8
    }
    assert found[8] > 4 * n  # the parts of the loop's head each count


def test_outside_nothing_is_counted() -> None:
    function = metalcore.Library("#include <metal_stdlib>\n" + SOURCE).function("k")
    x = np.zeros(64, np.int32)
    function(x, threads=64)
    with metalcore.coverage() as found:
        function(x, threads=64)
        with metalcore.mode("sanitize"):
            function(x, threads=64)
    function(x, threads=64)
    assert found.files["<metal> k"][9] == 4 * 64


def test_the_table_and_lcov(tmp_path: Path) -> None:
    path = tmp_path / "k.metal"
    path.write_text("#include <metal_stdlib>\n" + SOURCE)
    with metalcore.coverage() as found:
        metalcore.Library(path).function("k")(np.zeros(8, np.int32), threads=8)
    (row,) = found.rows()
    assert row[1:] == (11, 2, "4, 12")
    assert str(found).splitlines()[1].split()[1:] == ["11", "2", "81%", "4,", "12"]
    text = found.lcov().splitlines()
    assert text[:2] == ["TN:", f"SF:{path}"] and "DA:9,32" in text and "DA:4,0" in text
    assert text[-3:] == ["LF:11", "LH:9", "end_of_record"]


TESTS = """
import numpy as np, pytest, metalcore
@pytest.mark.parametrize("n", [8, 16])
def test_k(n):
    metalcore.Library("k.metal").function("k")(np.zeros(n, np.int32), threads=n)
"""


@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_pytest(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "k.metal").write_text("#include <metal_stdlib>\n" + SOURCE)
    (tmp_path / "test_k.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "--metal-coverage", "--metal-coverage-lcov=lines.info", *more]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "metal coverage" in done.stdout and "81%  4, 12" in done.stdout
    assert "DA:9,96" in (tmp_path / "lines.info").read_text()


def test_not_beside_the_sanitizer(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--metal-coverage", "--metal-sanitize"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 4 and "use one of the two" in done.stderr
