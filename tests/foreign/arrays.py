"""Arrays for corpus kernels: types by their names in host_name, tolerances, and comparison with a float64 reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]

DTYPES: dict[str, Any] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "bool_": np.bool_,
    "complex64": np.complex64,
}
FLOATS = ("float32", "float16", "bfloat16")
EPSILON = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "complex64": 2.0**-23}
# Below the smallest normal number the numbers of a type are no closer to each other than there.
SMALLEST = {"float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126, "complex64": 2.0**-126}


def swept(cases: Iterable[Any], kept: Sequence[Any]) -> list[Any]:
    """Cases of a parametrised test: those in *kept* run always, the others in the full corpus alone."""
    return [case if case in kept else pytest.param(case, marks=pytest.mark.sweep) for case in cases]


def generator(*seed: object) -> np.random.Generator:
    """A random generator that a test's own parameters seed."""
    return np.random.default_rng([ord(char) for part in seed for char in str(part)])


def numbers(rng: np.random.Generator, shape: int | tuple[int, ...], name: str, scale: float = 1.0) -> Array:
    """Random values of a type: normal for floats, small whole numbers for integers."""
    if name == "bool_":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if name == "complex64":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)
    if name in FLOATS:
        return (rng.standard_normal(shape) * scale).astype(DTYPES[name])
    low = 0 if name.startswith("uint") else -50
    return rng.integers(low, 50, shape).astype(DTYPES[name])


def exact(array: Array) -> Array:
    """The same values in double precision."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def wide(kind: Any) -> int:
    """Elements that one thread of MLX's elementwise kernels handles."""
    return max(1, 8 // np.dtype(kind).itemsize)


def strides(array: Array) -> Array:
    """Strides in elements, as MLX passes them."""
    return np.array([stride // array.itemsize for stride in array.strides], np.int64)


def close(got: Array, want: Any, name: str, ulps: float = 4.0, floor: float | Array = 0.0) -> None:
    """Assert that results are within *ulps* units of the type of the reference, or within *floor* of it."""
    reference = np.asarray(want)
    error = np.abs(exact(got) - reference)
    allowed = ulps * EPSILON[name] * np.maximum(np.abs(reference), SMALLEST[name]) + floor
    same = (exact(got) == reference) | (np.isnan(exact(got)) & np.isnan(reference))
    bad = ~(same | (error <= allowed))
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        pytest.fail(f"{int(bad.sum())} of {bad.size} differ; at {at}: got {got[at]}, want {reference[at]}")
