"""Each rule finds the wrong code of its page, at the marked line, and nothing in the right code."""

from __future__ import annotations

import pytest

from metalcore.lint import LEVELS, RULES
from tests.lint.pages import FOLDER, code, expected, found


@pytest.mark.parametrize("rule", RULES)
def test_wrong_code_is_found_at_its_line(rule: str) -> None:
    assert (rule, expected(rule)) in found(rule, "Wrong")
    assert [line for name, line in found(rule, "Wrong") if name == rule] == [expected(rule)]


@pytest.mark.parametrize("rule", RULES)
def test_right_code_is_quiet(rule: str) -> None:
    assert found(rule, "Right") == []


@pytest.mark.parametrize("rule", RULES)
def test_page_says_what_the_registry_says(rule: str) -> None:
    page = (FOLDER / f"{rule}.md").read_text(encoding="utf-8")
    about = RULES[rule]
    assert page.startswith(f"# {rule}\n\n{about.level.capitalize()}: {about.title}.\n")
    assert about.level in LEVELS
    assert f"Instead: {about.remedy}." in page
    assert f"silence({rule})" in page and f"--silence {rule}" in page
    assert code(rule, "Wrong") != code(rule, "Right")


def test_index_lists_every_rule() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = [line for line in index.splitlines() if line.startswith("| [")]
    assert rows == [f"| [{r.id}]({r.id}.md) | {r.level} | {r.title} |" for r in RULES.values()]
    pages = {path.stem for path in FOLDER.glob("*.md")} - {"README", "mlx_findings"}
    assert pages == set(RULES)
