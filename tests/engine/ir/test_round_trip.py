"""Text -> objects -> text: LLVM reads the same module from both."""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as binding
import pytest

from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.ir import Module, parse, print_module
from metalcore.engine.ir.values import _is_set as is_set
from metalcore.engine.optimiser import llvm

ROOT = Path(__file__).parents[3]
KERNELS = {
    "softmax": ROOT / "examples" / "softmax.metal",
    "histogram": ROOT / "examples" / "histogram.metal",  # atomics
    "bitonic_sort": ROOT / "benchmarks" / "kernels" / "sort.metal",
    "gemm_simdgroup": ROOT / "benchmarks" / "kernels" / "gemm.metal",
}
WORDS = """
%"struct.a b" = type { i32, [2 x float] }
%packed = type <{ i8, i32 }>

$f = comdat any

@table = private unnamed_addr constant [2 x %"struct.a b"] zeroinitializer, align 4
@"a name" = internal global i32 undef, section "mc.initial.1", align 8
@text = private constant [3 x i8] c"a,\\00", align 1

; Function Attrs: nounwind
define linkonce_odr hidden noundef nonnull align 4 dereferenceable(8) ptr @f(ptr nonnull %0, i32 zeroext %1) #0 comdat {
  %3 = icmp samesign ult i32 %1, 5
  br i1 %3, label %4, label %"b l"

4:                                                ; preds = %2
  %5 = getelementptr inbounds nuw %"struct.a b", ptr %0, i64 0, i32 1, i64 -1
  switch i32 %1, label %"b l" [
    i32 0, label %4
    i32 7, label %6
  ]

6:                                                ; preds = %4
  %7 = load volatile float, ptr %5, align 4, !tbaa !0
  %8 = fadd reassoc nsz float %7, 0x7FF8000000000000
  store atomic i32 1, ptr %0 syncscope("agent") release, align 4
  %9 = cmpxchg weak ptr %0, i32 0, i32 1 acq_rel monotonic, align 4
  %10 = extractvalue { i32, i1 } %9, 1
  %11 = insertvalue { i32, float } poison, float %8, 1
  %12 = atomicrmw fadd ptr %5, float %8 monotonic, align 4
  %13 = tail call fast float @llvm.fma.f32(float %8, float %12, float 1.000000e+00) #1
  %14 = select i1 %10, ptr %5, ptr getelementptr inbounds nuw (i8, ptr @table, i64 4)
  %15 = ptrtoint ptr %14 to i64
  %16 = sub i64 %15, ptrtoint (ptr @text to i64)
  %17 = alloca %packed, align 1
  call void (ptr, ...) @log(ptr @text, i64 %16, float %13)
  fence seq_cst
  br label %"b l"

"b l":                                            ; preds = %6, %4, %2
  %18 = phi ptr [ %0, %2 ], [ %14, %6 ], [ @table, %4 ]
  ret ptr %18
}

declare float @llvm.fma.f32(float, float, float) #1

declare void @log(ptr captures(none), ...)

attributes #0 = { mustprogress noinline "frame-pointer"="all" }
attributes #1 = { nounwind memory(none) }

!0 = !{!1, !1, i64 0}
!1 = !{!"float", !2, i64 0}
!2 = !{!"root"}
"""


def written_anew(module: Module) -> str:
    """Every instruction from its members, none as it was read."""
    for function in module.defined():
        for instr in function.instructions():
            assert "unknown" not in instr.extra, instr.op
            if instr.op[0] != "#":
                instr.changed()
    return print_module(module)


def as_llvm_reads(text: str) -> str:
    with llvm.LOCK:  # a context of its own: in a shared one the structs of two modules get numbers
        llvm.target_machine()
        module = binding.parse_assembly(text, context=binding.create_context())
        module.verify()
        return str(module)


def test_what_kernels_seldom_have() -> None:
    expected = as_llvm_reads(WORDS)
    assert as_llvm_reads(print_module(parse(WORDS))) == expected
    assert as_llvm_reads(written_anew(parse(WORDS))) == expected


@pytest.mark.parametrize("name", KERNELS)
def test_real_kernels(name: str) -> None:
    path = KERNELS[name]
    raw = lower(make_unit(path.read_text(), path=str(path), include_dirs=[str(path.parent)]), name).ir
    expected = as_llvm_reads(raw)
    assert as_llvm_reads(print_module(parse(raw))) == expected
    assert as_llvm_reads(written_anew(parse(raw))) == expected
    optimised = llvm.optimise_scalar(raw)
    assert as_llvm_reads(written_anew(parse(optimised))) == as_llvm_reads(optimised)


def test_nothing_is_read_before_somebody_asks() -> None:
    module = parse("define i32 @f(i32 %x) {\n  %y = add nsw i32 %x, 1\n  %z = mul i32 %y, %y\n  ret i32 %z\n}\n", "f")
    assert not module.function.is_read
    y, z, _ = module.function.instructions()
    y.without_flags(frozenset(["nsw"]))
    assert not is_set(y)
    assert z.args == [y, y] and not is_set(y)
    assert [arg.name for arg in y.args[:1]] == ["%x"] and y.flags == []
    assert print_module(module).split("\n")[1] == "  %y = add i32 %x, 1"


def test_debug_places_are_those_of_the_user() -> None:
    text = """define void @f() !dbg !4 {
  ret void, !dbg !5
}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "user.metal", directory: "")
!2 = !DIFile(filename: "metalcore/engine/include/metal_math", directory: "")
!3 = !DISubroutineType(types: !{})
!4 = distinct !DISubprogram(name: "f", file: !1, line: 1, type: !3, unit: !0)
!5 = !DILocation(line: 7, column: 2, scope: !6, inlinedAt: !7)
!6 = distinct !DISubprogram(name: "g", file: !2, line: 6, type: !3, unit: !0)
!7 = !DILocation(line: 3, column: 9, scope: !4)
"""
    module = parse(text, "f")
    (leave,) = module.function.instructions()
    place = module.locations.get(leave.line)
    assert place is not None and (place.file, place.line, place.column) == ("user.metal", 3, 9)
