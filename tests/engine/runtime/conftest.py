"""Makes the hand-written kernels importable and keeps thread counts from leaking between tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import metalcore

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _same_thread_count() -> Iterator[None]:
    before = metalcore.get_num_threads()
    yield
    metalcore.set_num_threads(before)
