"""`generate(seed)`: one hostile kernel. Its launches are drawn by `draw_launch`."""

from __future__ import annotations

import random

from metalcore.engine.model import Variant
from tests.hostile import elements as el
from tests.hostile import tree as h
from tests.hostile.make_access import Accesses
from tests.hostile.make_index import Indices
from tests.hostile.shape import Launch, Shape
from tests.stress import tree as t
from tests.stress.types import UINT

FAMILIES = (
    *("device", "constant", "threadgroup", "private", "private-views", "vectors", "packed"),
    *("atomics", "matrices", "wrapping", "pointers", "listed", "loops", "mixed", "large", "undefined"),
)
LINES = (1, 2, 5, 16, 31, 32, 33, 40, 64, 64, 96, 100, 128, 200, 256, 257, 512, 1000, 1024)
TILES = ((8, 4, 1), (16, 16, 1), (5, 7, 1), (32, 2, 1), (33, 3, 1), (4, 4, 4), (3, 5, 2), (1, 64, 1), (2, 1, 40))
MOST_THREADS = 2200
INTENTS = ("inside", "inside", "inside", "edge", "edge", "wild")


class Generator(Accesses, Indices):
    """Writes one kernel of a family."""

    def __init__(self, seed: int, family: str) -> None:
        super().__init__(random.Random(f"hostile/{seed}"), family)
        self.seed = seed

    def kernel(self) -> h.Kernel:
        dims = 1 if self.family == "matrices" or self.chance(0.6) else self.pick([2, 2, 3])
        if self.family == "large":
            dims = 1
        self.dims = dims
        self.positions = "ushort" if self.chance(0.15) else "uint"
        if self.chance(0.35):
            self.constants.append(("FC0", self.pick([1, 2, 3, 4, 8, 16, 32, 33, 0x40000001])))
        body = getattr(self, f"make_{self.family.replace('-', '_')}")()
        return h.Kernel(
            *(self.seed, self.family, dims, tuple(self.arrays), tuple(body), tuple(self.constants)),
            *(self.family == "undefined", self.positions, self.chance(0.2) and all(a.count <= 8 for a in self.arrays)),
        )

    # ---- families ----
    def statements(self, count: int) -> list[h.Stmt]:
        return [s for _ in range(count) for s in self.statement()]

    def make_device(self) -> list[h.Stmt]:
        self.inputs(self.random.randint(1, 3), el.SCALARS)
        self.targets(self.random.randint(0, 2), el.SCALARS)
        return self.statements(self.random.randint(2, 6))

    def make_vectors(self) -> list[h.Stmt]:
        self.inputs(self.random.randint(1, 3), (*el.VECTORS, *el.RECORDS))
        self.targets(1, tuple(e for e in (*el.VECTORS, *el.RECORDS) if e.exact))
        return self.statements(self.random.randint(2, 5))

    def make_packed(self) -> list[h.Stmt]:
        self.inputs(self.random.randint(1, 3), el.PACKED)
        self.targets(1, el.PACKED)
        return self.statements(self.random.randint(2, 5))

    def make_constant(self) -> list[h.Stmt]:
        self.inputs(self.random.randint(1, 2), (*el.SCALARS, *el.VECTORS), "constant")
        for _ in range(self.random.randint(1, 2)):
            element = self.pick([e for e in el.SCALARS if e.name not in ("half", "float")])
            self.new_array("table", element, self.pick([1, 1, 2, 4, 7, 16, 64]))
        return self.statements(self.random.randint(2, 6))

    def make_threadgroup(self) -> list[h.Stmt]:
        """Phases between barriers: in each an array is read or written, not both."""
        for _ in range(self.random.randint(1, 3)):
            space = self.pick(["threadgroup", "threadgroup", "dynamic"])
            element = self.pick([*el.SCALARS, *(e for e in el.VECTORS if e.exact), el.R8, el.R12])
            count = self.pick([1, 4, 31, 32, 33, 64, 100, 128])
            if space == "dynamic":
                count = -(-count // 16) * 16
            self.new_array(space, element, count, writable=True)
        if self.chance(0.5):
            self.inputs(1, el.SCALARS)
        return self.phases([a.name for a in self.arrays if a.space in ("threadgroup", "dynamic")])

    def phases(self, shared: list[str]) -> list[h.Stmt]:
        body: list[h.Stmt] = []
        for i in range(self.random.randint(2, 3)):
            if i:
                body.append(h.Barrier())
            written = {name for name in shared if self.chance(0.5)}
            self.readable = {a.name for a in self.arrays} - written
            self.writing = written | {a.name for a in self.arrays if a.writable and a.space == "device"}
            body += self.statements(self.random.randint(1, 3))
        return body

    def make_private(self) -> list[h.Stmt]:
        """Arrays of one element size each: the engine interleaves them."""
        return self._with_privates(views=False, reads=0.6, least=2)

    def make_private_views(self) -> list[h.Stmt]:
        """Arrays that are touched in several sizes, through casts, at odd bytes."""
        return self._with_privates(views=True, reads=0.4, least=3)

    def _with_privates(self, views: bool, reads: float, least: int) -> list[h.Stmt]:
        self.privates(self.random.randint(1, 2), views=views)
        if self.chance(reads):
            self.inputs(1, el.SCALARS)
        body = self.statements(self.random.randint(least, 6))
        if self.chance(0.3):
            body.insert(self.random.randint(0, len(body)), h.Barrier())
        return body

    def make_atomics(self) -> list[h.Stmt]:
        for _ in range(self.random.randint(1, 3)):
            space = self.pick(["device", "device", "threadgroup"])
            element = self.pick([el.UINT_ELEMENT, el.UINT_ELEMENT, el.INT_ELEMENT, el.FLOAT_ELEMENT])
            if element == el.FLOAT_ELEMENT:
                space = "device"
            name = self.new_array(space, element, self.pick([1, 2, 7, 32, 64, 100]), writable=True, atomic=True)
            ops = ["add", "sub", "min", "max", "and", "or", "xor", "exchange", "store", "load", "cas"]
            self.atomic_op[name] = "add" if element == el.FLOAT_ELEMENT else self.pick(ops)
        return self.statements(self.random.randint(2, 5))

    def make_matrices(self) -> list[h.Stmt]:
        body: list[h.Stmt] = []
        for _ in range(self.random.randint(1, 3)):
            element = self.pick([el.FLOAT_ELEMENT, el.FLOAT_ELEMENT, el.HALF_ELEMENT])
            load = self.chance(0.6)
            space = "threadgroup" if load and self.chance(0.3) else "device"
            count = self.pick([64, 65, 100, 128, 300, 1024])
            hostile = self.new_array(space, element, count, writable=not load or space == "threadgroup")
            safe = self.new_array("device", element, 64, writable=load, scale="simdgroup")
            body.append(self.matrix(load, hostile, element, safe))
        return body

    def make_wrapping(self) -> list[h.Stmt]:
        self.inputs(self.random.randint(1, 2), el.SCALARS[:8])
        self.targets(self.random.randint(0, 1), el.SCALARS)
        if self.chance(0.4):
            self.privates(1, views=False)
        if self.chance(0.3):
            self.new_array("table", el.UINT_ELEMENT, 40)
        return self.statements(self.random.randint(2, 5))

    def make_pointers(self) -> list[h.Stmt]:
        element = self.pick([*el.SCALARS, el.BY_NAME["float4"], el.BY_NAME["uchar4"]])
        first = self.new_input(element)
        second = self.new_input(element)
        target = self.new_target(self.pick(list(el.SCALARS)))
        self.constant_value.add(target)
        if self.chance(0.4):
            self.privates(1, views=False)
        body: list[h.Stmt] = []
        for _ in range(self.random.randint(1, 3)):
            body += self.walk(first, second)
        if self.chance(0.5):
            body += self.walk(target, None)
        return body + self.statements(1)

    def make_listed(self) -> list[h.Stmt]:
        for slot in range(self.random.randint(1, 3)):
            element = self.pick([*el.SCALARS, el.BY_NAME["float4"], el.BY_NAME["uint2"]])
            self.new_array("listed", element, self.size(), table="t0", slot=slot, placement=self.placement())
        if self.chance(0.6):
            element = self.pick(list(el.SCALARS))
            self.new_array("listed", element, self.size(), True, table="t1", slot=0, placement=self.placement())
        return self.statements(self.random.randint(2, 5))

    def make_loops(self) -> list[h.Stmt]:
        self.inputs(2, el.SCALARS)
        if self.chance(0.5):
            self.privates(1, views=self.chance(0.3))
        self.targets(self.random.randint(0, 1), el.SCALARS)
        return [s for _ in range(self.random.randint(1, 3)) for s in self.looped()]

    def make_mixed(self) -> list[h.Stmt]:
        self.inputs(1, (*el.SCALARS, *el.VECTORS))
        self.privates(1, views=self.chance(0.5))
        self.targets(1, el.SCALARS)
        shared = self.new_array("threadgroup", self.pick(list(el.SCALARS)), self.pick([32, 33, 64]), writable=True)
        return self.phases([shared])

    def make_large(self) -> list[h.Stmt]:
        """Private arrays of many kilobytes, of which few elements are touched: each is written before it is read."""
        count = self.pick([1000, 4000, 4096, 16000])
        element = self.pick([el.UINT_ELEMENT, el.UCHAR_ELEMENT, el.ULONG_ELEMENT, el.BY_NAME["float4"]])
        self.new_array("private", element, count, writable=True, sparse=True)
        self.inputs(1, el.SCALARS)
        body: list[h.Stmt] = []
        name = self.arrays[0].name
        if self.chance(0.5):
            self.new_array("threadgroup", el.UINT_ELEMENT, 32, writable=True)
        for _ in range(self.random.randint(1, 3)):
            kind = self.pick([h.Param, h.Own])
            # Read where it was written, by another number: the compiler must not see that they are the same.
            first, second = kind(UINT, self.number(), "index"), kind(UINT, self.number(), "same")
            value = h.binary("+", t.Var(UINT, "me"), t.Lit(UINT, self.random.randint(1, 99)))
            form = self.pick(["plain", "plain", "function"])
            body.append(h.Store(h.Access(name, element, first, form), value))
            if any(a.space == "threadgroup" for a in self.arrays):
                body.append(h.Barrier())
            body.append(h.Load(h.Access(name, element, second, form)))
        return body

    def make_undefined(self) -> list[h.Stmt]:
        self.inputs(1, (*el.SCALARS, *el.VECTORS))
        self.targets(1, (*el.SCALARS, *el.VECTORS))
        self.privates(1, views=True)
        self.new_array("threadgroup", self.pick(list(el.SCALARS)), self.pick([7, 32]), writable=True)
        return self.statements(self.random.randint(3, 6))


def family_of(seed: int) -> str:
    return FAMILIES[seed % len(FAMILIES)]


def generate(seed: int, family: str | None = None) -> h.Kernel:
    return Generator(seed, family or family_of(seed)).kernel()


def draw_shape(kernel: h.Kernel, r: random.Random) -> Shape:
    if kernel.family == "matrices":
        group = (r.choice([32, 64, 96, 128, 256]), 1, 1)
        return Shape((group[0] * r.randint(1, 4), 1, 1), group)
    while True:
        tiles = [s for s in TILES if kernel.dims == 3 or s[2] == 1]
        group = (r.choice(LINES), 1, 1) if kernel.dims == 1 else r.choice(tiles)
        sizes = [max(1, g * r.randint(1, 3) - r.choice([0, 0, 1, g // 2, g - 1])) for g in group]
        threads = (sizes[0], sizes[1] if kernel.dims > 1 else 1, sizes[2] if kernel.dims > 2 else 1)
        if kernel.family == "large":
            threads = (min(threads[0], 64), 1, 1)
        if threads[0] * threads[1] * threads[2] <= MOST_THREADS:
            return Shape(threads, group)


def machine_code(shape: Shape) -> tuple[str, bool]:
    """What the machine code of a launch is specialised on: to compile it takes longer than a hundred launches."""
    clipped = any(n % g for n, g in zip(shape.threads, shape.group, strict=True))
    return Variant.choose(shape.group, True, shape.threads).key, clipped


def draw_launch(kernel: h.Kernel, number: int, attempt: int) -> Launch:
    """Launches of a kernel have the same machine code. Attempts after the first have smaller grids, so that more of
    them stay inside."""
    home = machine_code(draw_shape(kernel, random.Random(f"{kernel.seed}/home")))
    intent = random.Random(f"{kernel.seed}/{number}").choice(INTENTS)
    if kernel.family == "undefined":
        intent = "edge" if number % 2 else "wild"
    r = random.Random(f"{kernel.seed}/{number}/{attempt}")
    best: Shape | None = None
    for _ in range(200):
        shape = draw_shape(kernel, r)
        if machine_code(shape) == home and (best is None or shape.total < best.total):
            best = shape
            if attempt < 2:
                break
    return Launch(best or draw_shape(kernel, random.Random(f"{kernel.seed}/home")), r.randrange(1 << 30), intent)
