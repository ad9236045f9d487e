from __future__ import annotations

from collections.abc import Iterator

import pytest

import metalcore
from tests.isolate.kernels import SOURCE


@pytest.fixture(scope="session")
def isolation() -> Iterator[metalcore.isolate]:
    made = metalcore.isolate(timeout=20, _hook=True)
    yield made
    made.close()


@pytest.fixture(scope="session")
def library(isolation: metalcore.isolate) -> metalcore.Library:
    return metalcore.Library(SOURCE, isolate=isolation)
