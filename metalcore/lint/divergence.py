"""Which values differ between the threads of a threadgroup, or of a simdgroup, and which thread id makes them so."""

from __future__ import annotations

import re

from metalcore.engine.lockstep.cfg import Loop
from metalcore.engine.lockstep.ir import Block, Const, Global, Instr, Value
from metalcore.lint.program import Program, attribute, constant

_SAME_IN_GROUP = re.compile(
    r"threadgroup_position_in_grid|threads_per_\w+|threadgroups_per_grid|dispatch_\w+|simdgroups_per_threadgroup"
    r"|quadgroups_per_threadgroup"
)
_SAME_IN_SIMDGROUP = re.compile(r"simdgroup_index_in_threadgroup")
_SIMD = re.compile(
    r"__mc_simd_(?:(?:sum|product|min|max|and|or|xor)_[a-z0-9]+|broadcast(?:_first)?|ballot|any|all|active_threads_mask)"
)


class Divergence:
    """`of` maps each value that is not the same in all threads to the attribute that it comes from."""

    def __init__(self, program: Program, level: str) -> None:
        """*level* is "threadgroup" or "simdgroup"."""
        self._program, self._simdgroup = program, level == "simdgroup"
        self.of: dict[Value, str] = {}
        self.branches: dict[Block, str] = {}  # blocks whose branch differs between threads
        self._private: dict[object, str] = {}  # private arrays that hold such values
        self._run()

    def block(self, block: Block) -> str:
        """The attribute that decides whether a thread runs the block; empty where all do or none."""
        return next((self.branches[b] for b in self._ordered(block) if b in self.branches), "")

    def deciding(self, block: Block) -> Block | None:
        """The branch whose outcome differs between threads and decides over the block."""
        return next((b for b in self._ordered(block) if b in self.branches), None)

    def _ordered(self, block: Block) -> list[Block]:
        position = self._program.graph.position
        return sorted(self._program.control.of[block], key=lambda b: -position[b])

    def _run(self) -> None:
        changed = True
        while changed:
            changed = False
            for block in self._program.blocks:
                for instr in block.instrs:
                    if instr.op == "store":
                        changed = self._store(instr) or changed
                    elif instr.name and instr not in self.of:
                        why = self._phi(instr) if instr.op == "phi" else self._value(instr)
                        if why:
                            self.of[instr] = why
                            changed = True
                branch = block.terminator
                if branch.op == "br" and branch.args and block not in self.branches:
                    why = self._at(branch.args[0], block)
                    if why:
                        self.branches[block] = why
                        changed = True

    def _store(self, instr: Instr) -> bool:
        """A private array holds what was stored to it."""
        roots = [r for r in self._program.roots.get(instr.args[1]) if r.kind == "private" and r not in self._private]
        if not roots or instr.block is None:
            return False
        why = self._at(instr.args[0], instr.block) or self._at(instr.args[1], instr.block) or self.block(instr.block)
        for root in roots if why else []:
            self._private[root] = why
        return bool(why)

    def _at(self, value: Value, user: Block) -> str:
        """Why a value differs where it is read: threads leave a loop at different times with different values."""
        if isinstance(value, (Const, Global)):
            return ""
        why = self.of.get(value, "")
        if why or value.block is None:
            return why
        loop: Loop | None = self._program.loop_of(value.block)
        while loop is not None and user not in loop.blocks:
            for source, _ in loop.exits():
                if source in self.branches:
                    return self.branches[source]
            loop = loop.parent
        return ""

    def _phi(self, phi: Instr) -> str:
        block = phi.block
        assert block is not None
        for arg in phi.args:
            if why := self._at(arg, block):
                return why
        if all(arg is phi.args[0] or _same(arg, phi.args[0]) for arg in phi.args):
            return ""
        here = self._program.control.of[block]
        for source in phi.targets:
            deciding = set(self._program.control.of[source]) | ({source} if len(source.succs) > 1 else set())
            for branch in deciding - here:
                if branch in self.branches and branch is not block:
                    return self.branches[branch]
        return ""

    def _value(self, instr: Instr) -> str:
        block = instr.block
        assert block is not None
        if instr.op == "call":
            return self._call(instr, block)
        if instr.op in ("atomicrmw", "cmpxchg"):
            return "an atomic operation"
        if instr.op == "load":
            private = [self._private[r] for r in self._program.roots.get(instr.args[0]) if r in self._private]
            return private[0] if private else self._at(instr.args[0], block)
        if instr.op == "alloca":
            return ""
        return next((why for arg in instr.args if (why := self._at(arg, block))), "")

    def _call(self, instr: Instr, block: Block) -> str:
        name = attribute(instr)
        if name:
            return "" if self._is_same(name, constant(instr.args[0]) if instr.args else 0) else name
        args = next((why for arg in instr.args if (why := self._at(arg, block))), "")
        if _SIMD.fullmatch(instr.callee):
            if self._simdgroup:
                return ""
            return "a simdgroup's reduction" if args else ""
        if instr.callee.startswith("__mc_simd_is_first"):
            return "simd_is_first"
        return args

    def _is_same(self, name: str, dim: int | None) -> bool:
        if _SAME_IN_GROUP.fullmatch(name):
            return True
        if not self._simdgroup:
            return False
        # Groups are mostly as wide as a simdgroup or wider: then y and z are those of the whole simdgroup.
        return bool(_SAME_IN_SIMDGROUP.fullmatch(name)) or (name.startswith("thread_position") and dim != 0)


def _same(a: Value, b: Value) -> bool:
    return isinstance(a, Const) and isinstance(b, Const) and a.text == b.text
