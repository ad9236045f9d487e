"""Where pointers come from: the buffers, threadgroup variables, tables and private arrays behind each address."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from metalcore.engine.ir import I32, Block, Const, Global, Instr, Module, Type, Value, integer, struct

from .private import plan_private


@dataclass(frozen=True)
class Root:
    """One piece of memory: buffer, tgarg (dynamic threadgroup), shared (static), table, private or unknown."""

    kind: str
    slot: int = -1
    name: str = ""


UNKNOWN = Root("unknown")


class Roots:
    """For every pointer value, the set of roots it may point into."""

    def __init__(self, module: Module) -> None:
        self.of: dict[Value, frozenset[Root]] = {}
        self.allocas: dict[Root, Instr] = {}
        self.origins: dict[Value, Instr] = {}
        """For pointers into one of several roots: the number of that which was chosen (origins.py)."""
        self._numbers: dict[Root, int] = {}
        blocks = module.function.blocks
        changed = True
        while changed:
            changed = False
            for block in blocks:
                for instr in block.instrs:
                    if instr.type.kind != "ptr" and not (instr.type.kind == "int" and instr.type.bits == 64):
                        continue
                    new = self._transfer(instr)
                    if new != self.of.get(instr, frozenset()):
                        self.of[instr] = new
                        changed = True
        self.interleave = plan_private(blocks, self)
        """Bytes of an element of each private array that is interleaved."""

    def get(self, value: Value) -> frozenset[Root]:
        if isinstance(value, Global):
            return frozenset([Root("table" if value.constant else "shared", name=value.name)])
        if isinstance(value, Const):
            return frozenset()
        if not value.name and value.block is None:  # a constant expression
            return self._transfer(value)
        return self.of.get(value, frozenset())

    def of_address(self, value: Value) -> frozenset[Root]:
        """Roots of an address that is accessed; nothing known means unknown."""
        return self.get(value) or frozenset([UNKNOWN])

    def number(self, root: Root) -> int:
        return self._numbers.setdefault(root, len(self._numbers))

    def _transfer(self, instr: Instr) -> frozenset[Root]:
        op = instr.op
        if op == "alloca":
            root = Root("private", name=instr.name)
            self.allocas[root] = instr
            return frozenset([root])
        if op == "call":
            if instr.callee in ("__mc_arg", "__mc_threadgroup_arg"):
                slot = instr.args[0].value if isinstance(instr.args[0], Const) else None
                if slot is None:
                    return frozenset([UNKNOWN])
                return frozenset([Root("buffer" if instr.callee == "__mc_arg" else "tgarg", slot)])
            if instr.callee.startswith("llvm.ptrmask") or instr.callee == "__mc_same":
                return self.get(instr.args[0])
            return frozenset([UNKNOWN]) if instr.type.kind == "ptr" else frozenset()
        if op in ("load", "atomicrmw", "cmpxchg", "extractvalue"):
            return frozenset([UNKNOWN]) if instr.type.kind == "ptr" else frozenset()
        if op == "getelementptr":
            return self.get(instr.args[0])
        if op in ("ptrtoint", "inttoptr", "bitcast", "freeze", "addrspacecast"):
            got = self.get(instr.args[0])
            return got if got or instr.type.kind != "ptr" else frozenset([UNKNOWN])
        if op == "select":
            return self.get(instr.args[1]) | self.get(instr.args[2])
        if op in ("phi", "add", "sub", "and", "or"):
            result: frozenset[Root] = frozenset()
            for arg in instr.args:
                result |= self.get(arg)
            return result
        return frozenset()


LONGEST_COPY = 65536  # bytes, of a copy that becomes loads and stores


def expand_block_copies(blocks: list[Block]) -> None:
    """llvm.memcpy, memmove and memset of a known length become plain loads and stores."""
    from metalcore.errors import UnsupportedFeature

    counter = 0
    for block in blocks:
        out: list[Instr] = []
        for instr in block.instrs:
            name = instr.callee if instr.op == "call" else ""
            if not name.startswith(("llvm.memcpy", "llvm.memmove", "llvm.memset")):
                out.append(instr)
                continue
            length = instr.args[2].value if isinstance(instr.args[2], Const) else None
            if length is None or length > LONGEST_COPY:
                raise UnsupportedFeature("a move of overlapping memory whose length is not known at compile time")
            unit = copy_unit(instr, length)
            ty = integer(unit * 8)
            loads: list[Value] = []
            for at in range(0, length, unit):
                counter += 1
                where = {"align": unit}
                if name.startswith("llvm.memset"):
                    loads.append(memset_value(out, instr, ty, f"%mc.set{counter}"))
                else:
                    source = _at(out, instr, instr.args[1], at, f"%mc.src{counter}")
                    loads.append(_push(out, instr, Instr("load", ty, [source], f"%mc.cpy{counter}", dict(where))))
            for i, at in enumerate(range(0, length, unit)):
                counter += 1
                target = _at(out, instr, instr.args[0], at, f"%mc.dst{counter}")
                _push(out, instr, Instr("store", integer(0), [loads[i], target], "", {"align": unit, "stored": ty}))
        block.instrs = out


def split_pairs(blocks: list[Block]) -> None:
    """A pair of 32-bit numbers comes back from a call packed in an i64; make it a pair again."""
    pair = struct(I32, I32)
    packed: dict[Value, Instr] = {}
    parts: dict[Value, list[Instr]] = {}
    made: list[Instr] = []
    for block in blocks:
        out: list[Instr] = []
        for instr in block.instrs:
            out.append(instr)
            if instr.op != "call" or not instr.callee.startswith("__mc_simdgroup_load") or instr.type.kind != "int":
                continue
            instr.type = pair
            parts[instr], wide = [], []
            for e in (0, 1):
                part = Instr("extractvalue", integer(32), [instr], f"{instr.name}.e{e}", {"path": [e]})
                parts[instr].append(_push(out, instr, part))
                wide.append(_push(out, instr, Instr("zext", integer(64), [part], f"{instr.name}.w{e}")))
            high = _push(
                out, instr, Instr("shl", integer(64), [wide[1], Const(integer(64), "32")], f"{instr.name}.high")
            )
            packed[instr] = _push(out, instr, Instr("or", integer(64), [wide[0], high], f"{instr.name}.packed"))
            made += [packed[instr], high, *wide]
        block.instrs = out
    if packed:
        _use_parts(blocks, packed, parts, made)


def _use_parts(
    blocks: list[Block], packed: dict[Value, Instr], parts: dict[Value, list[Instr]], made: list[Instr]
) -> None:
    """Halves of the packed number are the numbers themselves; what is then not needed goes."""
    every = [instr for block in blocks for instr in block.instrs]
    shifts = [i for i in every if i.op == "lshr" and i.args[0] in packed and _is_32(i.args[1])]
    halves = {call: pair[0] for call, pair in parts.items()} | {shift: parts[shift.args[0]][1] for shift in shifts}
    same: dict[Value, Value] = {}
    for instr in every:
        if instr.op == "trunc" and instr.type.bits <= 32 and instr.args[0] in halves:
            half = halves[instr.args[0]]
            if instr.type.bits == 32:
                same[instr] = half
            else:
                instr.args = [half]
    for instr in every:
        if instr.op != "extractvalue":
            instr.args = [same.get(a, packed.get(a, a)) for a in instr.args]
    gone = {i for i in every if i in same}
    uses = Counter(a for i in every if i not in gone for a in i.args)
    for instr in [*shifts, *made]:  # users first
        if not uses[instr]:
            gone.add(instr)
            uses.subtract(instr.args)
    for block in blocks:
        block.instrs = [i for i in block.instrs if i not in gone]


def _is_32(value: Value) -> bool:
    return isinstance(value, Const) and value.value == 32


def copy_unit(instr: Instr, length: int) -> int:
    """Widest unit that divides the length and fits the element type of a private array involved."""
    for pointer in instr.args[:2]:
        base = pointer
        while isinstance(base, Instr) and base.op == "getelementptr":
            base = base.args[0]
        ty: Type | None = None
        if isinstance(base, Instr) and base.op == "alloca":
            ty = base.extra["allocated"]  # type: ignore[assignment]
        elif isinstance(base, Global):
            ty = base.value_type
        while ty is not None and ty.is_aggregate and ty.items:
            ty = ty.items[0]
        if ty is not None and ty.size in (1, 2, 4, 8) and length % ty.size == 0:
            return ty.size
    return next(u for u in (4, 2, 1) if length % u == 0)


def memset_value(out: list[Instr], instr: Instr, ty: Type, name: str) -> Value:
    byte = instr.args[1]
    if isinstance(byte, Const) and byte.value is not None:
        return Const(ty, str(int.from_bytes(bytes([byte.value & 255]) * (ty.bits // 8), "little", signed=True)))
    if ty.bits == 8:
        return byte
    wide = _push(out, instr, Instr("zext", ty, [byte], name))
    ones = Const(ty, str(int.from_bytes(b"\x01" * (ty.bits // 8), "little")))
    return _push(out, instr, Instr("mul", ty, [wide, ones], name + ".all"))


def _push(out: list[Instr], near: Instr, instr: Instr) -> Instr:
    instr.line, instr.block = near.line, near.block
    out.append(instr)
    return instr


def _at(out: list[Instr], near: Instr, pointer: Value, offset: int, name: str) -> Value:
    if offset == 0:
        return pointer
    gep = Instr(
        "getelementptr", near.args[0].type, [pointer, Const(integer(64), str(offset))], name, {"source": integer(8)}
    )
    return _push(out, near, gep)
