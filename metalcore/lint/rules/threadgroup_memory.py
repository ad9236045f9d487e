"""threadgroup-memory-limit: what a kernel declares itself."""

from __future__ import annotations

import re

from metalcore.engine.ir import Global
from metalcore.lint.context import Context
from metalcore.lint.places import Place
from metalcore.lint.program import Program

LIMIT = 32 * 1024
_LOCAL = re.compile(r"E(\d+)(\w+)$")


def check(context: Context, program: Program) -> None:
    """The sum of the static threadgroup variables that a kernel reaches."""
    used: dict[str, Global] = {}
    for instr in program.instructions():
        for arg in instr.args:
            if isinstance(arg, Global) and not arg.constant:
                used[arg.name] = arg
    total = 0
    for variable in used.values():
        align = max(variable.align, 1)
        total = (total + align - 1) // align * align + variable.value_type.size
    if total <= LIMIT:
        return
    largest = max(used.values(), key=lambda v: v.value_type.size)
    name = _name(largest.name)
    kernel = program.kernel.host_name
    text = f"kernel '{kernel}' declares {total:,} bytes of threadgroup memory, {total - LIMIT:,} too many"
    context.findings.add("threadgroup-memory-limit", _place(context, program, name), text, kernel)


def _name(symbol: str) -> str:
    """The variable's own name, from the mangled one of a local variable."""
    match = _LOCAL.search(symbol.strip('@"'))
    return match[2][: int(match[1])] if match else ""


def _place(context: Context, program: Program, name: str) -> Place:
    found = context.definition(program.kernel)
    if found is not None and name:
        tokens, definition = found
        for i in range(definition.body, definition.end):
            if tokens.text[i] == name and "threadgroup" in tokens.words(max(definition.body, i - 12), i):
                return context.place_at(*tokens.where(i), name)
    return context.place_at(program.kernel.file, program.kernel.line, "")
