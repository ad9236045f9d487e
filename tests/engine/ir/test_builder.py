"""Instructions that are made: their operands' types are tested, and they stand where they were put."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from metalcore.engine.ir import FLOAT, I1, I8, I32, I64, PTR, Const, Edits, Instr, Names, make, parse, print_module

ONE, WIDE, REAL, NULL = make.number(I32, 1), make.number(I64, 1), Const(FLOAT, "1.0"), Const(PTR, "null")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: make.binary("add", ONE, WIDE), "add of i32 and i64"),
        (lambda: make.binary("fadd", ONE, ONE), "fadd of i32 and i32"),
        (lambda: make.binary("add", REAL, REAL), "add of float and float"),
        (lambda: make.compare("eq", ONE, NULL), "icmp eq of i32 and ptr"),
        (lambda: make.select(ONE, ONE, ONE), "select by i32"),
        (lambda: make.cast("sext", WIDE, I32), "sext of i64 to i32"),
        (lambda: make.cast("zext", REAL, I64), "zext of float to i64"),
        (lambda: make.cast("bitcast", REAL, I64), "bitcast of float to i64"),
        (lambda: make.cast("ptrtoint", ONE, I64), "ptrtoint of i32 to i64"),
        (lambda: make.load(I32, ONE, 4), "load through i32"),
        (lambda: make.store(ONE, WIDE, 4), "store through i64"),
        (lambda: make.address(I8, NULL, [REAL]), "an index of type float"),
        (lambda: make.address(I8, NULL, [WIDE, WIDE]), "i8 has no such member"),
        (
            lambda: make.phi(I1, [(ONE, parse("define void @f() {\n  ret void\n}\n", "f").function.blocks[0])]),
            "phi of i1",
        ),
        (lambda: make.number(FLOAT, 1), "1 as float"),
    ],
)
def test_wrong_types_are_refused(build: Callable[[], Instr], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        build()


def test_edits_stand_where_they_were_put() -> None:
    module = parse(
        "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1, !dbg !7\n  call void @g()\n  ret i32 %y\n}\n"
        "declare void @g()\n",
        "f",
    )
    y, call, leave = module.function.instructions()
    edits = Edits(module.function, Names("%n"))
    doubled = edits.after(y)(make.binary("mul", y, y))
    edits.before(leave)(make.compare("eq", doubled, y))
    edits.remove(call)
    assert len(list(module.function.instructions())) == 3  # not yet
    edits.apply()
    leave.set_arg(0, doubled)
    assert print_module(module).split("}")[0].split("\n")[1:-1] == [
        "  %y = add i32 %x, 1, !dbg !7",
        "  %n1 = mul i32 %y, %y, !dbg !7",
        "  %n2 = icmp eq i32 %n1, %y",
        "  ret i32 %n1",
    ]


def test_an_instruction_becomes_another_under_its_name() -> None:
    module = parse("define i32 @f(i32 %x) {\n  %y = sdiv exact i32 %x, 0, !dbg !3\n  ret i32 %y\n}\n", "f")
    y, leave = module.function.instructions()
    y.become(make.binary("or", y.args[0], make.number(I32, 0)))
    assert leave.args == [y]
    assert "  %y = or i32 %x, 0, !dbg !3\n  ret i32 %y\n" in print_module(module)
