"""Kernel arguments as words on a command line: files, made arrays, numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from metalcore.arrays import numpy

MAKERS = "zeros:DTYPE:SHAPE, ones:DTYPE:SHAPE, arange:DTYPE:N, random:DTYPE:SHAPE[:SEED], full:DTYPE:SHAPE:VALUE"
DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32",
    "complex64",
)  # fmt: skip


def parse(word: str) -> Any:
    """One argument of a kernel: an array, a number, a tuple of numbers, or None."""
    if word.lower() == "none":
        return None
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if word.endswith(".npy"):
        return _load(word)
    kind, colon, rest = word.partition(":")
    if colon:
        return _make(word, kind, rest.split(":"))
    if "," in word:
        return tuple(_number(part, word) for part in word.split(",") if part)
    return _number(word, word)


def number(text: str) -> bool | int | float:
    """A bool, an int (also 0x...) or a float."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text, 0)
    except ValueError:
        return float(text)


def _number(text: str, word: str) -> bool | int | float:
    try:
        return number(text)
    except ValueError:
        raise click.UsageError(
            f"'{word}' is not a kernel argument: give FILE.npy, a number, none, or {MAKERS}"
        ) from None


def _load(word: str) -> Any:
    path = Path(word)
    if not path.is_file():
        raise click.UsageError(f"there is no file {word}")
    try:
        return np.ascontiguousarray(np.load(path, allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise click.UsageError(f"{word} is not an array in NumPy's .npy format: {error}") from None


def _make(word: str, kind: str, fields: list[str]) -> Any:
    wanted = {"zeros": (2,), "ones": (2,), "arange": (2,), "random": (2, 3), "full": (3,)}.get(kind)
    if wanted is None or len(fields) not in wanted:
        raise click.UsageError(f"'{word}' is not a kernel argument; arrays are made by {MAKERS}")
    dtype, shape = dtype_of(fields[0], word), _shape(fields[1], word)
    try:
        return _filled(word, kind, dtype, shape, fields)
    except (ValueError, OverflowError, MemoryError) as error:
        raise click.UsageError(f"'{word}' cannot be made: {error}") from None


def _filled(word: str, kind: str, dtype: np.dtype[Any], shape: tuple[int, ...], fields: list[str]) -> Any:
    if kind == "zeros":
        return np.zeros(shape, dtype)
    if kind == "ones":
        return np.ones(shape, dtype)
    if kind == "arange":
        _check_range(word, dtype, math.prod(shape) - 1)
        return np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    filling = _number(fields[2], word) if len(fields) == 3 else 0
    if kind == "full":
        _check_range(word, dtype, filling)
        return np.full(shape, filling).astype(dtype)
    if not isinstance(filling, int) or filling < 0:
        raise click.UsageError(f"'{word}': a seed is a number that is not negative")
    return _random(shape, dtype, filling)


def _check_range(word: str, dtype: np.dtype[Any], value: float) -> None:
    """Integers would wrap around without a word."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if value != int(value) or not limits.min <= value <= limits.max:
            raise click.UsageError(f"'{word}': {value} is not a value of {dtype.name}")


def _random(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Any:
    """Standard normal floats, integers from 0 to 99, bools."""
    generator = np.random.default_rng(seed)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return generator.integers(0, 100, shape).astype(dtype)
    if dtype.kind == "c":
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def dtype_of(name: str, word: str) -> np.dtype[Any]:
    """A dtype that Metal has."""
    if name not in DTYPES:
        raise click.UsageError(f"'{word}': '{name}' is not one of {', '.join(DTYPES)}")
    try:
        return numpy.dtype_of(name)
    except ImportError:
        raise click.UsageError("NumPy has no bfloat16: install the package ml_dtypes") from None


def _shape(text: str, word: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.split("x"))
    except ValueError:
        shape = (-1,)
    if min(shape) < 0:
        raise click.UsageError(f"'{word}': '{text}' is not a shape; write 1024 or 64x64")
    return shape


def sizes(text: str) -> tuple[int, ...]:
    """One to three sizes: 1024, 64x64 or 64,64,2."""
    try:
        found = tuple(int(part) for part in text.replace(",", "x").split("x"))
    except ValueError:
        found = ()
    if not 1 <= len(found) <= 3 or min(found) < 0:
        raise click.BadParameter(f"'{text}' is not one to three sizes, such as 1024 or 64x64")
    return found


def pair(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    left, equals, right = text.partition("=")
    if not left or not equals:
        raise click.BadParameter(f"'{text}' is not of the form NAME=VALUE")
    return left, right


def keyed(pairs: tuple[tuple[str, str], ...], what: str) -> dict[int | str, Any]:
    """name=value options as a mapping by index or name to numbers."""
    found: dict[int | str, Any] = {}
    for left, right in pairs:
        try:
            found[int(left) if left.isdigit() else left] = number(right)
        except ValueError:
            raise click.UsageError(f"{what} {left}={right}: '{right}' is not a number or true or false") from None
    return found
