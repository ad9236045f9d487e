"""Types of the code that is written: what a scalar program's values are kept as, and which casts there are."""

from __future__ import annotations

from functools import cache

from metalcore.engine.ir import I16, PTR, Type, struct

_KEPT: dict[Type, Type] = {}


def scalar_type(ty: Type) -> Type:
    """The type of a scalar program's value here: bfloat is kept as its 16 bits, there is no vector code for it."""
    found = _KEPT.get(ty)
    if found is None:
        found = _KEPT[ty] = _scalar_type(ty)
    return found


def _scalar_type(ty: Type) -> Type:
    if ty.kind == "ptr":
        return PTR  # in whatever address space
    if ty.kind == "bfloat":
        return I16
    if ty.is_aggregate:
        return struct(*(scalar_type(item) for item in (ty.items if ty.kind == "struct" else ty.items * ty.length)))
    if ty.item.kind == "bfloat":
        raise TypeError(f"{ty.text} is no type of a value here")
    return ty


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
def is_cast(op: str, ty: Type, to: Type) -> bool:
    """Whether LLVM converts so."""
    source, target, more = _CASTS[op]
    if not getattr(ty, source) or not getattr(to, target) or ty.length != to.length or ty.is_vector != to.is_vector:
        return False
    return not more or (to.bits - ty.bits) * more > 0
