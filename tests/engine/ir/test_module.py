"""What the front end asks of a module and changes in it: metadata, initialisers, uses of names, copies of functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from metalcore.engine.ir import (
    Aggregate,
    Const,
    DebugLines,
    Global,
    Module,
    bytes_of,
    copy_of,
    initial_value,
    parse,
    print_module,
    rename_function,
)
from metalcore.engine.optimiser import llvm

ENGINE = Path(__file__).parents[3] / "metalcore" / "engine"

RING = """
@table = internal constant [2 x i8] c"\\01\\00"
@counter = internal global i32 0

define linkonce_odr dso_local noundef i32 @f(i32 %x, ptr align 4 dereferenceable(4) %p) #0 comdat !dbg !4 {
entry:
  %length = alloca i32, i64 4, align 4
  %more = load i8, ptr @table, align 1, !noundef !3, !dbg !5
  switch i32 %x, label %again [
    i32 0, label %end
  ], !dbg !5

again:
  %less = sub i32 %x, 1, !dbg !6
  %rest = call i32 @f(i32 %less, ptr align 4 dereferenceable(4) %p) #0, !dbg !6
  store i32 %rest, ptr @counter, align 4, !dbg !6
  store ptr @f, ptr %length, align 8
  br label %end

end:
  %result = phi i32 [ 0, %entry ], [ %rest, %again ]
  ret i32 %result, !dbg !5
}

attributes #0 = { nounwind }

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!7}

!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "gr\\C3\\BC\\C3\\9Fe.metal", directory: "")
!2 = !DISubroutineType(types: !3)
!3 = !{}
!4 = distinct !DISubprogram(name: "f", linkageName: "_Z1f", scope: !1, file: !1, line: 2, type: !2, unit: !0)
!5 = !DILocation(line: 7, column: 2, scope: !4)
!6 = distinct !DILocation(line: 8, column: 3, scope: !4, isImplicitCode: true)
!7 = !{i32 2, !"Debug Info Version", i32 3}
!8 = distinct !{!8, !9}
!9 = !{!"llvm.loop.unroll.count", i32 4}
"""


def verified(module: Module) -> str:
    """A module's text, after LLVM has found it right."""
    text = print_module(module)
    with llvm.LOCK:
        llvm.parse("$f = comdat any\n" + text if " comdat" in text else text)
    return text


def test_columns_of_debug_locations() -> None:
    module = parse(RING, "f")
    assert list(module.notes.locations()) == [5, 6]
    module.notes.set_column(6, 30)
    (place,) = DebugLines(module.metadata).frames(6)
    assert (place.file, place.line, place.column) == ("grüße.metal", 8, 30)
    lines = verified(module).split("\n")
    assert "!6 = distinct !DILocation(line: 8, column: 30, scope: !4, isImplicitCode: true)" in lines
    assert [line for line in RING.split("\n") if line.startswith("!") and line not in lines] == [
        "!6 = distinct !DILocation(line: 8, column: 3, scope: !4, isImplicitCode: true)"
    ]


def test_a_scope_names_its_function() -> None:
    module = parse(RING, "f")
    scope = DebugLines(module.metadata).scope(module.function.debug)
    assert scope is not None and (scope.name, scope.file, scope.line) == ("f", "grüße.metal", 2)
    assert DebugLines(module.metadata).scope(5) is None


def test_words_of_pragmas_are_renamed() -> None:
    module = parse(RING, "f")
    assert module.notes.mentions('!"llvm.loop.unroll.count"')
    module.notes.rename({"llvm.loop.unroll.count": "other", "Debug Info": "wrong", "f": "wrong"})
    assert module.metadata[9] == '!{!"other", i32 4}'
    assert "wrong" not in verified(module)


def test_nothing_may_stand_behind_the_metadata() -> None:
    with pytest.raises(ValueError, match="in front of the metadata"):
        parse(RING + "declare void @late()\n")


def test_initialisers_are_values() -> None:
    module = parse(
        '%"struct.a b" = type { i32, ptr, [2 x i8] }\n'
        '@text = constant [4 x i8] c"a\\22\\C3\\00"\n'
        '@rows = constant [2 x %"struct.a b"] [%"struct.a b" { i32 -7, ptr @text, [2 x i8] [i8 1, i8 -1] },'
        ' %"struct.a b" zeroinitializer]\n'
        "@packed = constant <{ i8, <2 x i32> }> <{ i8 3, <2 x i32> <i32 4, i32 5> }>, align 1\n"
        "@where = constant ptr getelementptr (i8, ptr @text, i64 2)\n"
        "@elsewhere = external constant i32\n"
    )
    rows = initial_value(module, module.globals["@rows"])
    assert isinstance(rows, Aggregate) and len(rows.items) == 2
    first, second = rows.items
    assert isinstance(first, Aggregate) and first.type.spelled == '%"struct.a b"'
    number, text, flags = first.items
    assert isinstance(number, Const) and number.value == -7
    assert isinstance(text, Global) and bytes_of(initial_value(module, text)) == b'a"\xc3\0'
    assert bytes_of(flags) == b"\x01\xff"
    assert not isinstance(second, Aggregate)
    packed = initial_value(module, module.globals["@packed"])
    assert isinstance(packed, Aggregate) and packed.text == "< { i8 3 , < 2 x i32 > < i32 4 , i32 5 > } >"
    assert isinstance(packed.items[1], Aggregate) and [item.value for item in packed.items[1].items] == [4, 5]  # type: ignore[union-attr]
    where = initial_value(module, module.globals["@where"])
    assert where is not None and where.args[0] is module.globals["@text"]  # type: ignore[union-attr]
    assert initial_value(module, module.globals["@elsewhere"]) is None
    assert module.globals["@elsewhere"].is_external and not module.globals["@where"].is_external


def test_uses_of_a_name() -> None:
    function = parse(RING, "f").function
    assert list(function.naming("other")) == [] and not function.is_read
    assert list(function.naming("coun")) == []
    (store,) = function.naming("counter")
    assert store.op == "store" and store.line == 6
    call, address = function.naming("f")
    assert call.callee == "f" and address.op == "store"
    call.changed()
    address.changed()
    assert list(function.naming("f")) == [call, address]
    assert function.operands_of("alloca") == ["i32, i64 4, align 4"]


def test_assembly_has_a_place() -> None:
    text = 'define void @f() {\n  call void asm sideeffect "nop", "~{memory}"(), !dbg !5\n  ret void\n}\n'
    call, _ = parse(text, "f").function.instructions()
    assert "unknown" in call.extra and call.line == 5


def test_promises_are_taken_away() -> None:
    for state in ("as it was read", "read", "changed"):
        module = parse(RING, "f")
        for instr in list(module.function.instructions()) if state != "as it was read" else ():
            assert isinstance(instr.args, list)
            if state == "changed":
                instr.changed()
        check_promises(module)


def check_promises(module: Module) -> None:
    module.function.without_attribute("dereferenceable")
    module.function.without_attached("!noundef")
    text = verified(module)
    assert "dereferenceable" not in text and "!noundef" not in text
    assert "call i32 @f(i32 %less, ptr align 4 %p) #0, !dbg !6" in text
    load = next(instr for instr in module.function.instructions() if instr.op == "load")
    assert load.line == 5 and not load.extra.get("attached")


def test_a_copy_under_another_name() -> None:
    module = parse(RING, "f")
    copy = copy_of(module, module.function, "f.level1")
    module.functions[copy.name] = copy
    for instr in list(copy.naming("f")):
        rename_function(instr, "f", "a name")
    module.functions["a name"] = copy_of(module, module.function, "a name")
    text = verified(module)
    assert text.count("define ") == 3 and text.count("!dbg !6") == RING.count("!dbg !6")
    body = text[text.index("@f.level1(") :].partition("\n}")[0]
    assert "internal noundef i32 @f.level1(i32 %x" in text and "comdat" not in body and "!dbg" not in body
    assert 'call i32 @"a name"(i32 %less' in body and 'store ptr @"a name", ptr %length' in body
    assert "@f(" in text[text.index('@"a name"(i32 %x') :]  # the second copy calls what the first function does
    assert [block.name for block in copy.blocks] == ["entry", "again", "end"]
    assert copy.blocks[1] is not module.function.blocks[1]


# What begins or marks lines of LLVM IR, in a pattern that would look for one.
MARKS = ("^define", "define internal", "^declare", "!dbg", "!DI", "DISubprogram", "^@", "= alloca", "= load", "ret ptr")


def engine_modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ENGINE.rglob("*.py")):
        yield str(path.relative_to(ENGINE)), ast.parse(path.read_text())


def imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_only_the_lexer_looks_at_characters_of_ir() -> None:
    """Regular expressions read source text, clang's messages and names. Who handles IR has objects."""
    found = []
    for name, tree in engine_modules():
        names = imported(tree)
        is_ir = any(each.startswith("metalcore.engine.ir") for each in names) or name.startswith("ir/")
        if "re" in names and is_ir and name != "ir/tokens.py":
            found.append(f"{name} handles IR and imports re")
        for node in ast.walk(tree):
            if "re" in names and isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_ir:
                found += [f"{name}:{node.lineno} has a pattern of IR" for mark in MARKS if mark in node.value]
            if is_ir and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = getattr(node.func.value, "id", "")
                if node.func.attr == "replace" and owner not in ("dataclasses", "os"):
                    found.append(f"{name}:{node.lineno} replaces text")
    assert found == []
