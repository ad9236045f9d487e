"""The last look at a kernel's shared object: it exports one function, needs nothing and runs nothing when loaded."""

from __future__ import annotations

from collections.abc import Iterable

from metalcore.engine.codegen import elf, macho
from metalcore.engine.codegen.contents import Contents, Unreadable
from metalcore.errors import MetalcoreError

EXPORTED = frozenset(("mc_run",))
# What LLVM calls on a machine without the instructions: plain functions of numbers.
MATH = frozenset(
    name + kind
    for name in ("fma", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "sqrt", "fmin", "fmax")
    for kind in ("", "f")
)
_SYSTEM = "/usr/lib/libSystem.B.dylib"  # macOS loads nothing that does not name it; every process has it


def check_object(path: str, allowed: Iterable[str] = ()) -> None:
    """Raise MetalcoreError where the shared object at *path* has more to it than a kernel."""
    try:
        more = _more(read(path), allowed)
    except Unreadable as error:
        more = str(error)
    if more:
        raise MetalcoreError(f"the machine code of a kernel {more}; it is not loaded. Please report this.")


def undefined(path: str) -> frozenset[str]:
    """Names that a shared object leaves to the process that loads it."""
    try:
        return read(path).missing
    except Unreadable:
        return frozenset()  # which check_object reports


def read(path: str) -> Contents:
    with open(path, "rb") as file:
        data = file.read()
    return macho.read(data) if data[:4] == macho.MAGIC else elf.read(data)


def _more(found: Contents, allowed: Iterable[str]) -> str:
    """What the object has that a kernel has not."""
    if found.has_thread_variables:
        return "has variables of its own for each thread"
    if any(name != _SYSTEM for name in found.libraries):
        return "needs another library"
    if found.starts:
        return f"runs code when it is loaded ({', '.join(found.starts)})"
    if unknown := sorted(found.missing.difference(allowed)):
        return f"uses {', '.join(unknown)}, which it would find in this process"
    if found.exported != EXPORTED:
        names = ", ".join(sorted(found.exported)) or "nothing"
        return f"exports {names} instead of {', '.join(sorted(EXPORTED))}"
    return ""
