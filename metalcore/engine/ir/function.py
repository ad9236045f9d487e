"""Functions and modules of IR."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Protocol

from metalcore.engine.ir.debug import Locations
from metalcore.engine.ir.metadata import Metadata
from metalcore.engine.ir.tokens import behind, plain, renamed, symbols, without_attached, without_attribute
from metalcore.engine.ir.types import Type
from metalcore.engine.ir.values import Block, Const, Global, Instr, Parameter


class BodyReader(Protocol):
    def blocks(self, function: Function) -> list[Block]: ...


class Function:
    """A function that is defined or declared. Its body is split into instructions when somebody asks for them."""

    def __init__(
        self,
        symbol: str,
        returned: Type,
        parameters: list[Parameter],
        *,
        linkage: str = "",
        words: list[str] | None = None,
        returned_attributes: list[str] | None = None,
        is_variadic: bool = False,
        suffix: list[str] | None = None,
        text: str | None = None,
        reader: BodyReader | None = None,
    ) -> None:
        self.symbol, self.returned, self.parameters = symbol, returned, parameters
        self.linkage = linkage
        self.words = words or []  # visibility, dso_local, calling convention
        self.returned_attributes = returned_attributes or []
        self.is_variadic = is_variadic
        self.suffix = suffix or []  # "#3", "comdat", "align 2", "!dbg !7"
        self.text = text  # of the body, as it was read; None: it is declared
        self._reader = reader
        self._blocks: list[Block] | None = None

    @property
    def name(self) -> str:
        return plain(self.symbol)

    @property
    def is_declaration(self) -> bool:
        return self.text is None

    @property
    def is_read(self) -> bool:
        """Whether somebody has asked for the blocks."""
        return self._blocks is not None

    @property
    def blocks(self) -> list[Block]:
        if self._blocks is None:
            self._blocks = self._reader.blocks(self) if self._reader is not None else []
        return self._blocks

    @blocks.setter
    def blocks(self, blocks: list[Block]) -> None:
        self._blocks = blocks

    def mentions(self, *words: str) -> bool:
        """Whether one of these words stood in its body: without them there is nothing to look for."""
        return self.text is not None and any(word in self.text for word in words)

    @property
    def length(self) -> int:
        """Lines of its text."""
        if self._blocks is None:
            return (self.text or "").count("\n")
        return sum(len(block.instrs) + 1 for block in self._blocks)

    def symbols(self) -> list[str]:
        """The functions and variables that its body names, each as often as it does."""
        if self._blocks is None:
            return symbols(self.text or "")
        return [name for instr in self.instructions() for name in _named(instr)]

    def naming(self, name: str) -> Iterator[Instr]:
        """The instructions that name a function or a variable; without its mark."""
        if self.is_read or self.mentions(name):
            for instr in self.instructions():
                if name in _named(instr):
                    yield instr

    def operands_of(self, op: str) -> list[str]:
        """What stands behind an opcode that makes a value, each time, as it was read: nothing is split for that."""
        return behind(self.text or "", op)

    def without_attribute(self, name: str) -> None:
        """Take a promise with a number from its parameters, its result and its calls; nothing is split for that."""
        for attributes in (self.returned_attributes, *(p.attributes for p in self.parameters)):
            attributes[:] = [word for word in attributes if not word.startswith(f"{name}(")]
        if not self.is_read:
            self.text = without_attribute(self.text, name) if self.text is not None else None
            return
        for instr in self.instructions():
            instr.without_attribute(name)

    def without_attached(self, kind: str) -> None:
        """Take the nodes of one kind from its instructions."""
        if not self.is_read:
            self.text = without_attached(self.text, kind) if self.text is not None else None
            return
        for instr in self.instructions():
            instr.without_attached(kind)

    @property
    def debug(self) -> int:
        """The number of the node that describes it; 0: none does."""
        found = next((word for word in self.suffix if word.startswith("!dbg !")), "")
        return int(found[len("!dbg !") :]) if found else 0

    def instructions(self) -> Iterator[Instr]:
        for block in self.blocks:
            yield from block.instrs

    def in_order(self) -> list[Block]:
        """Its blocks, each behind those that all ways to it pass; those that no way leads to come last."""
        first = self.blocks[0]
        behind, open_ = [], [(first, iter(first.succs))]
        seen = {first}
        while open_:
            block, ways = open_[-1]
            following = next((succ for succ in ways if succ not in seen), None)
            if following is None:
                behind.append(block)
                open_.pop()
            else:
                seen.add(following)
                open_.append((following, iter(following.succs)))
        return [*reversed(behind), *(block for block in self.blocks if block not in seen)]

    def link(self) -> None:
        """Recompute predecessors from the terminators; an edge taken twice counts once."""
        for block in self.blocks:
            block.preds = []
        for block in self.blocks:
            for succ in dict.fromkeys(block.succs):
                succ.preds.append(block)


def _named(instr: Instr) -> list[str]:
    if instr.rest is not None:
        return symbols(instr.rest)
    names = [instr.callee] if instr.callee else []
    for arg in instr.args:
        if isinstance(arg, Global):
            names.append(arg.plain_name)
        elif isinstance(arg, Const):
            names += symbols(arg.text)
        elif not arg.name:  # a constant expression
            names += _named(arg)
    return names


class Module:
    """All that one text of IR says. `entry` is the function that the next stages work on."""

    def __init__(self, entry: str = "__mc_entry") -> None:
        self.entry = entry
        self.text = ""  # that it was read from
        self.header: list[str] = []  # source_filename, target, ...
        self.comdats: list[str] = []
        self.structs: dict[str, str] = {}  # name -> its members as they are spelled
        self.types: dict[str, Type] = {}  # those structs that were read
        self.globals: dict[str, Global] = {}  # by name, with its @
        self.functions: dict[str, Function] = {}  # by name, without @
        self.attributes: dict[int, list[str]] = {}
        self.notes = Metadata()  # the lines at its end

    @property
    def function(self) -> Function:
        """The entry point."""
        return self.functions[self.entry]

    def at(self, entry: str) -> Module:
        """The same module with another entry point."""
        other = copy.copy(self)
        other.entry = entry
        return other

    def defined(self) -> Iterator[Function]:
        """The functions that have a body."""
        for function in self.functions.values():
            if not function.is_declaration:
                yield function

    @property
    def metadata(self) -> Mapping[int, str]:
        """The numbered lines at its end."""
        return self.notes.nodes

    @cached_property
    def locations(self) -> Locations:
        """Where debug locations are in the user's files."""
        return Locations(self.metadata)

    def unused_prefix(self, start: str) -> str:
        """A beginning of local names that no name has, made of *start* and a digit."""
        return next(f"%{start}{i}." for i in range(99) if f"%{start}{i}." not in self.text)

    def spelled_out(self, variable: Global) -> str:
        """Type and initialiser of a variable, for a module that does not have the names of the structs in it."""
        members = {name: ty.text for name, ty in self.types.items()}
        return f"{variable.value_type.text} {renamed(variable.value, members)}"

    def definition(self, table: Global) -> str:
        """The line that defines a table in such a module."""
        suffix = [part for part in table.suffix if not part.startswith("!")]
        words = f"{table.words} " if table.words else ""
        return ", ".join([f"{table.name} = {words}constant {self.spelled_out(table)}", *suffix])

    def declare(self, function: Function) -> None:
        """Add a function that is defined elsewhere, unless it is there."""
        self.functions.setdefault(function.name, function)

    def attribute_group(self, words: list[str]) -> str:
        """The number of a set of attributes, as a function's suffix has it."""
        for number, there in self.attributes.items():
            if there == words:
                return f"#{number}"
        number = max(self.attributes, default=-1) + 1
        self.attributes[number] = words
        return f"#{number}"
