"""Every thread attribute, in every type that kernels use."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from tests.engine.language.helpers import feature, launch

GRID, GROUP = (5, 3, 2), (2, 2, 2)
ONES = (1, 1, 1)


def expected_of(
    attribute: str, position: tuple[int, ...], grid: tuple[int, ...], whole: tuple[int, ...]
) -> tuple[int, ...]:
    """What Metal gives to the thread at this place of the grid, in threadgroups of `whole`."""
    group = tuple(p // g for p, g in zip(position, whole, strict=True))
    local = tuple(p % g for p, g in zip(position, whole, strict=True))
    size = tuple(min(g, n - q * g) for g, n, q in zip(whole, grid, group, strict=True))
    index = local[0] + size[0] * (local[1] + size[1] * local[2])
    total = size[0] * size[1] * size[2]
    values: dict[str, tuple[int, ...]] = {
        "thread_position_in_grid": position,
        "threadgroup_position_in_grid": group,
        "thread_position_in_threadgroup": local,
        "threads_per_threadgroup": size,
        "dispatch_threads_per_threadgroup": whole,
        "threads_per_grid": grid,
        "threadgroups_per_grid": tuple(-(-n // g) for n, g in zip(grid, whole, strict=True)),
        "thread_index_in_threadgroup": (index,),
        "thread_index_in_simdgroup": (index % 32,),
        "simdgroup_index_in_threadgroup": (index // 32,),
        "simdgroups_per_threadgroup": (-(-total // 32),),
        "dispatch_simdgroups_per_threadgroup": (1,),
        "threads_per_simdgroup": (32,),
        "quadgroup_index_in_threadgroup": (index // 4,),
        "thread_index_in_quadgroup": (index % 4,),
        "quadgroups_per_threadgroup": (-(-total // 4),),
    }
    return values[attribute]


VECTORS = [
    "thread_position_in_grid",
    "threadgroup_position_in_grid",
    "thread_position_in_threadgroup",
    "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup",
    "threads_per_grid",
    "threadgroups_per_grid",
]
SCALARS = [
    "thread_index_in_threadgroup",
    "thread_index_in_simdgroup",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "threads_per_simdgroup",
    "quadgroup_index_in_threadgroup",
    "thread_index_in_quadgroup",
    "quadgroups_per_threadgroup",
]
TYPES = ["uint", "uint2", "uint3", "ushort", "ushort2", "ushort3"]
CASES = [
    feature("language", f"[[{a}]] as {t}", a, t) for a in VECTORS for t in (TYPES if a == VECTORS[0] else TYPES[:3])
]
CASES += [feature("language", f"[[{a}]] as {t}", a, t) for a in VECTORS[1:3] for t in TYPES[3:]]
CASES += [feature("language", f"[[{a}]] as {t}", a, t) for a in SCALARS for t in ("uint", "ushort")]


@pytest.mark.parametrize(("attribute", "type_"), CASES)
def test_attribute(attribute: str, type_: str) -> None:
    """The grid has as many dimensions as the type: all position attributes of a kernel have one width."""
    width = int(type_[-1]) if type_[-1].isdigit() else 1
    stores = "o[at] = uint(a);" if width == 1 else "".join(f"o[at + {i}] = uint(a[{i}]);" for i in range(width))
    dims = width if attribute in VECTORS else 3
    grid, group = GRID[:dims] + ONES[dims:], GROUP[:dims] + ONES[dims:]
    vector, place = f"uint{dims if dims > 1 else ''}", ("g", "g.y * 5 + g.x", "(g.z * 3 + g.y) * 5 + g.x")[dims - 1]
    source = f"""
    kernel void k(device uint* o, {type_} a [[{attribute}]], {vector} g [[thread_position_in_grid]]) {{
        uint at = ({place}) * {width};
        {stores}
    }}"""
    if attribute == "thread_position_in_grid":  # which a kernel has once
        source = source.replace(
            f"{vector} g [[thread_position_in_grid]]",
            f"{vector} l [[thread_position_in_threadgroup]], {vector} q [[threadgroup_position_in_grid]]",
        )
        source = source.replace("uint at", f"{vector} g = q * 2 + l; uint at")
    places = [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
    out = np.zeros(len(places) * width, np.uint32)
    launch(source, out, threads=grid, group_size=group)
    expected = [list(expected_of(attribute, place, grid, group)[:width]) for place in places]
    assert out.reshape(-1, width).tolist() == expected


@pytest.mark.feature("language", "[[thread_position_in_grid]] as unsigned and uint32_t")
@pytest.mark.parametrize("type_", ["unsigned", "unsigned int", "uint32_t", "uint16_t"])
def test_other_spellings(type_: str) -> None:
    out = np.zeros(3, np.uint32)
    launch(f"kernel void k(device uint* o, {type_} i [[thread_position_in_grid]]) {{ o[i] = i + 5; }}", out, threads=3)
    assert out.tolist() == [5, 6, 7]


@pytest.mark.feature("language", "thread attributes of const type and in any order")
def test_const_attributes() -> None:
    source = """
    kernel void k(const uint i [[thread_position_in_grid]], device uint* o, const uint n [[threads_per_grid]]) {
        o[i] = n - i; }
    """
    out = np.zeros(3, np.uint32)
    launch(source, out, threads=3)
    assert out.tolist() == [3, 2, 1]


@pytest.mark.feature("language", "threadgroups= gives whole groups")
def test_threadgroups() -> None:
    out = np.zeros(6, np.uint32)
    source = (
        "kernel void k(device uint* o, uint i [[thread_position_in_grid]], "
        "uint g [[threadgroup_position_in_grid]]) { o[i] = g; }"
    )
    launch(source, out, threadgroups=(3, 1, 1), group_size=(2, 1, 1))
    assert out.tolist() == [0, 0, 1, 1, 2, 2]


SHAPES = [((1,), (1,)), ((31,), (32,)), ((33,), (32,)), ((257,), (100,)), ((16, 16), (16, 16)), ((19, 9), (8, 4))]
SHAPES += [((12, 15), (5, 7)), ((70, 3), (64, 2)), ((5, 4, 3), (4, 2, 2)), ((1000,), (1024,))]


@pytest.mark.feature("lockstep", "partial edge threadgroups")
@pytest.mark.parametrize(("threads", "group"), SHAPES)
def test_every_thread_runs_once(threads: tuple[int, ...], group: tuple[int, ...]) -> None:
    grid = (*threads, 1, 1)[:3]
    out = np.zeros(grid[0] * grid[1] * grid[2], np.uint32)
    source = """
    kernel void k(device atomic_uint* o, uint3 i [[thread_position_in_grid]], uint3 n [[threads_per_grid]]) {
        atomic_fetch_add_explicit(&o[(i.z * n.y + i.y) * n.x + i.x], 1u, memory_order_relaxed);
    }"""
    launch(source, out, threads=threads, group_size=group)
    assert (out == 1).all()


AT_FILE_SCOPE = """
uint gid [[thread_position_in_grid]];
const uint3 place [[thread_position_in_grid]];
namespace n { ushort lane [[thread_index_in_simdgroup]]; }
struct S { uint gid; uint get() const { return gid; } };
template <typename T> T helper(T x) { return x + gid + T(n::lane); }
uint hidden(uint gid) { return gid; }
"""


@pytest.mark.feature("language", "thread attributes at file scope, read in kernels and functions")
def test_at_file_scope() -> None:
    body = """auto twice = [&] { return gid * 2; };
    S s = {100};
    o[gid] = helper(1) + hidden(1000) + s.get() + 10000 * (place * 2).yx.y + twice() + max(gid, 1u);
    { uint gid = 7; o[n::lane + 4] = gid + place.x; }"""
    out = np.zeros(8, np.int32)
    launch(f"{AT_FILE_SCOPE} kernel void k(device int* o) {{ {body} }}", out, threads=4)
    assert out.tolist() == [1102, 21106, 41111, 61116, 7, 8, 9, 10]


@pytest.mark.feature("rejected", "a thread attribute at file scope that is assigned to")
def test_at_file_scope_is_not_written() -> None:
    source = "uint gid [[thread_position_in_grid]];\nkernel void k(device int* o) { gid = 1; }"
    with pytest.raises(metalcore.errors.CompileError, match="not assignable"):
        launch(source, np.zeros(1, np.int32))


@pytest.mark.feature("not yet", "two thread attributes in one declaration at file scope")
def test_two_at_file_scope_are_refused() -> None:
    source = "uint a [[thread_position_in_grid]], b [[thread_index_in_simdgroup]];\nkernel void k(device int* o) {}"
    with pytest.raises(metalcore.errors.UnsupportedFeature, match="beyond a type and a name"):
        launch(source, np.zeros(1, np.int32))
