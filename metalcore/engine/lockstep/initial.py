"""Threadgroup variables with an initialiser: set once for each threadgroup, before its simdgroups start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from metalcore.engine.sections import INITIAL
from metalcore.errors import UnsupportedFeature

from .ir import Global
from .memory import WORKER_MEMORY
from .watch import HOOK_OFFSET

_UNITS = {1: "i8", 2: "i16", 4: "i32", 8: "i64", 16: "<2 x i64>"}


@dataclass
class Initial:
    """Lines of IR: tables and functions of the module, and what mc_run does at the start of a group."""

    tables: list[str]
    functions: list[str]
    code: str


def initial_values(
    used: Mapping[str, Global], offsets: Mapping[str, int], sanitized: bool, spelled_out: Callable[[Global], str]
) -> Initial:
    """What sets the variables of *used* that have a value from the start; *offsets* are those in group memory."""
    tables: list[str] = []
    functions: dict[str, str] = {}
    code: list[str] = []
    for name, offset in offsets.items():
        variable = used[name]
        size = variable.value_type.size
        if not variable.section.startswith(INITIAL) or not size:
            continue
        if variable.names():
            raise UnsupportedFeature(f"threadgroup variable {name.lstrip('@')} is initialised with an address")
        unit = _unit(size)
        at = f"%initial.{len(code)}"
        code.append(f"  {at} = getelementptr i8, ptr %initial.memory, i64 {offset}")
        if variable.is_zero:
            functions[f"zero.{unit}"] = _loop(unit, is_copy=False)
            code.append(f"  call void @mc.zero.{unit}(ptr {at}, i64 {size})")
        else:
            table = f"@mc.initial.{len(tables)}"
            tables.append(f"{table} = internal constant {spelled_out(variable)}, align 16")
            functions[f"copy.{unit}"] = _loop(unit, is_copy=True)
            code.append(f"  call void @mc.copy.{unit}(ptr {at}, ptr {table}, i64 {size})")
        if sanitized:
            code += _tell(at, size)
    if code:
        code.insert(0, f"  %initial.memory_at = getelementptr i8, ptr %Wk, i64 {WORKER_MEMORY}")
        code.insert(1, "  %initial.memory = load ptr, ptr %initial.memory_at")
    return Initial(tables, list(functions.values()), "\n".join(code))


def _unit(size: int) -> int:
    return min(size & -size, 16)


def _tell(at: str, size: int) -> list[str]:
    """Sanitize mode hears that this memory has a value; `_in_chosen_order` of driver.py has loaded the sanitizer."""
    return [
        f"  {at}.hook_at = getelementptr i8, ptr %sanitizer, i64 {HOOK_OFFSET['set_memory']}",
        f"  {at}.hook = load ptr, ptr {at}.hook_at",
        f"  {at}.number = ptrtoint ptr {at} to i64",
        f"  call void {at}.hook(ptr %sanitizer, i64 {at}.number, i64 {size})",
    ]


def _loop(unit: int, is_copy: bool) -> str:
    """A loop of its own: llvm.memcpy may become a call of libc, which a kernel does not have."""
    ty = _UNITS[unit]
    parameters = "ptr %to, ptr %from, i64 %bytes" if is_copy else "ptr %to, i64 %bytes"
    value = "%value" if is_copy else "zeroinitializer" if unit == 16 else "0"
    read = f"""  %source = getelementptr i8, ptr %from, i64 %at
  %value = load {ty}, ptr %source, align {unit}
"""
    return f"""define internal void @mc.{"copy" if is_copy else "zero"}.{unit}({parameters}) #0 {{
entry:
  br label %next
next:
  %at = phi i64 [ 0, %entry ], [ %behind, %next ]
{read if is_copy else ""}  %target = getelementptr i8, ptr %to, i64 %at
  store {ty} {value}, ptr %target, align {unit}
  %behind = add i64 %at, {unit}
  %more = icmp ult i64 %behind, %bytes
  br i1 %more, label %next, label %done
done:
  ret void
}}"""
