"""Which values differ between the threads of a threadgroup, or of a simdgroup, and which thread id makes them so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple, TypeVar

from metalcore.engine.ir import Block, Const, Global, Instr, Value
from metalcore.engine.lockstep.cfg import Loop
from metalcore.engine.lockstep.roots import Root
from metalcore.lint.program import Program, attribute, constant
from metalcore.lint.spans import Span, overlap, span_of

_Key = TypeVar("_Key")
_LANES = ("thread_index_in_simdgroup", "thread_index_in_quadgroup")

_SAME_IN_GROUP = re.compile(
    r"threadgroup_position_in_grid|threads_per_\w+|threadgroups_per_grid|dispatch_\w+|simdgroups_per_threadgroup"
    r"|quadgroups_per_threadgroup"
)
_SAME_IN_SIMDGROUP = re.compile(r"simdgroup_index_in_threadgroup")
_SIMD = re.compile(
    r"__mc_simd_(?:(?:sum|product|min|max|and|or|xor)_[a-z0-9]+|broadcast(?:_first)?|ballot|any|all|active_threads_mask)"
)


class Why(NamedTuple):
    """What makes a value differ: a thread attribute, and whether only lanes differ, in all simdgroups alike."""

    name: str
    lanes_only: bool = False


class Divergence:
    """`of` maps each value that is not the same in all threads to what it comes from."""

    def __init__(self, program: Program, level: str) -> None:
        """*level* is "threadgroup" or "simdgroup"."""
        self._program, self._simdgroup = program, level == "simdgroup"
        self.of: dict[Value, Why] = {}
        self.branches: dict[Block, Why] = {}  # blocks whose branch differs between threads
        self._private: dict[Root, list[tuple[Span, Why]]] = {}  # what private arrays hold of such values
        self._span = cache(span_of)
        self._run()

    def deciding(self, block: Block) -> Block | None:
        """The nearest branch whose outcome differs between threads and decides over the block."""
        position = self._program.graph.position
        found = [b for b in self._program.control.of[block] if b in self.branches]
        return max(found, key=lambda b: position[b], default=None)

    def _run(self) -> None:
        changed = True
        while changed:
            changed = False
            for block in self._program.blocks:
                for instr in block.instrs:
                    if instr.op == "store":
                        changed = self._store(instr, block) or changed
                    elif instr.name:
                        why = self._phi(instr, block) if instr.op == "phi" else self._value(instr, block)
                        changed = self._raise(self.of, instr, why) or changed
                branch = block.terminator
                if branch.op == "br" and branch.args:
                    changed = self._raise(self.branches, block, self._at(branch.args[0], block)) or changed

    @staticmethod
    def _raise(table: dict[_Key, Why], key: _Key, why: Why | None) -> bool:
        """Record a reason; one that holds between simdgroups replaces one between lanes."""
        old = table.get(key)
        if why is None or (old is not None and (why.lanes_only or not old.lanes_only)):
            return False
        table[key] = why
        return True

    def _store(self, instr: Instr, block: Block) -> bool:
        """A private array holds what was stored to it."""
        roots = [r for r in self._program.roots.get(instr.args[1]) if r.kind == "private"]
        if not roots:
            return False
        branch = self.deciding(block)
        why = _worst(self._at(arg, block) for arg in instr.args)
        if branch is not None:
            why = _worst([why, self.branches[branch]])
        if why is None:
            return False
        span = self._span(instr.args[1])
        changed = False
        for root in roots:
            held = self._private.setdefault(root, [])
            if (span, why) not in held:
                held.append((span, why))
                changed = True
        return changed

    def _at(self, value: Value, user: Block) -> Why | None:
        """Why a value differs where it is read: threads leave a loop at different times with different values."""
        if isinstance(value, (Const, Global)):
            return None
        why = self.of.get(value)
        loop: Loop | None = self._program.loop_of(value.block)
        while loop is not None and user not in loop.blocks:
            why = _worst([why, *(self.branches.get(source) for source, _ in loop.exits())])
            loop = loop.parent
        return why

    def _phi(self, phi: Instr, block: Block) -> Why | None:
        why = _worst(self._at(arg, block) for arg in phi.args)
        if all(arg is phi.args[0] or _same(arg, phi.args[0]) for arg in phi.args):
            return why
        here = self._program.control.of[block]
        for source in phi.targets:
            deciding = set(self._program.control.of[source]) | ({source} if len(source.succs) > 1 else set())
            why = _worst([why, *(self.branches.get(branch) for branch in deciding - here if branch is not block)])
        return why

    def _value(self, instr: Instr, block: Block) -> Why | None:
        if instr.op == "call":
            return self._call(instr, block)
        if instr.op in ("atomicrmw", "cmpxchg"):
            return Why("an atomic operation")
        if instr.op == "load":
            span = self._span(instr.args[0])
            held = [h for root in self._program.roots.get(instr.args[0]) for h in self._private.get(root, [])]
            return _worst([self._at(instr.args[0], block), *(why for where, why in held if overlap(span, where))])
        if instr.op == "alloca":
            return None
        return _worst(self._at(arg, block) for arg in instr.args)

    def _call(self, instr: Instr, block: Block) -> Why | None:
        name = attribute(instr)
        if name:
            dim = constant(instr.args[0]) if instr.args else 0
            return None if self._is_same(name, dim) else Why(name, name in _LANES)
        why = _worst(self._at(arg, block) for arg in instr.args)
        is_broadcast = instr.callee == "__mc_simd_shuffle" and self._at(instr.args[1], block) is None
        if is_broadcast or _SIMD.fullmatch(instr.callee):
            # Of what only lanes tell apart every simdgroup makes the same.
            if self._simdgroup or why is None or why.lanes_only:
                return None
            return Why("a simdgroup's reduction")
        return Why("simd_is_first", True) if instr.callee.startswith("__mc_simd_is_first") else why

    def _is_same(self, name: str, dim: int | None) -> bool:
        if _SAME_IN_GROUP.fullmatch(name):
            return True
        if not self._simdgroup:
            return False
        # Groups are mostly as wide as a simdgroup or wider: then y and z are those of the whole simdgroup.
        return bool(_SAME_IN_SIMDGROUP.fullmatch(name)) or (name.startswith("thread_position") and dim != 0)


def _worst(reasons: Iterable[Why | None]) -> Why | None:
    found = [why for why in reasons if why is not None]
    return next((why for why in found if not why.lanes_only), found[0] if found else None)


def _same(a: Value, b: Value) -> bool:
    return isinstance(a, Const) and isinstance(b, Const) and a.text == b.text
