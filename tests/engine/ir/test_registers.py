"""Variables that need no memory."""

from __future__ import annotations

import textwrap

import pytest

from metalcore.engine.ir import parse
from metalcore.engine.ir.printer import body_text
from metalcore.engine.ir.registers import without_variables

HEADER = "define void @f(float %x, i32 %n, ptr %p) {\n"


def after(body: str, types: str = "") -> str:
    module = parse(f"{types}{HEADER}{body}}}\n", "f")
    without_variables(module.function)
    return body_text(module.function)


def changed(body: str) -> list[str]:
    return [line.strip() for line in after(textwrap.dedent(body).lstrip("\n")).splitlines() if line]


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
        "next:",
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
    assert after(body) == body


def test_a_value_of_the_name_of_a_struct() -> None:
    read = "  %0 = load i32, ptr %x, align 4\n  %q = getelementptr %0, ptr %p, i32 %0, i32 1\n  ret void\n"
    body = f"entry:\n  %x = alloca i32, align 4\n  store i32 %n, ptr %x, align 4\n{read}"
    assert after(body, "%0 = type { i32, i32 }\n") == (
        "entry:\n  %q = getelementptr %0, ptr %p, i32 %n, i32 1\n  ret void\n"
    )


def test_a_function_that_is_called_by_its_address() -> None:
    body = "entry:\n  %x = alloca ptr, align 8\n  store ptr %p, ptr %x, align 8\n  %0 = load ptr, ptr %x, align 8\n"
    assert "call void %p(ptr %p)" in after(f"{body}  call void %0(ptr %0)\n  ret void\n")


def test_operands_that_nobody_reads() -> None:
    body = "entry:\n  %x = alloca i32, align 4\n  store i32 %n, ptr %x, align 4\n  %0 = load i32, ptr %x, align 4\n"
    call = '  call void asm sideeffect "nop", "r"(i32 {})\n  ret void\n'
    assert after(body + call.format("%0")) == "entry:\n" + call.format("%n")
