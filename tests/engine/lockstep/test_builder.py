"""The typed builder: LLVM accepts what it writes, wrong operands are refused, and emitters are tested on it alone."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable
from itertools import product
from pathlib import Path

import llvmlite.binding as binding
import numpy as np
import pytest

import metalcore.engine
from metalcore.engine.ir import Type, array, integer, vector
from metalcore.engine.ir import struct as struct_type
from metalcore.engine.ir.types import BFLOAT, DOUBLE, FLOAT, HALF, I1, I8, I16, I32, I64, PTR, VOID, named
from metalcore.engine.lockstep.builder import Builder, WrongType
from metalcore.engine.lockstep.code import Code
from metalcore.engine.lockstep.division import divide, divide_by_double
from metalcore.engine.lockstep.externals import EXTERNALS
from metalcore.engine.lockstep.fragments import COL, ROW
from metalcore.engine.lockstep.halves import fma_to_odd, saturated, to_bfloat, to_half
from metalcore.engine.lockstep.operands import FALSE, NULL, TRUE, Operand, constant, constants, poison, zero
from metalcore.engine.lockstep.products import product_function
from metalcore.engine.lockstep.support import function, support
from metalcore.engine.lockstep.types import scalar_type
from metalcore.engine.optimiser import llvm

A, B, V, W, P = (
    Operand("%a", I32),
    Operand("%b", I32),
    Operand("%v", vector(8, I32)),
    Operand("%w", vector(8, I32)),
    Operand("%p", PTR),
)
X, M, F, D = Operand("%x", FLOAT), Operand("%m", vector(8, I1)), Operand("%f", vector(8, FLOAT)), Operand("%d", DOUBLE)
_GIVEN = "i32 %a, i32 %b, <8 x i32> %v, <8 x i32> %w, ptr %p, float %x, <8 x i1> %m, <8 x float> %f, double %d"
_META = '!0 = !{}\n!1 = !{!"branch_weights", i32 9, i32 1}\n!2 = !{!"branch_weights", i32 1, i32 9}\n!3 = !{i32 1}'


def verified(code: Builder, given: str = _GIVEN) -> str:
    """The module of one function, as LLVM has read and checked it."""
    text = function(code, "f", VOID, given, "nounwind").replace("internal ", "")
    module = llvm.parse("\n".join([text, *code.declarations.values(), _META]))
    module.verify()
    return str(module)


INSTRUCTIONS: dict[str, tuple[Callable[[Builder], Operand], Type, str]] = {
    "add": (lambda c: c.add(A, B), I32, "add i32 %a, %b"),
    "add of a number": (lambda c: c.add(A, 7), I32, "add i32 %a, 7"),
    "a number in each lane": (lambda c: c.mul(V, 7), V.type, "mul <8 x i32> %v, splat (i32 7)"),
    "a number first": (lambda c: c.sub(0, A), I32, "sub i32 0, %a"),
    "disjoint or": (lambda c: c.or_(V, W, disjoint=True), V.type, "or disjoint <8 x i32> %v, %w"),
    "not": (lambda c: c.not_(M), M.type, "xor <8 x i1> %m, splat (i1 true)"),
    "flags": (lambda c: c.binary("fmul", X, 0.5, "reassoc "), FLOAT, "fmul reassoc float %x, 5.000000e-01"),
    "fneg": (lambda c: c.fneg(F), F.type, "fneg <8 x float> %f"),
    "freeze": (lambda c: c.freeze(M), M.type, "freeze <8 x i1> %m"),
    "icmp": (lambda c: c.icmp("ult", V, W), M.type, "icmp ult <8 x i32> %v, %w"),
    "icmp of pointers": (lambda c: c.icmp("eq", P, NULL), I1, "icmp eq ptr %p, null"),
    "fcmp": (lambda c: c.fcmp("uno", X, X), I1, "fcmp uno float %x, %x"),
    "select by lanes": (
        lambda c: c.select(M, V, 1),
        V.type,
        "select <8 x i1> %m, <8 x i32> %v, <8 x i32> splat (i32 1)",
    ),
    "select by one": (lambda c: c.select(TRUE, V, W), V.type, "select i1 true, <8 x i32> %v, <8 x i32> %w"),
    "zext": (lambda c: c.zext(V, vector(8, I64)), vector(8, I64), "zext <8 x i32> %v to <8 x i64>"),
    "trunc": (lambda c: c.trunc(A, I8), I8, "trunc i32 %a to i8"),
    "sitofp": (lambda c: c.cast("sitofp", V, F.type), F.type, "sitofp <8 x i32> %v to <8 x float>"),
    "bitcast": (lambda c: c.bitcast(M, I8), I8, "bitcast <8 x i1> %m to i8"),
    "ptrtoint": (lambda c: c.ptrtoint(P), I64, "ptrtoint ptr %p to i64"),
    "load": (lambda c: c.load(I32, P, 4), I32, "load i32, ptr %p, align 4"),
    "volatile load": (lambda c: c.load(I32, P, 4, kind="volatile"), I32, "load volatile i32, ptr %p, align 4"),
    "atomic load": (lambda c: c.load(I32, P, 4, kind="atomic"), I32, "load atomic i32, ptr %p monotonic, align 4"),
    "atomicrmw": (lambda c: c.atomicrmw("umax", P, A), I32, "atomicrmw umax ptr %p, i32 %a monotonic, align 4"),
    "cmpxchg": (lambda c: c.extractvalue(c.cmpxchg(P, A, B), 1), I1, "extractvalue { i32, i1 } %t1, 1"),
    "gep": (lambda c: c.gep(P, 12), PTR, "getelementptr i8, ptr %p, i64 12"),
    "gep of lanes": (lambda c: c.gep(P, V, I32), vector(8, PTR), "getelementptr i32, ptr %p, <8 x i32> %v"),
    "alloca": (lambda c: c.alloca(array(3, I64), 16), PTR, "alloca [3 x i64], align 16"),
    "extract": (lambda c: c.extract(V, 3), I32, "extractelement <8 x i32> %v, i64 3"),
    "insert": (lambda c: c.insert(poison(V.type), A, 0), V.type, "insertelement <8 x i32> poison, i32 %a, i64 0"),
    "shuffle": (lambda c: c.shuffle(V, [9, 0], W), vector(2, I32), "<2 x i32> <i32 9, i32 0>"),
    "splat": (lambda c: c.splat(X, 8), F.type, "<8 x i32> zeroinitializer"),
    "intrinsic": (
        lambda c: c.intrinsic("umin", V, W),
        V.type,
        "call <8 x i32> @llvm.umin.v8i32(<8 x i32> %v, <8 x i32> %w)",
    ),
    "lane constants": (lambda c: c.add(V, constants(I32, range(8))), V.type, "<i32 0, i32 1, i32 2, i32 3"),
    "zero": (lambda c: c.sub(zero(V.type), V), V.type, "sub <8 x i32> zeroinitializer, %v"),
}


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_llvm_takes_the_instruction_and_its_type_is_known(name: str) -> None:
    write, ty, text = INSTRUCTIONS[name]
    code = Builder()
    result = write(code)
    assert result.type is ty
    code.store(result, P, 1)  # LLVM checks that the result has this type
    code.ret()
    assert text in verified(code)


WRONG: dict[str, Callable[[Builder], object]] = {
    "two types": lambda c: c.add(A, V),
    "floats added as integers": lambda c: c.add(X, X),
    "integers added as floats": lambda c: c.fadd(A, A),
    "compare of two types": lambda c: c.icmp("eq", A, P),
    "select of two types": lambda c: c.select(TRUE, A, X),
    "select by the wrong lanes": lambda c: c.select(Operand("%q", vector(4, I1)), V, W),
    "zext to fewer bits": lambda c: c.zext(A, I16),
    "zext to other lanes": lambda c: c.zext(A, vector(8, I64)),
    "bitcast to other bits": lambda c: c.bitcast(A, I64),
    "load through a number": lambda c: c.load(I32, A),
    "store through lanes": lambda c: c.store(A, Operand("%q", vector(8, PTR))),
    "gep by a float": lambda c: c.gep(P, X),
    "extract behind the end": lambda c: c.extract(V, 8),
    "insert of another type": lambda c: c.insert(V, X, 0),
    "shuffle of two types": lambda c: c.shuffle(V, [0], F),
    "shuffle behind the end": lambda c: c.shuffle(V, [16]),
    "branch by a number": lambda c: c.cond_br(A, "yes", "no"),
    "phi of two types": lambda c: c.edge(c.phi((A, "entry")), X, "loop"),
    "a name of another type": lambda c: c.as_(P).add(A, 1),
    "call through a number": lambda c: c.call_pointer(A, VOID),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_operands_are_refused_with_their_types(name: str) -> None:
    with pytest.raises(WrongType, match=r" of .*(i32|ptr|float)"):
        WRONG[name](Builder())


def test_types_are_one_object_each_and_know_their_size() -> None:
    assert vector(8, FLOAT) is vector(8, FLOAT) and integer(32) is I32 and array(3, I64) is array(3, I64)
    assert [ty.size for ty in (I1, HALF, PTR, vector(8, I16), array(3, I64))] == [1, 2, 8, 16, 24]
    assert vector(4, FLOAT).suffix == "v4f32" and vector(4, FLOAT).with_item(I64) is vector(4, I64)
    assert FLOAT.with_item(I64) is I64 and str(struct_type(I32, I1)) == "{ i32, i1 }"
    assert scalar_type(struct_type(I32, BFLOAT)) is struct_type(I32, I16) and scalar_type(named(PTR, "p1")) is PTR


def test_control_flow() -> None:
    code = Builder()
    code.place("entry")
    code.jump("loop")
    code.place("loop")
    counter = code.phi((constant(I32, 0), "entry"))
    following = code.add(counter, 1)
    code.edge(counter, following, "loop")
    code.cond_br(code.icmp("ult", following, A), "loop", "pick", likely=True)
    code.place("pick")
    code.switch(B, "done", {1: "never", 2: "done"})
    code.place("never")
    code.unreachable()
    code.place("done")
    code.fence()
    code.ret()
    text = verified(code)
    assert "phi i32 [ 0, %entry ], [ %t2, %loop ]" in text and "!prof" in text


def test_the_functions_of_every_module_are_accepted() -> None:
    forms = list(product((1, 2), ("rows", "columns", "lanes"), (False, True)))
    products, declared = zip(*(product_function(f"mc.mma{n}", *form) for n, form in enumerate(forms)), strict=True)
    needed = {name: line for lines in declared for name, line in lines.items()}
    text = "\n".join([*support(), *products, *needed.values(), "attributes #2 = { nounwind }"])
    module = llvm.parse(text)  # and verified
    assert {"mc.slow", "mc.spread", "mc.attend"} <= {function.name for function in module.functions}


# -- emitters alone --------------------------------------------------------------------------------


def run(write: Callable[[Code, list[Operand]], list[Operand]], given: list[Type], data: bytes, width: int = 8) -> bytes:
    """Compile what *write* writes, with operands read from memory one behind the other, and give the results' bytes."""
    code = Code(width)
    at, operands = 0, []
    for ty in given:
        operands.append(code.load(ty, code.gep(Operand("%in", PTR), at), 1))
        at += ty.size
    assert at == len(data)
    end = 0
    for result in write(code, operands):
        code.store(result, code.gep(Operand("%out", PTR), end), 1)
        end += result.type.size
    code.ret()
    body = function(code, "f", VOID, "ptr %in, ptr %out", "nounwind").replace("internal ", "")
    module = llvm.parse("\n".join([body, *code.declarations.values(), *code.helpers.values()]))
    module.verify()
    machine = binding.Target.from_default_triple().create_target_machine(cpu=binding.get_host_cpu_name())
    with binding.create_mcjit_compiler(module, machine) as engine:  # which owns both from here on
        engine.finalize_object()
        call = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(engine.get_function_address("f"))
        out = ctypes.create_string_buffer(end)
        call(data, out)
    return out.raw


@pytest.mark.parametrize("has_pairs", [False, True])
@pytest.mark.parametrize(("count", "form"), list(product((1, 2), ("rows", "columns", "lanes"))))
def test_products_of_matrices(count: int, form: str, has_pairs: bool) -> None:
    """Whole numbers, so that the order of sums does not matter."""
    random = np.random.default_rng(5)
    left, *rights = (random.integers(-9, 9, (8, 8)).astype(np.float32) for _ in range(1 + count))
    sums = [random.integers(-99, 99, (8, 8)).astype(np.float32) for _ in rights]
    stored = {"rows": left, "columns": left.T}.get(form)
    if stored is None:  # chunk behind chunk of eight lanes, both elements of each
        lane = np.arange(32).reshape(4, 8)
        stored = np.stack([left[np.array(ROW)[lane], np.array(COL)[lane] + e] for e in (0, 1)], 1)
    data = b"".join(part.tobytes() for part in (np.ascontiguousarray(stored), *rights, *sums))
    matrix = [vector(64, FLOAT)] * (1 + 2 * count)

    def write(code: Code, operands: list[Operand]) -> list[Operand]:
        places = [code.alloca(array(8, vector(8, FLOAT)), 64) for _ in operands]
        for place, value in zip(places, operands, strict=True):
            code.store(value, place, 32)
        a, b, c = places[0], places[1 : 1 + count], places[1 + count :]
        name = "mma"
        code.helpers[name], declared = product_function(name, count, form, has_pairs)
        code.declarations.update(declared)
        apart = constant(I64, 32)
        lefts = [a] if form == "lanes" else [a, apart]
        code.call(name, VOID, *c, *lefts, *(x for right in b for x in (right, apart)), how="fastcc ")
        return [code.load(vector(64, FLOAT), place, 32) for place in c]

    out = np.frombuffer(run(write, matrix, data), np.float32).reshape(count, 8, 8)
    for found, total, right in zip(out, sums, rights, strict=True):
        assert (found == total + left @ right).all()


PAIRS = [(7, 2), (-7, 2), (5, 0), (-(1 << 31), -1), (-(1 << 31), 1), (0, -5), (123456789, 1000), (-1, -(1 << 31))]


def expected(op: str, a: int, b: int) -> int:
    if b == 0:
        return 0 if op.endswith("div") else a
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    result = quotient if op == "sdiv" else a - quotient * b
    return (result + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize("op", ["sdiv", "srem"])
def test_division_of_lanes_and_of_scalars_agree_with_the_rules(op: str) -> None:
    lanes, (xs, ys) = vector(8, I32), zip(*PAIRS, strict=True)
    out = run(lambda c, v: [divide_by_double(c, op, *v, False)], [lanes, lanes], struct.pack("<16i", *xs, *ys))
    assert list(struct.unpack("<8i", out)) == [expected(op, a, b) for a, b in PAIRS]
    for a, b in PAIRS:
        out = run(lambda c, v: [divide(c, op, *v)], [I32, I32], struct.pack("<2i", a, b))
        assert struct.unpack("<i", out) == (expected(op, a, b),)


def test_bfloats_are_rounded_to_nearest_even() -> None:
    given = [1.0, 1.00390625, 1.01171875, -2.5, 3.4e38, float("inf"), float("nan"), 0.0]
    out = run(lambda c, v: [to_bfloat(c, v[0])[0]], [vector(8, FLOAT)], struct.pack("<8f", *given))
    assert struct.unpack("<8H", out) == (0x3F80, 0x3F80, 0x3F82, 0xC020, 0x7F80, 0x7F80, 0xFFFF, 0)


def test_a_product_and_sum_of_halves_is_rounded_once() -> None:
    a, b, c = 1.0009765625, 1.0009765625, 2.0**-24  # the product alone would be a tie
    out = run(lambda k, v: [to_half(k, fma_to_odd(k, *v))], [FLOAT] * 3, struct.pack("<3f", a, b, c))
    assert struct.unpack("<e", out)[0] == struct.unpack("<e", struct.pack("<e", a * b + c))[0]


def test_floats_saturate_as_integers() -> None:
    out = run(lambda c, v: [saturated(c, "fptosi", v[0], I32)], [DOUBLE], struct.pack("<d", 1e12))
    assert struct.unpack("<i", out) == ((1 << 31) - 1,)


@pytest.mark.parametrize("width", [4, 8, 16])
def test_a_mask_survives_as_a_number_and_as_kept_lanes(width: int) -> None:
    def write(code: Code, given: list[Operand]) -> list[Operand]:
        every = code.splat(given[0], code.width)
        masks = [code.mask_of(every, c) for c in range(code.count)]
        kept = [code.read_mask(code.kept_mask(mask)) for mask in masks]
        answers = [code.zext(test, I32) for test in (code.any(masks), code.all(masks))]
        return [code.bits(kept), *answers]

    for bits, some, every in ((0, 0, 0), (0x80000001, 1, 0), (0xDEADBEEF, 1, 0), (0xFFFFFFFF, 1, 1)):
        assert struct.unpack("<3I", run(write, [I32], struct.pack("<I", bits), width)) == (bits, some, every)


@pytest.mark.parametrize("width", [4, 8, 16])
def test_chunks_are_joined_and_split_in_order(width: int) -> None:
    lanes = [code_point * 3 for code_point in range(32)]
    given = [vector(width, I32)] * (32 // width)
    out = run(
        lambda c, v: c.split(c.shuffle(c.concat(v), range(31, -1, -1))), given, struct.pack("<32i", *lanes), width
    )
    assert list(struct.unpack("<32i", out)) == lanes[::-1]


def test_false_and_true_are_spelled_as_llvm_does() -> None:
    assert [constant(I1, value).text for value in (True, False)] == [TRUE.text, FALSE.text]
    assert constant(vector(4, I1), True).text == "splat (i1 true)" and constant(I32, 1).text == "1"


def test_the_table_of_externals_has_every_function_that_the_headers_declare() -> None:
    headers = Path(metalcore.engine.__file__).parent / "include"
    text = "\n".join(path.read_text() for path in sorted(headers.glob("*")) if path.is_file())
    found = re.findall(r"^__mc_(?:external|fixed) [^;(#]*\b(__mc_[a-z0-9_]+)\(([^)]*)\);", text, re.MULTILINE)
    declared = {name: given.count(",") + 1 if given else 0 for name, given in found}
    assert len(declared) > 30 and declared == {name: EXTERNALS[name].operands for name in declared}
    assert all(
        EXTERNALS[f"__mc_{name}"].is_uniform for name in ("arg", "simd_sum_f32", "simd_ballot", "simd_broadcast")
    )
    assert not any(EXTERNALS[f"__mc_{name}"].is_uniform for name in ("simd_is_first", "simd_shuffle", "read"))
