"""One case of every op under the sanitizer; `python -m tests.ops.sanitized` runs more, and a GPU's launches too."""

from __future__ import annotations

import pytest

from metalcore.ops import nouns
from tests.ops.sanitized import examine


@pytest.mark.sweep
@pytest.mark.parametrize("noun", nouns())
def test_nothing_is_found(noun: str) -> None:
    found = examine(noun)
    assert found.findings == []
    assert found.launches
