"""Memory of the interpreter: typed cells that notice races and accesses out of range."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.stress.arith import Undefined
from tests.stress.types import Scalar, Vector

Thread = tuple[int, int]  # group, thread in group


class Memory:
    """One buffer, table or threadgroup array.

    `epoch` counts barriers for threadgroup memory: accesses of different epochs do not race. Device memory keeps
    epoch 0, so two threads never share a cell that one of them writes.
    """

    def __init__(self, name: str, cells: list[Any], writable: bool, atomic: bool = False) -> None:
        self.name = name
        self.cells = cells
        self.writable = writable
        self.atomic = atomic
        self.epoch = 0
        self.writers: dict[int, tuple[int, Thread]] = {}
        self.readers: dict[int, tuple[int, set[Thread]]] = {}
        self.kinds: dict[int, tuple[int, set[tuple[str, Thread]]]] = {}  # operations on atomic cells

    def check(self, index: int) -> None:
        if not 0 <= index < len(self.cells):
            raise Undefined(f"{self.name}[{index}] is out of range")

    def load(self, index: int, thread: Thread) -> Any:
        self.check(index)
        if self.writable and not self.atomic:
            writer = self.writers.get(index)
            if writer and writer[0] == self.epoch and writer[1] != thread:
                raise Undefined(f"{self.name}[{index}] is written by {writer[1]} and read by {thread}")
            epoch, readers = self.readers.get(index, (self.epoch, set()))
            if epoch != self.epoch:
                readers = set()
            readers.add(thread)
            self.readers[index] = (self.epoch, readers)
        if self.atomic:
            self.note("load", index, thread)
        value = self.cells[index]
        if value is None:
            raise Undefined(f"{self.name}[{index}] is read before it is written")
        return value

    def store(self, index: int, value: Any, thread: Thread) -> None:
        self.check(index)
        if not self.writable or self.atomic:
            raise Undefined(f"{self.name} must not be written")
        writer = self.writers.get(index)
        epoch, readers = self.readers.get(index, (-1, set()))
        if writer and writer[0] == self.epoch and writer[1] != thread:
            raise Undefined(f"{self.name}[{index}] is written by {writer[1]} and {thread}")
        if epoch == self.epoch and readers - {thread}:
            raise Undefined(f"{self.name}[{index}] is read by {min(readers - {thread})} and written by {thread}")
        self.writers[index] = (self.epoch, thread)
        self.cells[index] = value

    def update(self, op: str, index: int, value: int, wrap: int, thread: Thread) -> None:
        """An atomic store or read-modify-write."""
        self.check(index)
        self.note(op, index, thread)
        old = self.cells[index]
        if op == "store":
            self.cells[index] = value
            return
        if old is None:
            raise Undefined(f"{self.name}[{index}] is updated before it is written")
        new = {"add": old + value, "sub": old - value, "min": min(old, value), "max": max(old, value)}.get(op)
        if new is None:
            new = {"or": old | value, "and": old & value, "xor": old ^ value}[op]
        self.cells[index] = new % wrap

    def note(self, op: str, index: int, thread: Thread) -> None:
        """Between two barriers only one kind of operation may work on a cell: then order is no matter."""
        epoch, seen = self.kinds.get(index, (self.epoch, set()))
        if epoch != self.epoch:
            seen = set()
        for kind, other in seen:
            if other != thread and (kind != op or op == "store"):
                raise Undefined(f"{self.name}[{index}]: atomic {kind} and {op} in no order")
        seen.add((op, thread))
        self.kinds[index] = (self.epoch, seen)


def to_cells(array: np.ndarray[Any, Any], type_: Scalar | Vector) -> list[Any]:
    """Values as the interpreter holds them; a vector is a tuple (three components take the room of four)."""
    element = type_.element if isinstance(type_, Vector) else type_
    if element.is_float:
        flat: list[Any] = list(array.reshape(-1))
    else:
        flat = array.reshape(-1).tolist()
    if isinstance(type_, Scalar):
        return flat
    step = 4 if type_.size == 3 else type_.size
    return [tuple(flat[i : i + type_.size]) for i in range(0, len(flat), step)]


def from_cells(cells: list[Any], type_: Scalar | Vector, before: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The reverse of to_cells; padding keeps what it was before."""
    array: np.ndarray[Any, Any] = np.array(before)
    if isinstance(type_, Scalar):
        array[:] = np.array(cells, type_.dtype)
        return array
    step = 4 if type_.size == 3 else type_.size
    array.reshape(-1, step)[:, : type_.size] = np.array(cells, type_.element.dtype)
    return array
