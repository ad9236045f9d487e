"""Functions that LLVM calls by itself, of a kernel's own: libc's and libm's are not for it.

memset, memcpy and memmove serve large private arrays, fmax and fmin places that LLVM takes for seldom reached. For
macOS it writes bzero where a memset has zeros, __bzero on x86-64.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metalcore.engine.target import Target

NAMES = frozenset(("memset", "memcpy", "memmove", "bzero", "__bzero", "fmax", "fmaxf", "fmin", "fminf"))

_FILL = """
define hidden ptr @memset(ptr %to, i32 %value, i64 %count) nounwind nobuiltin {
entry:
  %byte = trunc i32 %value to i8
  %one = insertelement <32 x i8> poison, i8 %byte, i64 0
  %all = shufflevector <32 x i8> %one, <32 x i8> poison, <32 x i32> zeroinitializer
  br label %rows
rows:
  %i = phi i64 [ 0, %entry ], [ %next, %row ]
  %next = add i64 %i, 32
  %fits = icmp ule i64 %next, %count
  br i1 %fits, label %row, label %bytes
row:
  %at = getelementptr i8, ptr %to, i64 %i
  store <32 x i8> %all, ptr %at, align 1
  br label %rows
bytes:
  %j = phi i64 [ %i, %rows ], [ %more, %each ]
  %left = icmp ult i64 %j, %count
  br i1 %left, label %each, label %done
each:
  %place = getelementptr i8, ptr %to, i64 %j
  store i8 %byte, ptr %place
  %more = add i64 %j, 1
  br label %bytes
done:
  ret ptr %to
}
"""


def _zero(name: str) -> str:
    return f"""
define hidden void @{name}(ptr %to, i64 %count) nounwind nobuiltin {{
  call ptr @memset(ptr %to, i32 0, i64 %count) nobuiltin
  ret void
}}
"""


def _copy(name: str) -> str:
    """memcpy or memmove: both may be given places that overlap."""
    return f"""
define hidden ptr @{name}(ptr %to, ptr %from, i64 %count) nounwind nobuiltin {{
entry:
  %a = ptrtoint ptr %to to i64
  %b = ptrtoint ptr %from to i64
  %apart = sub i64 %a, %b
  %forward = icmp uge i64 %apart, %count
  br i1 %forward, label %rows, label %backward
rows:
  %i = phi i64 [ 0, %entry ], [ %next, %row ]
  %next = add i64 %i, 32
  %fits = icmp ule i64 %next, %count
  br i1 %fits, label %row, label %bytes
row:
  %source = getelementptr i8, ptr %from, i64 %i
  %target = getelementptr i8, ptr %to, i64 %i
  %part = load <32 x i8>, ptr %source, align 1
  store <32 x i8> %part, ptr %target, align 1
  br label %rows
bytes:
  %j = phi i64 [ %i, %rows ], [ %more, %each ]
  %left = icmp ult i64 %j, %count
  br i1 %left, label %each, label %done
each:
  %source1 = getelementptr i8, ptr %from, i64 %j
  %target1 = getelementptr i8, ptr %to, i64 %j
  %byte = load i8, ptr %source1
  store i8 %byte, ptr %target1
  %more = add i64 %j, 1
  br label %bytes
backward:
  %k = phi i64 [ %count, %entry ], [ %before, %last ]
  %some = icmp ne i64 %k, 0
  br i1 %some, label %last, label %done
last:
  %before = sub i64 %k, 1
  %source2 = getelementptr i8, ptr %from, i64 %before
  %target2 = getelementptr i8, ptr %to, i64 %before
  %byte2 = load i8, ptr %source2
  store i8 %byte2, ptr %target2
  br label %backward
done:
  ret ptr %to
}}
"""


def _extreme(name: str, kind: str, test: str) -> str:
    """The larger or the smaller of two numbers; where one is NaN, the other."""
    return f"""
define hidden {kind} @{name}({kind} %a, {kind} %b) nounwind nobuiltin {{
  %first = fcmp {test} {kind} %a, %b
  %one = select i1 %first, {kind} %a, {kind} %b
  %odd = fcmp uno {kind} %b, %b
  %result = select i1 %odd, {kind} %a, {kind} %one
  ret {kind} %result
}}
"""


def _text(is_macho: bool) -> str:
    extremes = [
        _extreme(name + suffix, kind, test)
        for name, test in (("fmax", "ogt"), ("fmin", "olt"))
        for suffix, kind in (("", "double"), ("f", "float"))
    ]
    zeros = [_zero("bzero"), _zero("__bzero")] if is_macho else []
    return "".join([_FILL, *zeros, _copy("memcpy"), _copy("memmove"), *extremes])


@functools.cache
def object_file(target: Target | None = None) -> bytes:
    """All of them as an object file."""
    from metalcore.engine.optimiser import llvm

    target = target or llvm.this_target()
    return llvm.emit_object(_text(target.platform.is_macho), target=target)
