"""The benchmark's kernels and their C++ peers are right at small and odd sizes, and its report counts right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from harness import peers, report, rows  # noqa: E402
from harness.case import Case, Setup, aligned  # noqa: E402
from harness.timing import Contestant, interleaved  # noqa: E402

sys.path.remove(str(BENCHMARKS))  # benchmarks/xlstm.py is not the package that transformers looks for

MAKERS: dict[str, Callable[[peers.Peers], Setup]] = {
    "saxpy": rows.partial(rows._saxpy, 1000),
    "silu": rows.partial(rows._unary, "silu", 1000),
    "gelu": rows.partial(rows._unary, "gelu", 1000),
    **{name: rows.partial(rows._norm, name, 5, 1000, 32) for name in ("rms_norm", "layer_norm", "softmax")},
    "softmax, 256 threads": rows.partial(rows._norm, "softmax", 3, 1000, 256),
    "row_sum": rows.partial(rows._row_reduce, "row_sum", 5, 1000, 32),
    "row_scan": rows.partial(rows._row_reduce, "row_scan", 5, 1000, 256),
    "full_sum": rows.partial(rows._full_sum, 100_000),
    "bitonic_sort": rows.partial(rows._sort, 3),
    "gemm_tiled": rows.partial(rows._gemm, "gemm_tiled", 64),
    "gemm_simdgroup": rows.partial(rows._gemm, "gemm_simdgroup", 64),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> peers.Peers:
    path = tmp_path_factory.mktemp("peers") / "peers.so"
    peers.build(path)
    return peers.Peers(path)


@pytest.mark.parametrize("name", MAKERS)
def test_kernel_and_peers_agree_with_numpy(name: str, built: peers.Peers) -> None:
    setup = MAKERS[name](built)
    setup.verify("ours", setup.ours)
    setup.verify("C++", setup.cpp(1))
    setup.verify("C++ with two threads", setup.cpp(2))
    setup.verify("torch", (setup.torch_check or setup.torch)())


def test_a_wrong_result_is_not_timed(built: peers.Peers) -> None:
    setup = rows._unary("silu", 100, built)
    with pytest.raises(AssertionError, match="off by"):
        setup.verify("nothing done", lambda: None)
    with pytest.raises(AssertionError, match="off by"):
        setup.verify("zeros", lambda: setup.output.fill(0))


def test_every_target_of_the_table_is_there() -> None:
    table = {case.key: (case.cpp_target, case.torch_target) for case in rows.cases()}
    assert table["saxpy 64 M"] == (0.9, 1.0)
    assert table["rms_norm 1000x1000"] == (0.8, 2.0)
    assert table["softmax 4096x4096"] == (0.8, 1.0)
    assert table["bitonic_sort 1024x1024"] == (0.8, None)
    assert table["layer_norm 1024x1024, 256 threads"] == (0.8, None)
    assert table["gemm_simdgroup 1024^3"] == (0.9, 0.25)
    assert len(table) == len(rows.cases())


def test_ratios_are_medians_of_processes() -> None:
    row = report.Row(Case("k", "s", lambda _: pytest.fail("not run"), 0.9, 1.0))
    row.one = [{"fast": 2.0, "cpp": 1.0, "torch": 4.0}, {"fast": 1.0, "cpp": 1.0, "torch": 4.0}]
    row.two = [{"fast": 1.0, "cpp": 0.5, "torch": 2.0}, {"fast": 0.5, "cpp": 0.5, "torch": 2.0}]
    assert row.ratio("cpp") == 0.75 and row.ratio("torch") == 3.0
    assert row.ratio("cpp", threads=2) == 0.75 and row.scaling() == 2.0
    assert row.failures() == ["0.75 of cpp's speed, not 0.9"]
    assert report.cells(row)[3] == "**0.75**" and report.cells(row)[-1] == "**no**"


def test_the_document_keeps_what_is_written_by_hand(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_document(page, "new")
    assert page.read_text() == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"


def test_interleaving_gives_seconds_per_call() -> None:
    array = aligned(1 << 16)
    found = interleaved(
        {"small": Contestant(lambda: np.add(array[:64], 1, out=array[:64])), "large": Contestant(lambda: array.sort())},
        budget=0.05,
    )
    assert 0 < found["small"] < found["large"] < 0.1
