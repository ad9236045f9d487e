"""Stubs (.pyi) of the modules whose functions are made from declarations, so that editors and mypy know every op.

python -m tests.ops.stubs            writes them
python -m tests.ops.stubs --check    says whether they are up to date
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import metalcore
from metalcore.ops import function, functions, nouns

PACKAGE = Path(metalcore.__file__).parent
HEAD = "# Made by `python -m tests.ops.stubs`; do not edit.\n# ruff: noqa\n"


class Stub:
    """The text of one stub: functions as they are declared, names from elsewhere, and the imports for both."""

    def __init__(self) -> None:
        self._imports: dict[str, set[str]] = defaultdict(set)
        self._functions: list[str] = []
        self._lines: list[str] = []

    def take(self, module: str, names: Iterable[str]) -> None:
        """Names that are to be had here and stand in another module."""
        self._imports[module] |= {f"{name} as {name}" for name in names}

    def line(self, text: str) -> None:
        self._lines.append(text)

    def function(self, name: str, run: Callable[..., Any]) -> None:
        """One function, with the first paragraph of what it says of itself."""
        run = inspect.unwrap(run)
        signature = inspect.signature(run)
        for annotation in (*(p.annotation for p in signature.parameters.values()), signature.return_annotation):
            self._need(annotation, run)
        parameters = [_shown(p) for p in signature.parameters.values()]
        made = signature.replace(parameters=parameters, return_annotation=_Text(signature.return_annotation))
        words = (inspect.getdoc(run) or "").partition("\n\n")[0].split("\n>>>")[0].replace("\n", "\n    ")
        quote = "r" if "\\" in words else ""
        self._functions.append(f'def {name}{made}:\n    {quote}"""{words}"""\n')

    def _need(self, annotation: str, run: Callable[..., Any]) -> None:
        """An import of each name in an annotation, from where the function's own module has it."""
        for node in ast.walk(ast.parse(annotation, mode="eval")):
            if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
                value = run.__globals__[node.id]
                self._imports["typing" if value is Any else value.__module__].add(node.id)

    def text(self) -> str:
        imports = [f"from {module} import {', '.join(sorted(names))}" for module, names in self._imports.items()]
        return "\n".join([HEAD, *sorted(imports), *self._lines, "", *self._functions])


class _Text:
    """An annotation, which is text already: `inspect` would put it into quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _shown(parameter: inspect.Parameter) -> inspect.Parameter:
    """As the stub shows it: a default that is no number, text or None is `...`."""
    default = parameter.default
    if default is not parameter.empty and not isinstance(default, (int, float, str, type(None))):
        default = _Text("...")
    return parameter.replace(annotation=_Text(parameter.annotation), default=default)


def _part(name: str) -> str:
    stub = Stub()
    for each, run in sorted(functions(name).items()):
        stub.function(each, run)
    return stub.text()


def _ops() -> Stub:
    stub = Stub()
    for noun in nouns():
        stub.function(noun, function(noun))
    return stub


def _package() -> str:
    stub = _ops()
    for name, module in metalcore._LAZY.items():
        stub.take(inspect.unwrap(getattr(metalcore, name)).__module__ or module, [name])
    stub.take("metalcore", ["errors", *metalcore._SUBMODULES])
    stub.line("\n__version__: str\n__all__: list[str]")
    return stub.text()


def _mlx() -> str:
    from metalcore import mlx

    stub = Stub()
    for noun in mlx._OWN:
        stub.function(noun, getattr(mlx, noun))
    stub.function("on_mlx", mlx.on_mlx)
    stub.take("metalcore.mlx.primitive", ["explain"])
    stub.take("metalcore.mlx.replace", ["active_overrides", "overrides"])
    stub.take("metalcore", [noun for noun in nouns() if noun not in mlx._OWN])
    stub.take("metalcore.mlx", mlx._MODULES)
    return stub.text()


def _mlx_part(name: str) -> str:
    """The same functions, as mlx arrays alone have them."""
    stub = Stub()
    stub.take(f"metalcore.{name}", functions(name))
    return stub.text()


def _nn() -> str:
    from metalcore import nn

    stub = Stub()
    for name in nn.__all__:
        stub.take(getattr(nn, name).__module__, [name])
    stub.line(f"\n__all__ = {sorted(nn.__all__)!r}")
    return stub.text()


def texts() -> dict[Path, str]:
    """Every stub and what is to stand in it."""
    made = {
        "__init__": _package(),
        "linalg": _part("linalg"),
        "precise": _part("precise"),
        "nn": _nn(),
        "mlx/__init__": _mlx(),
        "mlx/linalg": _mlx_part("linalg"),
        "mlx/precise": _mlx_part("precise"),
    }
    return {PACKAGE / f"{name}.pyi": text for name, text in made.items()}


def main() -> int:
    old = [path for path, text in texts().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        print("\n".join(f"{path} is out of date: python -m tests.ops.stubs" for path in old) or "up to date")
        return bool(old)
    for path, text in texts().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
