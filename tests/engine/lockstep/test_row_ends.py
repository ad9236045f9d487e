"""The end of a row of small numbers, under a mask: all of it, and nothing behind it."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore

SOURCE = """
template <typename T> kernel void add(device const T* x [[buffer(0)]], device T* y [[buffer(1)]],
    constant uint& n [[buffer(2)]], uint i [[thread_index_in_simdgroup]]) {
  for (uint j = i; j < n; j += 32) y[j] = x[j] + T(1);
}
template [[host_name("add_half")]] kernel decltype(add<half>) add<half>;
template [[host_name("add_short")]] kernel decltype(add<short>) add<short>;
template [[host_name("add_uchar")]] kernel decltype(add<uchar>) add<uchar>;
"""


@pytest.mark.parametrize("mode", ["fast", "checked", "sanitize"])
@pytest.mark.parametrize("kind", ["half", "short", "uchar"])
def test_every_length(kind: str, mode: str) -> None:
    dtype = {"half": np.float16, "short": np.int16, "uchar": np.uint8}[kind]
    function = metalcore.Library(SOURCE).function(f"add_{kind}")
    with metalcore.mode(mode):
        for n in (0, 1, 15, 16, 17, 31, 33, 47, 65, 97):
            for shift in (0, 1):  # a view that begins in the middle of a word
                x = np.arange(3, 3 + n + shift, dtype=dtype)[shift:]
                memory = np.full(n + shift + 40, 77, dtype)
                function(x if n else np.zeros(1, dtype), memory[shift:], n, threads=32, group_size=32)
                expected = memory.copy()
                expected[shift : shift + n] = x + dtype(1)
                expected[:shift], expected[shift + n :] = 77, 77
                assert np.array_equal(memory, expected), (n, shift)
