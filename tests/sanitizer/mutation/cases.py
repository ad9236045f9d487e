"""The 20 kernels: inputs of odd sizes, the launch, and what NumPy gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

KERNELS = Path(__file__).parent / "kernels"
Array = np.ndarray[Any, np.dtype[Any]]
Values = dict[str, Any]


@dataclass(frozen=True)
class Case:
    name: str
    arguments: Callable[[np.random.Generator], Values]  # by MSL name; outputs are there too, filled
    launch: Mapping[str, Any]
    reference: Callable[[Values], dict[str, Array]]  # what the outputs must be

    @property
    def source(self) -> str:
        return (KERNELS / f"{self.name}.metal").read_text()

    def make(self) -> Values:
        """Fresh arguments, the same ones each time."""
        return self.arguments(np.random.default_rng(7))


def _floats(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def _zeros(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


def _row_kernel(n: int, rows: int, output: Callable[[Array], Array]) -> tuple[Any, Any]:
    """Arguments and reference of a kernel y = f(x), row by row."""
    shape = output(np.zeros((rows, n), np.float32)).shape
    dtype = output(np.zeros((rows, n), np.float32)).dtype
    return (
        lambda rng: {"x": _floats(rng, rows, n), "y": np.full(shape, 77, dtype), "n": n},
        lambda a: {"y": output(a["x"])},
    )


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray((e / e.sum(axis=-1, keepdims=True)).astype(np.float32))


def _normalised(a: Values, centred: bool, epsilon: float) -> dict[str, Array]:
    x = a["x"].astype(np.float64)
    if centred:
        x = x - x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((x * x).mean(axis=1, keepdims=True) + epsilon)
    return {"y": (x * scale * a["weight"]).astype(np.float32)}


def _attention(a: Values) -> dict[str, Array]:
    return {"y": _softmax(a["q"] @ a["k"].T * np.float32(0.25)) @ a["v"]}


def _top_k(a: Values) -> dict[str, Array]:
    places = np.argsort(-a["x"], axis=1, kind="stable")[:, : a["k"]]
    return {"values": np.take_along_axis(a["x"], places, 1), "places": places.astype(np.int32)}


def _stencil(a: Values) -> dict[str, Array]:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(a["x"], 2), 5)
    return {"y": windows @ np.array([1, 2, -3, 2, 1], np.float32)}


def _conv1d(a: Values) -> dict[str, Array]:
    x = np.pad(a["x"], ((0, 0), (2, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(x, 5, axis=1)
    return {"y": np.einsum("cij,cj->i", windows, a["taps"])}


def _gather(a: Values) -> dict[str, Array]:
    inside = (a["index"] >= 0) & (a["index"] < a["vocabulary"])
    rows = a["table"][np.where(inside, a["index"], 0)]
    return {"y": np.where(inside[:, None], 2 * rows, np.float32(0))}


def _dequantise(a: Values) -> dict[str, Array]:
    codes = np.stack([a["codes"] & 15, a["codes"] >> 4], axis=1).reshape(-1)[: a["n"]]
    group = np.arange(a["n"]) // 16
    return {"y": codes.astype(np.float32) * a["scales"][group] + a["offsets"][group]}


def _segments(a: Values) -> dict[str, Array]:
    return {"y": np.add.reduceat(a["x"], a["starts"][:-1]).astype(np.float32)}


def _cases() -> list[Case]:
    cases = []

    def groups(count: Any, size: Any) -> dict[str, Any]:
        return {"threadgroups": count, "group_size": size}

    def weighted(rng: np.random.Generator, n: int) -> Values:
        return {"x": _floats(rng, 3, n), "weight": _floats(rng, n), "y": _zeros(3, n), "n": n}

    def add(name: str, arguments: Any, launch: Mapping[str, Any], reference: Any) -> None:
        cases.append(Case(name, arguments, launch, reference))

    def add_scan(name: str, rows: int, n: int, threads: int) -> None:
        add(
            name,
            lambda rng: {"x": rng.integers(-9, 9, (rows, n), np.int32), "y": _zeros(rows, n, dtype=np.int32), "n": n},
            groups(rows, threads),
            lambda a: {"y": a["x"].cumsum(axis=1, dtype=np.int32)},
        )

    arguments, reference = _row_kernel(1000, 3, lambda x: x.sum(axis=1))
    add("tree_reduction", arguments, groups(3, 128), reference)
    arguments, reference = _row_kernel(203, 3, lambda x: np.stack([x.max(axis=1), x.min(axis=1)], axis=1))
    add("two_stage_reduction", lambda rng: {**arguments(rng), "rows": 3}, groups(1, 128), reference)
    add_scan("scan", 3, 91, 96)
    add(
        "transpose",
        lambda rng: {"x": _floats(rng, 35, 50), "y": _zeros(50, 35), "rows": 35, "columns": 50},
        groups((4, 3), (16, 16)),
        lambda a: {"y": a["x"].T},
    )
    add(
        "matmul",
        lambda rng: dict(a=_floats(rng, 33, 37), b=_floats(rng, 37, 21), c=_zeros(33, 21), m=33, n=21, k=37),
        groups((2, 3), (16, 16)),
        lambda a: {"c": a["a"] @ a["b"]},
    )
    softmax_arguments, softmax_reference = _row_kernel(201, 3, _softmax)
    add("softmax", softmax_arguments, groups(3, 64), softmax_reference)
    add("layer_norm", lambda rng: weighted(rng, 151), groups(3, 64), lambda a: _normalised(a, True, 1e-5))
    add(
        "histogram",
        lambda rng: {
            "x": rng.integers(0, 37, 999, np.uint32),
            "bins": _zeros(37, dtype=np.uint32),
            "n": 999,
            "count": 37,
        },
        groups(8, 128),
        lambda a: {"bins": np.bincount(a["x"], minlength=37).astype(np.uint32)},
    )
    sort_arguments, sort_reference = _row_kernel(101, 3, lambda x: np.sort(x, axis=1))
    add("bitonic_sort", lambda rng: {**sort_arguments(rng), "padded": 128}, groups(3, 128), sort_reference)
    add(
        "stencil",
        lambda rng: {"x": _floats(rng, 151), "y": _zeros(151), "n": 151},
        groups(3, 64),
        _stencil,
    )
    add("rms_norm", lambda rng: weighted(rng, 295), groups(3, 64), lambda a: _normalised(a, False, 1e-6))
    add(
        "attention",
        lambda rng: {
            "q": _floats(rng, 3, 16),
            "k": _floats(rng, 45, 16),
            "v": _floats(rng, 45, 16),
            "y": _zeros(3, 16),
            "length": 45,
            "width": 16,
        },
        groups(3, 64),
        _attention,
    )
    add(
        "top_k",
        lambda rng: {
            "x": _floats(rng, 3, 101),
            "values": _zeros(3, 5),
            "places": _zeros(3, 5, dtype=np.int32),
            "n": 101,
            "k": 5,
        },
        groups(3, 128),
        _top_k,
    )
    add_scan("block_scan", 2, 301, 128)
    add(
        "matvec",
        lambda rng: {"a": _floats(rng, 37, 75), "x": _floats(rng, 75), "y": _zeros(37), "rows": 37, "n": 75},
        groups(10, 128),
        lambda a: {"y": a["a"] @ a["x"]},
    )
    add(
        "gather",
        lambda rng: {
            "table": _floats(rng, 23, 19),
            "index": np.concatenate([rng.integers(0, 23, 24), [22, -1, 40, 0, 9, 22, 3]]).astype(np.int32),
            "y": _zeros(31, 19),
            "vocabulary": 23,
            "width": 19,
            "count": 31,
        },
        groups((3, 5), (8, 8)),
        _gather,
    )
    add(
        "conv1d",
        lambda rng: {
            "x": _floats(rng, 3, 151),
            "taps": _floats(rng, 3, 5),
            "y": _zeros(151),
            "channels": 3,
            "n": 151,
        },
        groups(3, 64),
        _conv1d,
    )
    argmax_arguments, argmax_reference = _row_kernel(201, 3, lambda x: x.argmax(axis=1).astype(np.uint32))
    add("argmax", argmax_arguments, groups(3, 64), argmax_reference)
    add(
        "dequantise",
        lambda rng: {
            "codes": rng.integers(0, 256, 151, np.uint8),
            "scales": _floats(rng, 19),
            "offsets": _floats(rng, 19),
            "y": _zeros(301),
            "n": 301,
        },
        groups(3, 64),
        _dequantise,
    )
    add(
        "segmented_sum",
        lambda rng: {
            "x": _floats(rng, 301),
            "starts": np.array([0, 7, 130, 131, 250, 301], np.uint32),
            "scratch": _zeros(5, 64),
            "y": _zeros(5),
        },
        groups(5, 64),
        _segments,
    )
    return cases


CASES: dict[str, Case] = {case.name: case for case in _cases()}
