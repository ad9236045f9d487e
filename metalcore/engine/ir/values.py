"""What IR is made of: constants, variables, instructions, blocks.

An instruction that came from text is read when somebody first asks for its operands, and it is printed as it was read
unless it was changed: a module of thousands of lines costs little more than the lines that a pass looks at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from metalcore.engine.ir.tokens import FLAGS, locals_in, plain, renamed, without_attached, without_attribute, words
from metalcore.engine.ir.types import PTR, Type


class Const:
    """A constant operand; `text` is its LLVM spelling."""

    __slots__ = ("text", "type")

    def __init__(self, type: Type, text: str) -> None:
        self.type, self.text = type, text

    def __repr__(self) -> str:
        return f"<{self.type.text} {self.text}>"

    @property
    def value(self) -> int | None:
        """The integer value, where it is one."""
        if self.type.kind == "int":
            if self.text == "true":
                return 1
            if self.text in ("false", "zeroinitializer", "undef", "poison"):
                return 0
            return int(self.text)
        if self.type.kind == "ptr" and self.text in ("null", "zeroinitializer"):
            return 0
        return None


class Aggregate(Const):
    """A constant of many: the members of a struct, the elements of an array or a vector."""

    __slots__ = ("items",)

    def __init__(self, type: Type, text: str, items: tuple[Value, ...]) -> None:
        super().__init__(type, text)
        self.items = items


@dataclass(eq=False)
class Global:
    """A module-level variable: a constant table or a threadgroup variable."""

    name: str  # with its @
    value_type: Type
    constant: bool
    value: str = ""  # its initialiser, "" where it has none
    words: str = ""  # in front of `global` or `constant`: linkage and the like
    suffix: list[str] = field(default_factory=list)  # 'section "..."', "align 4"
    kind: str = ""  # "alias" or "ifunc" where it is one

    @property
    def type(self) -> Type:
        return PTR

    @property
    def plain_name(self) -> str:
        return plain(self.name)

    @property
    def align(self) -> int:
        found = self._behind("align")
        return int(found) if found else self.value_type.align

    @property
    def section(self) -> str:
        return self._behind("section").strip('"')

    def _behind(self, word: str) -> str:
        return next((part[len(word) :].strip() for part in self.suffix if part.startswith(word)), "")

    def names(self) -> list[str]:
        """The variables and functions that its initialiser names."""
        return [word for word in words(self.value) if word[0] == "@"] if "@" in self.value else []

    @property
    def is_external(self) -> bool:
        """Whether it is defined elsewhere."""
        return self.linkage in ("external", "extern_weak")

    @property
    def linkage(self) -> str:
        return self.words.partition(" ")[0]

    @property
    def is_zero(self) -> bool:
        return self.value == "zeroinitializer" or (not self.value_type.is_aggregate and self.value == "0")


class Reader(Protocol):
    """Reads the operands of a function's instructions."""

    def read(self, instr: Instr) -> None: ...


class Instr:
    """One instruction. It is its own result value; `name` is empty for void ones.

    A constant expression is one without a name that stands in no block. `extra` has what else the opcode needs: pred,
    flags, callee, source (of a getelementptr), align, ordering, ...
    """

    __slots__ = ("args", "block", "extra", "line", "name", "op", "reader", "rest", "targets", "type")
    op: str
    type: Type
    args: list[Value]
    name: str
    extra: dict[str, object]
    targets: list[Block]  # successors of a terminator; incoming blocks of a phi
    line: int  # debug location number, 0 for none
    block: Block | None
    rest: str | None  # flags and operands as they were read; None: the other members say it
    reader: Reader | None

    def __init__(
        self,
        op: str,
        type: Type,
        args: list[Value],
        name: str = "",
        extra: dict[str, object] | None = None,
        targets: list[Block] | None = None,
        line: int = 0,
        block: Block | None = None,
    ) -> None:
        self.op, self.type, self.args, self.name = op, type, args, name
        self.extra = {} if extra is None else extra
        self.targets = [] if targets is None else targets
        self.line, self.block = line, block
        self.rest = self.reader = None

    def __getattr__(self, member: str) -> Any:
        """A member that is not there yet: the instruction is read."""
        if member not in _READ or self.reader is None:
            raise AttributeError(member)
        self.reader.read(self)
        return getattr(self, member)

    def __repr__(self) -> str:
        return f"<{self.name or self.op}>"

    @property
    def callee(self) -> str:
        return str(self.extra.get("callee", "")) if self.op == "call" else ""

    @property
    def flags(self) -> list[str]:
        found = self.extra.get("flags")
        return found if isinstance(found, list) else []

    def mentions(self, *words: str) -> bool:
        """Whether one of these words is among its operands as they were read; of others nothing is known: True."""
        return self.rest is None or any(word in self.rest for word in words)

    def locals(self) -> list[str]:
        """The names of values among its operands, and maybe of blocks and types; it need not be read for that."""
        if self.rest is not None:
            return locals_in(self.rest)
        return [arg.name for arg in (*self.args, self.extra.get("target")) if isinstance(arg, Instr) and arg.name]

    def may_read(self, names: Set[str]) -> bool:
        """Whether a value of one of these names is among its operands."""
        return not names.isdisjoint(self.locals())

    def substitute(self, values: Mapping[str, Value]) -> None:
        """Put others in the place of operands of these names."""
        if self.rest is not None and not _UNREAD.isdisjoint(self.extra):
            self._reword(renamed(self.rest, {name: text_of(value) for name, value in values.items()}))
            return
        self.changed()
        self.args = [_other(arg, values) for arg in self.args]
        if isinstance(target := self.extra.get("target"), Instr):
            self.extra["target"] = _other(target, values)

    def changed(self) -> Instr:
        """Say that members are set anew: it is printed from them from now on."""
        _ = self.args  # it is read before its text goes
        self.rest = None
        return self

    def set_arg(self, index: int, value: Value) -> None:
        self.changed().args[index] = value

    def without_flags(self, unwanted: frozenset[str]) -> None:
        """Take promises away. An instruction that nobody has read yet need not be."""
        if self.rest is not None:
            at = 1
            kept_text = ""
            while (end := self.rest.find(" ", at)) > 0 and (word := self.rest[at:end]) in FLAGS:
                kept_text += "" if word in unwanted else f" {word}"
                at = end + 1
            if not _is_set(self):
                self.rest = kept_text + self.rest[at - 1 :]
                return
        if kept := [flag for flag in self.flags if flag not in unwanted]:
            self.changed().extra["flags"] = kept
        elif self.flags:
            del self.changed().extra["flags"]

    def without_line(self) -> None:
        """Take its debug location away. It need not be read for that."""
        if self.rest is not None:
            self._reword(without_attached(self.rest, "!dbg"))
        else:
            self.line = 0

    def without_attribute(self, name: str) -> None:
        """Take a promise with a number from the operands and the result of a call."""
        if self.rest is not None:
            self._reword(without_attribute(self.rest, name))
            return
        own = self.extra.get("attributes")
        for listed in (self.extra.get("returned"), *(own if isinstance(own, list) else ())):
            if isinstance(listed, list):
                listed[:] = [word for word in listed if not word.startswith(f"{name}(")]

    def without_attached(self, kind: str) -> None:
        """Take the node of one kind away that is attached to it."""
        if self.rest is not None:
            self._reword(without_attached(self.rest, kind))
        elif isinstance(attached := self.extra.get("attached"), dict):
            attached.pop(kind, None)

    def _reword(self, text: str) -> None:
        """Give it another text; what was read of the one before is forgotten."""
        if text != self.rest:
            self.rest = text
            for member in _READ if _is_set(self) else ():
                delattr(self, member)

    def become(self, other: Instr) -> None:
        """Do what *other* does, under the same name and in the same place."""
        line = self.line
        self.op, self.type, self.args, self.extra, self.targets = (
            other.op,
            other.type,
            other.args,
            other.extra,
            other.targets,
        )
        self.line, self.rest = line, None


def _other(value: Value, values: Mapping[str, Value]) -> Value:
    return values.get(value.name, value) if isinstance(value, Instr) and value.name else value


def _is_set(instr: Instr) -> bool:
    """Whether an instruction was read."""
    try:
        object.__getattribute__(instr, "args")
    except AttributeError:
        return False
    return True


_UNREAD = frozenset(("unknown", "metadata"))  # whose operands nobody reads
_READ = frozenset(("args", "extra", "line", "targets", "type"))


class Parameter(Instr):
    """A parameter of a function: a value that no instruction makes."""

    __slots__ = ("attributes",)

    def __init__(self, type: Type, name: str, attributes: list[str]) -> None:
        super().__init__("parameter", type, [], name)
        self.attributes = attributes


@dataclass(eq=False)
class Block:
    name: str
    instrs: list[Instr] = field(default_factory=list)
    preds: list[Block] = field(default_factory=list)

    @property
    def terminator(self) -> Instr:
        return self.instrs[-1]

    @property
    def succs(self) -> list[Block]:
        return self.instrs[-1].targets

    def phis(self) -> Iterator[Instr]:
        for instr in self.instrs:
            if instr.op != "phi":
                break
            yield instr

    def __repr__(self) -> str:
        return f"<block {self.name}>"


Value = Const | Global | Instr


def text_of(value: Value) -> str:
    """An operand as LLVM writes it, without its type."""
    if isinstance(value, Const):
        return value.text
    if value.name or isinstance(value, Global):
        return value.name
    from metalcore.engine.ir.printer import expression_text

    return expression_text(value)
