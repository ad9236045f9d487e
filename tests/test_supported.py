"""The table of features is what the tests say."""

from __future__ import annotations

import subprocess
import sys

from tests.supported import ROOT, Row, listed, page


def test_table_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.supported", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def test_page_shows_each_feature_and_its_state() -> None:
    rows = {
        ("language", "unions"): Row(passed=1),
        ("lockstep", "break"): Row(passed=2, failed=1),
        ("not yet", "textures"): Row(passed=1),
    }
    text = page(rows)
    assert "| unions | yes | 1 |" in text
    assert "| break | fails | 3 |" in text
    assert "| textures | not yet | 1 |" in text
    assert "2 features, 1 pass, 1 do not." in text
    assert set(listed(text)) == {
        ("The language", "unions"),
        ("Lockstep: 32 threads at once", "break"),
        ("Not yet: refused with an error that names it", "textures"),
    }
