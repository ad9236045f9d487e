"""Argument buffers, preludes and what memory may be written: the same in the worker as in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.engine.frontend.records import Field, Type
from metalcore.engine.isolate.messages import Nonsense
from metalcore.engine.isolate.structs import struct_type
from metalcore.engine.runtime.raw_binding import Binding
from metalcore.errors import ArgumentError, CompileError, KernelFault

SOURCE = """
struct Inner { device float* p; uint n; };
struct Args { device const float* x; device float* y; Inner inner; device float* many[2]; float scale; };
kernel void scaled(constant Args& a, uint i [[thread_position_in_grid]]) {
  a.y[i] = a.scale * a.x[i] + a.inner.p[i] + a.inner.n;
  a.inner.p[i] += 1;
  a.many[i & 1][i] = i;
}
kernel void cast_away(constant Args& a, uint i [[thread_position_in_grid]]) { ((device float*)a.x)[i] = 5; }
kernel void past(constant Args& a, uint i [[thread_position_in_grid]]) { a.y[i + 100] = 5; }
struct Node { device Node* next; device int* v; int tag; };
kernel void walk(device Node* n) {
  device Node* m = n;
  for (int k = 0; k < 3; k++) { m->v[0] += 1; m->tag += 10; m = m->next; }
}
kernel void relink(device Node* n) { n->next = n->next->next; n->v = n->v + 1; }
struct Rows { device const float* device const* rows; int n; };
kernel void rows(constant Rows& a, device float* o, uint i [[thread_position_in_grid]]) {
  o[i] = a.rows[0][i] + a.rows[1][i];
}
struct Wide { float4 v; };
kernel void value(device float* o, constant Wide& s) { o[0] = s.v.x; }
kernel void kept(device ulong* a, device float* x, uint i [[thread_position_in_grid]]) {
  a[0] = (ulong)x;
  threadgroup_barrier(mem_flags::mem_device);
  ((device float*)((volatile device ulong*)a)[0])[i] = 3;
}
"""


@pytest.fixture(scope="module", params=["isolated", "here"])
def pointers(isolation: metalcore.isolate, request: pytest.FixtureRequest) -> metalcore.Library:
    where = isolation if request.param == "isolated" else False
    return metalcore.Library(SOURCE, isolate=where, prelude="using namespace metal;")


def floats(n: int = 8) -> np.ndarray[Any, Any]:
    return np.arange(n, dtype=np.float32)


def args(**changed: Any) -> dict[str, Any]:
    return {"x": floats(), "y": floats(), "inner": {"p": None, "n": 3}, "many": [], "scale": 2.0, **changed}


@pytest.mark.feature("API", "isolate: argument buffers, and what may be written through their pointers")
def test_structs_of_pointers(pointers: metalcore.Library) -> None:
    y, p, a, b = floats(), floats(), floats(), metalcore.shared_array(8)
    pointers.function("scaled")(args(y=y, inner={"p": p, "n": 3}, many=[a, b]), threads=8)
    assert y.tolist() == [3 + 3 * i for i in range(8)] and p.tolist() == [i + 1 for i in range(8)]
    assert a.tolist() == floats().tolist() and b.tolist() == [0, 1, 0, 3, 0, 5, 0, 7]
    o = np.zeros(4, np.float32)
    pointers.function("rows")({"rows": [floats(4), np.ones(4, np.float32)], "n": 2}, o, threads=4)
    assert o.tolist() == [1, 2, 3, 4]


def test_structs_that_point_to_one_another_and_are_written(pointers: metalcore.Library) -> None:
    walk = pointers.function("walk")
    v = [np.zeros(2, np.int32) for _ in range(3)]
    nodes = [metalcore.argument_buffer(walk, 0, next=None, v=each, tag=i) for i, each in enumerate(v)]
    for i, node in enumerate(nodes):
        node["next"] = nodes[(i + 1) % 3]
    walk(nodes[0], threads=1)
    assert [each.tolist() for each in v] == [[1, 0]] * 3 and [int(node["tag"]) for node in nodes] == [10, 11, 12]
    pointers.function("relink")(nodes[0], threads=1)
    words = nodes[0].data[:16].view(np.uint64).tolist()
    assert words == [nodes[2].address, v[0].ctypes.data + 4], "addresses are this process's again"


def test_what_pointers_may_not_do(pointers: metalcore.Library) -> None:
    x = floats()
    with pytest.raises(KernelFault, match=r"write on read-only memory .* index 0, the size is 8"):
        pointers.function("cast_away")(args(x=x), threads=8)
    with metalcore.mode("sanitize") as report:
        pointers.function("cast_away")(args(x=x), threads=8)
    assert "read-only" in str(report.findings[0]) and x.tolist() == floats().tolist()
    with pytest.raises(KernelFault, match="index 100, the size is 8"):
        pointers.function("past")(args(), threads=8)
    with pytest.raises(KernelFault, match="index 0, the size is 0"):
        pointers.function("scaled")(args(x=floats(0), inner={"p": x, "n": 1}, many=[x, x]), threads=8)


def test_a_value_that_is_too_small(pointers: metalcore.Library) -> None:
    o, s = np.zeros(1, np.float32), np.zeros(64, np.uint8)
    bound = [Binding(o.ctypes.data, 4, o), Binding(-(-s.ctypes.data // 16) * 16, 8, s)]
    with pytest.raises(ArgumentError, match=r"'s' .* it needs 16 bytes, and 8 are bound"):
        pointers.function("value").launch_raw(bound, grid=(1, 1, 1), group=(1, 1, 1))


@pytest.mark.parametrize("make", [lambda: np.zeros(8, np.float32), lambda: metalcore.shared_array(8)])
def test_an_address_that_the_kernel_keeps(pointers: metalcore.Library, make: Any) -> None:
    x = make()
    pointers.function("kept")(np.zeros(1, np.uint64), x, threads=8)
    assert x.tolist() == [3] * 8


def test_compile_shader_with_structs_and_lists(isolation: metalcore.isolate) -> None:
    with isolation:
        shaders = metalcore.compile_shader("#include <metal_stdlib>\nusing namespace metal;\n" + SOURCE)
        x, y = torch.arange(8.0), torch.zeros(8)
        shaders.scaled({"x": x, "y": y, "inner": {"p": x, "n": 1}, "many": [y, y], "scale": 0.5}, threads=8)
        assert y.tolist() == list(range(8)) and x.tolist() == list(range(1, 9))
        shaders.rows({"rows": [x, x], "n": 2}, y, threads=8)
    assert y.tolist() == [2 * i + 2 for i in range(8)]


def test_files_and_preludes_in_the_worker(isolation: metalcore.isolate, tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text("#define TWO 2\n")
    torch_too = "#include <c10/metal/utils.h>\n"
    source = f'{torch_too}#include "own.h"\nkernel void f(device float* x) {{ x[0] = TWO * FROM; }}'
    (tmp_path / "k.metal").write_text(source)
    x = np.zeros(1, np.float32)
    metalcore.Library(tmp_path / "k.metal", prelude="#define FROM 4", isolate=isolation).function("f")(x, threads=1)
    assert x[0] == 8
    with pytest.raises(CompileError, match="<prelude>"):
        metalcore.Library("kernel void f() {}", prelude="nonsense;", isolate=isolation)


def told(type: Type) -> Type:
    return struct_type(json.loads(json.dumps(type.to_json())))


@pytest.mark.parametrize(
    "field",
    [
        Field("p", 12, (), Type("pointer", "float*", 8, "pointer")),
        Field("p", 0, (3,), Type("pointer", "float*", 8, "pointer")),
        Field("p", -8, (), Type("pointer", "float*", 8, "pointer")),
        Field("p", 0, (1 << 20,), Type("enum", "enum E", 0)),
        Field("p", 0, (), Type("number", "float", 4, "object")),
        Field("p", 0, (), Type("number", "float", 4, "")),
        Field("p", 0, (), Type("pointer", "float*", 4, "pointer")),
    ],
)
def test_layouts_that_cannot_be(field: Field) -> None:
    with pytest.raises(Nonsense):
        told(Type("record", "struct S", 16, fields=(field,)))
    good = Type("record", "struct S", 16, fields=(Field("p", 8, (), Type("pointer", "float*", 8, "pointer")),))
    assert told(good) == good
