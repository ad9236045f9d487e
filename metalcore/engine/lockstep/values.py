"""Writing vector IR: names, slots, and the scalar and vector form of each scalar-IR value.

A value of the scalar program has up to two forms here: a scalar (a uniform value, or the base of a pattern) and
`chunks`, the 32 lanes as vectors of the machine's width. What crosses a block lives in a stack slot; LLVM's mem2reg
makes it SSA again, which frees this pass from placing phis when it takes the control flow apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metalcore.engine.ir import I1, I32, I64, Block, Const, Global, Instr, Type, Value

from .bit_mask import BitMask
from .operands import Operand, constant, zero
from .shape import Shape
from .types import scalar_type as scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters


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

    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.graph, self.shapes = at, at.code, at.graph, at.shapes
        self.blank: set[Instr] = set()  # phis that an edge leaves without a value: they begin as zero
        self.block: Block | None = None  # the scalar block whose code is being written
        self.scalars: dict[Value, Operand] = {}
        self.vectors: dict[tuple[Value, int], Operand] = {}
        self.splats: dict[tuple[str, object], Operand] = {}  # also other values made once per block
        self.mask: Sequence[Operand] | None = None  # <W x i1> per chunk; None: all lanes
        self.pairs: dict[tuple[Instr, int], tuple[Operand, Operand]] = {}
        # Of a bfloat's bits: those of the float, and all ones for a NaN.
        self.rounded: dict[Operand, tuple[Operand, Operand]] = {}
        self.tops: dict[Operand, Operand] = {}  # of a chunk of 16 bits that was cut from 32: its name before that
        self._find_cross_block_values()

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
                    reader = block if instr.op == "phi" and self.behind(user, block) else user
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

    def behind(self, source: Block, block: Block) -> bool:
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

    def scalar(self, value: Value) -> Operand:
        """The value where it is uniform, the base where it is a pattern."""
        if isinstance(value, Const):
            return Operand(constant_text(value), scalar_type(value.type))
        if isinstance(value, Global):
            return self.at.addresses.global_address(value)
        name = self.scalars.get(value)
        if name is None:
            if value.op == "alloca":
                name = self.at.addresses.private_base(value)
            else:
                name = self.code.load_slot((value, "scalar"), scalar_type(value.type))
            self.scalars[value] = name
        return name

    def define_scalar(self, value: Instr, name: Operand) -> None:
        self.scalars[value] = name
        if value in self.crossing:
            self.code.keep((value, "scalar"), name)
        if value in self.leaving:
            for c in range(self.code.count):
                self.store_out(value, c, self.chunk(value, c))

    def define_chunk(self, value: Instr, c: int, name: Operand) -> None:
        self.vectors[value, c] = name
        if value in self.crossing:
            self.store_vector((value, c), name)
        if value in self.leaving:
            self.store_out(value, c, name)

    def store_vector(self, key: object, name: Operand) -> None:
        """Booleans cross blocks as 32-bit lanes: i1 vectors are slow in memory where there are no mask registers."""
        self.code.keep(key, self.code.kept_mask(name) if name.type.item is I1 else name)

    def load_vector(self, key: object, ty: Type) -> Operand:
        item = scalar_type(ty)
        if item is I1:
            return self.code.read_mask(self.code.load_slot(key, self.code.mask_type))
        return self.code.load_slot(key, self.code.vec(item))

    def store_out(self, value: Instr, c: int, name: Operand) -> None:
        """Keep, for lanes that leave the loop now, the value they leave with."""
        key = (value, "out", c)
        if self.mask is not None:
            old = self.load_vector(key, value.type)
            name = self.code.select(self.mask[c], name, old)
        self.store_vector(key, name)

    def chunk(self, value: Value, c: int) -> Operand:
        """Lanes c*W to c*W+W-1 of a value."""
        if isinstance(value, Const):
            return self.constant_chunk(value)
        if isinstance(value, Global):
            return self.splat(self.at.addresses.global_address(value))
        name = self.vectors.get((value, c))
        if name is not None:
            return name
        assert self.block is not None
        own = self.shapes.get(value)
        if self.shapes.leaves_divergent_loop(value, self.block):
            name = self.load_vector((value, "out", c), value.type)
        elif value.op == "icmp" and (lanes := self.shapes.known_test(value)) is not None:
            name = self.code.lane_constants(I1, lanes, c)
        elif value in self.at.plan.homes:
            name = self.at.products.lanes_at_home(value, c)
        elif own.varying:
            name = self.load_vector((value, c), value.type)
        elif own.uniform:
            name = self.splat(self.scalar(value))
        else:
            name = self.pattern_chunk(value, own, c)
        self.vectors[value, c] = name
        return name

    def constant_chunk(self, value: Const) -> Operand:
        text, ty = constant_text(value), self.code.vec(scalar_type(value.type))
        return zero(ty) if text in ("zeroinitializer", "null", "0", "false") else constant(ty, text)

    def splat(self, one: Operand) -> Operand:
        """The same in each lane of a chunk."""
        key = ("splat", (one.type, one.text))
        found = self.splats.get(key)
        if found is None:
            if one.type is I1 and not self.code.has_masks:  # else LLVM makes 16-bit lanes of it
                found = self.code.read_mask(self.code.fenced(self.splat(self.code.sext(one, I32))))
            else:
                found = self.code.splat(one, self.code.width)
            self.splats[key] = found
        return found

    def pattern_chunk(self, value: Instr, shape: Shape, c: int) -> Operand:
        assert shape.offsets is not None
        if value.type.kind == "ptr" and not self.may_wrap(value):
            return self.code.gep(self.scalar(value), self.code.lane_constants(I64, shape.offsets, c))
        if self.may_wrap(value):
            return self.at.ops.compute(value, c)
        base, mask = self.scalar(value), (1 << value.type.bits) - 1
        return self.code.add(
            self.splat(base), self.code.lane_constants(base.type, [o & mask for o in shape.offsets], c)
        )

    # -- the mask ----------------------------------------------------------------------------------
    def mask_bits(self) -> Operand:
        """The mask as a 32-bit number."""
        return self.code.bits(None) if self.mask is None else self.bits_of(self.mask)

    def bits_aside(self) -> Operand:
        """The same, on a way that the code behind it does not come from: what is written here is used here alone."""
        if self.mask is None:
            return self.code.bits(None)
        if isinstance(self.mask, BitMask):
            return self.mask.bits
        names = tuple(part.text for part in self.mask)
        return self.splats.get(("bits", names)) or self.code.bits(self.mask)

    def bits_of(self, mask: Sequence[Operand]) -> Operand:
        """The same of any mask, made once per block."""
        if isinstance(mask, BitMask):
            return mask.bits
        key = ("bits", tuple(part.text for part in mask))
        if key not in self.splats:
            self.splats[key] = self.code.bits(mask)
        return self.splats[key]

    def any(self, mask: Sequence[Operand]) -> Operand:
        """Is any lane set? One i1."""
        return self.code.icmp("ne", mask.bits, 0) if isinstance(mask, BitMask) else self.code.any(mask)

    def all(self, mask: Sequence[Operand]) -> Operand:
        return self.code.icmp("eq", mask.bits, -1) if isinstance(mask, BitMask) else self.code.all(mask)

    # -- whole simdgroups --------------------------------------------------------------------------
    def chunks(self, value: Value) -> list[Operand]:
        return [self.chunk(value, c) for c in range(self.code.count)]
