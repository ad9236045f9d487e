"""One kernel's control flow, memory and places, made from its IR once and read by many rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property

from metalcore.engine.frontend.diagnostics import is_ours
from metalcore.engine.ir import Block, Const, DebugLines, Instr, Module, Value, flattened
from metalcore.engine.lockstep.cfg import Graph, Loop, canonicalise
from metalcore.engine.lockstep.roots import Root, Roots
from metalcore.lint.control import Control
from metalcore.lint.lowering import Lowered
from metalcore.lint.places import Place, Places


class Program:
    """A kernel as blocks of instructions."""

    def __init__(self, lowered: Lowered, places: Places, module: Module) -> None:
        self.lowered, self.kernel = lowered, lowered.kernel
        self.module = flattened(module)
        canonicalise(self.module.function)
        self.graph = Graph(self.module.function)
        self.blocks = self.graph.order
        self._locate = _locator(module.metadata, places)

    @cached_property
    def roots(self) -> Roots:
        """The memory behind each pointer."""
        return Roots(self.module)

    @cached_property
    def control(self) -> Control:
        """Which branches decide over which blocks."""
        return Control(self.graph)

    @cached_property
    def users(self) -> dict[Instr, list[Instr]]:
        """Who reads each value."""
        found: dict[Instr, list[Instr]] = {}
        for instr in self.instructions():
            for arg in instr.args:
                if isinstance(arg, Instr):
                    found.setdefault(arg, []).append(instr)
        return found

    @cached_property
    def vectors(self) -> set[int]:
        """ids of the types that are Metal's vectors."""
        return {id(kind) for name, kind in self.module.types.items() if "metal::vec" in name or "packed_vec" in name}

    def instructions(self) -> Iterator[Instr]:
        """All instructions, in an order in which loops stay together."""
        for block in self.blocks:
            yield from block.instrs

    def calls(self, *names: str) -> Iterator[Instr]:
        """Calls of functions whose name starts with one of *names*."""
        for instr in self.instructions():
            if instr.op == "call" and instr.callee.startswith(names):
                yield instr

    def place(self, instr: Instr) -> Place | None:
        """Where the user wrote it, or who called the library function that it belongs to."""
        return self._locate(instr.line) if instr.line else None

    def loop_of(self, block: Block | None) -> Loop | None:
        """The innermost loop around a block."""
        return self.graph.loop_of.get(block) if block is not None else None

    def address(self, instr: Instr) -> Value | None:
        """The address that an instruction reads or writes."""
        if instr.op in ("load", "atomicrmw", "cmpxchg"):
            return instr.args[0]
        return instr.args[1] if instr.op == "store" else None

    def reads(self, instr: Instr) -> frozenset[Root]:
        """Memory that an instruction reads."""
        if instr.op in ("load", "atomicrmw", "cmpxchg"):
            return self.roots.of_address(instr.args[0])
        if instr.op == "call":
            if instr.callee.startswith(("llvm.memcpy", "llvm.memmove")):
                return self.roots.of_address(instr.args[1])
            if instr.callee.startswith("__mc_simdgroup_load"):
                return self.roots.of_address(instr.args[0])
        return frozenset()

    def writes(self, instr: Instr) -> frozenset[Root]:
        """Memory that an instruction writes."""
        if instr.op == "store":
            return self.roots.of_address(instr.args[1])
        if instr.op in ("atomicrmw", "cmpxchg"):
            return self.roots.of_address(instr.args[0])
        if instr.op == "call" and instr.callee.startswith(
            ("llvm.memcpy", "llvm.memmove", "llvm.memset", "__mc_simdgroup_store")
        ):
            return self.roots.of_address(instr.args[0])
        return frozenset()


def constant(value: Value) -> int | None:
    """The number that a value is, where it is one."""
    return value.value if isinstance(value, Const) else None


def attribute(value: Value) -> str:
    """The thread attribute that a value is, such as `thread_position_in_grid`; empty for all others."""
    if isinstance(value, Instr) and value.op == "call" and value.callee.startswith("__mc_"):
        name = value.callee[5:]
        if name.startswith(("thread_", "threads_", "threadgroup_position", "threadgroups_", "dispatch_")):
            return name
        if re.match(r"(simdgroup|quadgroup)s?_(index_in|per)_", name):
            return name
    return ""


def _locator(metadata: Mapping[int, str], places: Places) -> Callable[[int], Place | None]:
    """A function from the number of a debug location to the user's place."""

    lines = DebugLines(metadata)

    @cache
    def locate(number: int) -> Place | None:
        for depth, frame in enumerate(lines.frames(number)):
            if not is_ours(frame.file):
                return places.at(frame.file, frame.line, frame.column, depth > 0)
        return None

    return locate
