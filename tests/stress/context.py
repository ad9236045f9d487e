"""What the generator knows while it writes a kernel: random choices, variables in scope, features in use."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tests.stress import tree as t
from tests.stress.arith import FLOAT_TYPES
from tests.stress.types import INTS, Array, Pointer, Scalar, Struct, Type, Vector

T = TypeVar("T")
SLOTS = 8  # elements of each output buffer that one thread owns
INPUT_SIZE = 512  # more than any launch has threads: a thread may read at its own position


@dataclass(frozen=True)
class Variable:
    name: str
    type: Type
    writable: bool = True
    uniform: bool = False  # the same in all threads of a group

    @property
    def expr(self) -> t.Var:
        return t.Var(self.type, self.name)


@dataclass(frozen=True)
class Place:
    """Where a statement stands, which decides what it may be."""

    depth: int = 0
    in_loop: bool = False
    breakable: bool = False
    uniform: bool = True  # all living threads of the group come here together: barriers are allowed
    simd: bool = True  # simd functions are well defined here
    function: Type | None = None  # the result type of the helper that is being written

    def inside(self, **changes: Any) -> Place:
        return replace(self, depth=self.depth + 1, **changes)


class Context:
    """State shared by the expression and statement generators."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.scopes: list[list[Variable]] = [[]]
        self.structs: list[Struct] = []
        self.tables: list[t.Table] = []
        self.functions: list[t.Function] = []
        self.convergent: set[str] = set()  # helpers that call simd functions
        self.buffers: dict[str, t.Buffer] = {}
        self.shared: dict[str, tuple[Array, bool]] = {}
        self.counter = 0
        self.barriers = 0
        self.highest: dict[str, int] = {}  # the largest value of `lane`, `tid` and `me`
        self.in_helper = False  # buffers are parameters of the kernel alone
        self.simd_here = False
        self.budget = 0  # expression nodes left for the statement at hand

    # ---- choices ----
    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def pick(self, items: Sequence[T]) -> T:
        return self.random.choice(items)

    def weighted(self, items: dict[str, float]) -> str:
        names = [n for n, w in items.items() if w > 0]
        return self.random.choices(names, [items[n] for n in names])[0]

    def name(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    # ---- variables ----
    def declare(self, v: Variable) -> Variable:
        self.scopes[-1].append(v)
        return v

    def variables(self) -> list[Variable]:
        return [v for scope in self.scopes for v in scope]

    def of_type(self, type_: Type, writable: bool = False) -> list[Variable]:
        return [v for v in self.variables() if v.type == type_ and (v.writable or not writable)]

    def uniforms(self) -> list[Variable]:
        return [v for v in self.variables() if v.uniform and isinstance(v.type, Scalar)]

    def arrays(self, element: Scalar | None = None) -> list[Variable]:
        return [
            v for v in self.variables() if isinstance(v.type, Array) and (element is None or v.type.element == element)
        ]

    def pointers(self, element: Scalar) -> list[Variable]:
        return [v for v in self.variables() if isinstance(v.type, Pointer) and v.type.element == element]

    def visible_inputs(self) -> list[t.Buffer]:
        return [] if self.in_helper else [b for b in self.buffers.values() if b.role == "input"]

    def has_base(self, type_: Type) -> bool:
        """False for a pointer of which there is none here."""
        if not isinstance(type_, Pointer):
            return True
        return bool(self.of_type(type_)) or any(b.type == type_.element for b in self.visible_inputs())

    # ---- literals ----
    def literal(self, type_: Scalar) -> t.Lit:
        r = self.random
        if type_.kind == "bool":
            return t.Lit(type_, self.chance(0.5))
        if type_.is_int:
            kind = r.random()
            if kind < 0.5:
                return t.Lit(type_, r.randint(-9 if type_.kind == "int" else 0, 17))
            if kind < 0.75:
                return t.Lit(type_, r.choice([type_.low, type_.high, type_.low + 1, type_.high - 1, type_.high // 2]))
            return t.Lit(type_, r.randint(type_.low, type_.high))
        return t.Lit(type_, float_value(r, type_))

    def small_uint(self, high: int) -> t.Lit:
        return t.Lit(INTS[5], self.random.randint(0, high))


def float_value(r: random.Random, type_: Scalar) -> Any:
    """Floats of all kinds: small fractions, halves of an ulp, large, tiny, zeros."""
    make = FLOAT_TYPES[type_.bits]
    kind = r.random()
    if kind < 0.4:
        return make(r.randint(-40, 40) / 8)
    if kind < 0.6:
        return make(r.uniform(-10, 10))
    if kind < 0.7:
        return make(r.choice([0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3]))
    if type_.bits == 16:
        return make(r.choice([65504.0, -65504.0, 6.1e-5, 6e-8, 2049.0, 1025.0, 0.00097]))
    if kind < 0.8:
        return make(r.choice([3.4028235e38, 1.1754944e-38, 1e-45, 16777216.0, 8388609.0, 2147483647.0, 4294967296.0]))
    return make(r.uniform(-1, 1) * 2.0 ** r.randint(-30, 30))


def buffer_data(kernel: t.Kernel, buffer: t.Buffer) -> np.ndarray[Any, Any]:
    """What a buffer holds before the launch: the same for the same seed, name and size, however the kernel shrinks."""
    r = random.Random(f"{kernel.seed}/{buffer.name}")
    element = buffer.type.element if isinstance(buffer.type, Vector) else buffer.type
    width = 1 if isinstance(buffer.type, Scalar) else 4 if buffer.type.size == 3 else buffer.type.size
    count = buffer.size * width
    if buffer.role == "output":
        return np.zeros(count, element.dtype)
    if element.kind == "bool":
        return np.array([r.random() < 0.5 for _ in range(count)])
    if element.is_float:
        with np.errstate(all="ignore"):
            return np.array([float_value(r, element) for _ in range(count)], element.dtype)
    if buffer.role == "uniform":
        return np.array([r.randint(0, 12)], element.dtype)
    if buffer.role == "atomic":
        return np.array([r.randint(100, 1000) for _ in range(count)], element.dtype)
    values = [r.randint(element.low, element.high) if r.random() < 0.6 else r.randint(0, 40) for _ in range(count)]
    return np.array(values, element.dtype)
