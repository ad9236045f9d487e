"""Threadgroup variables with an initialiser: set once for each threadgroup, before its simdgroups start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from metalcore.engine.ir import I8, I16, I32, I64, PTR, VOID, Global, vector
from metalcore.engine.model import INITIAL
from metalcore.errors import UnsupportedFeature

from .builder import Builder
from .frame import WORKER, of_sanitizer, of_worker, parameters
from .operands import Operand, constant, zero
from .support import function

_UNITS = {1: I8, 2: I16, 4: I32, 8: I64, 16: vector(2, I64)}


@dataclass
class _Variable:
    """One that is set: from a table of the module, or to zero."""

    offset: int  # in group memory
    size: int
    table: str = ""


@dataclass
class Initial:
    """Tables and functions of the module, and what mc_run does at the start of a group."""

    tables: list[str] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)
    variables: list[_Variable] = field(default_factory=list)

    def write(self, code: Builder, sanitizer: Operand | None) -> None:
        """Set all of them; sanitize mode hears that their memory has a value."""
        if not self.variables:
            return
        memory = code.load(PTR, code.gep(WORKER, of_worker("group_memory")))
        for variable in self.variables:
            at, size, unit = code.gep(memory, variable.offset), constant(I64, variable.size), _unit(variable.size)
            if variable.table:
                code.call(f"mc.copy.{unit}", VOID, at, Operand(variable.table, PTR), size)
            else:
                code.call(f"mc.zero.{unit}", VOID, at, size)
            if sanitizer is not None:
                hook = code.load(PTR, code.gep(sanitizer, of_sanitizer("set_memory")))
                code.call_pointer(hook, VOID, sanitizer, code.ptrtoint(at), size)


def initial_values(
    used: Mapping[str, Global], offsets: Mapping[str, int], spelled_out: Callable[[Global], str]
) -> Initial:
    """What sets the variables of *used* that have a value from the start; *offsets* are those in group memory."""
    found = Initial()
    for name, offset in offsets.items():
        variable = used[name]
        size = variable.value_type.size
        if not variable.section.startswith(INITIAL) or not size:
            continue
        if variable.names():
            raise UnsupportedFeature(f"threadgroup variable {name.lstrip('@')} is initialised with an address")
        if variable.is_zero:
            found.functions.setdefault(f"zero.{_unit(size)}", _loop(_unit(size), is_copy=False))
            found.variables.append(_Variable(offset, size))
        else:
            table = f"@mc.initial.{len(found.tables)}"
            found.tables.append(f"{table} = internal constant {spelled_out(variable)}, align 16")
            found.functions.setdefault(f"copy.{_unit(size)}", _loop(_unit(size), is_copy=True))
            found.variables.append(_Variable(offset, size, table))
    return found


def _unit(size: int) -> int:
    return min(size & -size, 16)


def _loop(unit: int, is_copy: bool) -> str:
    """A loop of its own: llvm.memcpy may become a call of libc, which a kernel does not have."""
    ty, code = _UNITS[unit], Builder()
    to, source, size = Operand("%to", PTR), Operand("%from", PTR), Operand("%bytes", I64)
    code.place("entry")
    code.jump("next")
    code.place("next")
    at = code.phi((constant(I64, 0), "entry"))
    if is_copy:
        value = code.load(ty, code.gep(source, at), unit)
    else:
        value = zero(ty) if ty.is_vector else constant(ty, 0)
    code.store(value, code.gep(to, at), unit)
    behind = code.add(at, unit)
    code.edge(at, behind, "next")
    code.cond_br(code.icmp("ult", behind, size), "next", "done")
    code.place("done")
    code.ret()
    given = parameters(to, source, size) if is_copy else parameters(to, size)
    return function(code, f"mc.{'copy' if is_copy else 'zero'}.{unit}", VOID, given, "#0")
