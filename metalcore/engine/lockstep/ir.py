"""Scalar LLVM IR as plain Python objects: just what the lockstep pass needs to know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

POINTER_BYTES = 8


@dataclass(frozen=True)
class Type:
    """A type; `text` is its LLVM spelling. Scalars have `bits`, aggregates have `items` and `offsets`."""

    text: str
    kind: str  # int, half, bfloat, float, double, ptr, void, array, struct, vector
    bits: int = 0
    items: tuple[Type, ...] = ()
    count: int = 0
    packed: bool = False

    @property
    def is_float(self) -> bool:
        return self.kind in ("half", "bfloat", "float", "double")

    @property
    def is_aggregate(self) -> bool:
        return self.kind in ("array", "struct")

    @property
    def size(self) -> int:
        """Bytes from one element to the next in an array of this type."""
        if self.kind == "array":
            return self.items[0].size * self.count
        if self.kind == "vector":
            raw = (self.items[0].bits * self.count + 7) // 8
            return 1 << (raw - 1).bit_length() if raw else 0
        if self.kind == "struct":
            end = self.offset(len(self.items))
            return end if self.packed else _round_up(end, self.align)
        if self.kind == "ptr":
            return POINTER_BYTES
        raw = (self.bits + 7) // 8
        return _round_up(raw, self.align)

    @property
    def touched(self) -> int:
        """Bytes that a load or store reaches: a struct of five bools travels as an i40, which takes 8 in an array."""
        return (self.bits + 7) // 8 if self.kind == "int" else self.size

    @property
    def align(self) -> int:
        if self.kind == "array":
            return self.items[0].align
        if self.kind == "struct":
            return 1 if self.packed else max((t.align for t in self.items), default=1)
        if self.kind == "vector":
            return self.size
        if self.kind == "ptr":
            return POINTER_BYTES
        raw = (self.bits + 7) // 8
        return min(16, 1 << (raw - 1).bit_length()) if raw else 1

    def offset(self, index: int) -> int:
        """Byte offset of struct member `index` (one past the last gives the end)."""
        at = 0
        for i, item in enumerate(self.items):
            if not self.packed:
                at = _round_up(at, item.align)
            if i == index:
                return at
            at += item.size
        return at


def _round_up(n: int, to: int) -> int:
    return (n + to - 1) // to * to


VOID = Type("void", "void")
PTR = Type("ptr", "ptr", 64)
FLOAT = Type("float", "float", 32)
_INTS: dict[int, Type] = {}


def int_type(bits: int) -> Type:
    found = _INTS.get(bits)
    if found is None:
        found = _INTS[bits] = Type(f"i{bits}", "int", bits)
    return found


I1, I8, I16, I32, I64 = (int_type(b) for b in (1, 8, 16, 32, 64))


@dataclass(eq=False)
class Const:
    """A constant operand; `text` is its LLVM spelling."""

    type: Type
    text: str

    @property
    def value(self) -> int | None:
        """The integer value, where it is one."""
        if self.type.kind == "int":
            if self.text == "true":
                return 1
            if self.text in ("false", "zeroinitializer", "undef", "poison"):
                return 0
            return int(self.text)
        if self.type.kind == "ptr" and self.text in ("null", "zeroinitializer"):
            return 0
        return None


@dataclass(eq=False)
class Global:
    """A module-level variable: a constant table or a threadgroup variable."""

    name: str
    value_type: Type
    constant: bool
    text: str  # the whole definition line
    align: int = 1

    @property
    def type(self) -> Type:
        return PTR


@dataclass(eq=False)
class Instr:
    """One instruction. It is its own result value; `name` is empty for void ones."""

    op: str
    type: Type
    args: list[Value]
    name: str = ""
    extra: dict[str, object] = field(default_factory=dict)  # pred, flags, callee, gep type, align, ordering...
    targets: list[Block] = field(default_factory=list)  # successors of a terminator; incoming blocks of a phi
    line: int = 0  # debug location number, 0 for none
    block: Block | None = None

    def __repr__(self) -> str:
        return f"<{self.name or self.op}>"

    @property
    def callee(self) -> str:
        return str(self.extra.get("callee", ""))


@dataclass(eq=False)
class Block:
    name: str
    instrs: list[Instr] = field(default_factory=list)
    preds: list[Block] = field(default_factory=list)

    @property
    def terminator(self) -> Instr:
        return self.instrs[-1]

    @property
    def succs(self) -> list[Block]:
        return self.instrs[-1].targets

    def phis(self) -> Iterator[Instr]:
        for instr in self.instrs:
            if instr.op != "phi":
                break
            yield instr

    def __repr__(self) -> str:
        return f"<block {self.name}>"


Value = Const | Global | Instr


@dataclass
class Function:
    name: str
    blocks: list[Block]

    def link(self) -> None:
        """Recompute predecessors from the terminators; an edge taken twice counts once."""
        for block in self.blocks:
            block.preds = []
        for block in self.blocks:
            for succ in dict.fromkeys(block.succs):
                succ.preds.append(block)


@dataclass(frozen=True)
class Location:
    """A place in the user's source."""

    file: str
    line: int
    column: int


@dataclass
class Module:
    function: Function
    globals: dict[str, Global]
    types: dict[str, Type]
    locations: dict[int, Location]  # debug location number -> innermost place in a user's file


_IGNORED = (
    "llvm.lifetime",
    "llvm.assume",
    "llvm.dbg",
    "llvm.experimental.noalias",
    "llvm.invariant",
    "llvm.donothing",
    "llvm.sideeffect",
    "llvm.pseudoprobe",
)


def is_ignored(instr: Instr) -> bool:
    """A call that only tells LLVM something."""
    return instr.op == "call" and instr.callee.startswith(_IGNORED)


def is_barrier(instr: Instr) -> bool:
    return instr.op == "call" and instr.callee == "__mc_threadgroup_barrier"


def gep_terms(instr: Instr) -> list[tuple[int, Value | int]]:
    """A getelementptr as byte offset terms: (1, constant) once, then (scale, index) for each other index."""
    ty = instr.extra["source"]
    constant = 0
    terms: list[tuple[int, Value | int]] = []
    for position, index in enumerate(instr.args[1:]):
        if position == 0:
            scale = ty.size  # type: ignore[attr-defined]
        elif ty.kind == "struct":  # type: ignore[attr-defined]
            assert isinstance(index, Const) and index.value is not None
            constant += ty.offset(index.value)  # type: ignore[attr-defined]
            ty = ty.items[index.value]  # type: ignore[attr-defined]
            continue
        else:
            ty = ty.items[0]  # type: ignore[attr-defined]
            scale = ty.size
        if isinstance(index, Const):
            constant += scale * (index.value or 0)
        else:
            terms.append((scale, index))
    terms.insert(0, (1, constant))
    return terms


def anchor_of(pointer: Value) -> tuple[Value, int]:
    """A pointer without its constant offset."""
    offset = 0
    while isinstance(pointer, Instr) and pointer.op == "getelementptr":
        terms = gep_terms(pointer)
        if len(terms) > 1:
            break
        assert isinstance(terms[0][1], int)
        offset += terms[0][1]
        pointer = pointer.args[0]
    return pointer, offset
