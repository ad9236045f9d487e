"""Types of LLVM IR: sizes, alignments, members."""

from __future__ import annotations

from dataclasses import dataclass, field

POINTER_BYTES = 8


@dataclass(frozen=True)
class Type:
    """A type; `text` spells it with its structs written out. Scalars have `bits`, aggregates have `items`."""

    text: str
    kind: str  # int, half, bfloat, float, double, ptr, void, array, struct, vector, or another word of LLVM's
    bits: int = 0
    items: tuple[Type, ...] = ()
    count: int = 0
    packed: bool = False
    alias: str = field(default="", compare=False)

    @property
    def spelled(self) -> str:
        """As the module that it belongs to writes it, with the names that it gives to structs."""
        return self.alias or self.text

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

    def inner(self, index: int) -> Type:
        """The type of member or element `index`."""
        return self.items[index] if self.kind == "struct" else self.items[0]


def _round_up(n: int, to: int) -> int:
    return (n + to - 1) // to * to


VOID = Type("void", "void")
PTR = Type("ptr", "ptr", 64)
HALF = Type("half", "half", 16)
BFLOAT = Type("bfloat", "bfloat", 16)
FLOAT = Type("float", "float", 32)
DOUBLE = Type("double", "double", 64)
SCALARS = {ty.text: ty for ty in (VOID, PTR, HALF, BFLOAT, FLOAT, DOUBLE)}
# Of no use to a kernel, but a module may name them.
SCALARS |= {name: Type(name, name) for name in ("label", "metadata", "token", "fp128", "x86_fp80", "ppc_fp128")}
_INTS: dict[int, Type] = {}


def int_type(bits: int) -> Type:
    found = _INTS.get(bits)
    if found is None:
        found = _INTS[bits] = Type(f"i{bits}", "int", bits)
    return found


I1, I8, I16, I32, I64 = (int_type(b) for b in (1, 8, 16, 32, 64))


def array_of(count: int, item: Type) -> Type:
    return _alias(Type(f"[{count} x {item.text}]", "array", 0, (item,), count), f"[{count} x {item.spelled}]")


def vector_of(count: int, item: Type) -> Type:
    text = f"<{count} x {item.text}>"
    return Type(text, "vector", item.bits * count, (item,), count)


def struct_of(items: tuple[Type, ...], packed: bool = False) -> Type:
    text, alias = (_members([t.text for t in items], packed), _members([t.spelled for t in items], packed))
    return _alias(Type(text, "struct", 0, items, len(items), packed), alias)


def named(ty: Type, name: str) -> Type:
    """A struct under the name that a module gives it."""
    return Type(ty.text, ty.kind, ty.bits, ty.items, ty.count, ty.packed, name)


def _alias(ty: Type, alias: str) -> Type:
    return ty if alias == ty.text else named(ty, alias)


def _members(items: list[str], packed: bool) -> str:
    body = "{ " + ", ".join(items) + " }" if items else "{}"
    return f"<{body}>" if packed else body
