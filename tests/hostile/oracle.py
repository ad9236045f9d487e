"""What a launch must do, exactly: every statement is carried out for all threads of the grid at once.

Out of bounds a read gives 0 and a write is dropped. Threads meet only where the order is no matter (the generator sees
to that, and what it cannot see is drawn anew: `Redraw`), so threads need no order here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.hostile import numbers as nb
from tests.hostile import tree as h
from tests.hostile.choose import choose_own, choose_param, plain_value
from tests.hostile.elements import Bytes, fold, make
from tests.hostile.printer import table_values
from tests.hostile.shape import Launch
from tests.stress import tree as t
from tests.stress.types import BOOL, FLOAT, UINT, USHORT, Scalar, common, promote

Words = nb.Words
Mask = np.ndarray[Any, np.dtype[np.bool_]]
MOST_ROUNDS = 80


class Redraw(Exception):
    """This launch has no result that can be known: another one is drawn."""


@dataclass
class Pointer:
    arrays: np.ndarray[Any, np.dtype[np.int64]]  # by thread: the number of the array that it points into
    offsets: Words


@dataclass
class Outcome:
    memory: dict[str, Bytes]  # device arrays (and `o`, `dump_x`) after the launch
    outside: dict[str, int] = field(default_factory=dict)  # array -> threads that left it
    undefined: str = ""


class Oracle:
    def __init__(self, kernel: h.Kernel, launch: Launch, contents: dict[str, Bytes], spans: dict[str, tuple[int, int]]):
        self.kernel, self.launch, self.shape = kernel, launch, launch.shape
        self.random = random.Random(f"{kernel.seed}/{launch.seed}/choices")
        self.spans = spans  # array -> first and last address on the host
        self.numbers = {a.name: i for i, a in enumerate(kernel.arrays)}
        places = self.shape.places
        n = self.shape.total
        self.everyone = np.ones(n, bool)
        self.rows = {"private": np.arange(n), "threadgroup": places["grp"].astype(np.int64)}
        self.rows["dynamic"] = self.rows["threadgroup"]
        self.nobody_row = np.zeros(n, np.int64)
        self.variables: dict[str, tuple[Scalar, Words]] = {name: (UINT, v) for name, v in places.items()}
        position = USHORT if kernel.positions == "ushort" else UINT
        for name in ("px", "py", "pz"):
            self.variables[name] = (position, places[name])
        for name, value in kernel.constants:
            self.variables[name] = (UINT, np.full(n, value, np.uint64))
        self.pointers: dict[str, Pointer] = {}
        self.outcome = Outcome({})
        self.loops = 0
        self.reach = 0  # elements behind the index that are touched with it
        self.memory: dict[str, Bytes] = {}
        for i, a in enumerate(kernel.arrays):
            self.memory[a.name] = self.initial(i, a, contents)
        self.acc = np.zeros(n, np.uint64)

    def initial(self, i: int, a: h.Array, contents: dict[str, Bytes]) -> Bytes:
        j = np.arange(self.shape.elements(a), dtype=np.uint64)
        if a.on_host:
            return contents[a.name].reshape(1, -1).copy()
        if a.space == "table":
            return np.array(table_values(a)).astype(a.element.parts[0][0].dtype).view(np.uint8).reshape(1, -1)
        if a.space == "private":
            words = j[None, :] * np.uint64(77) + self.variables["me"][1][:, None] * np.uint64(5)
        else:
            group = np.arange(self.shape.groups, dtype=np.uint64)
            words = j[None, :] * np.uint64(77) + group[:, None] * np.uint64(1013) + np.uint64(i)
        data = make(a.element, words.reshape(-1) & np.uint64(0xFFFFFFFF))
        return data.reshape(words.shape[0], -1)

    # ---- expressions ----
    def evaluate(self, e: h.Expr, active: Mask) -> Words:
        if isinstance(e, h.Param):
            if e.number not in self.launch.params:
                if self.launch.fixed:
                    raise Redraw("a number that was not chosen")
                same = self.launch.params.get(e.number - 1, 0)
                value = same if e.role == "same" else plain_value(self.random, e)
                self.launch.params[e.number] = value & ((1 << 64) - 1)
            word = np.uint64(self.launch.params[e.number])
            return nb.wrap(e.type, np.full(self.shape.total, word, np.uint64))
        if isinstance(e, h.Own):
            if e.number not in self.launch.owns:
                if self.launch.fixed:
                    raise Redraw("numbers that were not chosen")
                values = [plain_value(self.random, e) & ((1 << 64) - 1) for _ in range(self.shape.total)]
                self.launch.owns[e.number] = self.launch.owns[e.number - 1] if e.role == "same" else values
            return nb.wrap(e.type, np.array(self.launch.owns[e.number], np.uint64))
        if isinstance(e, t.Lit):
            return np.full(self.shape.total, int(e.value) & ((1 << 64) - 1), np.uint64)
        if isinstance(e, t.Var):
            return self.variables[e.name][1]
        if isinstance(e, t.Cast):
            return nb.wrap(e.type, self.evaluate(e.a, active))  # type: ignore[arg-type]
        if isinstance(e, t.Ternary):
            cond = self.evaluate(e.cond, active) != 0  # type: ignore[arg-type]
            yes = self.converted(e.a, e.type, active & cond)  # type: ignore[arg-type]
            no = self.converted(e.b, e.type, active & ~cond)  # type: ignore[arg-type]
            return np.where(cond, yes, no)
        if isinstance(e, t.Unary):
            value = self.converted(e.a, promote(e.type) if e.op != "!" else BOOL, active)  # type: ignore[arg-type]
            if e.op == "!":
                return (value == 0).astype(np.uint64)
            return nb.wrap(e.type, ~value if e.op == "~" else np.uint64(0) - value)  # type: ignore[arg-type]
        return self.operation(e, active)

    def operation(self, e: t.Binary, active: Mask) -> Words:
        a, b = e.a, e.b
        if e.op in ("&&", "||"):
            first = self.evaluate(a, active) != 0  # type: ignore[arg-type]
            rest = active & (first if e.op == "&&" else ~first)
            second = self.evaluate(b, rest) != 0  # type: ignore[arg-type]
            return ((first & second) if e.op == "&&" else (first | second)).astype(np.uint64)
        bad: Mask | None
        if e.op in ("<<", ">>"):
            kind = promote(a.type)  # type: ignore[arg-type]
            amount = self.evaluate(b, active)  # type: ignore[arg-type]
            value, bad = nb.shift(e.op, kind, self.converted(a, kind, active), amount)  # type: ignore[arg-type]
        else:
            kind = common(a.type, b.type)  # type: ignore[arg-type]
            left, right = (self.converted(x, kind, active) for x in (a, b))  # type: ignore[arg-type]
            value, bad = nb.binary(e.op, kind, left, right)
        if bad is not None and bool((bad & active).any()):
            self.outcome.undefined = f"{e.op} of {kind.name}"
        return value

    def converted(self, e: h.Expr, type_: Scalar, active: Mask) -> Words:
        return nb.wrap(type_, self.evaluate(e, active))

    # ---- memory ----
    def unit(self, x: h.Access) -> int:
        return 1 if x.form == "bytes" else x.element.size

    def offsets(self, x: h.Access, active: Mask, write: bool) -> tuple[np.ndarray[Any, Any], Words]:
        """By thread: the array and the byte in it."""
        for e in free_numbers(x.index, self.launch):
            self.choose(x, e, active)
        index = self.evaluate(x.index, active)
        unit = self.unit(x)
        if x.row is not None:
            a = self.kernel.array(x.array)
            row = self.evaluate(x.row, active)
            inner = a.count // a.rows
            total = (index + row * np.uint64(inner)).view(np.int64)
            other = (index >= np.uint64(inner)) & (total >= 0) & (total < a.count)
            if (active & other).any():
                self.outcome.undefined = "another row"  # as `beside` says
            index = index + row * np.uint64(inner)
        far = active & (np.abs(index.view(np.int64).astype(np.float64)) * unit >= 2.0**62)
        if far.any():
            self.outcome.undefined = "an offset beyond the address space"
        scaled = index * np.uint64(unit)
        if x.array in self.pointers:
            p = self.pointers[x.array]
            return p.arrays, p.offsets + scaled
        a = self.kernel.array(x.array)
        where = np.full(self.shape.total, self.numbers[x.array])
        return where, scaled + np.uint64(a.around * a.element.size)

    def choose(self, x: h.Access, e: h.Param | h.Own, active: Mask) -> None:
        """A number for an index, such that the access does what the launch is meant to do."""
        where = np.nonzero(active)[0]
        if x.array in self.pointers:
            p = self.pointers[x.array]
            a = self.kernel.arrays[int(p.arrays[where[0]] if len(where) else p.arrays[0])]
            start = (p.offsets.view(np.int64) // x.element.size)[where]
        else:
            a = self.kernel.array(x.array)
            start = np.full(len(where), a.around * a.element.size // self.unit(x))
            if x.row is not None:
                start = start + (self.evaluate(x.row, active).view(np.int64) * (a.count // a.rows))[where]
        last = max(0, (self.shape.bytes(a) - x.element.size) // self.unit(x) - self.reach)
        if isinstance(e, h.Param):
            self.launch.params[e.number] = 0
            now = self.evaluate(x.index, active)[where]
            value = choose_param(self.random, self.launch.intent, e.type, now, start, last, self.loops > 0)
            self.launch.params[e.number] = value & ((1 << 64) - 1)
        else:
            self.launch.owns[e.number] = [0] * self.shape.total
            now = self.evaluate(x.index, active)[where]
            chosen = choose_own(self.random, self.launch.intent, e.type, now, start, last, self.loops > 0)
            values = self.launch.owns[e.number]
            for i, value in zip(where.tolist(), chosen, strict=True):
                values[i] = value & ((1 << 64) - 1)

    def parts(self, x: h.Access, active: Mask, write: bool) -> list[tuple[h.Array, np.ndarray[Any, Any], Words]]:
        """For each array: the threads that are in bounds of it, and their offsets. The others are counted."""
        arrays, offsets = self.offsets(x, active, write)
        out = []
        for number in np.unique(arrays[active]).tolist():
            a = self.kernel.arrays[int(number)]
            mine = active & (arrays == number)
            size = self.shape.bytes(a)
            inside = offsets <= np.uint64(size - x.element.size) if size >= x.element.size else ~self.everyone
            lost = mine & ~inside
            if lost.any():
                self.leave(a, x, offsets[lost])
            align = 1 if a.space == "private" else x.element.parts[0][0].bits // 8
            if align > 1 and (offsets[mine] % np.uint64(align) != 0).any():
                self.outcome.undefined = "a misaligned address"
            if x.element.granule != x.element.size and size % x.element.size and lost.any():
                self.outcome.undefined = "part of an element"
            if a.around and x.array not in self.pointers:
                self.beside(a, x, offsets, mine & inside)
            good = np.nonzero(mine & inside)[0]
            out.append((a, good, offsets[good]))
        return out

    def beside(self, a: h.Array, x: h.Access, offsets: Words, who: Mask) -> None:
        """Out of an array that is part of a struct, but not out of the struct: the compiler may take it that this is
        not so, and the engine tests the struct as a whole. Safe, but of no known value."""
        low = a.around * a.element.size
        high = low + a.count * a.element.size - x.element.size
        if (who & ((offsets < np.uint64(low)) | (offsets > np.uint64(max(high, 0))))).any():
            self.outcome.undefined = "another part of the struct"

    def leave(self, a: h.Array, x: h.Access, offsets: Words) -> None:
        self.outcome.outside[a.name] = self.outcome.outside.get(a.name, 0) + len(offsets)
        if a.name not in self.spans or (a.space != "listed" and x.array not in self.pointers):
            return
        # A pointer that may lead into several arrays: it is only known what happens outside of all of them.
        addresses = (offsets + np.uint64(self.spans[a.name][0])).view(np.int64)
        for name, (low, high) in self.spans.items():
            if name != a.name and ((addresses + x.element.size > low) & (addresses < high)).any():
                raise Redraw("a pointer into another array")

    def row_of(self, a: h.Array) -> np.ndarray[Any, Any]:
        return self.rows.get(a.space, self.nobody_row)

    def load(self, x: h.Access, active: Mask) -> Words:
        out = np.zeros(self.shape.total, np.uint64)
        for a, who, offsets in self.parts(x, active, False):
            out[who] = fold(x.element, self.gather(a, who, offsets, x.element.size))
        return out

    def gather(self, a: h.Array, who: np.ndarray[Any, Any], offsets: Words, size: int) -> Bytes:
        columns = offsets.astype(np.int64)[:, None] + np.arange(size)
        return self.memory[a.name][self.row_of(a)[who][:, None], columns]

    def store(self, x: h.Access, value: Words, active: Mask) -> None:
        data = make(x.element, value & np.uint64(0xFFFFFFFF))
        for a, who, offsets in self.parts(x, active, True):
            columns = offsets.astype(np.int64)[:, None] + np.arange(x.element.size)
            rows = self.row_of(a)[who][:, None]
            self.memory[a.name][rows, columns] = data[who]
            if (self.memory[a.name][rows, columns] != data[who]).any():
                raise Redraw("two threads write different values to one place")

    def atomic(self, s: h.Atomic, active: Mask) -> None:
        value = self.evaluate(s.value, active)
        for a, who, offsets in self.parts(s.access, active, True):
            kind = a.element.parts[0][0]
            width = kind.bits // 8
            cells = self.memory[a.name].view(kind.dtype)
            at = (self.row_of(a)[who], offsets.astype(np.int64) // width)
            given = value[who].astype(np.int64).astype(np.float32) if kind == FLOAT else value[who].astype(kind.dtype)
            functions: dict[str, Any] = {"add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum}
            functions |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
            outside = active.copy()
            outside[who] = False
            if s.op == "load":
                read = np.zeros(self.shape.total, np.uint64)
                read[who] = cells[at].astype(np.int64).view(np.uint64) & np.uint64(0xFFFFFFFF)
                self.add(read, active)
                continue
            if s.op in ("store", "exchange"):
                cells[at] = given
                if (cells[at] != given).any():
                    raise Redraw("two threads write different values to one place")
            elif s.op != "cas":
                functions[s.op].at(cells, at, given)
            if s.op not in ("store", "cas"):
                self.add(np.zeros(self.shape.total, np.uint64), outside)

    def add(self, value: Words, active: Mask) -> None:
        mixed = (self.acc * np.uint64(33) + value) & np.uint64(0xFFFFFFFF)
        self.acc = np.where(active, mixed, self.acc)

    # ---- statements ----
    def run(self) -> Outcome:
        self.body(self.kernel.body, self.everyone)
        for a in self.kernel.arrays:
            if a.space == "private" and not a.sparse:
                size = a.element.size
                for j in range(self.shape.elements(a)):
                    self.add(fold(a.element, self.memory[a.name][:, j * size : j * size + size]), self.everyone)
        self.outcome.memory["o"] = self.acc.astype(np.uint32).view(np.uint8)
        for a in self.kernel.arrays:
            if a.on_host:
                self.outcome.memory[a.name] = self.memory[a.name].reshape(-1)
            elif a.space in ("threadgroup", "dynamic"):
                self.outcome.memory[f"dump_{a.name}"] = self.memory[a.name].reshape(-1)
        return self.outcome

    def body(self, body: h.Body, active: Mask) -> Mask:
        """Returns the threads that have not left the loop around."""
        for s in body:
            if not active.any():
                return active
            if isinstance(s, h.Break):
                active = active & ~(self.evaluate(s.cond, active) != 0)
            elif isinstance(s, h.If):
                cond = self.evaluate(s.cond, active) != 0
                active = self.body(s.then, active & cond) | self.body(s.other, active & ~cond)
            elif isinstance(s, h.For):
                self.loop(s, active)
            else:
                self.plain(s, active)
        return active

    def loop(self, s: h.For, active: Mask) -> None:
        self.variables[s.name] = (s.type, self.converted(s.start, s.type, active))
        self.loops += 1
        for _ in range(MOST_ROUNDS):
            active = active & (self.evaluate(s.cond, active) != 0)
            if not active.any():
                break
            active = self.body(s.body, active)
            before = self.variables[s.name][1]
            step = np.full(self.shape.total, s.step & ((1 << 64) - 1), np.uint64)
            after, bad = nb.binary("+", s.type, before, step)
            if bad is not None and promote(s.type) == s.type and bool((bad & active).any()):
                self.outcome.undefined = "a loop counter overflows"
            self.variables[s.name] = (s.type, after)
        else:
            raise Redraw("a long loop")
        self.loops -= 1

    def plain(self, s: h.Stmt, active: Mask) -> None:
        if isinstance(s, (h.Let, h.Set)):
            value = self.converted(s.value, s.type, active)
            if isinstance(s, h.Set):
                value = np.where(active, value, self.variables[s.name][1])
            self.variables[s.name] = (s.type, value)
        elif isinstance(s, h.Load):
            value = self.load(s.access, active)
            if s.name:
                self.variables[s.name] = (UINT, value)
            self.add(value, active)
        elif isinstance(s, h.Store):
            # The index first: the numbers in it are chosen there.
            self.offsets(s.access, active, True)
            self.store(s.access, self.evaluate(s.value, active), active)
        elif isinstance(s, h.Atomic):
            self.offsets(s.access, active, True)
            self.atomic(s, active)
        elif isinstance(s, h.Point):
            access = h.Access(s.array, s.element, s.index)
            self.pointers[s.name] = Pointer(*self.offsets(access, active, False))
        elif isinstance(s, h.Move):
            p = self.pointers[s.name]
            element = self.element_of(s.name)
            moved = p.offsets + self.evaluate(s.by, active) * np.uint64(element)
            self.pointers[s.name] = Pointer(p.arrays, np.where(active, moved, p.offsets))
        elif isinstance(s, h.Repoint):
            p = self.pointers[s.name]
            cond = active & (self.evaluate(s.cond, active) != 0)
            arrays, offsets = self.offsets(h.Access(s.array, self.kernel.array(s.array).element, s.index), cond, False)
            self.pointers[s.name] = Pointer(np.where(cond, arrays, p.arrays), np.where(cond, offsets, p.offsets))
        elif isinstance(s, h.Matrix):
            self.matrix(s, active)

    def element_of(self, name: str) -> int:
        from tests.hostile.printer import statements

        return next(s.element.size for s in statements(self.kernel.body) if isinstance(s, h.Point) and s.name == name)

    def matrix(self, s: h.Matrix, active: Mask) -> None:
        first = np.nonzero(self.variables["lane"][1] == 0)[0]  # one thread of each simdgroup
        number = self.variables["grp"][1] * (self.variables["gt"][1] // np.uint64(32)) + self.variables["sg"][1]
        size = s.element.size
        stride = self.evaluate(s.stride, active)
        x, y = (self.evaluate(e, active) for e in s.origin) if s.origin else (np.uint64(0), np.uint64(0))
        origin = (np.zeros_like(stride) + x + y * stride)[first]
        self.reach = min(int((origin + np.uint64(7) * stride[first]).max()) + 7, 1 << 40)
        _, start = self.offsets(h.Access(s.array, s.element, s.index), active, not s.load)
        self.reach = 0
        rows, columns = np.arange(8, dtype=np.uint64)[:, None], np.arange(8, dtype=np.uint64)[None, :]
        if s.transpose:
            rows, columns = columns, rows
        places = origin[:, None, None] + rows * stride[first][:, None, None] + columns
        if (np.abs(places.view(np.int64).astype(np.float64)) * size >= 2.0**62).any():
            self.outcome.undefined = "an offset beyond the address space"
        offsets = (start[first][:, None, None] + places * np.uint64(size)).reshape(-1)
        a = self.kernel.array(s.array)
        inside = offsets <= np.uint64(self.shape.bytes(a) - size)
        if (~inside).any():
            self.leave(a, h.Access(s.array, s.element, s.index), offsets[~inside])
        group = np.repeat(self.row_of(a)[first], 64)
        own = (number[first].astype(np.int64)[:, None] * 64 + np.arange(64)).reshape(-1)
        safe = self.memory[s.safe].reshape(-1, size)
        cells = self.memory[s.array]
        bytes_ = offsets[inside].astype(np.int64)[:, None] + np.arange(size)
        if s.load:
            read = np.zeros((len(offsets), size), np.uint8)
            read[inside] = cells[group[inside][:, None], bytes_]
            safe[own] = read
        else:
            data = safe[own][inside]
            cells[group[inside][:, None], bytes_] = data
            if (cells[group[inside][:, None], bytes_] != data).any():
                raise Redraw("two elements of matrices fall on one place")


def free_numbers(e: h.Expr, launch: Launch) -> list[h.Param | h.Own]:
    """Numbers of an index that are still to be chosen."""
    if isinstance(e, h.Param):
        free = e.role == "index" and e.number not in launch.params
        return [e] if free and not launch.fixed else []
    if isinstance(e, h.Own):
        free = e.role == "index" and e.number not in launch.owns
        return [e] if free and not launch.fixed else []
    out = []
    for name in ("a", "b", "cond"):
        child = getattr(e, name, None)
        if child is not None:
            out += free_numbers(child, launch)
    return out


