"""The table of exact cases, which is the same for every processor: `scripts/test-aarch64` runs it on another one.

Each case is computed lane by lane, as one value for all lanes, and from constants that the compiler folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

import metalcore
from tests.engine.math.exact import FORMATS, size_of
from tests.engine.math.exact_table import TABLE, Rows

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
MODES = ("checked", "fast", "sanitize")
FORMS = ("lanes", "uniform", "constants")


def _read(kind: str, word: str) -> str:
    """A value of a type from its bits in a ulong."""
    if kind in FORMATS:
        return f"as_type<{kind}>({'uint' if kind == 'float' else 'ushort'}({word}))"
    return f"{kind}({word})"


def _bits(kind: str, value: str) -> str:
    """And back."""
    if kind in FORMATS:
        return f"ulong(as_type<{'uint' if kind == 'float' else 'ushort'}>({value}))"
    if kind == "bool":
        return f"ulong({value})"
    return f"ulong(u{kind.removeprefix('u')}({value}))"


def _computed(rows: Rows, words: Sequence[str]) -> str:
    values = " ".join(f"{k} {n} = {_read(k, w)};" for k, n, w in zip(rows.kinds, "xyz", words, strict=False))
    return f"{{ {values} {rows.result} r = {rows.expression}; out[at] = {_bits(rows.result, 'r')}; }}"


def _source(table: Sequence[Rows], form: str, most: int) -> str:
    """Each row of the table has a stretch of *most* places."""
    where = "i" if form == "lanes" else "g"
    body = []
    for number, rows in enumerate(table):
        if form == "constants":
            for place, operands in enumerate(rows.cases):
                body.append(f"at = {number * most + place}; {_computed(rows, [f'{bits}ul' for bits in operands])}")
        else:
            words = [f"in[at * 3 + {k}]" for k in range(len(rows.kinds))]
            body.append(f"at = {number * most} + {where}; {_computed(rows, words)}")
    text = "\n  ".join(body)
    return f"""{HEAD}kernel void k(device const ulong* in, device ulong* out,
    uint i [[thread_position_in_grid]], uint g [[threadgroup_position_in_grid]]) {{
  uint at;
  {text}
}}"""


def _wrong(table: Sequence[Rows], form: str, mode: str, math_mode: str) -> list[str]:
    most = max(len(rows.cases) for rows in table)
    given = np.zeros((len(table), most, 3), np.uint64)
    for number, rows in enumerate(table):
        for place, operands in enumerate(rows.cases):
            given[number, place, : len(operands)] = operands
    out = np.zeros((len(table), most), np.uint64)
    function = metalcore.Library(_source(table, form, most), math_mode=math_mode).function("k")
    threads, group = {"lanes": (most, 64), "uniform": (most * 32, 32), "constants": (32, 32)}[form]
    with metalcore.mode(mode):
        function(given.reshape(-1), out.reshape(-1), threads=threads, group_size=group)
    return [found for rows, got in zip(table, out, strict=True) for found in _differences(rows, got)]


def _differences(rows: Rows, got: npt.NDArray[np.uint64]) -> list[str]:
    form = FORMATS.get(rows.result)
    wrong = []
    for (operands, want), found in zip(rows.cases.items(), got.tolist(), strict=False):
        if found == want or (form is not None and form.is_nan(want) and form.is_nan(found)):
            continue
        named = ", ".join(f"{n} = {k} {b:#x}" for n, k, b in zip("xyz", rows.kinds, operands, strict=False))
        digits = size_of(rows.result) // 4
        wrong.append(f"{rows.expression} with {named} is {found:#0{digits + 2}x}, not {want:#0{digits + 2}x}")
    return wrong


def _thinned(table: Sequence[Rows], step: int) -> list[Rows]:
    """Every step-th case: the compiler takes a hundredth of a second for each that is a constant."""
    return [replace(rows, cases=dict(list(rows.cases.items())[n % step :: step])) for n, rows in enumerate(table)]


def _check(form: str, mode: str, tables: Iterable[Sequence[Rows]], math_mode: str = "safe") -> None:
    wrong = [found for table in tables for found in _wrong(table, form, mode, math_mode)]
    assert not wrong, "\n".join([f"{len(wrong)} cases, {form}, {mode}, {math_mode}:", *wrong[:20]])


@pytest.mark.feature("math", "exact bits at ends of ranges, of NaN, shifts and denormals, the same on every processor")
def test_each_lane_has_its_case() -> None:
    _check("lanes", "fast", TABLE.values())


@pytest.mark.feature("math", "the same of values that are one for all lanes")
def test_one_case_for_all_lanes() -> None:
    _check("uniform", "fast", (_thinned(table, 2) for table in TABLE.values()))


@pytest.mark.feature("math", "the same of constants, which the compiler folds")
def test_constants() -> None:
    _check("constants", "fast", (_thinned(table, 19) for table in TABLE.values()))


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_every_mode(form: str, mode: str, name: str) -> None:
    _check(form, mode, [TABLE[name]])


@pytest.mark.feature("math", "denormals are kept in relaxed and fast mode too, and so are ends of ranges")
@pytest.mark.parametrize("form", ("lanes", "uniform"))
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("math_mode", ("relaxed", "fast"))
def test_other_math_modes(math_mode: str, name: str, form: str) -> None:
    table = [rows for rows in TABLE[name] if rows.is_exact]
    if math_mode == "fast":
        table = [rows.without_specials() for rows in table]
    _check(form, "fast", [[rows for rows in table if rows.cases]], math_mode)
