"""Each pass over unoptimised IR on a few lines, with exactly what it makes of them."""

from __future__ import annotations

import pytest

from metalcore.engine.codegen import facts
from metalcore.engine.ir import Global, Module, flat, flattened, is_alike, parse, print_module
from metalcore.engine.ir.types import I32, array
from metalcore.engine.optimiser import llvm
from metalcore.engine.optimiser.defined import with_values, without_promises
from metalcore.engine.optimiser.own_arrays import guard
from metalcore.engine.optimiser.settled_arrays import settle
from metalcore.errors import UnsupportedFeature


def module_of(body: str, head: str = "i32 @f(i32 %a, i32 %b, float %x, ptr %p)", rest: str = "") -> Module:
    return parse(f"define {head} {{\n{body}\n}}\n{rest}", "f")


def body_of(module: Module) -> list[str]:
    """The lines of a module's one function, after LLVM has found it right."""
    text = print_module(module)
    with llvm.LOCK:
        llvm.parse(text)
    lines = text[text.index("{\n") : text.index("\n}")].split("\n")
    return [line.strip() for line in lines[1:]]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("udiv i32 %a, 7", ["%r = udiv i32 %a, 7"]),
        ("sdiv i32 %a, 0", ["%r = or i32 0, 0"]),
        ("srem i32 %a, 0", ["%r = or i32 %a, 0"]),
        ("sdiv i32 %a, -1", ["%r = sub i32 0, %a"]),
        ("srem i32 %a, -1", ["%r = or i32 0, 0"]),
        (
            "urem i32 %a, %b",
            [
                "%mc.def1 = icmp eq i32 %b, 0",
                "%mc.def2 = select i1 %mc.def1, i32 1, i32 %b",
                "%mc.def3 = urem i32 %a, %mc.def2",
                "%r = select i1 %mc.def1, i32 %a, i32 %mc.def3",
            ],
        ),
        (
            "sdiv i32 %a, %b",
            [
                "%mc.def1 = add i32 %b, 1",
                "%mc.def2 = icmp ult i32 %mc.def1, 2",
                "%mc.def3 = select i1 %mc.def2, i32 1, i32 %b",
                "%mc.def4 = sdiv i32 %a, %mc.def3",
                "%mc.def5 = mul i32 %a, %b",
                "%r = select i1 %mc.def2, i32 %mc.def5, i32 %mc.def4",
            ],
        ),
        ("shl nuw i32 %a, 31", ["%r = shl nuw i32 %a, 31"]),
        ("shl nuw i32 %a, 33", ["%r = shl i32 %a, 1"]),
        ("ashr exact i32 %a, %b", ["%mc.def1 = and i32 %b, 31", "%r = ashr i32 %a, %mc.def1"]),
        ("fptoui float %x to i32", ["%r = call i32 @llvm.fptoui.sat.i32.f32(float %x)"]),
        (
            "fptoui float %x to i8",
            ["%mc.def1 = call i32 @llvm.fptosi.sat.i32.f32(float %x)", "%r = trunc i32 %mc.def1 to i8"],
        ),
        ("call i32 @llvm.ctlz.i32(i32 %a, i1 true)", ["%r = call i32 @llvm.ctlz.i32(i32 %a, i1 false)"]),
        (
            "getelementptr inbounds nuw [4 x i32], ptr %p, i64 0, i64 1",
            ["%r = getelementptr inbounds [4 x i32], ptr %p, i64 0, i64 1"],
        ),
    ],
)
def test_values_for_what_is_undefined(line: str, expected: list[str]) -> None:
    module = module_of(f"  %r = {line}\n  ret i32 0", rest="declare i32 @llvm.ctlz.i32(i32, i1)\n")
    with_values(module)
    assert body_of(module) == [*expected, "ret i32 0"]


def test_no_promises() -> None:
    module = module_of(
        """  %v = load i8, ptr %p, align 1, !range !0, !noundef !1
  %t = trunc nuw i8 %v to i1
  %n = trunc i32 %a to i1
  call void @llvm.assume(i1 %t)
  %q = call nonnull ptr @g(ptr nonnull align 4 %p)
  unreachable""",
        "nonnull ptr @f(i32 %a, ptr noundef nonnull %p)",
        "declare ptr @g(ptr)\ndeclare void @llvm.assume(i1)\n!0 = !{i8 0, i8 2}\n!1 = !{}\n",
    )
    without_promises(module)
    assert body_of(module) == [
        "%v = load i8, ptr %p, align 1, !noundef !1",
        "%t = icmp ne i8 %v, 0",
        "%n = trunc i32 %a to i1",
        "%q = call ptr @g(ptr align 4 %p)",
        "ret ptr zeroinitializer",
    ]
    assert "nonnull" not in print_module(module)


def test_an_access_that_may_leave_its_array_is_chosen() -> None:
    module = module_of(
        """  %x.array = alloca [4 x i32], align 4
  %i = zext i32 %a to i64
  %e = getelementptr inbounds [4 x i32], ptr %x.array, i64 0, i64 %i
  %v = load i32, ptr %e, align 4
  %first = load i32, ptr %x.array, align 4
  ret i32 %v"""
    )
    assert guard(module)
    assert body_of(module) == [
        "%x.array = alloca [4 x i32], align 4",
        "%i = zext i32 %a to i64",
        "%e = getelementptr inbounds [4 x i32], ptr %x.array, i64 0, i64 %i",
        "%mc.own0.1 = mul i64 %i, 4",
        "%mc.own0.2 = call i64 @__mc_past(i64 %mc.own0.1)",
        "%mc.own0.3 = getelementptr i8, ptr %x.array, i64 %mc.own0.2",
        "%mc.own0.4 = icmp ule i64 %mc.own0.1, 12",
        "%mc.own0.5 = select i1 %mc.own0.4, ptr %e, ptr %mc.own0.3",
        "%v = load i32, ptr %mc.own0.5, align 4",
        "%first = load i32, ptr %x.array, align 4",
        "ret i32 %v",
    ]
    assert not guard(module_of("  %v = load i32, ptr %p, align 4\n  ret i32 %v"))


def test_offsets_go_along_with_pointers_that_are_kept() -> None:
    module = module_of(
        """  %s = alloca ptr, align 8
  store ptr getelementptr inbounds (i8, ptr @t, i64 8), ptr %s, align 8
  %q = load ptr, ptr %s, align 8
  %v = load i32, ptr %q, align 4
  ret i32 %v""",
        rest="@t = internal constant [2 x i32] [i32 1, i32 2], align 4\n",
    )
    assert guard(module, private=False)
    assert body_of(module) == [
        "%s = alloca ptr, align 8",
        "%mc.own0.at.s = alloca i64, align 8",
        "%mc.own0.1 = getelementptr i8, ptr @t, i64 8",
        "store ptr %mc.own0.1, ptr %s, align 8",
        "store i64 8, ptr %mc.own0.at.s, align 8",
        "%q = load ptr, ptr %s, align 8",
        "%mc.own0.2 = load i64, ptr %mc.own0.at.s, align 8",
        "%mc.own0.3 = call i64 @__mc_past(i64 %mc.own0.2)",
        "%mc.own0.4 = getelementptr i8, ptr @t, i64 %mc.own0.3",
        "%mc.own0.5 = icmp ule i64 %mc.own0.2, 4",
        "%mc.own0.6 = select i1 %mc.own0.5, ptr %q, ptr %mc.own0.4",
        "%v = load i32, ptr %mc.own0.6, align 4",
        "ret i32 %v",
    ]


def test_choices_that_lockstep_makes_itself_are_settled() -> None:
    module = module_of(
        """  %i = zext i32 %a to i64
  %in = getelementptr i32, ptr %p, i64 %i
  %o = tail call i64 @__mc_past(i64 %i) #0
  %away = getelementptr i8, ptr %p, i64 %o
  %c = icmp ule i64 %i, 12
  %e = select i1 %c, ptr %in, ptr %away
  %start = select i1 %c, ptr %p, ptr %away
  %same = call ptr @__mc_same(ptr %p)
  ret i32 0""",
        rest="declare i64 @__mc_past(i64)\ndeclare ptr @__mc_same(ptr)\nattributes #0 = { nounwind }\n",
    )
    settle(module)
    assert body_of(module)[2:] == [
        "%o = add i64 %i, 0",
        "%away = getelementptr i8, ptr %p, i64 %o",
        "%c = icmp ule i64 %i, 12",
        "%e = getelementptr i8, ptr %in, i64 0",
        "%start = getelementptr i8, ptr %p, i64 0",
        "%same = getelementptr i8, ptr %p, i64 0",
        "ret i32 0",
    ]
    assert list(module.functions) == ["f"]


def test_tables_of_like_elements() -> None:
    def table(value: str) -> Global:
        return Global("@t", array(2, I32), True, value)

    assert is_alike(table("[i32 7, i32 7]")) and not is_alike(table("[i32 1, i32 2]"))
    assert is_alike(table("zeroinitializer")) and is_alike(table('c"abc"'))
    assert not is_alike(table("[[2 x i32] [i32 3, i32 4], [2 x i32] zeroinitializer]"))


def test_constant_expressions_become_instructions_at_the_start() -> None:
    module = flat(
        """@t = internal constant [4 x i32] zeroinitializer, align 4
define void @__mc_entry() {
entry:
  br label %next
next:
  %v = load i32, ptr getelementptr inbounds (i8, ptr @t, i64 8), align 4
  ret void
}
"""
    )
    first, _, load, _ = module.function.instructions()
    assert (first.op, first.name, first.block) == ("getelementptr", "%mc.cx0", module.function.blocks[0])
    assert load.args == [first] and first.args[0] is module.globals["@t"]


def test_what_a_kernel_cannot_have() -> None:
    for body, rest, message in (
        ("  call void %p()\n  ret i32 0", "", "function pointer that is not known"),
        ("  store ptr @g, ptr %p, align 8\n  ret i32 0", "declare void @g()\n", "address of function g"),
        ("  %v = va_arg ptr %p, i32\n  ret i32 0", "", "instruction 'va_arg'"),
        ("  ret i32 0", "@e = external global i32\n", "variable e, which is defined elsewhere"),
    ):
        with pytest.raises(UnsupportedFeature, match=message):
            flattened(module_of(body, rest=rest))


def test_facts_of_a_reduction_in_two_stages() -> None:
    body = """  %n = call i32 @__mc_threads_per_threadgroup(i32 0)
  %groups = lshr i32 %n, 5
  %s = call float @__mc_simd_sum_f32(float %x)
  %at = getelementptr float, ptr @shared, i32 %groups
  store float %s, ptr %at, align 4
  call void @__mc_threadgroup_barrier(i32 1)
  %m = atomicrmw fadd ptr %p, float %s monotonic, align 4
  ret i32 0"""
    rest = """@shared = internal global [32 x float] undef, align 4
declare i32 @__mc_threads_per_threadgroup(i32)
declare float @__mc_simd_sum_f32(float)
declare void @__mc_threadgroup_barrier(i32)
"""
    module = module_of(body, rest=rest)
    assert facts.features(module) == ("simd-reduction", "float-atomics")
    assert facts.whole_simdgroups(module) == "its place is not known"
    rounded = module_of(body.replace("lshr i32 %n", "lshr i32 %a"), rest=rest)
    assert facts.whole_simdgroups(rounded) == ""
