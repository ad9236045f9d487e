"""Variables that need no memory."""

from __future__ import annotations

import textwrap

import pytest

from metalcore.engine.ir.registers import without_variables


def changed(body: str) -> list[str]:
    return [line.strip() for line in without_variables(textwrap.dedent(body).lstrip("\n")).splitlines() if line]


def test_a_chain_of_parameters() -> None:
    assert changed("""
    entry:
      %x.addr = alloca float, align 4
      %y = alloca float, align 4
      store float %x, ptr %x.addr, align 4
      call void @llvm.lifetime.start.p0(ptr %y) #7
      %0 = load float, ptr %x.addr, align 4, !dbg !4
      store float %0, ptr %y, align 4
      br label %next

    next:                                             ; preds = %entry
      %1 = load float, ptr %y, align 4
      call void @llvm.lifetime.end.p0(ptr %y) #7
      ret float %1
    """) == [
        "entry:",
        "br label %next",
        "next:                                             ; preds = %entry",
        "ret float %x",
    ]


def test_stores_of_one_block() -> None:
    assert changed("""
    entry:
      %x = alloca i32, align 4
      br label %loop

    loop:
      store i32 1, ptr %x, align 4
      %0 = load i32, ptr %x, align 4
      %1 = add i32 %0, %n
      store i32 %1, ptr %x, align 4
      %2 = load i32, ptr %x, align 4
      call void @use(i32 %2)
      br label %loop
    """)[1:] == ["br label %loop", "loop:", "%1 = add i32 1, %n", "call void @use(i32 %1)", "br label %loop"]


@pytest.mark.parametrize(
    "use",
    (
        "%1 = load i32, ptr %x, align 4\n  store i32 1, ptr %x, align 4",  # read before it is written
        "store i32 1, ptr %x, align 4\n  %1 = load float, ptr %x, align 4",
        "store i32 1, ptr %x, align 4\n  %1 = load volatile i32, ptr %x, align 4",
        "store i32 1, ptr %x, align 4\n  call void @use(ptr %x)",
        "store i32 1, ptr %x, align 4\n  %1 = getelementptr i32, ptr %x, i64 1\n  %2 = load i32, ptr %1, align 4",
        "store i32 1, ptr %x, align 4\n  store ptr %x, ptr %p, align 8",
        "store i32 1, ptr %x, align 4\n  br label %a\n\na:\n  store i32 2, ptr %x, align 4\n  br label %b\n\n"
        "b:\n  %1 = load i32, ptr %x, align 4",
        "br label %a\n\na:\n  store i32 2, ptr %x, align 4\n  br label %b\n\nb:\n  %1 = load i32, ptr %x, align 4",
    ),
)
def test_what_needs_memory(use: str) -> None:
    body = f"entry:\n  %x = alloca i32, align 4\n  {use}\n  ret void\n"
    assert without_variables(body) == body


def test_a_value_of_the_name_of_a_struct() -> None:
    body = "entry:\n  %x = alloca i32, align 4\n  store i32 1, ptr %x, align 4\n  %0 = load i32, ptr %x, align 4\n"
    assert without_variables(body, ["%0"]) == body
    assert without_variables(body, ["%1"]) == "entry:\n"
