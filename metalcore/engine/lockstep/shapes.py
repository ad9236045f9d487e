"""Shape analysis: is a value the same in all 32 lanes, a known pattern over them, or anything?

A shape is a tuple of 32 offsets: value[lane] = base + offsets[lane] with a scalar base. All zero is uniform; 0, 1, 2,
... is what thread ids look like. `None` stands for varying. Where the base itself is a known constant the pattern is
exact and any integer operation on it folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne

from metalcore.engine.abi import SIMDGROUPS
from metalcore.engine.ir import Block, Const, Global, Instr, Module, Value, gep_terms
from metalcore.engine.model import LANES as LANES

from .cfg import Graph, Loop
from .externals import EXTERNALS
from .private import private_stride
from .ranges import Ranges
from .roots import Roots
from .wrapping import Wrapping

ZERO = (0,) * LANES
LANE = tuple(range(LANES))


@dataclass(frozen=True)
class Shape:
    offsets: tuple[int, ...] | None  # None: varying
    base: int | None = None  # the base, where it is a known constant
    align: int = 1  # the base is a multiple of this power of two

    @property
    def uniform(self) -> bool:
        return self.offsets == ZERO

    @property
    def varying(self) -> bool:
        return self.offsets is None

    @property
    def known(self) -> tuple[int, ...] | None:
        """The exact value of each lane, if it is known."""
        if self.offsets is None or self.base is None:
            return None
        return tuple(self.base + o for o in self.offsets)


UNIFORM = Shape(ZERO)
VARYING = Shape(None)


def pattern(offsets: tuple[int, ...], base: int | None = None, align: int = 1) -> Shape:
    return Shape(tuple(offsets), base, align)


def _wrap(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _from_lanes(values: list[int], bits: int) -> Shape:
    wrapped = [_wrap(v, bits) for v in values]
    return Shape(tuple(v - wrapped[0] for v in wrapped), wrapped[0], _lowest_bit(wrapped[0]))


def _lowest_bit(value: int) -> int:
    return value & -value if value else 1 << 30


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
        self.divergent_branches: set[Block] = set()
        self.divergent_loops: set[Loop] = set()
        self.joins: set[Block] = set()
        self.partial: set[Block] = set()  # blocks that only some lanes may reach
        self.wrapping = Wrapping(graph.function, self, is_kept=not wide, ranges=Ranges(None, most_simdgroups))
        self._run()
        self.ranges = Ranges(self, most_simdgroups)
        self.wrapping.settle(self.ranges)

    # -- queries -----------------------------------------------------------------------------------
    def get(self, value: Value) -> Shape:
        if isinstance(value, Const):
            number = value.value
            return Shape(ZERO, number, _lowest_bit(number)) if number is not None else UNIFORM
        if isinstance(value, Global):
            return UNIFORM
        return self.of.get(value, UNIFORM)

    def leaves_divergent_loop(self, value: Instr, user: Block) -> bool:
        """Was the value made in a loop that lanes leave at different times, and is it used behind it?"""
        assert value.block is not None
        loop = self.graph.loop_of.get(value.block)
        while loop is not None and user not in loop.blocks:
            if loop in self.divergent_loops:
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
                if block in self.divergent_branches or branch.op != "br" or not branch.args:
                    continue
                if not self.at(branch.args[0], block).uniform:
                    self.divergent_branches.add(block)
                    self._mark_partial(block)
                    self._propagate(block)
                    changed = True
            changed = changed or first
            first = False

    def _mark_partial(self, branch: Block) -> None:
        join = self.graph.ipdom.get(branch)
        todo = [block for block in branch.succs if block is not join]
        while todo:
            block = todo.pop()
            if block not in self.partial:
                self.partial.add(block)
                todo += [after for after in block.succs if after is not join]

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
        if block in self.joins and any(a is not phi.args[0] for a in phi.args[1:]):
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
            folded = _fold(instr, [list(k) for k in known if k is not None])
            if folded is not None:
                return _from_lanes(folded, bits)
        if all(s.uniform for s in shapes):
            return Shape(ZERO, None, _align_of(op, shapes))
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
            return Shape(tuple(o * constant for o in a.offsets), None, a.align * _lowest_bit(constant))
        if op == "shl" and 0 <= constant < bits:
            return Shape(tuple(o << constant for o in a.offsets), None, a.align << constant)
        return self._bits_of(op, a, constant, bits)

    @staticmethod
    def _bits_of(op: str, a: Shape, constant: int, bits: int) -> Shape:
        """Division, remainder, masks and shifts by a power of two, where the base has the alignment for it."""
        assert a.offsets is not None
        if min(a.offsets) < 0 or max(a.offsets) >= min(a.align, 1 << bits):  # a lane's number may have wrapped
            return VARYING
        if op == "and":
            constant &= (1 << bits) - 1
            low = constant + 1
            if low & constant == 0 and low <= a.align:
                values = [o & constant for o in a.offsets]
                return Shape(tuple(v - values[0] for v in values), values[0], _lowest_bit(values[0]))
            high = (~constant & ((1 << bits) - 1)) + 1
            if high & (high - 1) == 0 and high <= a.align:
                return Shape(tuple(o & -high for o in a.offsets), None, a.align)
            return VARYING
        if op == "urem" and constant > 0 and constant & (constant - 1) == 0 and constant <= a.align:
            values = [o % constant for o in a.offsets]
            return Shape(tuple(v - values[0] for v in values), values[0], _lowest_bit(values[0]))
        shift = constant if op == "lshr" else constant.bit_length() - 1 if op == "udiv" and constant > 0 else -1
        if op == "udiv" and constant & (constant - 1):
            return VARYING
        if 0 <= shift < bits and 1 << shift <= a.align:
            return Shape(tuple(o >> shift for o in a.offsets), None, max(1, a.align >> shift))
        return VARYING

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

    # -- sync dependence ---------------------------------------------------------------------------
    def _propagate(self, start: Block) -> None:
        """Find the joins and the loops that a divergent branch makes divergent (disjoint paths by labels)."""
        graph = self.graph
        level = graph.loop_of[start]
        seeds = [(succ, succ) for succ in start.succs]
        self._walk(level, seeds, start)

    def _walk(self, level: Loop | None, seeds: list[tuple[Block, Block]], start: Block) -> None:
        graph = self.graph
        labels: dict[Block, Block] = {}
        leaving: list[tuple[Block, Block | None]] = []  # (label, exit target or None for the back edge)

        def reach(source_label: Block, target: Block) -> None:
            if level is not None and target is level.header:
                leaving.append((source_label, None))
                return
            if level is not None and target not in level.blocks:
                leaving.append((source_label, target))
                return
            node = graph.node(target, level)
            if node not in labels:
                labels[node] = source_label
            elif labels[node] is not source_label:
                labels[node] = node
                self.joins.add(node)

        for target, label in seeds:
            reach(label, target)
        members = level.blocks if level else set(graph.function.blocks)
        for block in graph.order:
            if block not in members or block not in labels or graph.node(block, level) is not block:
                continue
            child = graph.child_at(block, level)
            outs = [t for _, t in child.exits()] if child else block.succs
            for out in dict.fromkeys(outs):
                reach(labels[block], out)
        if level is None:
            return
        distinct = {label for label, _ in leaving}
        exits = [target for _, target in leaving if target is not None]
        if len(distinct) > 1 and exits:
            back = any(target is None for _, target in leaving)
            if back:
                self.divergent_loops.add(level)
            # Lanes leave at different times or by different doors: each door is a path of its own further out.
            doors = level.exits() if back else [(start, t) for t in exits]
            targets = list(dict.fromkeys(t for _, t in doors))
            if len(doors) > 1:
                counts = {t: sum(1 for _, d in doors if d is t) for t in targets}
                for target, count in counts.items():
                    if count > 1:
                        self.joins.add(target)
            if len(targets) > 1 or back:
                self._walk(level.parent, [(t, t) for t in targets], level.header)


def _align_of(op: str, shapes: list[Shape]) -> int:
    if op == "mul":
        return min(1 << 30, shapes[0].align * shapes[1].align)
    if op == "shl" and shapes[1].base is not None and 0 <= shapes[1].base < 31:
        return min(1 << 30, shapes[0].align << shapes[1].base)
    if op in ("add", "sub", "or", "xor"):
        return min(shapes[0].align, shapes[1].align)
    if op == "and":
        return max(shapes[0].align, shapes[1].align)
    if op in ("zext", "sext", "trunc", "freeze"):
        return shapes[0].align
    return 1


def _fold(instr: Instr, lanes: list[list[int]]) -> list[int] | None:
    """Evaluate an integer operation lane by lane."""
    op, bits = instr.op, instr.args[0].type.bits or 64
    mask = (1 << bits) - 1
    out: list[int] = []
    for values in zip(*lanes, strict=True):
        a = values[0]
        b = values[1] if len(values) > 1 else 0
        ua, ub, sa, sb = a & mask, b & mask, _wrap(a, bits), _wrap(b, bits)
        if op in ("udiv", "urem", "sdiv", "srem") and ub == 0:
            return None
        if op in ("shl", "lshr", "ashr") and ub >= bits:
            return None
        if op == "add":
            out.append(a + b)
        elif op == "sub":
            out.append(a - b)
        elif op == "mul":
            out.append(a * b)
        elif op == "and":
            out.append(ua & ub)
        elif op == "or":
            out.append(ua | ub)
        elif op == "xor":
            out.append(ua ^ ub)
        elif op == "shl":
            out.append(ua << ub)
        elif op == "lshr":
            out.append(ua >> ub)
        elif op == "ashr":
            out.append(sa >> ub)
        elif op == "udiv":
            out.append(ua // ub)
        elif op == "urem":
            out.append(ua % ub)
        elif op in ("sdiv", "srem"):
            quotient = abs(sa) // abs(sb) * (1 if (sa < 0) == (sb < 0) else -1)
            out.append(quotient if op == "sdiv" else sa - quotient * sb)
        elif op == "zext":
            out.append(ua)
        elif op in ("sext", "trunc", "freeze"):
            out.append(sa)
        else:
            return None
    return out
