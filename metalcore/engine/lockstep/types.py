"""Types of the code that is written: scalars, vectors, arrays and structs, one object for each."""

from __future__ import annotations

from functools import cache

from metalcore.engine.ir import POINTER_BYTES
from metalcore.engine.ir import Type as ScalarType

_FLOATS = {"half": 16, "float": 32, "double": 64}
_SHORT = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


class LLType:
    """A type; its text is how LLVM spells it. There is one object for each type, so that `is` compares them."""

    __slots__ = (
        *("text", "kind", "bits", "bytes", "length", "item", "items", "suffix", "others"),
        *("is_int", "is_float", "is_ptr", "is_vector"),
    )
    text: str
    kind: str  # int, float, ptr, vector, array, struct, void, token
    bits: int  # of a scalar, or of one element
    bytes: int  # in memory
    length: int  # elements; 1 for a scalar
    item: LLType  # of vectors and arrays; a scalar is its own
    items: tuple[LLType, ...]  # of structs
    suffix: str  # its name in that of an intrinsic: v8f32
    others: dict[LLType, LLType]  # vectors of the same length
    is_int: bool  # integers and vectors of them, and so on
    is_float: bool
    is_ptr: bool
    is_vector: bool

    def __str__(self) -> str:
        return self.text

    def with_item(self, item: LLType) -> LLType:
        """As many of another scalar: a vector if this is one."""
        if not self.is_vector:
            return item
        found = self.others.get(item)
        if found is None:
            found = self.others[item] = vector(self.length, item)
        return found


_TYPES: dict[str, LLType] = {}
_VECTORS: dict[tuple[int, LLType], LLType] = {}


def _make(text: str, kind: str, bits: int, size: int) -> LLType:
    found = _TYPES.get(text)
    if found is None:
        found = _TYPES[text] = LLType()
        found.text, found.is_vector, found.suffix, found.others = text, kind == "vector", _SHORT.get(text, text), {}
        found.kind, found.bits, found.bytes, found.length, found.item, found.items = kind, bits, size, 1, found, ()
        found.is_int, found.is_float, found.is_ptr = kind == "int", kind == "float", kind == "ptr"
    return found


def integer(bits: int) -> LLType:
    return _make(f"i{bits}", "int", bits, (bits + 7) // 8)


def vector(count: int, item: LLType) -> LLType:
    found = _VECTORS.get((count, item))
    if found is None:
        found = _make(f"<{count} x {item}>", "vector", item.bits, (count * item.bits + 7) // 8)
        found.length, found.item, found.suffix = count, item, f"v{count}{item.suffix}"
        found.is_int, found.is_float, found.is_ptr = item.is_int, item.is_float, item.is_ptr
        _VECTORS[count, item] = found
    return found


def array(count: int, item: LLType) -> LLType:
    found = _make(f"[{count} x {item}]", "array", item.bits, count * item.bytes)
    found.length, found.item = count, item
    return found


def struct(*items: LLType) -> LLType:
    found = _make("{ " + ", ".join(item.text for item in items) + " }", "struct", 0, 0)  # never in memory
    found.items = items
    return found


VOID, TOKEN = _make("void", "void", 0, 0), _make("token", "token", 0, 0)
I1, I8, I16, I32, I64, I128 = (integer(bits) for bits in (1, 8, 16, 32, 64, 128))
HALF, FLOAT, DOUBLE = (_make(name, "float", bits, bits // 8) for name, bits in _FLOATS.items())
PTR = _make("ptr", "ptr", 8 * POINTER_BYTES, POINTER_BYTES)


def type_of(text: str) -> LLType:
    """A type by its spelling: of a scalar, vector or array."""
    if (found := _TYPES.get(text)) is not None:
        return found
    if text[0] in "<[":
        count, _, item = text[1:-1].partition(" x ")
        return (vector if text[0] == "<" else array)(int(count), type_of(item))
    if not text.startswith("i") or not text[1:].isdigit():
        raise TypeError(f"{text!r} is not the spelling of a scalar or of a vector")
    return integer(int(text[1:]))


def scalar_type(ty: ScalarType) -> LLType:
    """The type of a scalar program's value here: bfloat is kept as its 16 bits, there is no vector code for it."""
    found = _TYPES.get(ty.text)
    if found is not None:
        return found
    if ty.kind == "bfloat":
        return I16
    if ty.kind in ("struct", "array"):
        return struct(*(scalar_type(item) for item in (ty.items if ty.kind == "struct" else ty.items * ty.count)))
    return type_of(ty.text)


_CASTS: dict[str, tuple[str, str, int]] = {  # from, to, and whether bits get more (1) or less (-1)
    "zext": ("is_int", "is_int", 1),
    "sext": ("is_int", "is_int", 1),
    "trunc": ("is_int", "is_int", -1),
    "fpext": ("is_float", "is_float", 1),
    "fptrunc": ("is_float", "is_float", -1),
    "uitofp": ("is_int", "is_float", 0),
    "sitofp": ("is_int", "is_float", 0),
    "fptoui": ("is_float", "is_int", 0),
    "fptosi": ("is_float", "is_int", 0),
    "ptrtoint": ("is_ptr", "is_int", 0),
    "inttoptr": ("is_int", "is_ptr", 0),
}


@cache
def is_cast(op: str, ty: LLType, to: LLType) -> bool:
    """Whether LLVM converts so."""
    source, target, more = _CASTS[op]
    if not getattr(ty, source) or not getattr(to, target) or ty.length != to.length or ty.is_vector != to.is_vector:
        return False
    return not more or (to.bits - ty.bits) * more > 0
