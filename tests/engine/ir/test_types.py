"""Types: one object for each, laid out as LLVM does on x86-64."""

from __future__ import annotations

import pytest

from metalcore.engine.ir import BFLOAT, FLOAT, HALF, I1, I8, I16, I32, I64, I128, PTR, VOID
from metalcore.engine.ir.types import Type, array, integer, named, opaque, struct, vector


@pytest.mark.parametrize(
    ("ty", "text", "size", "align", "touched"),
    [
        (I1, "i1", 1, 1, 1),
        (integer(40), "i40", 8, 8, 5),
        (I128, "i128", 16, 16, 16),
        (BFLOAT, "bfloat", 2, 2, 2),
        (PTR, "ptr", 8, 8, 8),
        (VOID, "void", 0, 1, 0),
        (vector(3, FLOAT), "<3 x float>", 16, 16, 16),
        (vector(8, I1), "<8 x i1>", 1, 1, 1),
        (array(3, I16), "[3 x i16]", 6, 2, 6),
        (struct(I8, I64, I8), "{ i8, i64, i8 }", 24, 8, 24),
        (struct(I8, I64, packed=True), "<{ i8, i64 }>", 9, 1, 9),
        (struct(), "{}", 0, 1, 0),
        (opaque("%T"), "%T", 0, 1, 0),
    ],
)
def test_layout(ty: Type, text: str, size: int, align: int, touched: int) -> None:
    assert (str(ty), ty.size, ty.align, ty.touched) == (text, size, align, touched)


def test_one_object_for_each_spelling() -> None:
    assert integer(32) is I32 and vector(4, HALF) is vector(4, HALF) and array(2, I8) is array(2, I8)
    plain = struct(I32, FLOAT)
    known = named(plain, "%Pair")
    assert known is named(plain, "%Pair") and known is not plain
    assert (known.text, known.spelled, known.items) == ("{ i32, float }", "%Pair", (I32, FLOAT))
    assert (array(2, known).text, array(2, known).spelled) == ("[2 x { i32, float }]", "[2 x %Pair]")


def test_elements() -> None:
    lanes = vector(8, BFLOAT)
    assert (lanes.item, lanes.length, lanes.bits, lanes.all_bits, lanes.suffix) == (BFLOAT, 8, 16, 128, "v8bf16")
    assert lanes.is_vector and lanes.is_float and not lanes.is_int and not array(8, FLOAT).is_float
    assert struct(I8, I64, I8).offset(2) == 16 and struct(I8, I64).inner(1) is I64 and array(4, I16).inner(3) is I16
    assert FLOAT.with_item(I32) is I32 and lanes.with_item(I32) is vector(8, I32) and FLOAT.item is FLOAT
