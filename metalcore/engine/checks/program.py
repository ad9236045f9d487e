"""A kernel's inlined scalar IR, to which checks add instructions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from metalcore.engine.ir import (
    I1,
    I32,
    I64,
    PTR,
    VOID,
    Builder,
    Edits,
    Function,
    Instr,
    Module,
    Names,
    Parameter,
    Type,
    Value,
    make,
    type_of,
)
from metalcore.engine.lockstep.roots import Roots
from metalcore.engine.model import Place

if TYPE_CHECKING:
    from metalcore.engine.model import ScalarKernel

# It may never return, for all that LLVM knows: else a division behind it would prove that its divisor is not zero. And
# two calls stay two: each names its place.
_REPORTS = ["nomerge", "nounwind", "memory(inaccessiblemem: readwrite)"]
# Hooks of accesses read the memory that they name, so that stores to it keep their places.
_TOUCHES = ["nomerge", "nounwind", "memory(argmem: read, inaccessiblemem: readwrite)"]
HOOKS: dict[str, tuple[Type, tuple[Type, ...]]] = {
    "__mc_report_if": (VOID, (I1, I32)),
    "__mc_report_unset": (VOID, (I1, I32)),
    "__mc_has_no_value": (I1, (PTR, I32)),
    "__mc_lose_value": (VOID, (PTR, I32, I1)),
    "__mc_store_unset": (VOID, (PTR, I32, I1, I32)),
    "__mc_read": (VOID, (PTR, I32)),
    "__mc_copy": (VOID, (PTR, I32)),
    "__mc_write": (VOID, (PTR, I32, I64)),
    "__mc_touch_atomically": (VOID, (PTR, I32)),
    "__mc_load_atomically": (VOID, (PTR, I32)),
    "__mc_store_atomically": (VOID, (PTR, I32)),
}


def hook(name: str, *args: Value) -> Instr:
    """A call of a hook."""
    result, types = HOOKS[name]
    if tuple(arg.type for arg in args) != types:
        raise TypeError(f"{name} of {', '.join(arg.type.text for arg in args)}")
    return make.call(result, name, args)


class Program:
    """The instructions of a kernel; what is added to them stands beside them until `finish`."""

    def __init__(self, module: Module, kernel: ScalarKernel, places: list[Place], raw: Module) -> None:
        self.module, self.kernel, self.places = module, kernel, places
        self.raw = raw  # before anything was inlined
        self._edits = Edits(module.function, Names(module.unused_prefix("mc")))
        self._declared: dict[str, Function] = {}
        self._numbers = {place: i for i, place in enumerate(places)}
        module.function.link()
        self.instrs = [
            instr
            for instr in module.function.instructions()
            if instr.op[0] != "#" and not (instr.op == "call" and instr.extra.get("metadata"))
        ]

    def before(self, instr: Instr, line: int | None = None) -> Builder:
        """Puts instructions in front of one, with its place in the source or another."""
        return self._edits.before(instr, line)

    def after(self, instr: Instr, *, placed: bool = True) -> Builder:
        return self._edits.after(instr, None if placed else 0)

    def remove(self, instr: Instr) -> None:
        self._edits.remove(instr)

    def fresh(self) -> str:
        """A name for an instruction that is put somewhere later."""
        return self._edits.names.fresh()

    @cached_property
    def order(self) -> dict[Instr, int]:
        return {instr: i for i, instr in enumerate(self.instrs)}

    def line_of(self, instr: Instr) -> tuple[str, int]:
        """File and line of the source."""
        return self._where(instr)[:2]

    def _where(self, instr: Instr) -> tuple[str, int, int]:
        found = self.module.locations.get(instr.line) if instr.line else None
        return (found.file, found.line, found.column) if found else ("", 0, 0)

    @cached_property
    def forwarded(self) -> dict[Instr, Value]:
        """Pointers that are kept in a variable written once, as parameters are: what is loaded is what was stored."""
        stores: dict[Value, list[Value]] = {}
        slots = {i for i in self.instrs if i.op == "alloca" and type_of(i, "allocated").kind == "ptr"}
        others: set[Value] = set()
        for instr in self.instrs:
            if instr.op == "store" and instr.args[1] in slots:
                stores.setdefault(instr.args[1], []).append(instr.args[0])
                others |= {value for value in instr.args[:1] if value in slots}
            elif instr.op != "load" and not is_lifetime(instr):
                others |= slots.intersection(arg for arg in instr.args if isinstance(arg, Instr))
        once = {slot: values[0] for slot, values in stores.items() if len(values) == 1 and slot not in others}
        loads = (i for i in self.instrs if i.op == "load" and i.type.kind == "ptr" and i.args[0] in once)
        return {load: once[load.args[0]] for load in loads}

    @cached_property
    def roots(self) -> Roots:
        """The memory behind each pointer."""
        return Roots(self.module)

    def place(self, check: str, instr: Instr, detail: str = "") -> Value:
        """Number of what is reported at an instruction."""
        place = Place(check, *self._where(instr), detail)
        if place not in self._numbers:
            self._numbers[place] = len(self.places)
            self.places.append(place)
        return make.number(I32, self._numbers[place])

    def report_if(self, condition: Value, check: str, instr: Instr, detail: str = "") -> None:
        self.before(instr)(hook("__mc_report_if", condition, self.place(check, instr, detail)))

    def simd(self, name: str, args: list[Value]) -> Instr:
        """A call of a simd function of 32-bit numbers, with the attributes of one that the kernel uses."""
        name = f"__mc_simd_{name}"
        if name not in self.module.functions:
            known = (f for f in self.module.functions.values() if f.name.startswith("__mc_simd_"))
            suffix = next((f.suffix for f in known), [])
            self._declared[name] = Function(f"@{name}", I32, [Parameter(I32, "", []) for _ in args], suffix=suffix)
        return make.call(I32, name, args)

    def finish(self) -> Module:
        """The module with all that was added."""
        self._edits.apply()
        groups = {True: self.module.attribute_group(_TOUCHES), False: self.module.attribute_group(_REPORTS)}
        for name, (result, types) in HOOKS.items():
            parameters = [Parameter(ty, "", ["captures(none)"] if ty is PTR else []) for ty in types]
            self.module.declare(Function(f"@{name}", result, parameters, suffix=[groups[PTR in types]]))
        for function in self._declared.values():
            self.module.declare(function)
        return self.module


def is_lifetime(instr: Instr, which: str = "") -> bool:
    """The start or the end of a variable's life."""
    return instr.op == "call" and instr.callee.startswith(f"llvm.lifetime.{which}")
