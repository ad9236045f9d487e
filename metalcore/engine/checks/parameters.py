"""Parameters in registers: clang keeps each in a variable of its own, which has a value from the first line on.

Done before anything is inlined. Many loads and stores of a kernel go, and with them the twins and the hooks
that the checks would give them.
"""

from __future__ import annotations

from metalcore.engine.checks.program import is_lifetime
from metalcore.engine.ir import Edits, Function, Instr, Module, Names, Parameter, Value


def to_registers(module: Module) -> None:
    """What is loaded from a variable that is set once, to a parameter that is a number, is the parameter."""
    for function in module.defined():
        if function.parameters and function.mentions("alloca "):
            _forward(function)


def _forward(function: Function) -> None:
    """Loads become the parameter; the variable goes with all that is said of it."""
    instrs = list(function.instructions())
    users: dict[Value, list[Instr]] = {instr: [] for instr in instrs if instr.op == "alloca" and not instr.args}
    for instr in instrs:
        for arg in instr.args:
            if arg in users:
                users[arg].append(instr)
    known: dict[Value, Parameter] = {}
    edits = Edits(function, Names("mc.parameter"))
    for variable, its in users.items():
        parameter = _parameter(function, variable, its)
        if parameter is not None and isinstance(variable, Instr):
            known |= {load: parameter for load in its if load.op == "load"}
            for instr in (variable, *its):
                edits.remove(instr)
    for instr in instrs if known else ():
        for i, arg in enumerate(instr.args):
            if arg in known:
                instr.set_arg(i, known[arg])
    edits.apply()


def _parameter(function: Function, variable: Value, users: list[Instr]) -> Parameter | None:
    """The parameter that a variable holds in all its life: it is stored at the top, and loaded whole."""
    stores = [user for user in users if user.op == "store"]
    if len(stores) != 1 or stores[0].args[1] is not variable or stores[0].block is not function.blocks[0]:
        return None
    (parameter,) = (value for value in stores[0].args[:1])
    if not isinstance(parameter, Parameter) or parameter.type.kind == "ptr":
        return None  # what a pointer leads to would be followed further, and each step of that costs time when it runs
    for user in users:
        if user is stores[0]:
            top = function.blocks[0].instrs
            if any(load.op == "load" and load.args[0] is variable for load in top[: top.index(user)]):
                return None
        elif user.op == "load":
            if user.type is not parameter.type or user.extra.get("volatile") or user.extra.get("atomic"):
                return None
        elif not is_lifetime(user):
            return None
    return parameter
