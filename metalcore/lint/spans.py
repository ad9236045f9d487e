"""Which bytes of a private array or struct an address may name."""

from __future__ import annotations

from metalcore.engine.ir import Const, Instr, Type, Value

Span = tuple[int, int] | None  # None: any byte


def span_of(address: Value) -> Span:
    """The first byte, and the one behind the last, counted from the start of the object."""
    steps: list[Instr] = []
    while isinstance(address, Instr) and address.op == "getelementptr":
        steps.append(address)
        address = address.args[0]
    if not isinstance(address, Instr) or address.op != "alloca":
        return None
    kind = address.extra["allocated"]
    assert isinstance(kind, Type)
    low, size, exact = 0, max(kind.size, 1), True
    for step in reversed(steps):
        source = step.extra["source"]
        assert isinstance(source, Type)
        first = step.args[1]
        if not isinstance(first, Const):
            exact = False  # somewhere in what the address before it named
            continue
        if not exact:
            continue
        low += (first.value or 0) * source.size
        size = source.size
        for index in step.args[2:]:
            if not isinstance(index, Const):
                exact = False
                break
            number = index.value or 0
            if source.kind == "struct":
                low += source.offset(number)
                source = source.items[number]
            else:
                source = source.items[0]
                low += number * source.size
            size = source.size
    return low, low + max(size, 1)


def overlap(a: Span, b: Span) -> bool:
    """Whether two spans may share a byte."""
    return a is None or b is None or (a[0] < b[1] and b[0] < a[1])
