"""docs/ops.md is made from the declarations."""

from __future__ import annotations

from tests.ops.table import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.ops.table"
