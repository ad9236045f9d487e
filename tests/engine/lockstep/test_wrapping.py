"""An index of 32 bits wraps around between two lanes; the 64-bit number that it becomes must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metalcore

SOURCE = """
#define HEAD device ulong* out, constant uint& n, device uint* sink, uint i [[thread_position_in_grid]]
kernel void extended(HEAD) { out[i] = ulong(-i); }
kernel void added(HEAD) { out[i] = ulong(-i) - 1; }
kernel void shifted(HEAD) { out[i] = (ulong(5 - i) << 3) + n; }
kernel void carried(HEAD) { ulong v = ulong(-i); for (uint j = 0; j < n; ++j) { v += 3; sink[j] = j; } out[i] = v; }
kernel void chosen(HEAD) { ulong v = ulong(3 - i); if (n > 2) { v += 7; sink[0] = 1; } else sink[1] = 2; out[i] = v; }
kernel void compared(HEAD) { long v = long(ulong(3 - i)); for (uint j = 0; j < n; ++j) { v -= 1; sink[j] = j; }
  out[i] = v < 0 ? 1 : v == 4294967290 ? 2 : 3; }
kernel void address(HEAD) { for (ulong j = i - 3u; j < 40; j += 32) out[j] = j + 1; }
"""


def wrapped(values: Any) -> Any:
    return (values % (1 << 32)).astype(np.uint64)


@pytest.mark.parametrize("mode", ("checked", "fast"))
@pytest.mark.parametrize("threads", (32, 64, 33))
def test_numbers_wrap_lane_by_lane(threads: int, mode: str) -> None:
    library = metalcore.Library(SOURCE)
    i, n = np.arange(threads, dtype=np.int64), 5
    less = wrapped(3 - i).astype(np.int64) - n
    expected = {
        "extended": wrapped(-i),
        "added": wrapped(-i) - np.uint64(1),
        "shifted": (wrapped(5 - i) << np.uint64(3)) + np.uint64(n),
        "carried": wrapped(-i) + np.uint64(3 * n),
        "chosen": wrapped(3 - i) + np.uint64(7),
        "compared": np.where(less < 0, 1, np.where(less == 4294967290, 2, 3)).astype(np.uint64),
    }
    for name, want in expected.items():
        out, sink = np.zeros(threads, np.uint64), np.zeros(8, np.uint32)
        with metalcore.mode(mode):
            library.function(name)(out, n, sink, threads=threads, group_size=64)
        np.testing.assert_array_equal(out, want, err_msg=name)


@pytest.mark.parametrize("mode", ("checked", "fast"))
def test_addresses_that_wrap_are_left_out_by_their_bound(mode: str) -> None:
    out, sink = np.zeros(40, np.uint64), np.zeros(8, np.uint32)
    with metalcore.mode(mode):
        metalcore.Library(SOURCE).function("address")(out, 5, sink, threads=32, group_size=32)
    want = np.arange(40) + 1
    want[29:32] = 0  # of the three threads that start before 0
    np.testing.assert_array_equal(out, want)
