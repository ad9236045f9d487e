"""Functions under new names."""

from __future__ import annotations

from metalcore.engine.ir.function import Function, Module
from metalcore.engine.ir.instructions import BodyReader
from metalcore.engine.ir.operands import Operands
from metalcore.engine.ir.printer import body_text
from metalcore.engine.ir.tokens import quoted
from metalcore.engine.ir.values import Const, Instr, Parameter


def copy_of(module: Module, function: Function, name: str) -> Function:
    """A function of the module's own that does what another does. Debug places belong to one function: it has none."""
    copy = Function(
        f"@{quoted(name)}",
        function.returned,
        [Parameter(p.type, p.name, list(p.attributes)) for p in function.parameters],
        linkage="internal",
        words=[word for word in function.words if word != "dso_local"],
        returned_attributes=list(function.returned_attributes),
        is_variadic=function.is_variadic,
        suffix=[word for word in function.suffix if not word.startswith(("comdat", "!dbg"))],
        text=body_text(function),
        reader=BodyReader(Operands(module)),
    )
    for instr in copy.instructions():
        instr.without_line()
    return copy


def rename_function(instr: Instr, old: str, new: str) -> None:
    """Let an instruction call, or take the address of, another function."""
    if instr.callee == old:
        instr.changed().extra["callee"] = new
    for i, arg in enumerate(instr.args):
        if isinstance(arg, Const) and arg.text in (f"@{old}", f'@"{old}"'):
            instr.set_arg(i, Const(arg.type, f"@{quoted(new)}"))
        elif isinstance(arg, Instr) and not arg.name:  # a constant expression
            instr.changed()
            rename_function(arg, old, new)
