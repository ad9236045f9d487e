"""Nothing of the engine or of the host is reachable from a kernel's text, whatever way it is written."""

# ruff: noqa: E501

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.frontend.diagnostics import Sources
from metalcore.engine.frontend.symbols import check_symbols
from metalcore.engine.ir import parse
from metalcore.engine.model import Variant
from metalcore.engine.pipeline import build as build_kernel
from metalcore.errors import CompileError, UnsupportedFeature


def build(source: str) -> None:
    unit = make_unit("#include <metal_stdlib>\nusing namespace metal;\n" + source)
    for name in unit.functions:
        lower(unit, name, None)


def kernel(body: str) -> str:
    return f"kernel void k(device uint* o, uint i [[thread_position_in_grid]]) {{ {body} }}"


NAMES = {
    "a name of the engine": (kernel("o[i] = ((device uint*)__mc_arg(31u))[i];"), 3, "__mc_arg", "'__mc_arg' is a name of the engine"),
    "one that was pasted": ("#define J(a, b) a##b\n" + kernel("o[i] = J(__mc, _thread_position_in_grid)(7u);"), 4, "J(", "name of the engine"),
    "one over two lines": (kernel("o[i] = __m\\\nc_arg(3u) != 0;"), 3, "__m", "name of the engine"),
    "one behind a macro": ("#define A __mc_arg\n" + kernel("o[i] = A(31u) != 0;"), 4, "A(31", "name of the engine"),
    "a namespace of the engine": ("namespace q = __mc;", 3, "__mc", "name of the engine"),
    "a macro of the engine": ("__MC_LINKAGE_0 int x;", 3, "__MC", "name of the engine"),
    "a function of its own with that name": ('extern "C" void __mc_entry() {}', 3, "__mc_entry", "name of the engine"),
    "the return address": (kernel("o[i] = __builtin_return_address(0) != 0;"), 3, "__builtin", "__builtin_return_address"),
    "a trap": (kernel("__builtin_trap();"), 3, "__builtin", "__builtin_trap"),
    "alloca": (kernel("thread uint* p = (thread uint*)__builtin_alloca(64); o[i] = p[0];"), 3, "__builtin", "__builtin_alloca"),
    "atomics of the compiler": (kernel("__atomic_fetch_add(o, 1u, 0);"), 3, "__atomic", "__atomic_fetch_add"),
    "128-bit integers": (kernel("__int128 x = i; o[i] = uint(x);"), 3, "__int128", "128-bit"),
    "a section": ('__attribute__((section("x"))) constant uint t = 1;', 3, "section", "attribute 'section'"),
    "a constructor": ("__attribute__((constructor)) void f() {}", 3, "constructor", "attribute 'constructor'"),
    "an alias in brackets": ('[[gnu::alias("x")]] void f();', 3, "alias", "attribute 'alias'"),
    "a directive from a macro": ("#define H #\nH define Q 3", 4, "H define", "stray '#'"),
    "a directive from a macro within a line": ("#define H #\nint f(); H pragma weak f", 4, "H pragma", "stray '#'"),
    "a pragma that renames": ("#pragma redefine_extname f __mc_arg", 3, "#pragma", "redefine_extname"),
    "attributes by pragma": ("#pragma clang attribute push(__attribute__((used)), apply_to = function)", 3, "#pragma", "clang attribute"),
    "modules": ("import <vector>;", 3, "import", "modules"),
}  # fmt: skip


@pytest.mark.feature("rejected", "names of the engine, builtins that reach the host, directives made by macros")
def test_names() -> None:
    for what, (source, line, word, words) in NAMES.items():
        column = source.split("\n")[line - 3].index(word) + 1
        with pytest.raises(CompileError) as caught:
            build(source)
        error = caught.value
        assert words in str(error) and (error.lineno, error.offset) == (line, column), (
            what,
            error.lineno,
            error.offset,
        )
        assert f"<metal>:{line}:{column}: error: " in str(error), what


def test_digraphs_and_character_names_make_nothing() -> None:
    for source in ("#define H %:\nH define Q 3", kernel("o[i] = \\u005f_mc_arg(1u) != 0;")):
        with pytest.raises(CompileError):
            build(source)


UNREAD = {
    "white space of Unicode": ('extern "C" void \u180e__mc_report_if(bool, uint);\n' + kernel("\u180e__mc_report_if(true, 12345678u); o[i] = 1;"), "<U+180E>"),
    "a no-break space": (kernel("o[i]\u00a0= 1;"), "<U+00A0>"),
    "a line separator": (kernel("o[i]\u2028= 1;"), "<U+2028>"),
    "a next line": (kernel("o[i]\u0085= 1;"), "<U+0085>"),
    "a joiner": (kernel("uint a\u200d = 1; o[i] = a\u200d;"), "<U+200D>"),
    "a variation selector": (kernel("uint \U000e0100 = 1;"), "<U+E0100>"),
    "a picture": (kernel("uint \U0001f600 = 1;"), "<U+1F600>"),
    "a control character": (kernel("o[i]\x1c= 1;"), "<U+001C>"),
    "a letter behind a separator of digits": (kernel("o[i] = 1'é'; __mc_report_if(true, 3u); ';"), "name of the engine"),
    "a letter in a number": (kernel("o[i] = 1é;"), "'1é' is no number"),
    "an exponent of a decimal": ('constexpr uint operator""_p(unsigned long long x) { return x; }\n' + kernel("o[i] = 1_p+__mc_threads_per_simdgroup(0);"), "name of the engine"),
    "a quote without its partner": (kernel("o[i] = 1; 'a\n"), "missing terminating '"),
    "a raw string of a pragma": ('#pragma unroll R"(\n R"x( )"\nint f(); //)x"\n' + kernel("o[i] = 1;"), "raw string in a pragma"),
    "a directive in a raw string": ('constant char s[] = R"(\n#define A)";\n' + kernel("o[i] = 1;"), "begins with '#'"),
    "a mark of the engine in a name of a file": ('#line 1 "/*__mc:k0*/"\n' + kernel("o[i] = 1;"), "'__mc'"),
    "a name of the engine in a literal": ('constant char s[] = "__mc_arg";\n' + kernel("o[i] = s[0];"), "'__mc'"),
}  # fmt: skip


def test_what_clang_may_read_otherwise_is_refused() -> None:
    for what, (source, words) in UNREAD.items():
        with pytest.raises(CompileError) as caught:
            build(source)
        assert words in str(caught.value), (what, str(caught.value))


SPREAD = {
    "over a pragma": "[\n#pragma foo\n[gnu::used]]",
    "over a line marker": "[\n#line 3\n[gnu::used]\n#pragma foo\n]",
    "over lines": "[\n\n[gnu::used\n]\n]",
    "over a word that is taken away": "[kernel [gnu::used]]",
    "over an attribute that is taken away": "[[[buffer(0)]] [gnu::used]]",
    "of GNU, over a pragma": "__attribute__\n#pragma foo\n(\n#pragma foo\n(used))",
    "of GNU, over a word that is taken away": "__attribute__ kernel ((used))",
}


def test_attributes_are_found_over_whatever_stands_between() -> None:
    for what, attribute in SPREAD.items():
        with pytest.raises(CompileError, match=r"attribute|\[\["):
            build(f"{attribute} static uint counter = 3;\n" + kernel("o[i] = counter;"))
            pytest.fail(what)


HOOKS = (
    "declare void @__mc_report_if(i1, i32)\ncall void @__mc_report_if(i1 true, i32 12345678)",
    "declare void @__mc_tell(i32, i64)\ncall void @__mc_tell(i32 12345678, i64 1)",
    "declare void @__mc_report_unset(i1, i32)\ncall void @__mc_report_unset(i1 true, i32 1)",
    "declare i1 @__mc_has_no_value(ptr, i32)\n%mc = call i1 @__mc_has_no_value(ptr null, i32 4)",
    "declare void @__mc_lose_value(ptr, i32, i1)\ncall void @__mc_lose_value(ptr null, i32 4, i1 true)",
    "declare void @__mc_write(ptr, i32, i64)\ncall void @__mc_write(ptr null, i32 4, i64 0)",
)


def test_hooks_of_the_engine_are_refused_in_the_ir() -> None:
    unit = make_unit(kernel("o[i] = 1;"))
    plain = lower(unit, "k", None)
    for hook in HOOKS:
        declaration, call = hook.split("\n")
        ir = declaration + "\n" + plain.ir.replace("  ret void", f"  {call}\n  ret void")
        with pytest.raises(CompileError, match="called and has no definition"):
            check_symbols(parse(ir), unit.kernels[0], Sources(unit.path, unit.source))
        with pytest.raises(UnsupportedFeature, match="in a source"):
            build_kernel(replace(plain, ir=ir), Variant("line", single=True, checked=True))


SYMBOLS = {
    "a function without a definition": ('extern "C" int system(constant char* x);\n' + kernel("o[i] = system(0);"), 4, "'system' is called and has no definition"),
    "a method without one": ("struct S { uint f(); };\n" + kernel("S s; o[i] = s.f();"), 4, "'f' is called"),
    "a variable without a definition": ('extern "C" constant uint environ;\n' + kernel("o[i] = environ;"), 4, "'environ' is used and has no definition"),
    "a variable at file scope": ("uint c;\n" + kernel("c += i; o[i] = c;"), 4, "'c' at file scope or static can be changed"),
    "a static variable at file scope": ("static uint c = 4;\n" + kernel("o[i] = c;"), 4, "'c' at file scope"),
    "a device variable at file scope": ("device uint c;\n" + kernel("o[i] = c;"), 4, "'c' at file scope"),
    "a static member": ("struct S { static uint c; };\nuint S::c = 3;\n" + kernel("o[i] = S::c;"), 5, "'c' at file scope"),
    "a static variable in a function": (kernel("static uint c = 4; c++; o[i] = c;"), 3, "'c' at file scope or static"),
    "an array of unknown length": (kernel("uint n = o[0]; uint a[n]; a[0] = i; o[i] = a[0];"), 3, "length is not a constant"),
}  # fmt: skip


@pytest.mark.feature(
    "rejected", "variables at file scope that can change, arrays of unknown length, undefined functions and variables"
)
def test_symbols() -> None:
    for what, (source, line, words) in SYMBOLS.items():
        with pytest.raises(CompileError) as caught:
            build(source)
        assert words in str(caught.value) and caught.value.lineno == line, (what, str(caught.value))


ACCEPTED = (
    kernel("uint é = 1, aé$ = 2, $ = 3, \U0001d400 = 4; constant char* s = \"\u180e\"; o[i] = é + aé$ + $ + \U0001d400 + s[0];"),
    kernel("o[i] = 1'000u + 0x1p+3 + 1e+2 + 0xA'Bu + .5e-1f + 0b1'0 + 'a' + u8'b';"),
    kernel("o[i] = __builtin_expect(i, 0) + __builtin_ctz(i + 1) + __builtin_popcount(i);"),
    "__attribute__((always_inline, unused)) uint f(uint x) { return x; }\n" + kernel("o[i] = f(i);"),
    "struct __attribute__((packed)) P { char a; int b; } ;\n[[clang::noinline]] uint f(uint x) { return x; }\n" + kernel("o[i] = f(sizeof(P));"),
    '__attribute__((visibility("default"))) uint f(uint x) { return x; }\n' + kernel("o[i] = f(i);"),
    "constant uint t[] = {1, 2};\nconstexpr constant uint c = 3;\nconst constant uint d = c + 1;\n" + kernel("o[i] = t[i & 1] + c + d;"),
    "struct S { static constexpr constant uint c = 3; };\n" + kernel("constexpr uint n = 4; uint a[n]; a[i & 3] = S::c; o[i] = a[i & 3];"),
    "uint late(uint x) { return x * 2; }\nconstant uint c = 6;\n" + kernel("uint import = 1, module = 2; o[i] = late(c) + import + module;"),
    "#pragma clang diagnostic push\n#pragma omp simd\n#pragma mark x\n" + kernel("o[i] = metal::min(INFINITY, MAXFLOAT) > 1 ? 1 : 0;"),
)  # fmt: skip


def test_a_literal_is_never_taken_for_a_mark_of_the_engine() -> None:
    source = 'constant char s[] = "/*mc:k0*/";\n' + kernel("o[i] = uint(s[i]);")
    out = np.zeros(9, np.uint32)
    metalcore.Library(source).function("k")(out, threads=9)
    assert bytes(out.astype(np.uint8)) == b"/*mc:k0*/"


def test_accepted() -> None:
    for source in ACCEPTED:
        build(source)


@pytest.mark.feature("not yet", "constant tables of pointers")
def test_tables_of_pointers_are_named_as_missing() -> None:
    for index in ("i & 1", "o[0]"):
        source = 'constant char* constant names[2] = {"ab", "cd"};\n' + kernel(f"o[i] = names[{index}][0];")
        with pytest.raises(UnsupportedFeature, match="a constant table of pointers"):
            metalcore.Library(source).function("k")(np.zeros(4, np.uint32), threads=4)


def test_assembly_is_named_as_missing() -> None:
    with pytest.raises(UnsupportedFeature, match="inline assembly"):
        build('void f() __asm__("__mc_arg");')
