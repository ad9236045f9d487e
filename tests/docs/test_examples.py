"""Every Python block in the documentation runs, page by page, and every link in it leads somewhere.

docs/design/ holds decisions and contracts, whose code is a sketch: only its links are checked.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)]*\)")


def blocks(page: Path) -> str:
    """The page's Python, with the lines of everything else blank, so that a traceback names the page's lines."""
    text = page.read_text()
    kept = [""] * (text.count("\n") + 1)
    for match in BLOCK.finditer(text):
        first = text.count("\n", 0, match.start(1))
        for offset, line in enumerate(match[1].splitlines()):
            kept[first + offset] = line
    return "\n".join(kept)


RUN = [page for page in PAGES if page.parent.name != "design" and blocks(page).strip()]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", RUN, ids=page_id)
def test_python_blocks(page: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("mlx.core")
    program = f"exec(compile({blocks(page)!r}, {str(page)!r}, 'exec'), {{'__name__': '__main__'}})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    broken = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not broken
