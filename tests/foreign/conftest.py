"""Heavy sweeps of the corpus wait for `python -m tests.foreign.full`."""

from __future__ import annotations

import pytest

# Cases whose compilation takes longest, where another size of the same kernels stays in the usual run.
HEAVY = (
    "test_torch_special.py::test_function_of_two_numbers[igamma]",
    "test_mlx_fft.py::test_fft[case3]",
    "test_mlx_elementwise.py::test_unary_of_integers_booleans_and_complex_numbers[1013]",
    "test_mlx_reduce.py::test_rows[small-bfloat16]",
)


def _has_float32_twin(name: str, names: set[str]) -> bool:
    """A case in half precision, of which the same in float32 stays in the usual run."""
    twin = name.replace("bfloat16", "float32").replace("float16", "float32")
    return twin != name and twin in names


@pytest.hookimpl(tryfirst=True)  # before tests/conftest.py leaves out what is marked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    names = {item.nodeid for item in items if not item.get_closest_marker("sweep")}
    for item in items:
        foreign = "/foreign/" in item.nodeid
        if item.nodeid.endswith(HEAVY) or (foreign and _has_float32_twin(item.nodeid, names)):
            item.add_marker(pytest.mark.sweep)
