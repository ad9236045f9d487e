"""Changes of a function: instructions that go in front of others or behind them, or away."""

from __future__ import annotations

from metalcore.engine.ir.function import Function
from metalcore.engine.ir.values import Instr


class Names:
    """Numbered names for what is added."""

    def __init__(self, prefix: str) -> None:
        self.prefix, self.count = prefix, 0

    def fresh(self) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}"


class Builder:
    """Puts instructions to one place, with its debug location.

    Example: `zero = build(make.compare("eq", divisor, make.number(I32, 0)))`.
    """

    __slots__ = ("_line", "_names", "_near", "_to")

    def __init__(self, to: list[Instr], near: Instr, names: Names, line: int) -> None:
        self._to, self._near, self._names, self._line = to, near, names, line

    def __call__(self, instr: Instr, name: str = "") -> Instr:
        if not name and instr.type.kind != "void":
            name = self._names.fresh()
        instr.name, instr.line, instr.block = name, self._line, self._near.block
        self._to.append(instr)
        return instr


class Edits:
    """What is to change in a function; `apply` does it, in one walk."""

    def __init__(self, function: Function, names: Names) -> None:
        self.function, self.names = function, names
        self._before: dict[Instr, list[Instr]] = {}
        self._after: dict[Instr, list[Instr]] = {}
        self._removed: set[Instr] = set()

    def before(self, instr: Instr, line: int | None = None) -> Builder:
        to = self._before.setdefault(instr, [])
        return Builder(to, instr, self.names, instr.line if line is None else line)

    def after(self, instr: Instr, line: int | None = None) -> Builder:
        to = self._after.setdefault(instr, [])
        return Builder(to, instr, self.names, instr.line if line is None else line)

    def remove(self, instr: Instr) -> None:
        self._removed.add(instr)

    def drop(self) -> None:
        """Change nothing after all."""
        self._before, self._after, self._removed = {}, {}, set()

    @property
    def is_empty(self) -> bool:
        return not (self._before or self._after or self._removed)

    def apply(self) -> None:
        touched = {instr.block for group in (self._before, self._after, self._removed) for instr in group}
        for block in self.function.blocks:
            if block not in touched:
                continue
            out: list[Instr] = []
            for instr in block.instrs:
                out += self._before.get(instr, ())
                if instr not in self._removed:
                    out.append(instr)
                out += self._after.get(instr, ())
            block.instrs = out
        self.drop()
