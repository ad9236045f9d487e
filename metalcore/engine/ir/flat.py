"""A kernel's entry point as lockstep and lint want it: every operand an instruction, a variable or a plain constant."""

from __future__ import annotations

from metalcore.engine.ir.function import Module
from metalcore.engine.ir.reader import parse
from metalcore.engine.ir.tokens import plain
from metalcore.engine.ir.values import Const, Instr, Value
from metalcore.errors import UnsupportedFeature

_ELSEWHERE = ("external", "extern_weak", "thread_local")
_VECTORS = ("extractelement", "insertelement", "shufflevector")


def flat(text: str, entry: str = "__mc_entry") -> Module:
    """Optimised IR whose entry point is flattened."""
    return flattened(parse(text, entry))


def flattened(module: Module) -> Module:
    """Refuse what a kernel cannot have, drop debug records, and make constant expressions instructions."""
    for name, variable in module.globals.items():
        if not name.startswith("@llvm.") and any(word in _ELSEWHERE for word in variable.words.split()):
            raise UnsupportedFeature(f"the variable {name[1:]}, which is defined elsewhere")
    function = module.function
    expressions: list[Instr] = []
    for block in function.blocks:
        block.instrs = [i for i in block.instrs if i.op[0] != "#" and not i.extra.get("metadata")]
        for instr in block.instrs:
            if instr.op in _VECTORS or (instr.op != "call" and "unknown" in instr.extra):
                raise UnsupportedFeature(f"instruction {instr.op!r} in the optimised kernel")
            if "target" in instr.extra or "unknown" in instr.extra:
                raise UnsupportedFeature("a call through a function pointer that is not known at compile time")
            _spread(instr, expressions)
    if expressions:
        entry = function.blocks[0]
        for instr in expressions:
            instr.block = entry
        entry.instrs[:0] = expressions
    function.link()
    return module


def _spread(instr: Instr, expressions: list[Instr]) -> None:
    for i, arg in enumerate(instr.args):
        if isinstance(arg, Const):
            if arg.text[0] == "@":
                raise UnsupportedFeature(
                    f"address of function {plain(arg.text)} is taken at run time (function pointers)"
                )
        elif not arg.name:
            assert isinstance(arg, Instr)
            instr.args[i] = _placed(arg, expressions)


def _placed(expression: Instr, expressions: list[Instr]) -> Value:
    """A constant expression as an instruction at the start of the kernel."""
    extra = {name: value for name, value in expression.extra.items() if name != "flags"}
    placed = Instr(expression.op, expression.type, list(expression.args), extra=extra)
    _spread(placed, expressions)
    placed.name = f"%mc.cx{len(expressions)}"
    expressions.append(placed)
    return placed
