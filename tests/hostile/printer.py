"""A hostile kernel as MSL text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.hostile import elements as el
from tests.hostile import tree as h
from tests.stress import tree as t
from tests.stress.printer import literal
from tests.stress.types import Scalar

LENGTHS = 200  # from here on `b` has the lengths of the arrays


def expression(e: h.Expr) -> str:
    if isinstance(e, h.Param):
        return f"{e.type.name}(b[{e.number}])"
    if isinstance(e, h.Own):
        return f"{e.type.name}(v[{e.number}u * total + me])"
    if isinstance(e, t.Lit):
        return literal(e.type, e.value)
    if isinstance(e, t.Var):
        return e.name
    if isinstance(e, t.Unary):
        return f"({e.op}{expression(e.a)})"  # type: ignore[arg-type]
    if isinstance(e, t.Binary):
        return f"({expression(e.a)} {e.op} {expression(e.b)})"  # type: ignore[arg-type]
    if isinstance(e, t.Ternary):
        parts = (expression(x) for x in (e.cond, e.a, e.b))  # type: ignore[arg-type]
        return "({} ? {} : {})".format(*parts)
    return f"{e.type.name}({expression(e.a)})"  # type: ignore[union-attr,arg-type]


class Printer:
    """Text of one kernel."""

    def __init__(self, kernel: h.Kernel) -> None:
        self.kernel = kernel
        self.pointers: dict[str, h.Array] = {}

    def array(self, name: str) -> h.Array:
        return self.pointers[name] if name in self.pointers else self.kernel.array(name)

    def base(self, name: str) -> str:
        """The array as a pointer to its first element."""
        if name in self.pointers:
            return name
        a = self.kernel.array(name)
        return f"&{name}[0][0]" if a.rows else f"{name}.d" if a.around else name

    def place(self, x: h.Access, write: bool) -> str:
        a, index = self.array(x.array), expression(x.index)
        pointer = f"{a.msl_space} {'' if write else 'const '}{x.element.name}*"
        if x.row is not None:
            return f"{x.array}[{expression(x.row)}][{index}]"
        if x.form == "cast":
            return f"(({pointer}){self.base(x.array)})[{index}]"
        if x.form == "bytes":
            start = f"({a.msl_space} {'' if write else 'const '}uchar*){self.base(x.array)}"
            return f"*({pointer})(({start}) + {index})"
        return f"{x.array}.d[{index}]" if a.around and x.array not in self.pointers else f"{x.array}[{index}]"

    def load(self, x: h.Access) -> str:
        if x.form == "function":
            return f"get_{x.array}({self.base(x.array)}, {expression(x.index)})"
        return f"fold({self.place(x, False)})"

    def statement(self, s: h.Stmt, depth: int) -> Iterator[str]:
        pad = "  " * depth
        if isinstance(s, h.Let):
            yield f"{pad}{s.type.name} {s.name} = {expression(s.value)};"
        elif isinstance(s, h.Set):
            yield f"{pad}{s.name} = {expression(s.value)};"
        elif isinstance(s, h.Load):
            text = self.load(s.access)
            if s.name:
                yield f"{pad}uint {s.name} = {text};"
            yield f"{pad}acc = acc * 33u + {s.name or text};"
        elif isinstance(s, h.Store):
            if s.access.form == "function":
                where = f"{self.base(s.access.array)}, {expression(s.access.index)}"
                yield f"{pad}put_{s.access.array}({where}, {expression(s.value)});"
            else:
                yield f"{pad}{self.place(s.access, True)} = make_{s.access.element.name}({expression(s.value)});"
        elif isinstance(s, h.Atomic):
            yield pad + self.atomic(s)
        elif isinstance(s, h.If):
            yield f"{pad}if ({expression(s.cond)}) {{"
            yield from self.body(s.then, depth + 1)
            if s.other:
                yield f"{pad}}} else {{"
                yield from self.body(s.other, depth + 1)
            yield f"{pad}}}"
        elif isinstance(s, h.For):
            step = f"{s.name} += {literal(s.type, s.step)}"
            yield f"{pad}for ({s.type.name} {s.name} = {expression(s.start)}; {expression(s.cond)}; {step}) {{"
            yield from self.body(s.body, depth + 1)
            yield f"{pad}}}"
        elif isinstance(s, h.Break):
            yield f"{pad}if ({expression(s.cond)}) break;"
        elif isinstance(s, h.Barrier):
            yield f"{pad}threadgroup_barrier(mem_flags::mem_threadgroup);"
        elif isinstance(s, h.Point):
            a = self.kernel.array(s.array)
            self.pointers[s.name] = a
            const = "" if a.writable or a.space == "private" else "const "
            kind = f"{a.msl_space} {const}{s.element.name}*"
            start = self.base(s.array) if s.element == a.element else f"({kind}){self.base(s.array)}"
            yield f"{pad}{kind} {s.name} = {start} + {expression(s.index)};"
        elif isinstance(s, h.Move):
            yield f"{pad}{s.name} += {expression(s.by)};"
        elif isinstance(s, h.Repoint):
            yield f"{pad}if ({expression(s.cond)}) {s.name} = {self.base(s.array)} + {expression(s.index)};"
        else:
            yield pad + self.matrix(s)

    def atomic(self, s: h.Atomic) -> str:
        a = self.array(s.access.array)
        index, value = expression(s.access.index), expression(s.value)
        at = f"&{s.access.array}[{index}]"
        outside = f"ulong({index}) >= {a.count}ul" if not a.scale else f"ulong({index}) >= ulong(total) * {a.count}ul"
        if s.op == "load":
            return f"acc = acc * 33u + uint(atomic_load_explicit({at}, memory_order_relaxed));"
        if s.op == "store":
            return f"atomic_store_explicit({at}, {value}, memory_order_relaxed);"
        if s.op == "cas":  # the expected value is nowhere in the array, so nothing is exchanged
            name = a.element.name
            return (
                f"{{ {name} want = {name}(0x5A5A1234); atomic_compare_exchange_weak_explicit({at}, &want, {value}, "
                "memory_order_relaxed, memory_order_relaxed); }"
            )
        word = "exchange" if s.op == "exchange" else f"fetch_{s.op}"
        text = f"atomic_{word}_explicit({at}, {value}, memory_order_relaxed)"
        return f"{{ auto r = {text}; if ({outside}) acc = acc * 33u + uint(r); }}"

    def matrix(self, s: h.Matrix) -> str:
        where = f"{self.base(s.array)} + {expression(s.index)}, ulong({expression(s.stride)})"
        if s.origin is not None or s.transpose:
            x, y = (expression(e) for e in s.origin) if s.origin else ("0", "0")
            where += f", ulong2({x}, {y})"
        if s.transpose:
            where += ", true"
        own = f"{s.safe} + (grp * (gt / 32u) + sg) * 64u, 8"
        first, second = (where, own) if s.load else (own, where)
        kind = f"simdgroup_{s.element.name}8x8"
        return f"{{ {kind} m; simdgroup_load(m, {first}); simdgroup_store(m, {second}); }}"

    def body(self, body: h.Body, depth: int) -> Iterator[str]:
        for s in body:
            yield from self.statement(s, depth)

    # ---- the frame ----
    def prelude(self) -> Iterator[str]:
        used = {a.element.name: a.element for a in self.kernel.arrays}
        for s in statements(self.kernel.body):
            access = getattr(s, "access", None)
            for element in (getattr(s, "element", None), access and access.element):
                if element is not None:
                    used[element.name] = element
        for name in sorted(used):
            yield from el.helpers_text(used[name])
        for i, (name, _) in enumerate(self.kernel.constants):
            yield f"constant uint {name} [[function_constant({i})]];"
        for a in self.kernel.arrays:
            space, kind = a.msl_space, a.element.name
            if a.space == "table":
                values = ", ".join(f"{kind}({v})" for v in table_values(a))
                yield f"constant {kind} {a.name}[{a.count}] = {{{values}}};"
            if a.around:
                n = a.around
                yield f"struct S_{a.name} {{ {kind} head[{n}]; {kind} d[{a.count}]; {kind} tail[{n}]; }};"
        forms = {(s.access.array, type(s)) for s in statements(self.kernel.body) if is_call(s)}
        for name, what in sorted(forms, key=str):
            a = self.kernel.array(name)
            space, kind = a.msl_space, a.element.name
            if what is h.Load:
                yield f"static uint get_{name}({space} const {kind}* p, long i) {{ return fold(p[i]); }}"
            else:
                yield f"static void put_{name}({space} {kind}* p, long i, uint u) {{ p[i] = make_{kind}(u); }}"

    def parameters(self) -> Iterator[str]:
        yield from ("device uint* o", "device const ulong* b", "device const ulong* v")
        tables = []
        for a in self.kernel.arrays:
            atomic = "atomic_" if a.atomic else ""
            if a.space in ("device", "constant"):
                const = "const " if a.space == "device" and not a.writable else ""
                yield f"{a.space} {const}{atomic}{a.element.name}* {a.name}"
            elif a.space == "listed" and a.table not in tables:
                tables.append(a.table)
                yield f"device const ulong* {a.table}"
            if a.space in ("threadgroup", "dynamic"):
                yield f"device {a.element.name}* dump_{a.name}"
        slot = 0
        for a in self.kernel.arrays:
            if a.space == "dynamic":
                atomic = "atomic_" if a.atomic else ""
                yield f"threadgroup {atomic}{a.element.name}* {a.name} [[threadgroup({slot})]]"
                slot += 1
        n = self.kernel.dims
        wide = f"uint{n}" if n > 1 else "uint"
        kind = self.kernel.positions + (str(n) if n > 1 else "")
        yield f"{kind} gid [[thread_position_in_grid]]"
        yield f"{wide} grid [[threads_per_grid]]"
        yield f"{wide} gpos [[threadgroup_position_in_grid]]"
        yield f"{wide} gcount [[threadgroups_per_grid]]"
        yield f"{wide} gsize [[threads_per_threadgroup]]"
        yield "uint tid [[thread_index_in_threadgroup]]"
        yield "uint lane [[thread_index_in_simdgroup]]"
        yield "uint sg [[simdgroup_index_in_threadgroup]]"

    def opening(self) -> Iterator[str]:
        n = self.kernel.dims

        def flat(place: str, size: str) -> str:
            if n == 1:
                return f"uint({place})"
            if n == 2:
                return f"uint({place}.y) * {size}.x + {place}.x"
            return f"(uint({place}.z) * {size}.y + {place}.y) * {size}.x + {place}.x"

        def product(v: str) -> str:
            return v if n == 1 else " * ".join(f"{v}.{c}" for c in "xyz"[:n])

        yield f"uint me = {flat('gid', 'grid')}, total = {product('grid')}, grp = {flat('gpos', 'gcount')};"
        yield f"uint gt = {product('gsize')}, acc = 0u;"
        if n > 1:
            yield "; ".join(f"{self.kernel.positions} p{c} = gid.{c}" for c in "xyz"[:n]) + ";"
        shared = False
        for i, a in enumerate(self.kernel.arrays):
            kind = a.element.name
            atomic = "atomic_" if a.atomic else ""
            if a.space == "listed":
                const = "" if a.writable else "const "
                yield f"device {const}{kind}* {a.name} = (device {const}{kind}*){a.table}[{a.slot}];"
            elif a.space == "threadgroup":
                yield f"threadgroup {atomic}{kind} {a.name}[{a.count}];"
            elif a.space == "private":
                if a.around:
                    yield f"S_{a.name} {a.name};"
                else:
                    size = f"[{a.rows}][{a.count // a.rows}]" if a.rows else f"[{a.count}]"
                    yield f"{kind} {a.name}{size};"
                yield from self.private_loops(a, self.first_value(a))
            if a.space in ("threadgroup", "dynamic"):
                shared = True
                value = f"make_{kind}(j * 77u + grp * 1013u + {i}u)"
                if a.atomic:
                    value = f"atomic_store_explicit(&{a.name}[j], {value}, memory_order_relaxed)"
                else:
                    value = f"{a.name}[j] = {value}"
                yield f"for (uint j = tid; j < {a.count}u; j += gt) {value};"
        if shared:
            yield "threadgroup_barrier(mem_flags::mem_threadgroup);"

    def first_value(self, a: h.Array) -> Callable[[str, str], str]:
        return lambda place, at: f"{place} = make_{a.element.name}(({at}) * 77u + me * 5u);"

    def private_loops(self, a: h.Array, text: Callable[[str, str], str]) -> Iterator[str]:
        """Runs over all elements in their order; `text(place, number)` is a statement."""
        if a.sparse:
            return
        # A number that the compiler does not know: unrolled loops take long to compile.
        count = f"{a.count}u" if self.kernel.unrolled else f"uint(b[{LENGTHS + self.kernel.arrays.index(a)}])"
        if a.rows:
            c = a.count // a.rows
            yield f"for (uint j = 0; j < {count}; j++) {text(f'{a.name}[j / {c}u][j % {c}u]', 'j')}"
        elif a.around:
            n = a.around
            for part, start, size in (("head", 0, f"{n}u"), ("d", n, count), ("tail", n + a.count, f"{n}u")):
                yield f"for (uint j = 0; j < {size}; j++) {text(f'{a.name}.{part}[j]', f'j + {start}u')}"
        else:
            yield f"for (uint j = 0; j < {count}; j++) {text(f'{a.name}[j]', 'j')}"

    def closing(self) -> Iterator[str]:
        shared = [a for a in self.kernel.arrays if a.space in ("threadgroup", "dynamic")]
        if shared:
            yield "threadgroup_barrier(mem_flags::mem_threadgroup);"
        for a in shared:
            value = f"atomic_load_explicit(&{a.name}[j], memory_order_relaxed)" if a.atomic else f"{a.name}[j]"
            yield f"for (uint j = tid; j < {a.count}u; j += gt) dump_{a.name}[grp * {a.count}u + j] = {value};"
        for a in self.kernel.arrays:
            if a.space == "private":
                yield from self.private_loops(a, lambda place, _: f"acc = acc * 33u + fold({place});")
        yield "o[me] = acc;"

    def text(self) -> str:
        body = list(self.body(self.kernel.body, 1))  # first: it finds the pointers
        lines = ["#include <metal_stdlib>", "using namespace metal;", *self.prelude()]
        lines.append(f"kernel void k({', '.join(self.parameters())}) {{")
        lines += [f"  {line}" for line in self.opening()]
        lines += [*body, *(f"  {line}" for line in self.closing()), "}", ""]
        return "\n".join(lines)


def is_call(s: h.Stmt) -> bool:
    return isinstance(s, (h.Load, h.Store)) and s.access.form == "function"


def statements(body: h.Body) -> Iterator[h.Stmt]:
    for s in body:
        yield s
        for name in ("then", "other", "body"):
            yield from statements(getattr(s, name, ()))


def table_values(a: h.Array) -> list[int]:
    """What a table of the file holds: numbers that fit its type without a cast that changes them."""
    s: Scalar = a.element.parts[0][0]
    return [(i * 37 + 11) % (min(s.high, 1 << 30) + 1) for i in range(a.count)]


def msl(kernel: h.Kernel) -> str:
    return Printer(kernel).text()
