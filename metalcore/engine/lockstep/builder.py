"""Instructions of LLVM as methods: each knows its operands' types, checks them, and is the one place that spells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from metalcore.engine.ir import I1, I8, I32, I64, PTR, VOID, Type, struct, vector

from .operands import Given, Names, Operand, constant, lane_numbers, poison
from .types import is_cast

_new = object.__new__
Later = Callable[[], list[str]]  # lines that are known when all others are written
_FLOAT_OPS = frozenset(["fadd", "fsub", "fmul", "fdiv"])
_WEIGHTS = {None: "", True: ", !prof !1", False: ", !prof !2"}  # metadata of module.py


class WrongType(TypeError):
    """An emitter asked for an instruction that LLVM does not have: a mistake in this package."""


def _binary(op: str) -> Callable[[Builder, Given, Given], Operand]:
    return lambda self, a, b: self.binary(op, a, b)


def _cast(op: str) -> Callable[[Builder, Operand, Type], Operand]:
    return lambda self, a, to: self.cast(op, a, to)


class Builder:
    """A run of instructions. Several may share the names of one function, and what it declares."""

    def __init__(self, prefix: str = "%t", beside: Builder | None = None) -> None:
        self.lines: list[str | Later] = []
        self.prefix = prefix
        self.names: Names = beside.names if beside else Names()
        self.declarations: dict[str, str] = beside.declarations if beside else {}  # of intrinsics, by name
        self.edges: dict[Operand, list[tuple[Operand, str]]] = beside.edges if beside else {}  # of phis

    def as_(self, name: Operand) -> Builder:
        """What writes one instruction whose result has this name: code.as_(STOP).load(...)."""
        return _Named(self, name)

    def text(self) -> list[str]:
        """All lines; those that were put off are made now, in order."""
        made = [(i, line()) for i, line in enumerate(self.lines) if not isinstance(line, str)]
        lines = list(self.lines)
        for i, texts in reversed(made):
            lines[i : i + 1] = texts
        return cast("list[str]", lines)

    def _value(self, ty: Type, text: str) -> Operand:
        names = self.names
        names.count = number = names.count + 1
        name = f"{self.prefix}{number}"
        self.lines.append(f"  {name} = {text}")
        made = _new(Operand)  # as Operand(name, ty), but made a hundred thousand times
        made.text, made.type = name, ty
        return made

    def _refuse(self, op: str, *operands: Operand) -> WrongType:
        return WrongType(f"{op} of " + ", ".join(f"{x.type} {x}" for x in operands))

    # -- arithmetic --------------------------------------------------------------------------------
    def binary(self, op: str, a: Given, b: Given, flags: str = "") -> Operand:
        """Two of a type. *flags* ends with a space."""
        if type(a) is not Operand:
            assert isinstance(b, Operand)
            a = constant(b.type, a)
        elif type(b) is not Operand:
            b = constant(a.type, b)
        ty = a.type
        if b.type is not ty or not (ty.is_float if op in _FLOAT_OPS else ty.is_int):
            raise self._refuse(op, a, b)
        return self._value(ty, f"{op} {flags}{ty.text} {a.text}, {b.text}")

    add, sub, mul = _binary("add"), _binary("sub"), _binary("mul")
    and_, xor = _binary("and"), _binary("xor")
    shl, lshr, ashr = _binary("shl"), _binary("lshr"), _binary("ashr")
    udiv, urem = _binary("udiv"), _binary("urem")
    fadd, fsub, fmul, fdiv = _binary("fadd"), _binary("fsub"), _binary("fmul"), _binary("fdiv")

    def or_(self, a: Given, b: Given, *, disjoint: bool = False) -> Operand:
        return self.binary("or", a, b, "disjoint " if disjoint else "")

    def not_(self, a: Operand) -> Operand:
        return self.binary("xor", a, True)

    def fneg(self, a: Operand) -> Operand:
        if not a.type.is_float:
            raise self._refuse("fneg", a)
        return self._value(a.type, f"fneg {a.type.text} {a.text}")

    def freeze(self, a: Operand) -> Operand:
        return self._value(a.type, f"freeze {a.type.text} {a.text}")

    def icmp(self, pred: str, a: Operand, b: Given) -> Operand:
        return self._compare("icmp ", pred, a, b, a.type.is_int or a.type.is_ptr)

    def fcmp(self, pred: str, a: Operand, b: Given, flags: str = "") -> Operand:
        return self._compare(f"fcmp {flags}", pred, a, b, a.type.is_float)

    def _compare(self, op: str, pred: str, a: Operand, b: Given, fits: bool) -> Operand:
        ty = a.type
        if type(b) is not Operand:
            b = constant(ty, b)
        if b.type is not ty or not fits:
            raise self._refuse(op + pred, a, b)
        return self._value(ty.with_item(I1), f"{op}{pred} {ty.text} {a.text}, {b.text}")

    def select(self, test: Operand, a: Given, b: Given) -> Operand:
        """One test for all lanes, or one for each."""
        if type(a) is not Operand:
            assert isinstance(b, Operand)
            a = constant(b.type, a)
        elif type(b) is not Operand:
            b = constant(a.type, b)
        ty = a.type
        if b.type is not ty or (test.type is not I1 and test.type is not ty.with_item(I1)):
            raise self._refuse("select", test, a, b)
        return self._value(ty, f"select {test.type.text} {test.text}, {ty.text} {a.text}, {ty.text} {b.text}")

    # -- casts -------------------------------------------------------------------------------------
    def cast(self, op: str, a: Operand, to: Type) -> Operand:
        ty = a.type
        if not is_cast(op, ty, to):
            raise self._refuse(f"{op} to {to}", a)
        return self._value(to, f"{op} {ty.text} {a.text} to {to.text}")

    zext, sext, trunc = _cast("zext"), _cast("sext"), _cast("trunc")

    def ptrtoint(self, a: Operand, to: Type = I64) -> Operand:
        return self.cast("ptrtoint", a, to)

    def bitcast(self, a: Operand, to: Type) -> Operand:
        """The same bits as another type; as they are where it is the same one."""
        ty = a.type
        if ty is to:
            return a
        if ty.length * ty.bits != to.length * to.bits or ty.is_ptr or to.is_ptr:
            raise self._refuse(f"bitcast to {to}", a)
        return self._value(to, f"bitcast {ty.text} {a.text} to {to.text}")

    # -- memory ------------------------------------------------------------------------------------
    def alloca(self, ty: Type, align: int = 0) -> Operand:
        return self._value(PTR, f"alloca {ty.text}" + (f", align {align}" if align else ""))

    def load(self, ty: Type, at: Operand, align: int = 0, *, kind: str = "", invariant: bool = False) -> Operand:
        """*kind* is "", "atomic" or "volatile"."""
        if at.type is not PTR:
            raise self._refuse("load", at)
        if not kind and not invariant:
            how = f", align {align}" if align else ""
            return self._value(ty, f"load {ty.text}, ptr {at.text}{how}")
        how = " monotonic" if kind == "atomic" else ""
        how += (f", align {align}" if align else "") + (", !invariant.load !0" if invariant else "")
        return self._value(ty, f"load {kind}{' ' if kind else ''}{ty.text}, ptr {at.text}{how}")

    def store(
        self, value: Operand, at: Operand, align: int = 0, *, nontemporal: bool = False, atomic: bool = False
    ) -> None:
        if at.type is not PTR:
            raise self._refuse("store", value, at)
        how = (f", align {align}" if align else "") + (", !nontemporal !3" if nontemporal else "")
        op, how = ("store atomic", f" monotonic{how}") if atomic else ("store", how)
        self.lines.append(f"  {op} {value.type.text} {value.text}, ptr {at.text}{how}")

    def atomicrmw(self, op: str, at: Operand, value: Operand) -> Operand:
        return self._value(value.type, f"atomicrmw {op} ptr {at}, {value.type} {value} monotonic")

    def cmpxchg(self, at: Operand, old: Operand, new: Operand) -> Operand:
        ty = old.type
        if new.type is not ty:
            raise self._refuse("cmpxchg", at, old, new)
        return self._value(struct(ty, I1), f"cmpxchg ptr {at}, {ty} {old}, {ty} {new} monotonic monotonic")

    def gep(self, at: Operand, index: Operand | int, item: Type = I8) -> Operand:
        """The address of an element; of one for each lane where either is a vector."""
        if type(index) is not Operand:
            index = Operand(str(index), I64)
        wide, ty = at.type, index.type
        if not wide.is_ptr or not ty.is_int or (wide.is_vector and ty.is_vector and wide.length != ty.length):
            raise self._refuse("getelementptr", at, index)
        to = wide if wide.is_vector else ty.with_item(PTR)
        return self._value(to, f"getelementptr {item.text}, {wide.text} {at.text}, {ty.text} {index.text}")

    # -- vectors -----------------------------------------------------------------------------------
    def extract(self, whole: Operand, i: int) -> Operand:
        ty = whole.type
        if not ty.is_vector or not 0 <= i < ty.length:
            raise self._refuse(f"extractelement {i}", whole)
        return self._value(ty.item, f"extractelement {ty.text} {whole.text}, i64 {i}")

    def insert(self, whole: Operand, one: Operand, i: int) -> Operand:
        ty = whole.type
        if not ty.is_vector or one.type is not ty.item or not 0 <= i < ty.length:
            raise self._refuse(f"insertelement {i}", whole, one)
        return self._value(ty, f"insertelement {ty.text} {whole.text}, {one.type.text} {one.text}, i64 {i}")

    def shuffle(self, a: Operand, picks: Sequence[int], b: Operand | None = None) -> Operand:
        """Lanes of *a*, and behind them those of *b*, by number."""
        ty = a.type
        if not ty.is_vector or (b is not None and b.type is not ty) or not 0 <= max(picks) < 2 * ty.length:
            raise self._refuse("shufflevector", a, *([b] if b is not None else []))
        head = f"shufflevector {ty.text} {a.text}, {ty.text} {'poison' if b is None else b.text}"
        mask = f"{vector(len(picks), I32).text} {lane_numbers(tuple(picks))}"
        return self._value(vector(len(picks), ty.item), f"{head}, {mask}")

    def splat(self, one: Operand, count: int) -> Operand:
        ty = vector(count, one.type)
        return self.shuffle(self.insert(poison(ty), one, 0), (0,) * count)

    def concat(self, parts: Sequence[Operand]) -> Operand:
        """Vectors of one type, a power of two of them, one behind the other."""
        parts = list(parts)
        while len(parts) > 1:
            both = range(2 * parts[0].type.length)
            parts = [self.shuffle(a, both, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def extractvalue(self, whole: Operand, i: int) -> Operand:
        if whole.type.kind != "struct":
            raise self._refuse("extractvalue", whole)
        return self._value(whole.type.items[i], f"extractvalue {whole.type.text} {whole.text}, {i}")

    def insertvalue(self, whole: Operand, one: Operand, i: int) -> Operand:
        if whole.type.kind != "struct" or whole.type.items[i] is not one.type:
            raise self._refuse("insertvalue", whole, one)
        return self._value(whole.type, f"insertvalue {whole.type.text} {whole.text}, {one.type.text} {one.text}, {i}")

    # -- calls -------------------------------------------------------------------------------------
    def call(self, name: str, to: Type, *args: Operand, how: str = "", kinds: Sequence[str] = ()) -> Operand:
        """A function of the module or one of LLVM's, which is declared here. *kinds*: attributes of the arguments."""
        if name not in self.declarations and name.startswith("llvm."):
            self.declarations[name] = f"declare {to.text} @{name}({', '.join([x.type.text for x in args])})"
        return self._call(f"@{name}", to, args, how, kinds)

    def call_pointer(self, at: Operand, to: Type, *args: Operand, how: str = "") -> Operand:
        if at.type is not PTR:
            raise self._refuse("call", at)
        return self._call(at.text, to, args, how, ())

    def _call(self, name: str, to: Type, args: Sequence[Operand], how: str, kinds: Sequence[str]) -> Operand:
        if kinds:
            given = ", ".join([f"{x.type.text} {kind}{x.text}" for x, kind in zip(args, kinds, strict=True)])
        else:
            given = ", ".join([f"{x.type.text} {x.text}" for x in args])
        text = f"call {how}{to.text} {name}({given})"
        if to is VOID:
            self.lines.append("  " + text)
            return Operand("", VOID)
        return self._value(to, text)

    def intrinsic(self, base: str, *args: Operand, to: Type | None = None, how: str = "") -> Operand:
        """One of LLVM's that is there for each type, named by what it gives: intrinsic("umin", a, b)."""
        ty = to or args[0].type
        return self.call(f"llvm.{base}.{ty.suffix}", ty, *args, how=how)

    # -- control flow ------------------------------------------------------------------------------
    def new_label(self, hint: str) -> str:
        self.names.count += 1
        return f"{hint}.{self.names.count}"

    def place(self, label: str) -> None:
        """Start a basic block of output."""
        self.lines.append(f"{label}:")

    def jump(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def cond_br(self, test: Operand, yes: str, no: str, *, likely: bool | None = None) -> None:
        if test.type is not I1:
            raise self._refuse("br", test)
        self.lines.append(f"  br i1 {test.text}, label %{yes}, label %{no}{_WEIGHTS[likely]}")

    def switch(self, value: Operand, default: str, cases: Mapping[int, str]) -> None:
        targets = " ".join(f"{value.type} {number}, label %{label}" for number, label in cases.items())
        self.lines.append(f"  switch {value.type} {value}, label %{default} [{targets}]")

    def phi(self, *edges: tuple[Operand, str]) -> Operand:
        """Values by the label they come from; `edge` adds one that is known later."""
        ty, known = edges[0][0].type, list(edges)
        name = self._value(ty, "phi ")
        self.edges[name] = known
        self.lines[-1] = lambda: [f"  {name} = phi {ty} " + ", ".join([f"[ {x}, %{label} ]" for x, label in known])]
        return name

    def edge(self, phi: Operand, value: Operand, label: str) -> None:
        if value.type is not phi.type:
            raise self._refuse("phi", phi, value)
        self.edges[phi].append((value, label))

    def fence(self) -> None:
        """LLVM moves no access across; the processor may."""
        self.lines.append('  fence syncscope("singlethread") seq_cst')

    def unreachable(self) -> None:
        self.lines.append("  unreachable")

    def ret(self, value: Operand | None = None) -> None:
        self.lines.append(f"  ret {value.type} {value}" if value is not None else "  ret void")


class _Named(Builder):
    def __init__(self, code: Builder, name: Operand) -> None:
        super().__init__(beside=code)
        self.lines, self.name = code.lines, name

    def _value(self, ty: Type, text: str) -> Operand:
        if ty is not self.name.type:
            raise self._refuse(f"{text} for", self.name)
        self.lines.append(f"  {self.name.text} = {text}")
        return self.name
