"""Instructions that touch memory, and addresses: how their text is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir.tokens import Line
from metalcore.engine.ir.types import I1, PTR, struct
from metalcore.engine.ir.values import Instr

if TYPE_CHECKING:
    from metalcore.engine.ir.instructions import BodyReader

_ORDERINGS = frozenset(("unordered", "monotonic", "acquire", "release", "acq_rel", "seq_cst"))


def _ordering(line: Line, instr: Instr) -> None:
    if line.accept("syncscope"):
        instr.extra["scope"] = line.bracketed()
    if line.peek() in _ORDERINGS:
        instr.extra["ordering"] = line.next()


def _words(line: Line, instr: Instr, *words: str) -> None:
    for word in words:
        if line.accept(word):
            instr.extra[word] = True


def alloca(reader: BodyReader, line: Line, instr: Instr) -> None:
    instr.type = PTR
    _words(line, instr, "inalloca", "swifterror")
    instr.extra["allocated"] = reader.operands.type(line)
    if line.peek() == "," and line.tokens[line.at + 1] != "align" and line.tokens[line.at + 1][0] != "!":
        line.next()
        instr.args.append(reader.typed(line))


def load(reader: BodyReader, line: Line, instr: Instr) -> None:
    _words(line, instr, "atomic", "volatile")
    instr.type = reader.operands.type(line)
    line.expect(",")
    instr.args.append(reader.typed(line))
    _ordering(line, instr)


def store(reader: BodyReader, line: Line, instr: Instr) -> None:
    _words(line, instr, "atomic", "volatile")
    ty = reader.operands.type(line)
    instr.extra["stored"] = ty
    instr.args.append(reader.operand(line, ty))
    line.expect(",")
    instr.args.append(reader.typed(line))
    _ordering(line, instr)


def atomicrmw(reader: BodyReader, line: Line, instr: Instr) -> None:
    _words(line, instr, "volatile")
    instr.extra["rmw"] = line.next()
    instr.args.append(reader.typed(line))
    line.expect(",")
    instr.type = reader.operands.type(line)
    instr.args.append(reader.operand(line, instr.type))
    _ordering(line, instr)


def cmpxchg(reader: BodyReader, line: Line, instr: Instr) -> None:
    _words(line, instr, "weak", "volatile")
    for i in range(3):
        if i:
            line.expect(",")
        instr.args.append(reader.typed(line))
    instr.type = struct(instr.args[1].type, I1)
    _ordering(line, instr)
    instr.extra["failure"] = line.next()


def fence(reader: BodyReader, line: Line, instr: Instr) -> None:
    _ordering(line, instr)


def getelementptr(reader: BodyReader, line: Line, instr: Instr) -> None:
    instr.type = PTR
    instr.extra["source"] = reader.operands.type(line)
    tokens = line.tokens
    while tokens[line.at] == "," and tokens[line.at + 1][0] != "!":
        line.at += 1
        instr.args.append(reader.typed(line))
