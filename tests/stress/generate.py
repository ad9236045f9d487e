"""`generate(seed)`: one random kernel with its launch."""

from __future__ import annotations

from dataclasses import replace

from tests.stress import tree as t
from tests.stress.context import INPUT_SIZE, SLOTS, Place, Variable
from tests.stress.make_simd import TID
from tests.stress.make_statement import ME, Statements
from tests.stress.types import BOOL, INT, UINT, USHORT, Array, Pointer, Scalar, Struct, Type, Vector
from tests.stress.validate import Invalid, validate

LINES = ((1, 32), (31, 32), (33, 32), (65, 64), (100, 33), (257, 100), (64, 64), (100, 256), (257, 256), (70, 1))
TILES = (
    ((16, 16), (16, 16)),
    ((20, 18), (16, 16)),
    ((8, 4), (8, 4)),
    ((19, 9), (8, 4)),
    ((5, 7), (5, 7)),
    ((12, 15), (5, 7)),
    ((33, 3), (32, 2)),
    ((40, 5), (16, 4)),
)


class Generator(Statements):
    """Writes one kernel."""

    def __init__(self, seed: int, attempt: int) -> None:
        super().__init__(f"{seed}/{attempt}")
        self.seed = seed

    def kernel(self) -> t.Kernel:
        threads, group_size, attributes, opening = self.launch()
        self.scopes = [[]]
        self.inputs()
        self.globals_()
        group = group_size[0] * group_size[1]
        total = threads[0] * threads[1]
        self.highest = {"lane": min(31, group - 1), "tid": group - 1, "me": total - 1}
        self.scopes = [[]]
        for _ in range(self.pick([0, 0, 0, 1, 1, 2])):
            self.helper()
        self.scopes = [[]]
        for b in self.buffers.values():
            if b.role == "uniform":
                self.declare(Variable(b.name, b.type, writable=False, uniform=True))
        self.declare(Variable("me", UINT, writable=False))
        self.declare(Variable("tid", UINT, writable=False))
        self.declare(Variable("lane", UINT, writable=False))
        self.declare(Variable("group_threads", UINT, writable=False, uniform=True))
        opening += self.shared_memory(group)
        # Something to start from, one variable of each of the types in use
        for type_ in self.all_types:
            self.budget = 10
            opening.append(self.keep(type_, self.loaded(type_, 1) or self.leaf(type_)))
        body = (*opening, *self.statements(Place(), self.random.randint(2, self.length)))
        body = (*body, *self.finish())
        buffers = tuple(replace(b, size=total * SLOTS) if b.role == "output" else b for b in self.buffers.values())
        shared = tuple((name, array, atomic) for name, (array, atomic) in self.shared.items())
        return t.Kernel(
            self.seed,
            tuple(self.structs),
            tuple(self.tables),
            tuple(self.functions),
            buffers,
            tuple(attributes),
            shared,
            body,
            threads,
            group_size,
        )

    def launch(
        self,
    ) -> tuple[tuple[int, int, int], tuple[int, int, int], list[t.Attribute], list[t.Stmt]]:
        """Grid and group, the thread attributes, and the statements that name the thread's own slot."""
        attributes = [
            t.Attribute(UINT, "tid", "thread_index_in_threadgroup"),
            t.Attribute(UINT, "lane", "thread_index_in_simdgroup"),
        ]
        if self.chance(0.7):
            n, g = self.pick(LINES)
            choices: list[Scalar | Vector] = [UINT, UINT, USHORT, Vector(UINT, 3)]
            type_ = self.pick(choices)
            attributes.append(t.Attribute(type_, "gid", "thread_position_in_grid"))
            gid: t.Expr = t.Var(type_, "gid")
            gid = t.Swizzle(UINT, gid, "x") if isinstance(type_, Vector) else gid
            me = t.Decl(UINT, "me", gid)
            # Metal wants all attributes of positions and sizes to have one width.
            width: Scalar | Vector = Vector(UINT, 3) if isinstance(type_, Vector) else UINT
            attributes.append(t.Attribute(width, "size", "threads_per_threadgroup"))
            size_: t.Expr = t.Var(width, "size")
            size_ = t.Swizzle(UINT, size_, "x") if isinstance(width, Vector) else size_
            count = t.Decl(UINT, "group_threads", size_)
            return (n, 1, 1), (g, 1, 1), attributes, [me, count]
        (w, h), (gw, gh) = self.pick(TILES)
        pair = self.pick([Vector(UINT, 2), Vector(USHORT, 2), Vector(UINT, 3)])
        attributes.append(t.Attribute(pair, "gid", "thread_position_in_grid"))
        x, y = (t.Swizzle(pair.element, t.Var(pair, "gid"), c) for c in "xy")
        row = t.binary("*", t.Cast(UINT, y), t.Lit(UINT, w))
        me = t.Decl(UINT, "me", t.binary("+", row, x))
        size = Vector(UINT, pair.size)
        attributes.append(t.Attribute(size, "size", "threads_per_threadgroup"))
        sx, sy = (t.Swizzle(UINT, t.Var(size, "size"), c) for c in "xy")
        return (w, h, 1), (gw, gh, 1), attributes, [me, t.Decl(UINT, "group_threads", t.binary("*", sx, sy))]

    def inputs(self) -> None:
        for type_ in self.random.sample(self.all_types, min(len(self.all_types), self.random.randint(1, 3))):
            for _ in range(self.pick([1, 2])):
                name = self.name(f"in_{type_.name}")
                self.buffers[name] = t.Buffer(name, type_, "input", INPUT_SIZE)
        for vector in self.vectors:
            if self.chance(0.4):
                name = self.name(f"in_{vector.name}_")
                self.buffers[name] = t.Buffer(name, vector, "input", INPUT_SIZE)
        for type_ in (UINT, INT)[: self.random.randint(0, 2)]:
            name = self.name("n_")
            self.buffers[name] = t.Buffer(name, type_, "uniform", 1)
        if self.chance(0.35):
            op = self.pick(["add", "min", "max", "or", "and", "xor"])
            self.buffers[f"at_{op}"] = t.Buffer(f"at_{op}", UINT, "atomic", self.pick([1, 4, 7]))

    def globals_(self) -> None:
        """Structs, constant tables."""
        if self.chance(0.35):
            pool: list[Type] = [*self.all_types, *self.vectors, BOOL]
            fields = tuple((f"f{i}", self.pick(pool)) for i in range(self.random.randint(1, 4)))
            self.structs.append(Struct("S", fields))
        if self.chance(0.3):
            el = self.pick(self.all_types)
            size = self.pick([4, 5, 16])
            self.tables.append(t.Table(Array(el, size), "table", tuple(self.literal(el).value for _ in range(size))))

    def helper(self) -> None:
        """A function of the file, with control flow of its own."""
        results: list[Type] = [*self.all_types, *self.structs]
        result = self.pick(results)
        name = self.name("fn")
        parameters = tuple((f"{name}_{c}", self.any_type()) for c in "abc"[: self.random.randint(1, 3)])
        pointees = [b.type for b in self.buffers.values() if b.role == "input" and isinstance(b.type, Scalar)]
        if self.chance(0.25):
            parameters += ((f"{name}_p", Pointer(self.pick(pointees))),)
        self.scopes = [[Variable(n, pt) for n, pt in parameters]]
        self.in_helper = True
        convergent = self.uses_simd and self.chance(0.3)
        uses, self.uses_simd = self.uses_simd, convergent
        # `lane` is a parameter of the kernel alone, so a helper that shuffles gets no lane: reductions only
        place = Place(depth=1, uniform=False, simd=False, function=result)
        body = list(self.statements(place, self.random.randint(1, 3)))
        if convergent:
            self.budget = 10
            body += self.pick([self.reduce_ints, self.vote, self.first])()
        self.uses_simd = uses
        body += self.mix(self.scopes[0], self.scopes[0])
        self.budget = 16
        body.append(t.Return(self.value(result, 3)))
        self.in_helper = False
        self.functions.append(t.Function(result, name, parameters, tuple(body)))
        if convergent:
            self.convergent.add(name)

    def shared_memory(self, group: int) -> list[t.Stmt]:
        """Threadgroup arrays, each slot written before the first barrier."""
        out: list[t.Stmt] = []
        if self.chance(0.45):
            el = self.pick(self.all_types)
            array = Array(el, group)
            self.shared["sh"] = (array, False)
            out.append(t.Assign(t.Index(el, t.Var(array, "sh"), TID), "=", self.leaf(el)))
        if self.chance(0.25):
            op = self.pick(["add", "min", "max", "or", "xor"])
            array = Array(UINT, 8)
            self.shared[f"c_{op}"] = (array, True)
            zero = t.Atomic("store", t.Var(array, f"c_{op}"), TID, t.Lit(UINT, 77))
            out.append(t.If(t.binary("<", TID, t.Lit(UINT, 8)), (zero,)))
        return [*out, self.barrier()] if out else []

    def finish(self) -> t.Body:
        """Stores what the variables hold at the end."""
        out: list[t.Stmt] = []
        seen: dict[str, int] = {}

        def put(e: t.Expr) -> None:
            type_ = e.type
            if isinstance(type_, Struct):
                for name, ft in type_.fields:
                    put(t.Member(ft, e, name))
            elif isinstance(type_, Array):
                for i in range(type_.size):
                    put(t.Index(type_.element, e, t.Lit(UINT, i)))
            elif isinstance(type_, (Scalar, Vector)):
                at = seen.get(type_.name, 0)
                seen[type_.name] = at + 1
                if at < SLOTS:
                    target = self.slot(type_)
                    index = t.binary("+", t.binary("*", ME, t.Lit(UINT, SLOTS)), t.Lit(UINT, at))
                    out.append(t.Assign(replace(target, index=index), "=", e))

        for v in reversed(self.scopes[0]):
            if v.writable:
                put(v.expr)
        return tuple(out)


def generate(seed: int) -> t.Kernel:
    """The kernel of this seed. A draw that breaks a rule of lockstep is thrown away for the next."""
    attempt = 0
    while True:
        kernel = Generator(seed, attempt).kernel()
        try:
            validate(kernel)
        except Invalid:
            attempt += 1
            continue
        return kernel
