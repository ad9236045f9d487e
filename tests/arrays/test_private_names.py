"""What is not a framework's public interface stands in one module for each."""

from __future__ import annotations

import re
from pathlib import Path

import metalcore

PACKAGE = Path(metalcore.__file__).parent
PRIVATE = {
    "torch_private.py": r"\btorch\._|\b_C\.|\._functorch\b|\._current_level\b|\._cdata\b|from torch\S* import .*\b_\w",
    "mlx_private.py": r"is_tracerEv|nb_inst|libmlx|\bmlx\.core\._",
}


def test_private_names() -> None:
    for module, names in PRIVATE.items():
        using = [str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if re.search(names, p.read_text())]
        assert using == [f"arrays/{module}"]
