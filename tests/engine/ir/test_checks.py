"""What the checks of sanitize mode put around an instruction."""

from __future__ import annotations

import pytest

from metalcore.engine.checks import arithmetic, private
from metalcore.engine.checks.program import Program, hook
from metalcore.engine.ir import I1, make, parse, print_module
from metalcore.engine.model import Place, ScalarKernel
from metalcore.engine.optimiser import llvm


def program_of(body: str, places: list[Place]) -> Program:
    module = parse(f"define void @__mc_entry() {{\nentry:\n{body}\n  ret void\n}}\ndeclare i32 @g()\n")
    return Program(module, ScalarKernel("k", "", (), None, "safe"), places, module)


def body_of(program: Program) -> list[str]:
    text = print_module(program.finish())
    with llvm.LOCK:
        llvm.parse(text)
    return [line.strip() for line in text[text.index("entry:\n") : text.index("\n}")].split("\n")[1:]]


def test_a_division_is_tested_in_front_of_it() -> None:
    places: list[Place] = []
    program = program_of("  %a = call i32 @g()\n  %d = udiv i32 7, %a\n  %s = shl i64 1, 2", places)
    arithmetic.add(program)
    assert body_of(program) == [
        "%a = call i32 @g()",
        "%mc0.1 = icmp eq i32 %a, 0",
        "call void @__mc_report_if(i1 %mc0.1, i32 0)",
        "%d = udiv i32 7, %a",
        "%mc0.2 = icmp uge i64 2, 64",
        "call void @__mc_report_if(i1 %mc0.2, i32 1)",
        "%s = shl i64 1, 2",
        "ret void",
    ]
    assert [place.check for place in places] == ["division-by-zero", "shift-past-width"]


def test_the_offset_in_a_private_array_is_computed_beside_its_pointer() -> None:
    places: list[Place] = []
    program = program_of(
        """  %x.i.i4 = alloca [4 x i32], align 4
  %a = call i32 @g()
  %e = getelementptr [4 x i32], ptr %x.i.i4, i64 0, i32 %a
  %f = getelementptr i8, ptr %e, i64 4
  store i32 1, ptr %f, align 4""",
        places,
    )
    private.add(program)
    assert body_of(program)[2:-1] == [
        "%e = getelementptr [4 x i32], ptr %x.i.i4, i64 0, i32 %a",
        "%mc0.1 = sext i32 %a to i64",
        "%mc0.2 = mul i64 %mc0.1, 4",
        "%f = getelementptr i8, ptr %e, i64 4",
        "%mc0.3 = add i64 %mc0.2, 4",
        "%mc0.4 = icmp ugt i64 %mc0.3, 12",
        "call void @__mc_report_if(i1 %mc0.4, i32 0)",
        "store i32 1, ptr %f, align 4",
    ]
    assert places[0].detail == "a write of the private variable 'x', which has 4 elements"


def test_hooks_have_types() -> None:
    with pytest.raises(TypeError, match="__mc_report_if of i1"):
        hook("__mc_report_if", make.number(I1, 1))
