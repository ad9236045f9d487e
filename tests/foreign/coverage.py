"""What MLX's headers hold, and what our files instantiate of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from metalcore.engine.frontend.model import Unit
from tests.foreign.corpus import KERNELS, mlx_include

# Words between the attribute of a kernel and its name; the attribute may carry more than `kernel`.
_KERNEL = re.compile(r"(?:\[\[\s*kernel\b[^;{}]*?\]\]|\bkernel)\s+void\s+(\w+)\s*\(")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FUNCTION = re.compile(r"METAL_FUNC\s+void\s+((?:gather|scatter)_impl)\s*\(")
TYPES = {"float": "float32", "half": "float16", "bfloat": "bfloat16"}


@dataclass(frozen=True)
class Template:
    """A kernel of a header; overloads of one name count one by one."""

    header: str
    name: str
    number: int


def headers() -> list[Path]:
    """All headers of MLX's kernels but those of Metal 4's tensor operations."""
    root = mlx_include() / KERNELS
    return [path for path in sorted(root.rglob("*.h")) if not re.search(r"(^|_)nax(_|$)", path.stem)]


def relative(path: Path) -> str:
    """A header's name below the folder of kernels."""
    return path.relative_to(mlx_include() / KERNELS).as_posix()


def templates() -> list[Template]:
    """Every kernel that the headers define, `gather_impl` and `scatter_impl` included: MLX wraps those at run time."""
    found: list[Template] = []
    for path in headers():
        text = _COMMENT.sub("", re.sub(r"^\s*#define(?:[^\n]*\\\n)*[^\n]*$", "", path.read_text(), flags=re.MULTILINE))
        names = _KERNEL.findall(text) + _FUNCTION.findall(text)
        found += [Template(relative(path), name, names[:i].count(name)) for i, name in enumerate(names)]
    return found


def included(unit: Unit) -> set[str]:
    """MLX's headers that a unit has read."""
    root = str(mlx_include() / KERNELS)
    return {relative(Path(path)) for path, _ in unit.includes if path.startswith(root)}


def instantiated(unit: Unit) -> dict[str, set[str]]:
    """Template name -> element types of its instantiations."""
    made: dict[str, set[str]] = {}
    for kernel in unit.kernels:
        name, _, arguments = kernel.expression.partition("<")
        made.setdefault(name.strip(), set()).update(_types(arguments))
    return made


def _types(arguments: str) -> set[str]:
    words = set(re.findall(r"\w+", arguments))
    aliases = {"bfloat16_t": "bfloat", "float2": "float", "half2": "half", "bfloat2": "bfloat"}
    return {TYPES[aliases.get(word, word)] for word in words if aliases.get(word, word) in TYPES}
