"""Imports go one way: docs/design/layers.md has the order, from the commands down to what everything may use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "metalcore"
PAGE = ROOT / "docs" / "design" / "layers.md"


class Place(NamedTuple):
    """Where a part of the package stands: its line from the top, the side of a line that is parted, the line's name."""

    line: int
    side: int
    layer: str


class Import(NamedTuple):
    importer: str
    line: int
    imported: str

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


@cache
def places() -> dict[str, Place]:
    """The page's table: a part of the package, by its name below metalcore, and where it stands."""
    match = re.search(r"```layers\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert match, f"{PAGE} has no block of layers"
    found: dict[str, Place] = {}
    for number, row in enumerate(match[1].splitlines()):
        layer, parts = re.split(r"\s{2,}", row, maxsplit=1)
        for side, names in enumerate(parts.split(";")):
            for name in names.split():
                assert name not in found, f"{name} stands in two layers"
                found[name] = Place(number, side, layer)
    return found


def place_of(module: str) -> Place | None:
    """The place of the longest part that holds a module; of the package itself, that of `__init__`."""
    words = module.split(".")[1:] or ["__init__"]
    return next((place for n in range(len(words), 0, -1) if (place := places().get(".".join(words[:n])))), None)


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        words = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(words[:-1] if words[-1] == "__init__" else words)] = path
    return found


def imports_of(module: str, text: str, is_package: bool = False) -> Iterator[Import]:
    """What a module imports of the package, wherever the statement stands."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                words = module.split(".")
                words = words[: len(words) - node.level + is_package]
                base = ".".join([*words, base] if base else words)
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("import_module", "import_whole"):
            names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        for name in names:
            if name.split(".")[0] == "metalcore":
                yield Import(module, node.lineno, name if name in modules() else name.rpartition(".")[0] or name)


def layer_of(module: str) -> str:
    place = place_of(module)
    assert place is not None, f"{module} has no place in {PAGE}"
    return place.layer


def is_allowed(found: Import) -> bool:
    above, below = place_of(found.importer), place_of(found.imported)
    assert above is not None and below is not None, found
    return above.line < below.line or (above.line, above.side) == (below.line, below.side)


def every_import() -> Iterator[Import]:
    for module, path in modules().items():
        yield from imports_of(module, path.read_text(), path.name == "__init__.py")


def test_every_module_has_a_place() -> None:
    assert not [module for module in modules() if place_of(module) is None]


def test_every_place_is_there() -> None:
    known = [f"{module}." for module in modules()]
    named = [name for name in places() if name != "__init__"]
    assert not [name for name in named if not any(module.startswith(f"metalcore.{name}.") for module in known)]


def test_imports_go_down() -> None:
    wrong = [found for found in every_import() if not is_allowed(found)]
    shown = "\n".join(f"{found}: {layer_of(found.importer)} -> {layer_of(found.imported)}" for found in wrong)
    assert not wrong, f"imports against the order in {PAGE.relative_to(ROOT)}:\n{shown}"


@pytest.mark.parametrize(
    ("importer", "text", "allowed"),
    [
        ("metalcore.engine.frontend.x", "from metalcore.engine.lockstep.types import scalar_type", False),
        ("metalcore.engine.lockstep.x", "from metalcore.engine.frontend import tokens", True),
        ("metalcore.engine.lockstep.x", "from .ir import Type", True),
        ("metalcore.engine.x", "def f():\n    from .optimiser import llvm", False),
        ("metalcore.runtimes.x", "import metalcore.ops.silu", False),
        ("metalcore.ops.x", "import_module('metalcore.health.verify')", False),
        ("metalcore.torch.x", "import metalcore.mlx.call", False),
        ("metalcore.torch.x", "import metalcore", True),
    ],
)
def test_what_is_found(importer: str, text: str, allowed: bool) -> None:
    (found,) = imports_of(importer, text)
    assert is_allowed(found) is allowed
