"""Shape analysis: the shape of every value of a kernel, and where its lanes go different ways.

Shapes only go down, from a known base over a pattern to varying, until none changes.
"""

from __future__ import annotations

from operator import eq, ge, gt, le, lt, ne

from metalcore.engine.abi import SIMDGROUPS
from metalcore.engine.ir import Block, Const, Global, Instr, Module, Value, gep_terms
from metalcore.engine.model import LANES

from .cfg import Graph
from .divergence import Divergence
from .externals import EXTERNALS
from .private import private_stride
from .ranges import Ranges
from .roots import Roots
from .shape import LANE, UNIFORM, VARYING, ZERO, Shape, from_lanes, lowest_bit, pattern
from .shape_arithmetic import align_of, bits_of, fold
from .wrapping import Wrapping


class Shapes:
    def __init__(
        self,
        module: Module,
        graph: Graph,
        roots: Roots,
        ids: dict[tuple[str, int], Shape],
        wide: bool = False,
        most_simdgroups: int = SIMDGROUPS,
    ) -> None:
        self.module, self.graph, self.roots, self.ids = module, graph, roots, ids
        self.of: dict[Instr, Shape] = {}
        self.divergence = Divergence(graph)
        self.wrapping = Wrapping(graph.function, self, is_kept=not wide, ranges=Ranges(None, most_simdgroups))
        self._run()
        self.ranges = Ranges(self, most_simdgroups)
        self.wrapping.settle(self.ranges)

    # -- queries -----------------------------------------------------------------------------------
    def get(self, value: Value) -> Shape:
        if isinstance(value, Const):
            number = value.value
            return Shape(ZERO, number, lowest_bit(number)) if number is not None else UNIFORM
        if isinstance(value, Global):
            return UNIFORM
        return self.of.get(value, UNIFORM)

    def leaves_divergent_loop(self, value: Instr, user: Block) -> bool:
        """Was the value made in a loop that lanes leave at different times, and is it used behind it?"""
        assert value.block is not None
        loop = self.graph.loop_of.get(value.block)
        while loop is not None and user not in loop.blocks:
            if loop in self.divergence.loops:
                return True
            loop = loop.parent
        return False

    def known_test(self, test: Instr) -> tuple[int, ...] | None:
        """0 or 1 for each lane of a compare, where both sides are known numbers."""
        left, right = (self.get(arg).known for arg in test.args)
        if left is None or right is None or test.args[0].type.kind != "int":
            return None
        bits, pred = test.args[0].type.bits, str(test.extra["pred"])
        low = 0 if pred[0] == "u" else -(1 << (bits - 1))
        compare = {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}[pred[-2:]]
        sides = ([(x - low) % (1 << bits) + low for x in side] for side in (left, right))
        return tuple(int(compare(a, b)) for a, b in zip(*sides, strict=True))

    def at(self, value: Value, user: Block) -> Shape:
        shape = self.get(value)
        if isinstance(value, Instr) and not shape.varying and self.leaves_divergent_loop(value, user):
            return VARYING
        return shape

    # -- fixpoint ----------------------------------------------------------------------------------
    def _run(self) -> None:
        order = self.graph.order
        changed = True
        first = True
        while changed:
            changed = False
            for block in order:
                for instr in block.instrs:
                    if not instr.name:
                        continue
                    old = self.of.get(instr)
                    if old is not None and old.varying:
                        continue
                    new = self._phi(instr) if instr.op == "phi" else self._transfer(instr)
                    if new is None:
                        continue
                    if old is not None and new != old:
                        new = self._meet(old, new)
                    if new != old:
                        self.of[instr] = new
                        changed = True
            for block in order:
                branch = block.terminator
                if block in self.divergence.branches or branch.op != "br" or not branch.args:
                    continue
                if not self.at(branch.args[0], block).uniform:
                    self.divergence.add(block)
                    changed = True
            changed = changed or first
            first = False

    @staticmethod
    def _meet(old: Shape, new: Shape) -> Shape:
        """Shapes only go down: known base, pattern, varying."""
        if new.varying or old.offsets != new.offsets:
            return VARYING
        base = old.base if old.base == new.base else None
        return Shape(old.offsets, base, min(old.align, new.align))

    def _phi(self, phi: Instr) -> Shape | None:
        block = phi.block
        assert block is not None
        if block in self.divergence.joins and any(a is not phi.args[0] for a in phi.args[1:]):
            return VARYING
        result: Shape | None = None
        for arg, source in zip(phi.args, phi.targets, strict=True):
            if isinstance(arg, Const) and arg.text in ("undef", "poison"):
                continue
            if isinstance(arg, Instr) and arg not in self.of:
                continue  # not computed yet: optimistic
            shape = self.at(arg, block) if self._exits_to(source, block) else self.at(arg, source)
            if shape.varying:
                return VARYING
            if result is None:
                result = shape
            else:
                if result.offsets != shape.offsets:
                    return VARYING
                base = result.base if result.base == shape.base else None
                result = Shape(result.offsets, base, min(result.align, shape.align))
        if any(self.wrapping.may_wrap(v) for v in phi.args):
            return VARYING
        return result

    def _exits_to(self, source: Block, block: Block) -> bool:
        """A phi behind a loop reads its operand after the loop is left."""
        loop = self.graph.loop_of.get(source)
        while loop is not None:
            if block not in loop.blocks:
                return True
            loop = loop.parent
        return False

    def _transfer(self, instr: Instr) -> Shape | None:
        block = instr.block
        assert block is not None
        op = instr.op
        if op == "call":
            return self._call(instr, block)
        if op == "alloca":
            return self._alloca(instr)
        shapes: list[Shape] = []
        for arg in instr.args:
            if isinstance(arg, Instr) and arg not in self.of:
                return None  # a value that comes round a loop: not known yet
            shapes.append(self.at(arg, block))
        if op == "load":
            return self._load(instr, shapes[0])
        if op in ("atomicrmw", "cmpxchg"):
            return VARYING
        if any(s.varying for s in shapes):
            return VARYING
        if op in (
            "getelementptr",
            "add",
            "sub",
            "mul",
            "shl",
            "and",
            "or",
            "xor",
            "lshr",
            "ashr",
            "udiv",
            "urem",
            "sdiv",
            "srem",
            "zext",
            "sext",
            "trunc",
            "ptrtoint",
            "inttoptr",
            "bitcast",
            "freeze",
            "select",
        ):
            return self._integer(instr, shapes)
        return UNIFORM if all(s.uniform for s in shapes) else VARYING

    def _alloca(self, instr: Instr) -> Shape:
        root = next(iter(self.roots.get(instr)))
        if root in self.roots.interleave:
            return UNIFORM
        allocated = instr.extra["allocated"]
        step = private_stride(allocated.size)  # type: ignore[attr-defined]
        return pattern(tuple(lane * step for lane in LANE))

    def _load(self, instr: Instr, address: Shape) -> Shape:
        if not address.uniform or instr.extra.get("atomic"):
            return VARYING
        if any(r.kind == "private" for r in self.roots.get(instr.args[0])):
            return VARYING
        return UNIFORM

    def _call(self, instr: Instr, block: Block) -> Shape | None:
        name = instr.callee
        if name.startswith("__mc_"):
            key = (name[5:], instr.args[0].value or 0) if instr.args and isinstance(instr.args[0], Const) else None
            if key in self.ids:
                return self.ids[key]
            external = EXTERNALS.get(name)
            if external is None or external.decided_by is None:
                return UNIFORM if external is not None and external.is_uniform else VARYING
            deciding = instr.args[external.decided_by : external.decided_by + 1]
        else:
            deciding = instr.args
        shapes = []
        for arg in deciding:
            if isinstance(arg, Instr) and arg not in self.of:
                return None
            shapes.append(self.at(arg, block))
        return UNIFORM if all(s.uniform for s in shapes) else VARYING

    def _integer(self, instr: Instr, shapes: list[Shape]) -> Shape:
        op, bits = instr.op, instr.type.bits
        if op == "select":
            if not shapes[0].uniform:
                return VARYING
            if shapes[1].offsets != shapes[2].offsets:
                return VARYING
            base = shapes[1].base if shapes[1].base == shapes[2].base else None
            return Shape(shapes[1].offsets, base, min(shapes[1].align, shapes[2].align))
        if op == "getelementptr":
            return self._gep(instr, shapes) if self.wrapping.stays_outside(instr) else VARYING
        known = [s.known for s in shapes]
        if all(k is not None for k in known) and instr.type.kind == "int":
            folded = fold(instr, [list(k) for k in known if k is not None])
            if folded is not None:
                return from_lanes(folded, bits)
        if all(s.uniform for s in shapes):
            return Shape(ZERO, None, align_of(op, shapes))
        if bits == 64 and not self.wrapping.stays_outside(instr):
            return VARYING
        if op in ("freeze", "bitcast", "ptrtoint", "inttoptr"):
            return Shape(shapes[0].offsets, None, shapes[0].align) if instr.type.kind in ("int", "ptr") else VARYING
        a = shapes[0]
        assert a.offsets is not None
        if op in ("zext", "sext"):
            source = instr.args[0].type.bits
            is_line = source == 32 and bits == 64 and self.wrapping.keeps_pattern(instr, a.offsets)
            return Shape(a.offsets, None, 1) if is_line else VARYING
        if op == "trunc":
            return Shape(a.offsets, None, a.align) if bits >= 32 else VARYING
        b = shapes[1]
        assert b.offsets is not None
        flags = instr.extra.get("flags") or []
        if op == "add" or (op == "or" and "disjoint" in flags):  # type: ignore[operator]
            return Shape(tuple(x + y for x, y in zip(a.offsets, b.offsets, strict=True)), None, min(a.align, b.align))
        if op == "sub":
            return Shape(tuple(x - y for x, y in zip(a.offsets, b.offsets, strict=True)), None, min(a.align, b.align))
        constant = b.base if b.uniform else None
        if op == "mul" and constant is None and a.uniform and a.base is not None:
            a, b, constant = b, a, a.base
        if constant is None or a.offsets is None:
            return VARYING
        if op == "mul":
            return Shape(tuple(o * constant for o in a.offsets), None, a.align * lowest_bit(constant))
        if op == "shl" and 0 <= constant < bits:
            return Shape(tuple(o << constant for o in a.offsets), None, a.align << constant)
        return bits_of(op, a, constant, bits)

    def _gep(self, instr: Instr, shapes: list[Shape]) -> Shape:
        offsets = list(shapes[0].offsets or ZERO)
        scale_by = 1
        roots = self.roots.get(instr.args[0])
        if any(r in self.roots.interleave for r in roots):
            scale_by = LANES
        for scale, index in gep_terms(instr):
            if isinstance(index, int):
                continue
            shape = self.at(index, instr.block) if instr.block else self.get(index)
            assert shape.offsets is not None
            offsets = [o + x * scale * scale_by for o, x in zip(offsets, shape.offsets, strict=True)]
        return Shape(tuple(offsets), None, 1)
