"""Kernel arguments as words."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pytest

from metalcore.tools import values


def test_arrays(tmp_path: Path) -> None:
    assert values.parse("zeros:float32:3").tolist() == [0, 0, 0]
    assert values.parse("ones:uint8:2x2").tolist() == [[1, 1], [1, 1]]
    assert values.parse("arange:int16:2x3").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert values.parse("full:float16:2:-1.5").tolist() == [-1.5, -1.5]
    first, again, other = (values.parse(f"random:float32:100:{seed}") for seed in (7, 7, 8))
    assert first.dtype == np.float32 and (first == again).all() and not (first == other).all()
    integers = values.parse("random:int64:1000")
    assert integers.min() >= 0 and integers.max() < 100
    assert values.parse("zeros:complex64:2").dtype == np.complex64
    pytest.importorskip("ml_dtypes")
    assert values.parse("ones:bfloat16:2").dtype.name == "bfloat16"
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3).T)
    assert values.parse(str(tmp_path / "a.npy")).flags.c_contiguous


def test_numbers() -> None:
    assert values.parse("3") == 3 and isinstance(values.parse("3"), int)
    assert values.parse("-2.5e3") == -2500.0 and values.parse("0x10") == 16
    assert values.parse("true") is True and values.parse("False") is False and values.parse("none") is None
    assert values.parse("1,2.5,-3") == (1, 2.5, -3)


@pytest.mark.parametrize(
    "word",
    [
        "",
        "text",
        "zeros:float32",
        "zeros:float64:3",
        "zeros:float32:-3",
        "full:int8:3",
        "random:int8:3:x",
        "1,x",
        "full:uint8:3:300",
        "full:int32:3:1.5",
        "arange:int8:1000",
        "zeros:float32:999999999999999x999999",
    ],
)
def test_mistakes(word: str) -> None:
    with pytest.raises(click.UsageError):
        values.parse(word)


def test_a_file_that_is_no_array(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"not an array")
    with pytest.raises(click.UsageError, match=r"a\.npy"):
        values.parse(str(tmp_path / "a.npy"))


def test_options() -> None:
    assert values.sizes("64x32") == (64, 32) and values.sizes("1,2,3") == (1, 2, 3)
    assert values.pair("a=b=c") == ("a", "b=c")
    assert values.keyed((("0", "true"), ("n", "1.5")), "-c") == {0: True, "n": 1.5}
    for wrong in ("", "1x2x3x4", "-1", "a"):
        with pytest.raises(click.BadParameter):
            values.sizes(wrong)
    with pytest.raises(click.UsageError):
        values.keyed((("n", "text"),), "-c")
