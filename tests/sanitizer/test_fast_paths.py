"""What sanitize mode records many at a time (rows, places of a loop, blocks that all simdgroups read) it still sees."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore

HEAD = """#include <metal_simdgroup_matrix>
#include <metal_stdlib>
using namespace metal;
kernel void k(device float* out [[buffer(0)]], constant uint& n [[buffer(1)]], constant uint& at [[buffer(2)]],
              uint t [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
              uint sg [[simdgroup_index_in_threadgroup]]) {
"""
LINE = HEAD.count("\n") + 1
SIZES = {"uchar": 1, "ushort": 2, "half": 2, "float": 4, "float2": 8, "float4": 16}
SUMS = {"float2": "v.x + v.y", "float4": "v.x + v.w"}
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
# A tile of 32 rows of 32, written whole, then read row after row by every simdgroup, or one place by all lanes.
TILE = "threadgroup {type} tile[32][32]; for (uint r = sg; r < 32; r += 4) tile[r][lane] = {type}(r);"
READ = (
    "float s = 0; for (uint i = 0; i < {bound}; ++i) {{ const {type} v = tile{index}; s += float({sum}); }} out[t] = s;"
)
INDICES = {"rows": "[i][lane]", "places of a row": "[sg][i]", "places of a column": "[i][sg]", "places apart": "[i][i]"}


def findings(body: str, n: int = 32, at: int = 0, threads: int = 128) -> list[tuple[str, int]]:
    library = metalcore.Library(HEAD + body + "\n}\n")
    out = np.zeros(threads, np.float32)
    with metalcore.mode("sanitize") as report:
        library.function("k")(out, np.uint32(n), np.uint32(at), threads=threads, group_size=threads)
    return [(f.kind, f.line - LINE) for f in report.findings]


def kinds(body: str, **numbers: int) -> set[str]:
    return {kind for kind, _ in findings(body, **numbers)}


def kernel(type_: str, index: str, between: str = BARRIER, after: str = "", bound: str = "32") -> str:
    parts = (TILE, between, READ, after)
    words = {"type": type_, "index": index, "bound": bound, "sum": SUMS.get(type_, "v")}
    return "\n".join(p.format(**words) if p is not BARRIER else p for p in parts)


@pytest.mark.parametrize("type_", SIZES)
@pytest.mark.parametrize("index", INDICES)
def test_a_tile_that_is_read_in_a_loop(type_: str, index: str) -> None:
    where = INDICES[index]
    assert not findings(kernel(type_, where))
    assert not findings(kernel(type_, where, after=f"{BARRIER} tile[sg][lane] = 1;"))
    # No barrier in front of the loop, or behind it.
    without = kinds(kernel(type_, where, between=""))
    assert without and without <= {"race", "simdgroup-race"}
    assert "race" in kinds(kernel(type_, where, after="tile[3 - sg][lane] = 1;"))


@pytest.mark.parametrize("index", ["[i][lane]", "[sg][i]", "[i][sg]"])
@pytest.mark.parametrize("row", [0, 17, 31])
def test_a_write_to_one_element_that_a_loop_has_read(index: str, row: int) -> None:
    """Of any round; by a simdgroup that has read it too, and atomically."""
    place = {"[i][lane]": f"[{row}][5]", "[sg][i]": f"[2][{row}]", "[i][sg]": f"[{row}][2]"}[index]
    writer = 3 if index != "[i][lane]" else 0
    write = f"if (t == {32 * writer + 7}) tile{place} = 9;"
    # The simdgroup that writes runs first: the others race with it, too.
    expected = [("race", 2), ("simdgroup-race", 3)] if writer == 0 else [("race", 3)]
    assert sorted(findings(kernel("float", index, after=write))) == expected
    add = f"atomic_fetch_add_explicit((threadgroup atomic_uint*)&tile{place}, 1u, memory_order_relaxed);"
    assert sorted(findings(kernel("uint", index, after=f"if (t == {32 * writer + 7}) {add}"))) == expected
    assert not findings(kernel("float", index, after=f"{BARRIER} {write}"))


@pytest.mark.parametrize("index", ["[i][lane]", "[sg][i]"])
def test_only_the_rounds_that_run_are_recorded(index: str) -> None:
    """Another simdgroup writes the first row, or place, behind them: no race. One of the last round is."""
    place = "[at][lane]" if index == "[i][lane]" else "[sg ^ 1][at]"
    guard = "" if index == "[i][lane]" else "if (lane == 0) "
    body = kernel("float", index, after=f"if (sg == 3) {guard}tile{place} = 9;", bound="n")
    assert not findings(body, n=20, at=20)
    assert findings(body, n=20, at=19) == [("race", 3)]
    assert not findings(body, n=0, at=0)
    assert not findings(body, n=1, at=1)
    assert findings(body, n=1, at=0) == [("race", 3)]


@pytest.mark.parametrize(("start", "step"), [(0, 2), (1, 1), (3, 4)])
def test_loops_that_skip_rows(start: int, step: int) -> None:
    loop = f"float s = 0; for (uint i = {start}; i < n; i += {step}) s += tile[i][lane]; out[t] = s;"
    head = TILE.format(type="float") + "\n" + BARRIER + "\n" + loop + "\n"
    for row in range(8):
        found = findings(f"{head}if (sg == 2) tile[{row}][lane] = 1;", n=8)
        assert found == ([("race", 3)] if row >= start and (row - start) % step == 0 else [])


@pytest.mark.parametrize("index", ["[i][lane]", "[sg][i]", "[i][i]"])
@pytest.mark.parametrize("row", [0, 13, 31])
def test_one_element_without_a_value(index: str, row: int) -> None:
    column = {"[i][lane]": 9, "[sg][i]": row, "[i][i]": row}[index]
    row = 2 if index == "[sg][i]" else row
    tile = "threadgroup float tile[32][32]; for (uint r = sg; r < 32; r += 4)"
    tile += f" if (r != {row} || lane != {column}) tile[r][lane] = 1;"
    loop = READ.format(type="float", index=index, bound="32", sum="v")
    library = metalcore.Library(f"{HEAD}{tile}\n{BARRIER}\n{loop}\n}}\n")
    out = np.zeros(128, np.float32)
    with metalcore.mode("sanitize") as report:
        library.function("k")(out, np.uint32(0), np.uint32(0), threads=128, group_size=128)
    (found,) = report.findings
    assert (found.kind, found.line - LINE) == ("uninitialised-threadgroup-memory", 2)
    # Whose sums have none: a lane of each simdgroup, all of one, or all.
    assert found.count == {"[i][lane]": 4, "[sg][i]": 32, "[i][i]": 128}[index]
    assert found.lane == (9 if index == "[i][lane]" else 0)


def test_a_value_without_a_value_that_some_lanes_pick() -> None:
    """The boolean of a sum goes through a branch, a loop that lanes leave at different times, and a shuffle."""
    head = "threadgroup float tile[64]; if (t < 32 && t != 5) tile[t] = 1;\n" + BARRIER + "\n"
    loop = "float s = 0; for (uint i = 0; i <= lane; ++i) s += tile[i];\n"
    assert findings(head + loop + "out[t] = s;", threads=64) == [("uninitialised-threadgroup-memory", 2)]
    assert not findings(head + loop + "if (lane < 5) out[t] = s;", threads=64)
    picked = "float s = 0; if (lane > 20) s = tile[lane - 16];\n"
    assert findings(head + picked + "if (lane == 21) out[t] = s;", threads=64) == [
        ("uninitialised-threadgroup-memory", 2)
    ]
    assert not findings(head + picked + "if (lane != 21) out[t] = s;", threads=64)
    moved = "const float v = tile[lane];\nconst float w = simd_shuffle_xor(v, 1);\n"
    assert not findings(head + moved + "if (lane != 4) out[t] = w;", threads=64)
    assert findings(head + moved + "if (lane == 4) out[t] = w;", threads=64)
    chosen = "const float v = tile[lane]; const float w = lane == 5 ? 0.0f : v;\n"
    assert findings(head + chosen + "out[t] = v;", threads=64)


def test_lanes_of_one_simdgroup() -> None:
    tile = "threadgroup float tile[32]; tile[lane] = lane;\n"
    loop = "float s = 0; for (uint i = 0; i < 32; ++i) s += tile[i]; out[t] = s;"
    assert findings(tile + loop, threads=32) == [("simdgroup-race", 1)]
    fence = "simdgroup_barrier(mem_flags::mem_threadgroup);"
    assert not findings(f"{tile}{fence} {loop}", threads=32)
    assert findings(f"{tile}simdgroup_barrier(mem_flags::mem_none); {loop}", threads=32) == [("wrong-fence", 1)]
    assert findings(f"{tile}{fence} {loop}\ntile[lane] = 0;", threads=32) == [("simdgroup-race", 2)]
    assert not findings(f"{tile}{fence} {loop}\n{fence} tile[lane] = 0;", threads=32)


def test_a_loop_with_barriers_in_it() -> None:
    """Each round is an interval of its own."""
    tile = "threadgroup float tile[8][32]; for (uint r = 0; r < 8; ++r) tile[r][lane ^ 3] = r;\n"
    for barrier in ("simdgroup_barrier", "threadgroup_barrier"):
        loop = f"for (uint i = 0; i < n; ++i) {{ {barrier}(mem_flags::mem_threadgroup); s += tile[i][lane]; }}"
        body = f"{tile}float s = 0; {loop} out[t] = s;\n"
        assert findings(body + "tile[7][lane ^ 1] = 1;", n=8, threads=32) == [("simdgroup-race", 2)]
        assert not findings(body + "tile[6][lane ^ 1] = 1;", n=8, threads=32)


def test_a_block_that_all_simdgroups_have_read() -> None:
    """Read again and again it stays so; simdgroup barriers and writes in between count."""
    head = TILE.format(type="float") + "\n" + BARRIER + "\n"
    again = "float s = 0; for (uint j = 0; j < n; ++j) for (uint i = 0; i < 32; ++i) s += tile[i][lane]; out[t] = s;\n"
    assert not findings(head + again, n=4)
    assert findings(head + again + "if (t == 127) tile[3][30] = 1;", n=4) == [("race", 3)]
    own = "simdgroup_barrier(mem_flags::mem_threadgroup); s += tile[3][lane]; out[t] = s;\n"
    for writer in (0, 3):
        write = f"if (t == {32 * writer + 1}) tile[3][30] = 1;"
        assert "race" in kinds(head + again + own + write, n=2)
    loops = f"for (uint j = 0; j < n; ++j) {{ {again.replace('j < n', 'j < 1')}"
    rewritten = loops.rstrip("\n") + f"{BARRIER} tile[sg][lane] = 1; "
    assert not findings(f"{head}{rewritten}{BARRIER} }}", n=3)
    assert "race" in kinds(f"{head}{rewritten} }}", n=3)


MATRIX = """threadgroup float tile[32][32]; for (uint r = sg; r < 32; r += 4) tile[r][lane] = r;
{between}
simdgroup_float8x8 a, b, c = simdgroup_float8x8(0); for (uint i = 0; i < 4; ++i) {{
simdgroup_load(a, &tile[0][8 * i], 32); simdgroup_load(b, &tile[8 * i][8 * sg], 32, ulong2(0), true);
simdgroup_multiply_accumulate(c, a, b, c); }}
{after}
simdgroup_store(c, &tile[8 * sg][16], 32);
"""


def test_matrices_that_several_simdgroups_read() -> None:
    def found(between: str, after: str) -> list[tuple[str, int]]:
        head = HEAD.replace("<metal_stdlib>", "<metal_stdlib>\n#include <metal_simdgroup_matrix>").rstrip("\n")
        library = metalcore.Library(head + "\n" + MATRIX.format(between=between, after=after) + "}\n")
        with metalcore.mode("sanitize") as report:
            library.function("k")(np.zeros(128, np.float32), np.uint32(0), np.uint32(0), threads=128, group_size=128)
        return sorted((f.kind, f.line - LINE - 1) for f in report.findings)

    assert not found(BARRIER, BARRIER)
    assert "race" in {kind for kind, _ in found("", BARRIER)}
    assert "race" in {kind for kind, _ in found(BARRIER, "")}
    for place in ("[5][31]", "[31][7]"):  # of the first matrix of each round, and of the last
        assert found(BARRIER, f"if (t == 100) tile{place} = 2; " + BARRIER) == [("race", 5)]


PICKS = {"float": 1, "float2": 2, "float4": 4, "half": 1, "half4": 4}


@pytest.mark.parametrize("type_", PICKS)
@pytest.mark.parametrize("shift", [0, 1, 8])
@pytest.mark.parametrize("is_write", [True, False])
def test_one_thread_meets_a_row(type_: str, shift: int, is_write: bool) -> None:
    """A row that is recorded as words of eight is still a thread for each of its elements."""
    parts = PICKS[type_]
    scalar = type_.rstrip("24") if parts > 1 else type_
    tile = f"threadgroup {type_} tile[64]; if (sg < 2) tile[t] = {type_}(1);\n{BARRIER}\n"
    read = "v" if parts == 1 else "v.x + v.y"
    row = (
        f"tile[{shift} + lane] = {type_}(2);"
        if is_write
        else f"const {type_} v = tile[{shift} + lane]; out[t] = {read};"
    )
    row = f"if (sg == 0) {{ {row} }}"
    write = f"if (t == at) ((threadgroup {scalar}*)tile)[n] = 9;"
    for owner in (0, 7, 8, 22):
        for n in range(parts * (owner + shift), parts * (owner + shift + 1)):
            assert not findings(f"{tile}{row}\n{write}", n=n, at=owner)
            assert not findings(f"{tile}{row} {BARRIER}\n{write}", n=n, at=32 + owner)
            assert findings(f"{tile}{row}\n{write}", n=n, at=owner ^ 1) == [("simdgroup-race", 3)]
            assert findings(f"{tile}{row}\n{write}", n=n, at=32 + owner) == [("race", 3)]


def test_one_thread_meets_a_matrix() -> None:
    """Lane l holds elements (row, column) and (row, column + 1) of a line, or of a column where it is transposed."""
    head = "threadgroup float tile[64]; if (sg == 0) { tile[lane] = 1; tile[lane + 32] = 1; }\n" + BARRIER + "\n"
    for transposed in (False, True):
        load = f"simdgroup_float8x8 m; simdgroup_load(m, tile, 8, ulong2(0), {str(transposed).lower()});"
        both = f"{head}if (sg == 0) {{ {load} simdgroup_store(m, tile, 8, ulong2(0), {str(transposed).lower()}); }}\n"
        for row, column in ((0, 0), (1, 2), (4, 5), (6, 7)):
            holder = (row & 4) << 2 | (column & 4) << 1 | (row & 3) << 1 | (column >> 1 & 1)
            place = 8 * column + row if transposed else 8 * row + column
            write = "if (t == at) tile[n] = 9;"
            assert not findings(both + write, n=place, at=holder)
            assert findings(both + write, n=place, at=32 + holder) == [("race", 3)]
            assert findings(both + write, n=place, at=holder ^ 1) == [("simdgroup-race", 3)]
            assert not findings(f"{both}{BARRIER}\n{write}", n=place, at=holder ^ 1)
