"""Variables of unoptimised code that need no memory: each is stored once at the top of its function, or all that is
done with it stands in one block.

clang keeps every parameter and every variable in memory and reads it wherever it is named. Where small functions are
inlined by the hundreds, these are nine tenths of the text, and each stage in front of the optimiser reads all of it.
What is left, a variable that several blocks set, is LLVM's. Nothing is concluded from what would be undefined: a
variable that is read before it is written stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from metalcore.engine.ir.tokens import VARIABLE, VARIABLE_LIFETIME, VARIABLE_LOAD, VARIABLE_STORE, locals_in, renamed

_Place = tuple[int, int]  # block, line


@dataclass
class _Variable:
    type: str
    stores: list[tuple[_Place, str]] = field(default_factory=list)
    loads: list[tuple[_Place, str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # all of its own, which go

    def values(self) -> dict[str, str] | None:
        """What each load gives; None: it has to stay in memory."""
        if not self.stores:
            return None if self.loads else {}
        first, value = self.stores[0]
        if len(self.stores) == 1 and first[0] == 0 and all(at > first for at, _ in self.loads):
            return dict.fromkeys((name for _, name in self.loads), value)
        blocks = {at[0] for at, _ in (*self.stores, *self.loads)}
        if len(blocks) > 1 or any(at < first for at, _ in self.loads):
            return None
        found, number = {}, 0
        for at, name in self.loads:  # in the order of the text, as the stores are
            while number < len(self.stores) and self.stores[number][0] < at:
                value = self.stores[number][1]
                number += 1
            found[name] = value
        return found


def without_variables(body: str, taken: Iterable[str] = ()) -> str:
    """The text of a function's body, its simple variables kept as values. *taken*: names of types.

    >>> print(without_variables(
    ...     "entry:\\n  %x.addr = alloca i32, align 4\\n  store i32 %x, ptr %x.addr, align 4\\n"
    ...     "  %0 = load i32, ptr %x.addr, align 4\\n  ret i32 %0\\n"
    ... ), end="")
    entry:
      ret i32 %x
    """
    variables = {name: _Variable(ty) for name, ty in VARIABLE.findall(body)}
    if not variables:
        return body
    lines = body.split("\n")
    _look(lines, variables)
    gone: set[int] = set()
    values: dict[str, str] = {}
    for variable in variables.values():
        if (found := variable.values()) is not None:
            values |= found
            gone.update(variable.lines)
    if not values.keys().isdisjoint(taken):
        return body
    for name in values:
        values[name] = _last(name, values)
    if not values:
        return "\n".join([line for i, line in enumerate(lines) if i not in gone])
    return "\n".join([renamed(line, values) for i, line in enumerate(lines) if i not in gone])


def _look(lines: list[str], variables: dict[str, _Variable]) -> None:
    """Find what is done with each variable; one whose address is used in another way is no longer among them."""
    block = -1 if lines[0][:2] != "  " else 0
    for number, line in enumerate(lines):
        if line[:1] not in (" ", "", ";"):
            block += 1
            continue
        mine: _Variable | None
        if load := VARIABLE_LOAD.match(line):
            mine = variables.get(load[3])
            if mine is not None and mine.type == load[2]:
                mine.loads.append(((block, number), load[1]))
                mine.lines.append(number)
                continue
        elif store := VARIABLE_STORE.match(line):
            mine = variables.get(store[3])
            if mine is not None and mine.type == store[1] and store[2] not in variables:
                mine.stores.append(((block, number), store[2]))
                mine.lines.append(number)
                continue
        elif life := VARIABLE_LIFETIME.match(line):
            if (mine := variables.get(life[1])) is not None:
                mine.lines.append(number)
            continue
        elif found := VARIABLE.match(line):
            if (mine := variables.get(found[1])) is not None:
                mine.lines.append(number)
            continue
        for name in locals_in(line):
            variables.pop(name, None)


def _last(name: str, values: dict[str, str]) -> str:
    """The value behind a chain of variables."""
    while name in values:
        name = values[name]
    return name
