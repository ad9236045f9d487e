"""A project of its own that tests its Metal kernels. Its pyproject.toml has one line for the sanitizer."""

import threading

import numpy as np
import pytest

import metalcore

LIBRARY = metalcore.Library("""
kernel void ratio(device const int* a, device const int* b, device int* out, uint i [[thread_position_in_grid]]) {
  out[i] = a[i] / b[i];
}
""")


def ratio(b: list[int]) -> list[int]:
    out = np.zeros(len(b), np.int32)
    LIBRARY.function("ratio")(np.full(len(b), 6, np.int32), np.array(b, np.int32), out, threads=len(b))
    return out.tolist()


@pytest.fixture
def made_with_a_mistake() -> list[int]:
    return ratio([0])


def test_good() -> None:
    assert ratio([1, 2, 3]) == [6, 3, 2]


def test_bad() -> None:
    assert ratio([1, 0, 3])[0] == 6  # the test itself is content


def test_bad_in_a_thread() -> None:
    thread = threading.Thread(target=ratio, args=([0],))
    thread.start()
    thread.join()


def test_bad_in_a_fixture(made_with_a_mistake: list[int]) -> None:
    assert len(made_with_a_mistake) == 1


def test_fails_by_itself() -> None:
    assert ratio([0]) == [7]


@pytest.mark.xfail(strict=True, reason="a finding is a failure, and this one is known")
def test_known() -> None:
    ratio([0])


@pytest.mark.metal_sanitize(silence=["division-by-zero"])
def test_silenced() -> None:
    ratio([0])


@pytest.mark.no_metal_sanitize
def test_left_alone() -> None:
    ratio([0])


def test_looks_itself(metal_sanitizer: metalcore.Report) -> None:
    ratio([1, 0])
    assert [(f.kind, f.line, f.thread) for f in metal_sanitizer.findings] == [("division-by-zero", 3, (1, 0, 0))]
