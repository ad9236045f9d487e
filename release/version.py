"""Is a tag that of the version?   python -m release.version v1.2.3"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def version() -> str:
    """As metalcore/version.py has it, which nothing is imported for."""
    found = re.search(r'^VERSION = "([^"]+)"$', (ROOT / "metalcore" / "version.py").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("metalcore/version.py has no line VERSION = ...")
    return found[1]


def problem(tag: str) -> str:
    """Why this tag is not to be released; empty where it is."""
    wanted = version()
    if tag != f"v{wanted}":
        return f"the tag is {tag}, and metalcore/version.py says {wanted}: tag v{wanted}, or change the version"
    if f"## [{wanted}]" not in (ROOT / "CHANGELOG.md").read_text():
        return f"CHANGELOG.md has no section [{wanted}]"
    return ""


if __name__ == "__main__":
    sys.exit(problem(sys.argv[1]) or 0)
