"""Writing vector IR: names, slots, and the scalar and vector form of each scalar-IR value.

A value of the scalar program has up to two forms here: a scalar (a uniform value, or the base of a pattern) and
`chunks`, the 32 lanes as vectors of the machine's width. What crosses a block lives in a stack slot; LLVM's mem2reg
makes it SSA again, which frees this pass from placing phis when it takes the control flow apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .cfg import Graph
from .ir import Block, Const, Global, Instr, Module, Type, Value
from .roots import Roots
from .shapes import LANES, Shape, Shapes


def scalar_type(ty: Type) -> str:
    """bfloat is kept as its 16 bits: the backend has no vector code for it."""
    return "i16" if ty.kind == "bfloat" else ty.text


def constant_text(value: Const) -> str:
    if value.text in ("undef", "poison"):  # a variable without a value: LLVM may not choose one for each use
        return "zeroinitializer"
    if value.type.kind == "bfloat":
        if value.text == "zeroinitializer":
            return "0"
        if value.text.startswith("0xR"):
            bits = int(value.text[3:], 16)
        else:
            import struct

            bits = struct.unpack("<I", struct.pack("<f", float(value.text)))[0] >> 16
        return str(bits - 65536 if bits >= 32768 else bits)
    return value.text


class Values:
    """The part of the emitter that knows names, slots and forms."""

    def __init__(self, module: Module, graph: Graph, shapes: Shapes, roots: Roots, width: int) -> None:
        self.module, self.graph, self.shapes, self.roots = module, graph, shapes, roots
        self.width = width
        self.count = LANES // width
        self.lines: list[str] = []
        self.blank: set[Instr] = set()  # phis that an edge leaves without a value: they begin as zero
        self.entry_lines: list[str] = []  # run once at the top of the function
        self.alloca_lines: list[str] = []  # in the entry block itself, or mem2reg passes them over
        self.slots: dict[object, tuple[str, str]] = {}
        self.temps = 0
        self.label = ""
        self.block: Block | None = None  # the scalar block whose code is being written
        self.scalars: dict[Value, str] = {}
        self.vectors: dict[tuple[Value, int], str] = {}
        self.splats: dict[tuple[str, object], str] = {}  # also other values made once per block
        self.mask: list[str] | None = None  # <W x i1> per chunk; None: all lanes
        self.pairs: dict[tuple[Instr, int], tuple[str, str]] = {}
        self.entry_values: dict[object, str] = {}
        self.helpers: dict[str, str] = {}  # functions that the code calls, by name
        self.rounded: dict[str, tuple[str, str]] = {}  # of a bfloat's bits: those of the float, and all ones for a NaN
        self.tops: dict[str, str] = {}  # of a chunk of 16 bits that was cut from 32: its name before that
        self._find_cross_block_values()

    # -- text --------------------------------------------------------------------------------------
    def vec(self, scalar: str) -> str:
        return f"<{self.width} x {scalar}>"

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def temp(self, text: str) -> str:
        self.temps += 1
        name = f"%t{self.temps}"
        self.lines.append(f"  {name} = {text}")
        return name

    def new_label(self, hint: str) -> str:
        self.temps += 1
        return f"{hint}.{self.temps}"

    def place(self, label: str) -> None:
        """Start a basic block of output."""
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def at_entry(self, text: str) -> str:
        self.temps += 1
        name = f"%e{self.temps}"
        self.entry_lines.append(f"  {name} = {text}")
        return name

    # -- slots -------------------------------------------------------------------------------------
    def slot(self, key: object, ty: str, align: int = 0) -> str:
        found = self.slots.get(key)
        if found is None:
            name = f"%s{len(self.slots)}"
            found = self.slots[key] = (name, ty)
            self.alloca_lines.append(f"  {name} = alloca {ty}" + (f", align {align}" if align else ""))
        return found[0]

    def stack_bound(self) -> int:
        """Bytes that the function's frame cannot be larger than: its slots, and every value spilled once."""
        return sum(_slot_bytes(ty) for _, ty in self.slots.values()) + 64 * self.temps

    def store_slot(self, key: object, ty: str, value: str) -> None:
        self.emit(f"store {ty} {value}, ptr {self.slot(key, ty)}")

    def load_slot(self, key: object, ty: str) -> str:
        return self.temp(f"load {ty}, ptr {self.slot(key, ty)}")

    def _find_cross_block_values(self) -> None:
        self.crossing: set[Instr] = set()
        self.leaving: set[Instr] = set()  # used behind a divergent loop that they are made in
        for block in self.graph.order:
            for instr in block.instrs:
                for i, arg in enumerate(instr.args):
                    if not isinstance(arg, Instr):
                        continue
                    user = instr.targets[i] if instr.op == "phi" else block
                    if arg.block is not user or arg.op == "phi":
                        self.crossing.add(arg)
                    reader = block if instr.op == "phi" and self._behind(user, block) else user
                    if self.shapes.leaves_divergent_loop(arg, reader):
                        self.leaving.add(arg)
            test = block.terminator.args[0] if block.terminator.op == "br" and block.terminator.args else None
            if isinstance(test, Instr) and test.op == "icmp" and test.block is not block:
                self.crossing.update(a for a in test.args if isinstance(a, Instr))  # a branch may ask for its two ends
        todo = list(self.crossing)
        while todo:  # their lanes are computed again where they are read, from the operands
            value = todo.pop()
            if self.may_wrap(value):
                fresh = [v for v in value.args if isinstance(v, Instr) and v not in self.crossing]
                self.crossing.update(fresh)
                todo += fresh

    def may_wrap(self, value: Value) -> bool:
        """Must its lanes be computed from its operands where they are read as numbers?"""
        return isinstance(value, Instr) and value.op != "phi" and self.shapes.wrapping.may_wrap(value)

    def _behind(self, source: Block, block: Block) -> bool:
        loop = self.graph.loop_of.get(source)
        while loop is not None:
            if block not in loop.blocks:
                return True
            loop = loop.parent
        return False

    # -- block context -----------------------------------------------------------------------------
    def enter(self, block: Block) -> None:
        """Forget names of other blocks: they need not dominate this one."""
        self.block = block
        self.forget()

    def forget(self) -> None:
        self.scalars, self.vectors, self.splats = {}, {}, {}

    # -- forms -------------------------------------------------------------------------------------
    def shape(self, value: Value) -> Shape:
        assert self.block is not None
        return self.shapes.at(value, self.block)

    def scalar(self, value: Value) -> str:
        """The value where it is uniform, the base where it is a pattern."""
        if isinstance(value, Const):
            return constant_text(value)
        if isinstance(value, Global):
            return self.global_address(value)
        name = self.scalars.get(value)
        if name is None:
            if value.op == "alloca":
                name = self.private_base(value)
            else:
                name = self.load_slot((value, "scalar"), scalar_type(value.type))
            self.scalars[value] = name
        return name

    def global_address(self, value: Global) -> str:
        raise NotImplementedError

    def private_base(self, value: Instr) -> str:
        raise NotImplementedError

    def compute(self, instr: Instr, c: int | None) -> str:
        raise NotImplementedError

    def define_scalar(self, value: Instr, name: str) -> None:
        self.scalars[value] = name
        if value in self.crossing:
            self.store_slot((value, "scalar"), scalar_type(value.type), name)
        if value in self.leaving:
            for c in range(self.count):
                self._store_out(value, c, self.chunk(value, c))

    def define_chunk(self, value: Instr, c: int, name: str) -> None:
        self.vectors[value, c] = name
        if value in self.crossing:
            self.store_vector((value, c), value.type, name)
        if value in self.leaving:
            self._store_out(value, c, name)

    def store_vector(self, key: object, ty: Type, name: str) -> None:
        """Booleans cross blocks as 32-bit lanes: i1 vectors are slow in memory."""
        if ty.kind == "int" and ty.bits == 1:
            self.store_slot(key, self.vec("i32"), self.wide_mask(name))
        else:
            self.store_slot(key, self.vec(scalar_type(ty)), name)

    def need(self, declaration: str) -> None:
        raise NotImplementedError

    def fenced(self, ty: str, bits: int, name: str) -> str:
        """The same vector, hidden from LLVM's optimiser: it is computed here and nowhere else."""
        floats = f"<{self.width * bits // 32} x float>"
        short = f"llvm.arithmetic.fence.v{self.width * bits // 32}f32"
        self.need(f"declare {floats} @{short}({floats})")
        held = self.temp(f"bitcast {self.vec(ty)} {name} to {floats}") if self.vec(ty) != floats else name
        held = self.temp(f"call {floats} @{short}({floats} {held})")
        return self.temp(f"bitcast {floats} {held} to {self.vec(ty)}") if self.vec(ty) != floats else held

    def wide_mask(self, mask: str) -> str:
        """A mask as 32-bit lanes. The fence keeps LLVM from turning it back into bits, which are slow to keep."""
        return self.fenced("i32", 32, self.temp(f"sext {self.vec('i1')} {mask} to {self.vec('i32')}"))

    def load_vector(self, key: object, ty: Type) -> str:
        if ty.kind == "int" and ty.bits == 1:
            wide = self.load_slot(key, self.vec("i32"))
            return self.temp(f"icmp slt {self.vec('i32')} {wide}, zeroinitializer")
        return self.load_slot(key, self.vec(scalar_type(ty)))

    def _store_out(self, value: Instr, c: int, name: str) -> None:
        """Keep, for lanes that leave the loop now, the value they leave with."""
        key = (value, "out", c)
        if self.mask is not None:
            old = self.load_vector(key, value.type)
            ty = self.vec(scalar_type(value.type))
            name = self.temp(f"select {self.vec('i1')} {self.mask[c]}, {ty} {name}, {ty} {old}")
        self.store_vector(key, value.type, name)

    def chunk(self, value: Value, c: int) -> str:
        """Lanes c*W to c*W+W-1 of a value."""
        if isinstance(value, Const):
            return self.constant_chunk(value)
        if isinstance(value, Global):
            return self.splat("ptr", self.global_address(value))
        name = self.vectors.get((value, c))
        if name is not None:
            return name
        assert self.block is not None
        own = self.shapes.get(value)
        if self.shapes.leaves_divergent_loop(value, self.block):
            name = self.load_vector((value, "out", c), value.type)
        elif own.varying:
            name = self.load_vector((value, c), value.type)
        elif own.uniform:
            name = self.splat(scalar_type(value.type), self.scalar(value))
        else:
            name = self.pattern_chunk(value, own, c)
        self.vectors[value, c] = name
        return name

    def constant_chunk(self, value: Const) -> str:
        text = constant_text(value)
        if text in ("zeroinitializer", "null", "0", "false"):
            return "zeroinitializer"
        return f"splat ({scalar_type(value.type)} {text})"

    def splat(self, ty: str, name: str) -> str:
        key = (ty, name)
        found = self.splats.get(key)
        if found is None:
            one = self.temp(f"insertelement {self.vec(ty)} poison, {ty} {name}, i64 0")
            found = self.temp(
                f"shufflevector {self.vec(ty)} {one}, {self.vec(ty)} poison, {self.vec('i32')} zeroinitializer"
            )
            self.splats[key] = found
        return found

    def lane_constants(self, ty: str, values: Sequence[int], c: int) -> str:
        part = values[c * self.width : (c + 1) * self.width]
        return "<" + ", ".join(f"{ty} {v}" for v in part) + ">"

    def pattern_chunk(self, value: Instr, shape: Shape, c: int) -> str:
        assert shape.offsets is not None
        if value.type.kind == "ptr" and not self.may_wrap(value):
            base = self.scalar(value)
            offsets = self.lane_constants("i64", shape.offsets, c)
            return self.temp(f"getelementptr i8, ptr {base}, {self.vec('i64')} {offsets}")
        if self.may_wrap(value):
            return self.compute(value, c)
        ty = value.type.text
        base = self.splat(ty, self.scalar(value))
        mask = (1 << value.type.bits) - 1
        offsets = self.lane_constants(ty, [o & mask for o in shape.offsets], c)
        return self.temp(f"add {self.vec(ty)} {base}, {offsets}")

    # -- whole simdgroups --------------------------------------------------------------------------
    def chunks(self, value: Value) -> list[str]:
        return [self.chunk(value, c) for c in range(self.count)]

    def join(self, chunks: Sequence[str], ty: str) -> str:
        """Chunks -> one <32 x ty>."""
        parts, width = list(chunks), self.width
        while len(parts) > 1:
            both = ", ".join(f"i32 {i}" for i in range(2 * width))
            parts = [
                self.temp(f"shufflevector <{width} x {ty}> {a}, <{width} x {ty}> {b}, <{2 * width} x i32> <{both}>")
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        return parts[0]

    def split(self, whole: str, ty: str) -> list[str]:
        """<32 x ty> -> chunks."""
        if self.count == 1:
            return [whole]
        out = []
        for c in range(self.count):
            picks = ", ".join(f"i32 {c * self.width + i}" for i in range(self.width))
            out.append(self.temp(f"shufflevector <32 x {ty}> {whole}, <32 x {ty}> poison, {self.vec('i32')} <{picks}>"))
        return out

    def any(self, mask: Sequence[str]) -> str:
        """Is any lane set? One i1."""
        total = mask[0]
        for other in mask[1:]:
            total = self.temp(f"or {self.vec('i1')} {total}, {other}")
        bits = self.temp(f"bitcast {self.vec('i1')} {total} to i{self.width}")
        return self.temp(f"icmp ne i{self.width} {bits}, 0")

    def all(self, mask: Sequence[str]) -> str:
        total = mask[0]
        for other in mask[1:]:
            total = self.temp(f"and {self.vec('i1')} {total}, {other}")
        bits = self.temp(f"bitcast {self.vec('i1')} {total} to i{self.width}")
        return self.temp(f"icmp eq i{self.width} {bits}, -1")

    def bits(self, mask: Sequence[str] | None) -> str:
        """The mask as a 32-bit number."""
        if mask is None:
            return "-1"
        total = ""
        for c, part in enumerate(mask):
            narrow = self.temp(f"bitcast {self.vec('i1')} {part} to i{self.width}")
            wide = self.temp(f"zext i{self.width} {narrow} to i32") if self.width < 32 else narrow
            if c:
                moved = self.temp(f"shl i32 {wide}, {c * self.width}")
                total = self.temp(f"or i32 {total}, {moved}")
            else:
                total = wide
        return total

    def from_bits(self, bits: str) -> list[str]:
        """A 32-bit number -> a mask per chunk."""
        out = []
        one = self.temp(f"insertelement {self.vec('i32')} poison, i32 {bits}, i64 0")
        every = self.temp(
            f"shufflevector {self.vec('i32')} {one}, {self.vec('i32')} poison, {self.vec('i32')} zeroinitializer"
        )
        for c in range(self.count):
            probe = self.lane_constants(
                "i32", [(1 << lane) - (1 << 32 if lane == 31 else 0) for lane in range(LANES)], c
            )
            hit = self.temp(f"and {self.vec('i32')} {every}, {probe}")
            out.append(self.temp(f"icmp ne {self.vec('i32')} {hit}, zeroinitializer"))
        return out


_LIST = re.compile(r"[\[<](\d+) x (.*)[\]>]")


def _slot_bytes(ty: str) -> int:
    """Bytes of a slot with what its alignment may cost."""
    found = _LIST.fullmatch(ty)
    return int(found[1]) * (1 if found[2] == "i8" else _slot_bytes(found[2])) + 64 if found else 16
