"""How private arrays lie in memory: element by element for all lanes (interleaved), or lane after lane.

Interleaved, element i of all 32 lanes is one row, so that an index that is the same in all lanes is a vector load. That
needs every access to have one size and to start at a multiple of it: an offset that is not known to be one would reach
into the arrays of other lanes. It also needs whole elements: the last row of other arrays is too short for 32 lanes.
All other arrays lie lane after lane, where any byte of an array may be touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import Block, Const, Instr, Type, Value, gep_terms

if TYPE_CHECKING:
    from .roots import Root, Roots

_DEPTH = 10  # of expressions that are looked into
_ALL = 64


def plan_private(blocks: list[Block], roots: Roots) -> dict[Root, int]:
    """The private arrays that are interleaved, and the bytes of one element of each."""
    return _Planner(roots).run(blocks)


class _Planner:
    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        self.bad: set[Root] = set()
        self.unit: dict[Root, int] = {}
        self.groups: list[list[Root]] = []  # arrays that one pointer may reach must agree

    def run(self, blocks: list[Block]) -> dict[Root, int]:
        for block in blocks:
            for instr in block.instrs:
                self._look(instr)
        self.bad |= {root for root, unit in self.unit.items() if self._size(root) % unit}
        changed = True
        while changed:
            changed = False
            for group in self.groups:
                if any(r in self.bad for r in group) or len({self.unit.get(r, 0) for r in group}) > 1:
                    fresh = set(group) - self.bad
                    self.bad |= fresh
                    changed = changed or bool(fresh)
        return {root: self.unit.get(root, 4) for root in self.roots.allocas if root not in self.bad}

    def _private(self, value: Value) -> list[Root]:
        return [r for r in self.roots.get(value) if r.kind == "private"]

    def _size(self, root: Root) -> int:
        allocated = self.roots.allocas[root].extra["allocated"]
        assert isinstance(allocated, Type)
        return allocated.size

    def _look(self, instr: Instr) -> None:
        op = instr.op
        if op == "load":
            self._touch(instr.args[0], instr.type)
        elif op == "store":
            stored = instr.extra["stored"]
            assert isinstance(stored, Type)
            self._touch(instr.args[1], stored)
            self.bad.update(self._private(instr.args[0]))
        elif op == "call" and instr.callee.startswith("llvm.lifetime"):
            pass  # says how long the array is needed, touches nothing
        elif op in ("atomicrmw", "cmpxchg", "ptrtoint", "call", "inttoptr", "icmp"):
            for arg in instr.args:
                self.bad.update(self._private(arg))
        elif op in ("phi", "select"):
            private = self._private(instr)
            if private and len(private) != len(self.roots.get(instr)):
                self.bad.update(private)
            elif len(private) > 1:
                self.groups.append(private)

    def _touch(self, address: Value, ty: Type) -> None:
        private = self._private(address)
        if not private:
            return
        size = ty.size
        is_mixed = len(private) != len(self.roots.get(address))
        if is_mixed or size not in (1, 2, 4, 8) or ty.is_aggregate or 1 << pointer_zeros(address) < size:
            self.bad.update(private)
        for root in private:
            if self.unit.setdefault(root, size) != size:
                self.bad.add(root)


def pointer_zeros(pointer: Value, seen: frozenset[Value] = frozenset()) -> int:
    """Low bits that are surely 0 in the distance of a pointer from the start of its array."""
    if not isinstance(pointer, Instr) or pointer.op == "alloca":
        return _ALL
    if pointer in seen:
        return _ALL  # round a loop: what comes in from outside decides
    if len(seen) > _DEPTH:
        return 0
    seen |= {pointer}
    if pointer.op == "getelementptr":
        least = pointer_zeros(pointer.args[0], seen)
        for scale, index in gep_terms(pointer):
            least = min(least, _zeros(index) if isinstance(index, int) else _zeros(scale) + low_zeros(index))
        return least
    if pointer.op in ("phi", "freeze", "bitcast"):
        return min((pointer_zeros(v, seen) for v in pointer.args), default=0)
    if pointer.op == "select":
        return min(pointer_zeros(v, seen) for v in pointer.args[1:])
    return 0


def low_zeros(value: Value, seen: frozenset[Value] = frozenset()) -> int:
    """Low bits of an integer that are surely 0."""
    if isinstance(value, Const):
        return _zeros(value.value) if value.value is not None else 0
    if not isinstance(value, Instr) or len(seen) > _DEPTH:
        return 0
    if value in seen:
        return _ALL
    seen |= {value}
    op, args = value.op, value.args
    if op in ("zext", "sext", "trunc", "freeze"):
        return low_zeros(args[0], seen)
    if op in ("add", "sub", "or", "xor", "phi"):
        return min((low_zeros(v, seen) for v in args), default=0)
    if op == "select":
        return min(low_zeros(v, seen) for v in args[1:])
    if op == "and":
        return max(low_zeros(v, seen) for v in args)
    if op == "mul":
        return min(_ALL, sum(low_zeros(v, seen) for v in args))
    if op == "shl" and isinstance(args[1], Const):
        return min(_ALL, low_zeros(args[0], seen) + max(0, args[1].value or 0))
    return 0


def _zeros(number: int) -> int:
    return (number & -number).bit_length() - 1 if number else _ALL


def private_stride(size: int) -> int:
    """Bytes from one lane's array to the next one's where they lie lane after lane."""
    return (max(size, 1) + 15) // 16 * 16
