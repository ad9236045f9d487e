"""Heavy sweeps of the corpus wait for `python -m tests.foreign.full`."""

from __future__ import annotations

import pytest

# Cases whose compilation takes longest, where another dtype or size of the same kernels stays in the usual run.
HEAVY = (
    "test_torch_special.py::test_function_of_two_numbers[igamma]",
    "test_mlx_fft.py::test_fft[case3]",
    "test_mlx_elementwise.py::test_unary_of_integers_booleans_and_complex_numbers[1013]",
    "test_mlx_elementwise.py::test_binary[Power-float16]",
    "test_mlx_elementwise.py::test_binary[Power-bfloat16]",
    "test_mlx_elementwise.py::test_binary[Add-float16]",
    "test_mlx_elementwise.py::test_unary[Erf-float16]",
    "test_mlx_elementwise.py::test_unary[Exp-float16]",
    "test_mlx_rows.py::test_softmax[looped-float16]",
    "test_mlx_rows.py::test_cross_entropy_and_its_gradient[float16]",
    "test_mlx_rows.py::test_logsumexp[looped-float16]",
    "test_mlx_reduce.py::test_rows[simple-float16]",
    "test_mlx_reduce.py::test_rows[small-float16]",
    "test_mlx_reduce.py::test_rows[small-bfloat16]",
    "test_mlx_quantized.py::test_qmv[form0-float16]",
    "test_mlx_indexing.py::test_scatter[max-float16]",
    "test_mlx_indexing.py::test_scatter[sum-float16]",
    "test_mlx_matrix.py::test_gemv[gemv_t-float16]",
    "test_mlx_fft.py::test_hadamard[64-float16]",
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sweep: one of many like cases; run by `python -m tests.foreign.full`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.endswith(HEAVY):
            item.add_marker(pytest.mark.sweep)
    if "sweep" in (config.option.markexpr or ""):
        return
    heavy = [item for item in items if item.get_closest_marker("sweep")]
    if heavy:
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if not item.get_closest_marker("sweep")]
