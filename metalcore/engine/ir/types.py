"""Types of LLVM IR, scalar and vector: sizes, alignments, members. There is one object for each."""

from __future__ import annotations

POINTER_BYTES = 8
_SHORT = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}
_FLOATS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


class Type:
    """A type; `text` spells it with its structs written out. There is one object for each spelling, so that `is`
    compares them; under a name that a module gives to a struct it is another, with the same text."""

    __slots__ = (
        *("align", "bits", "is_aggregate", "is_float", "is_int", "is_ptr", "is_vector", "item", "items", "kind"),
        *("length", "others", "packed", "size", "spelled", "suffix", "text"),
    )
    align: int
    size: int  # bytes from one element to the next in an array of this type
    suffix: str  # in the name of an intrinsic: v8f32

    def __init__(
        self, text: str, kind: str, bits: int, items: tuple[Type, ...], length: int, packed: bool, spelled: str
    ) -> None:
        self.text = text
        self.spelled = spelled  # as the module that it belongs to writes it, with the names that it gives to structs
        self.kind = kind  # int, half, bfloat, float, double, ptr, void, array, struct, vector, or a word of LLVM's
        self.bits = bits  # of a scalar, or of one element
        self.items = items  # members of a struct; the one type of an array's or a vector's elements
        self.length = length  # elements of an array or a vector, else 1
        self.packed = packed
        self.is_aggregate, self.is_vector = kind in ("array", "struct"), kind == "vector"
        self.item = items[0] if self.is_vector or kind == "array" else self  # a scalar is its own
        scalar = self.item.kind if self.is_vector else kind
        self.is_int, self.is_float, self.is_ptr = scalar == "int", scalar in _FLOATS, scalar == "ptr"
        short = _SHORT.get(text, text)
        self.suffix = f"v{length}{self.item.suffix}" if self.is_vector else short
        self.others: dict[Type, Type] = {}  # vectors of the same length
        self.align, self.size = self._laid_out()

    def _laid_out(self) -> tuple[int, int]:
        """Alignment and size."""
        if self.kind == "array":
            return self.item.align, self.item.size * self.length
        if self.kind == "struct":
            align = 1 if self.packed else max((t.align for t in self.items), default=1)
            return align, _round_up(self.offset(len(self.items)), align)
        raw = (self.bits * self.length + 7) // 8
        power = 1 << (raw - 1).bit_length() if raw else 0
        align = power if self.is_vector else min(16, power) or 1
        return align, _round_up(raw, align) if raw else 0

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.spelled}>"

    @property
    def all_bits(self) -> int:
        """Of a scalar, or of all elements."""
        return self.bits * self.length

    @property
    def touched(self) -> int:
        """Bytes that a load or store reaches: a struct of five bools travels as an i40, which takes 8 in an array."""
        return (self.bits + 7) // 8 if self.kind == "int" else self.size

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

    def with_item(self, item: Type) -> Type:
        """As many of another scalar: a vector if this is one."""
        if not self.is_vector:
            return item
        found = self.others.get(item)
        if found is None:
            found = self.others[item] = vector(self.length, item)
        return found


def _round_up(n: int, to: int) -> int:
    return (n + to - 1) // to * to


_TYPES: dict[tuple[str, str], Type] = {}
_VECTORS: dict[tuple[int, Type], Type] = {}
_INTEGERS: dict[int, Type] = {}


def _type(
    text: str,
    kind: str,
    bits: int = 0,
    items: tuple[Type, ...] = (),
    length: int = 1,
    packed: bool = False,
    spelled: str = "",
) -> Type:
    key = text, spelled or text
    found = _TYPES.get(key)
    if found is None:
        found = _TYPES[key] = Type(text, kind, bits, items, length, packed, spelled or text)
    return found


def integer(bits: int) -> Type:
    found = _INTEGERS.get(bits)
    if found is None:
        found = _INTEGERS[bits] = _type(f"i{bits}", "int", bits)
    return found


def array(length: int, item: Type) -> Type:
    return _type(
        f"[{length} x {item.text}]", "array", item.bits, (item,), length, spelled=f"[{length} x {item.spelled}]"
    )


def vector(length: int, item: Type) -> Type:
    found = _VECTORS.get((length, item))
    if found is None:
        found = _VECTORS[length, item] = _type(f"<{length} x {item.text}>", "vector", item.bits, (item,), length)
    return found


def struct(*items: Type, packed: bool = False) -> Type:
    text, spelled = _members([t.text for t in items], packed), _members([t.spelled for t in items], packed)
    return _type(text, "struct", 0, items, packed=packed, spelled=spelled)


def opaque(name: str) -> Type:
    """A struct that a module names and does not define."""
    return _type(name, "struct")


def named(ty: Type, name: str) -> Type:
    """A type under the name that a module gives it."""
    return _type(ty.text, ty.kind, ty.bits, ty.items, ty.length, ty.packed, name)


def _members(items: list[str], packed: bool) -> str:
    body = "{ " + ", ".join(items) + " }" if items else "{}"
    return f"<{body}>" if packed else body


VOID, TOKEN = _type("void", "void"), _type("token", "token")
PTR = _type("ptr", "ptr", 8 * POINTER_BYTES)
HALF, BFLOAT, FLOAT, DOUBLE = (_type(name, name, bits) for name, bits in _FLOATS.items())
I1, I8, I16, I32, I64, I128 = (integer(bits) for bits in (1, 8, 16, 32, 64, 128))
SCALARS = {ty.text: ty for ty in (VOID, TOKEN, PTR, HALF, BFLOAT, FLOAT, DOUBLE)}
# Of no use to a kernel, but a module may name them.
SCALARS |= {name: _type(name, name) for name in ("label", "metadata", "fp128", "x86_fp80", "ppc_fp128")}
