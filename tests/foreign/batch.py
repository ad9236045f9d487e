"""All instantiations of a file in one run of clang: the compile test of a corpus of hundreds of kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from metalcore.engine.frontend import compiler, constants, entry, make_unit
from metalcore.engine.frontend.diagnostics import Sources
from metalcore.engine.frontend.model import Kernel, Unit
from metalcore.engine.frontend.unit import constant_prologue
from tests.foreign.corpus import include_dirs

_OWN = re.compile(r"\b__mc_(request|enabled|function|kernel|entry|describe_enabled|describe)\b")


def read_unit(path: Path) -> Unit:
    """The unit of one of our files."""
    folders = [str(folder) for folder in include_dirs(path.parent.name)]
    return make_unit(path.read_text(), path=str(path), include_dirs=folders, defines={}, math_mode="safe")


def _entry(kernel: Kernel) -> str:
    """The kernel's entry point under a name of its own, in the place of its marker."""
    return _OWN.sub(lambda match: f"{match[0]}_{kernel.marker}", entry.entry_text(kernel))


def lower_all(unit: Unit, values: Mapping[int | str, object]) -> str:
    """Scalar IR of every kernel of the unit, in one module; kernel i is `__mc_entry_i`."""
    by_marker = {kernel.marker: kernel for kernel in unit.kernels}
    text = re.sub(r"/\*__mc:k(\d+)\*/", lambda match: _entry(by_marker[int(match[1])]), unit.text)
    prologue = constant_prologue(len(unit.slots), constants.initialisers(unit, values))
    sources = Sources(unit.path, unit.source, dict(unit.includes))
    ir, _ = compiler.compile_text(prologue + text, sources, unit.math_mode, emit=True, optimised=True)
    return ir


def entries(ir: str) -> set[int]:
    """Numbers of the kernels that the module defines."""
    return {int(number) for number in re.findall(r"^define [^\n]*@__mc_entry_(\d+)\(", ir, re.MULTILINE)}


def constant_choices(unit: Unit) -> list[dict[int | str, object]]:
    """Values of all function constants: every switch off, and, where there are switches, every switch on."""
    choices: list[dict[int | str, object]] = []
    for switch in (False, True):
        values: dict[int | str, object] = {}
        for constant, slot in zip(unit.constants, unit.slots, strict=True):
            values[constant.index] = switch if slot.scalar == "bool" else 1
        if values not in choices:
            choices.append(values)
    return choices
