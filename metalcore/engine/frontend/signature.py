"""A kernel's signature, read back from the tables in its IR that include/entry.h makes clang fill."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from metalcore.engine.frontend.entry import type_name
from metalcore.engine.frontend.model import Kernel
from metalcore.engine.ir import Aggregate, Const, Function, Global, Module, Value, bytes_of, initial_value, plain
from metalcore.engine.model import SCALARS, SPACES, Argument

# In the order of the enum in include/entry.h.
KINDS = ("buffer", "value", "threadgroup", "builtin", "end")
_DESCRIBED, _ENABLED, _NOTES = "__mc_describe", "__mc_describe_enabled", "@llvm.global.annotations"
_INFO = '%"struct.__mc::info"'
_MERGED = ("linkonce_odr", "weak_odr")  # linkage of what every text that has it may define


@dataclass(frozen=True)
class Row:
    """One row of a table in include/entry.h."""

    kind: str
    slot: int
    size: int
    align: int
    writable: bool
    scalar: str
    lanes: int
    space: str
    type: str


class Tables:
    """The tables of a module."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def rows(self, function: str) -> list[Row]:
        """The rows of the table whose address *function* returns."""
        table = returned(self._module, function)
        value = initial_value(self._module, table) if table else None
        rows = [self._row(members) for members in _infos(value)]
        return [row for row in rows if row.kind != "end"]

    def _row(self, members: tuple[Value, ...]) -> Row:
        *numbers, pointer = members
        kind, slot, size, align, writable, scalar, lanes, space = (_number(each) for each in numbers)
        text = initial_value(self._module, pointer) if isinstance(pointer, Global) else None
        spelled = bytes_of(text).partition(b"\0")[0].decode("utf-8", "surrogateescape")
        name = type_name(spelled, SCALARS[scalar], lanes)
        return Row(KINDS[kind], slot, size, align, bool(writable), SCALARS[scalar], lanes, SPACES[space], name)


def arguments(module: Module, kernel: Kernel) -> tuple[Argument, ...]:
    """The kernel's parameters as clang sees them."""
    rows = Tables(module).rows(_DESCRIBED)
    table = returned(module, _ENABLED)
    enabled = [flag == 1 for flag in bytes_of(initial_value(module, table) if table else None)][: len(rows)]
    found = []
    for parameter, row, on in zip(kernel.parameters, rows, enabled, strict=True):
        builtin = row.kind == "builtin"
        found.append(
            Argument(
                name=parameter.name,
                index=-1 if builtin else row.slot,
                kind=row.kind,
                type=row.type,
                element_size=row.size,
                element_align=row.align,
                writable=row.writable,
                scalar="struct" if row.scalar == "void" else row.scalar,
                lanes=row.lanes,
                space=row.space,
                enabled=on,
                attribute=parameter.builtin,
            )
        )
    return tuple(found)


def max_threads(module: Module, entry: str = "__mc_entry") -> int | None:
    """The value of [[max_total_threads_per_threadgroup(n)]] of the kernel that the entry point calls."""
    notes = module.globals.get(_NOTES)
    if notes is None or entry not in module.functions:
        return None
    called = set(module.functions[entry].symbols())
    for note in _items(initial_value(module, notes)):
        function, *_, arguments = _items(note)
        if isinstance(function, Const) and plain(function.text) in called and isinstance(arguments, Global):
            (limit,) = _items(initial_value(module, arguments)) or (None,)
            return _number(limit) if limit else None
    return None


def strip(module: Module) -> None:
    """Take out what only described the kernel; give linkage and attributes that the next stages want."""
    for function in (_DESCRIBED, _ENABLED):
        table = returned(module, function)
        if table is not None:
            del module.globals[table.name]
        module.functions.pop(function, None)
    module.globals.pop(_NOTES, None)
    module.comdats = []
    for each in module.functions.values():
        # A reference promises no more than a pointer does: nothing may be read before the kernel reads it.
        each.without_attribute("dereferenceable")
        each.without_attached("!noundef")
        if each.linkage in _MERGED and not each.is_declaration:
            each.linkage = "internal"
            each.suffix = [word for word in each.suffix if not word.startswith("comdat")]
    for variable in module.globals.values():
        linkage, _, words = variable.words.partition(" ")
        if linkage in _MERGED and any(part.startswith("comdat") for part in variable.suffix):
            variable.words = f"internal {words}".rstrip()
            variable.suffix = [part for part in variable.suffix if not part.startswith("comdat")]
    # SYCL promises that nothing recurses; Metal code may call itself in tail position.
    for words_of in module.attributes.values():
        if "norecurse" in words_of:
            words_of.remove("norecurse")


def returned(module: Module, name: str) -> Global | None:
    """The variable whose address a function returns."""
    function: Function | None = module.functions.get(name)
    for instr in function.instructions() if function is not None else ():
        if instr.op == "ret" and instr.args and isinstance(instr.args[0], Global):
            return instr.args[0]
    return None


def _infos(value: Value | None) -> Iterator[tuple[Value, ...]]:
    """The members of each row in a table, however deep in it."""
    if isinstance(value, Aggregate) and value.type.spelled == _INFO:
        yield value.items
    else:
        for item in _items(value):
            yield from _infos(item)


def _items(value: Value | None) -> tuple[Value, ...]:
    return value.items if isinstance(value, Aggregate) else ()


def _number(value: Value) -> int:
    number = value.value if isinstance(value, Const) else None
    assert number is not None, value
    return number
