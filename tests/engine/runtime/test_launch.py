"""Grids, groups and threadgroup memory: what runs, and what is refused before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_kernels import argument, function

import metalcore
from metalcore.engine.model import Variant
from metalcore.errors import LaunchError
from metalcore.launch import Kernel, check_buffers

SIZES = """KERNEL { uint32_t* o = L->buffers[0];
  for (int i = 0; i < 3; i++) o[i] = L->grid[i], o[3 + i] = L->groups[i], o[6 + i] = L->group[i]; }"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"threads": 10}, [10, 1, 1, 1, 1, 1, 10, 1, 1]),
        ({"threads": 5000}, [5000, 1, 1, 5, 1, 1, 1024, 1, 1]),
        ({"threads": (10, 4), "group_size": (4, 2)}, [10, 4, 1, 3, 2, 1, 4, 2, 1]),
        ({"threads": [7, 1, 3], "group_size": [2, 1, 2]}, [7, 1, 3, 4, 1, 2, 2, 1, 2]),
        ({"threads": np.int64(6), "group_size": np.uint8(3)}, [6, 1, 1, 2, 1, 1, 3, 1, 1]),
        ({"threadgroups": (2, 3), "group_size": (32, 4)}, [64, 12, 1, 2, 3, 1, 32, 4, 1]),
        ({"threadgroups": 4, "group_size": 1024}, [4096, 1, 1, 4, 1, 1, 1024, 1, 1]),
    ],
)
def test_grids(tmp_path: Path, given: dict[str, Any], expected: list[int]) -> None:
    sizes = function(tmp_path, "sizes", SIZES, (argument("o", 0, "uint32"),))
    out = np.zeros(9, np.uint32)
    for _ in range(2):  # the second time from the kept plan
        sizes(out, **given)
        assert out.tolist() == expected


@pytest.mark.parametrize("given", [{"threads": 0}, {"threads": (4, 0)}, {"threadgroups": (0, 1), "group_size": 8}])
def test_an_empty_grid_does_nothing(tmp_path: Path, given: dict[str, Any]) -> None:
    trap = function(tmp_path, "trap", "KERNEL { *(volatile int*)0 = 1; }", (argument("o", 0),))
    trap(np.zeros(0, np.float32), **given)


BAD = {
    "no grid": ({}, "threads= or threadgroups=", "neither"),
    "two grids": ({"threads": 4, "threadgroups": 4}, "threads= or threadgroups=", "both"),
    "no group": ({"threadgroups": 4}, "group_size="),
    "group too large": ({"threads": 4096, "group_size": (64, 32)}, "2048 threads", "limit is 1024"),
    "group over the kernel's own": ({"threads": 4096, "group_size": 512}, "512 threads", "own maximum is 256"),
    "empty group": ({"threads": 4, "group_size": 0}, "group_size=0", "positive"),
    "negative grid": ({"threads": -1}, "threads=-1"),
    "fraction": ({"threads": 1.5}, "threads=1.5"),
    "text": ({"threads": "4"}, "threads='4'"),
    "bool": ({"threads": True}, "threads=True"),
    "four dimensions": ({"threads": (1, 1, 1, 1)}, "4 dimensions"),
    "no dimension": ({"threads": ()}, "0 dimensions"),
    "grid too large": ({"threads": 2**32, "group_size": 32}, "32-bit"),
    "groups too many": ({"threadgroups": 2**30, "group_size": 8}, "32-bit"),
    "grid uncountable": ({"threads": (2**31, 2**31, 4), "group_size": 1}, "18446744073709551616 in all", "split"),
    "groups uncountable": ({"threadgroups": (2**24, 2**24, 2**14), "group_size": 1}, f"fewer than {2**60}"),
    "memory not given": ({"threads": 4, "threadgroup_memory": {}}, "threadgroup_memory={1: bytes}"),
    "memory too large": ({"threads": 4, "threadgroup_memory": {1: 32768}}, "limit is 32768", "32 static"),
    "unknown memory": ({"threads": 4, "threadgroup_memory": {31: 16, 1: 16}}, "no [[threadgroup(31)]]", "1 ('shared')"),
    "memory not a number": ({"threads": 4, "threadgroup_memory": {1: -5}}, "number of bytes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_launches(tmp_path: Path, case: str) -> None:
    given, *parts = BAD[case]
    shared = argument("shared", 1, kind="threadgroup", space="threadgroup")
    body = "KERNEL { *(int*)L->buffers[0] = 1; }"
    kernel = function(tmp_path, "kern", body, (argument("o", 0), shared), static=32, max_threads=256)
    out = np.zeros(1, np.float32)
    given = {"threadgroup_memory": {1: 16}} | given  # type: ignore[operator]
    with pytest.raises(LaunchError) as caught:
        kernel(out, **given)
    for part in ("'kern'", *parts):
        assert part in str(caught.value), (part, str(caught.value))
    assert out[0] == 0


def test_more_than_31_buffers() -> None:
    check_buffers(Kernel("kern", tuple((slot, "device") for slot in range(31))))
    with pytest.raises(LaunchError, match=r"buffer\(31\).*31 buffers"):
        check_buffers(Kernel("kern", tuple((slot, "device") for slot in range(32))))


def test_31_buffers_run(tmp_path: Path) -> None:
    body = "KERNEL { for (int i = 0; i < 31; i++) *(int*)L->buffers[i] = i + 1; }"
    arguments = tuple(argument(f"b{i}", i, "int32") for i in range(31))
    many = function(tmp_path, "many", body, arguments, written=tuple(range(31)))
    cells = np.zeros(31, np.int32)
    many(*(cells[i : i + 1] for i in range(31)), threads=1)
    assert cells.tolist() == list(range(1, 32))


@pytest.mark.parametrize(
    ("group", "key", "edge"),
    [
        ((1, 1, 1), "line-single-checked-tail", "line-single-checked-tail"),
        ((256, 1, 1), "line-many-checked", "line-many-checked"),
        ((32, 4, 1), "rows-many-checked", "any-many-checked-tail"),
        ((16, 2, 1), "tile16-single-checked", "any-single-checked-tail"),
        ((8, 8, 1), "tile8-many-checked", "any-many-checked-tail"),
        ((8, 8, 8), "any-many-checked", "any-many-checked"),
        ((12, 3, 1), "any-many-checked-tail", "any-many-checked-tail"),
        ((1, 32, 1), "tile1-single-checked", "any-single-checked-tail"),
    ],
)
def test_variants(group: tuple[int, int, int], key: str, edge: str) -> None:
    variant = Variant.choose(group, True)
    assert (variant.key, variant.edge().key) == (key, edge)


@pytest.mark.parametrize(
    ("group", "grid", "tail"),
    [
        ((64, 1, 1), (128, 1, 1), False),
        ((64, 1, 1), (96, 1, 1), False),
        ((64, 1, 1), (100, 1, 1), True),
        ((32, 4, 1), (64, 5, 1), False),
        ((16, 4, 1), (16, 5, 1), True),
        ((16, 4, 1), (20, 8, 1), False),
    ],
)
def test_code_for_partial_simdgroups_is_there_where_a_grid_has_them(
    group: tuple[int, int, int], grid: tuple[int, int, int], tail: bool
) -> None:
    assert Variant.choose(group, True, grid).tail is tail


def test_the_mode_chooses_the_machine_code(tmp_path: Path) -> None:
    sizes = function(tmp_path, "sizes", SIZES, (argument("o", 0, "uint32"),))
    out = np.zeros(9, np.uint32)
    sizes(out, threads=4)
    with metalcore.mode("fast"):
        sizes(out, threads=4)
        with metalcore.mode("checked"):
            sizes(out, threads=8)
    assert {v.key for v in sizes._loaded} == {"line-single-checked-tail", "line-single-fast-tail"}


def test_modes_are_named() -> None:
    with pytest.raises(ValueError, match="'checked', 'fast' and 'sanitize'"):
        metalcore.mode("quick")


def test_static_memory_and_limits_are_shown(tmp_path: Path) -> None:
    kernel = function(tmp_path, "kern", SIZES, (argument("o", 0, "uint32"),), static=96, max_threads=64)
    assert (kernel.name, kernel.max_threads, kernel.static_threadgroup_memory) == ("kern", 64, 96)
    assert [a.name for a in kernel.arguments] == ["o"]
