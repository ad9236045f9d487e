"""Launches that native/replay.c repeats without running Python: its structs, filled from what Python has recorded."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from metalcore.engine.runtime.native_library import method

MOST_ARRAYS, MOST_WORDS, KNOWN = 64, 256, 4  # as in native/replay.c


class _Match(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("shape", "dtype", "contiguous", "value")),
        *((name, c_int64) for name in ("size", "item")),
    ]


class _Maker(ctypes.Structure):
    _fields_ = [("like", c_int64), ("is_copy", c_int64), *((n, c_void_p) for n in ("shape", "stride", "named"))]


class _Address(ctypes.Structure):
    _fields_ = [("word", c_uint32), ("array", c_uint32)]


class _Step(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("plan", "makers", "addresses", "words")),
        *((name, c_uint32) for name in ("n_makers", "n_addresses", "n_words", "errors")),
        ("n_errors", c_uint64),
    ]


class _Recording(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("matches", "steps", "results")),
        *((name, c_uint32) for name in ("n_arguments", "n_steps", "n_results", "number")),
    ]


class _Recordings(ctypes.Structure):
    _fields_ = [("known", c_void_p * KNOWN), ("empty_strided", c_void_p), ("empty_like", c_void_p)]


@dataclass(frozen=True)
class Tensor:
    """What a tensor among the arguments must be."""

    shape: Any
    dtype: Any
    is_contiguous: bool
    size: int  # bytes of all elements; 0 where it is not contiguous, so that the plan has a copy made
    item: int  # and of one


@dataclass(frozen=True)
class Launch:
    """One launch: its plan's address, arrays to make, and the packed arguments but for addresses of arrays."""

    plan: int
    copies: tuple[int, ...]  # arrays of which a contiguous copy is made, first
    made: tuple[tuple[Any, ...], ...]  # (array,) to be like, or arguments of torch.empty_strided
    addresses: tuple[tuple[int, int], ...]  # word, array
    packed: bytes


@dataclass(frozen=True)
class Look:
    """At the errors that a kernel noted: which array, and how many rows it has. `is_info`: an int32 array that holds 0
    where a factorisation did not fail."""

    array: int
    rows: int
    is_info: bool = False


class Recordings:
    """What is known of one plan. `repeat(threads, *arguments)` is a tuple of results; None where the arguments are not
    known; or a list [recording, step, status, errors] where a launch failed or a kernel noted errors."""

    def __init__(self, empty_strided: Any, empty_like: Any) -> None:
        self._kept: list[Any] = [empty_strided, empty_like]  # another thread may be inside: nothing is ever freed
        self._table = _Recordings((c_void_p * KNOWN)(), id(empty_strided), id(empty_like))
        self._known: list[_Recording] = []
        self.repeat: Any = method("mc_repeat", ctypes.addressof(self._table))

    def add(self, arguments: list[Any], steps: list[Launch | Look], results: list[int]) -> int | None:
        """Its number, or None where it is too large. `arguments` holds `Tensor`s and plain values."""
        arrays = len(arguments) + sum(len(s.copies) + len(s.made) for s in steps if isinstance(s, Launch))
        if arrays > MOST_ARRAYS or any(isinstance(s, Launch) and len(s.packed) > 8 * MOST_WORDS for s in steps):
            return None
        recording = _Recording(
            self._array(_Match, [self._match(a) for a in arguments]),
            self._array(_Step, [self._step(s) for s in steps]),
            self._array(c_uint32, results),
            *(len(arguments), len(steps), len(results), len(self._known)),
        )
        self._known.append(recording)
        self.promote(recording.number)
        return int(recording.number)

    def promote(self, number: int) -> None:
        """This one is looked at first from now on."""
        address = ctypes.addressof(self._known[number])
        others = [a for a in self._table.known if a and a != address]
        for i, known in enumerate([address, *others][:KNOWN]):
            self._table.known[i] = known

    def _match(self, argument: Any) -> _Match:
        self._kept.append(argument)
        if not isinstance(argument, Tensor):
            return _Match(value=id(argument))
        identities = (id(argument.shape), id(argument.dtype), id(argument.is_contiguous))
        return _Match(*identities, size=argument.size, item=argument.item)

    def _step(self, step: Launch | Look) -> _Step:
        if isinstance(step, Look):
            return _Step(errors=step.array, n_errors=step.rows, n_words=int(step.is_info))
        self._kept.append(step)
        makers = [*(_Maker(copy, 1) for copy in step.copies), *(self._maker(*made) for made in step.made)]
        return _Step(
            step.plan,
            self._array(_Maker, makers),
            self._array(_Address, [_Address(*pair) for pair in step.addresses]),
            self._array(c_uint64, list(memoryview(step.packed).cast("Q"))),
            *(len(makers), len(step.addresses), len(step.packed) // 8),
        )

    def _maker(self, first: Any, stride: Any = None, dtype: Any = None) -> _Maker:
        if stride is None:
            return _Maker(first)
        named = {"dtype": dtype}
        self._kept.append(named)
        return _Maker(-1, 0, id(first), id(stride), id(named))

    def _array(self, kind: Any, items: list[Any]) -> int:
        made = (kind * len(items))(*items)
        self._kept.append(made)
        return ctypes.addressof(made)
