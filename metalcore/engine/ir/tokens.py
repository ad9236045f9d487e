"""LLVM's text in words: the only place that looks at characters."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(r'c?"[^"]*"|[%@$!]"[^"]*"|!\d+|[()\[\]{}<>,=*]|[^\s()\[\]{}<>,=*"]+')
_PLAIN = re.compile(r"[-\w.$]+")
NAME = r'"[^"]*"|[-\w.$]+'
_FLAGS = (
    "nsw|nuw|exact|disjoint|nneg|samesign|nnan|ninf|nsz|arcp|contract|afn|reassoc|fast|inbounds|nusw"  # of instructions
)
FLAGS = frozenset(_FLAGS.split("|"))
# A label, or an instruction: its name, opcode, flags and the rest; a switch has its cases on lines of their own.
_STATEMENT = re.compile(
    rf"^(?:({NAME}):.*"
    rf"|  (?:(%(?:{NAME})) = )?((?:tail |musttail |notail )?[#\w]+)((?: (?:{_FLAGS})(?= ))*)"
    r"(.*(?:\n    .*)*(?:\n  \].*)?))$",
    re.MULTILINE,
)
# The most frequent instructions, each in one look: (type, pointer, align, debug) and (type, value, pointer, ...).
_END = rf"ptr (%(?:{NAME})), align (\d+)(?:, !dbg !(\d+))?$"
PLAIN_LOAD = re.compile(rf" (\w+), {_END}")
PLAIN_STORE = re.compile(rf" (\w+) (%(?:{NAME})|-?\d+), {_END}")
_NUMBERED = re.compile(r"!\d+")
_LOCAL = re.compile(rf"%(?:{NAME})")
_SYMBOL = re.compile(rf"@(?:{NAME})")
_GLOBAL = re.compile(rf"(@(?:{NAME})) = (.*?)\b(global|constant|alias|ifunc) ")
_GLOBAL_PART = r', (section "[^"]*"|partition "[^"]*"|comdat(?:\([^)]*\))?|align \d+|![\w.]+ !\d+)'
_GLOBAL_PARTS, _GLOBAL_END = re.compile(_GLOBAL_PART), re.compile(rf"(?:{_GLOBAL_PART})+$")
_NODE = re.compile(r"^!(\d+) = (.*)$", re.MULTILINE)
_FIELD = re.compile(r'(\w+): (!\d+|"[^"]*"|\d+|true|false)')
_ESCAPE = re.compile(rb"\\(\\|[0-9A-Fa-f]{2})")
_ATTRIBUTE = re.compile(r'"[^"]*"(?:="[^"]*")?|[\w-]+(?:\((?:[^()]|\([^()]*\))*\))?(?:=\d+)?')


def words(text: str) -> list[str]:
    """The tokens of a text.

    >>> words('%x = load i32, ptr @"a b", align 4')
    ['%x', '=', 'load', 'i32', ',', 'ptr', '@"a b"', ',', 'align', '4']
    """
    found: list[str] = _TOKEN.findall(text)
    return found


def statements(body: str) -> list[tuple[str, str, str, str, str]]:
    """What stands in a function: (label, name, opcode, flags, rest), of which the first or the last four are set."""
    found: list[tuple[str, str, str, str, str]] = _STATEMENT.findall(body)
    return found


def attributes(text: str) -> list[str]:
    """The attributes in a list of them."""
    return _ATTRIBUTE.findall(text)


def symbols(text: str) -> list[str]:
    """The functions and variables that a text names, without their marks."""
    return [plain(symbol) for symbol in _SYMBOL.findall(text)]


def behind(text: str, op: str) -> list[str]:
    """What stands behind each `= op` of a text, to the end of its line.

    >>> behind("  %x = alloca i32, align 4\\n  ret void\\n", "alloca")
    ['i32, align 4']
    """
    return [part.partition("\n")[0] for part in text.split(f" = {op} ")[1:]]


def locals_in(text: str) -> list[str]:
    """The values, blocks and types that a text names."""
    return _LOCAL.findall(text)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with other words for some of the types in it."""
    return _LOCAL.sub(lambda found: names.get(found[0], found[0]), text) if "%" in text else text


def without_numbers(text: str) -> str:
    """A text without the numbers of its metadata."""
    return _NUMBERED.sub("", text)


def without_attribute(text: str, name: str) -> str:
    """A text without an attribute that has a number.

    >>> without_attribute("call ptr @f(ptr align 4 dereferenceable(8) %x)", "dereferenceable")
    'call ptr @f(ptr align 4 %x)'
    """
    first, *parts = text.split(f" {name}(")
    cut = [part.partition(")") for part in parts]
    return first + "".join([rest if n.isdigit() else f" {name}({n}{close}{rest}" for n, close, rest in cut])


def without_attached(text: str, kind: str) -> str:
    """A text without the nodes of one kind that are attached to instructions.

    >>> without_attached("load i8, ptr %x, align 1, !noundef !5, !dbg !7", "!noundef")
    'load i8, ptr %x, align 1, !dbg !7'
    """
    first, *parts = text.split(f", {kind} !")
    return first + "".join([part.lstrip("0123456789") for part in parts])


def nodes(text: str) -> dict[int, str]:
    """The numbered lines of a module's metadata."""
    return {int(number): node for number, node in _NODE.findall(text)}


def fields(node: str) -> dict[str, str]:
    """What a node says of itself.

    >>> fields("distinct !DILocation(line: 3, column: 9, scope: !4)")
    {'line': '3', 'column': '9', 'scope': '!4'}
    """
    return dict(_FIELD.findall(node))


def unescaped(text: str) -> bytes:
    """The bytes of a name or a text between its quotes: LLVM writes those that are not plain as `\\C3`."""
    data = text.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1], 16)]), data) if "\\" in text else data


def global_parts(line: str) -> tuple[str, str, str, str, list[str]] | None:
    """Name, words before its kind, kind, type with value, and what follows, of a line that defines a variable."""
    start = _GLOBAL.match(line)
    if start is None:
        return None
    end = _GLOBAL_END.search(line, start.end())
    at = end.start() if end else len(line)
    return start[1], start[2].strip(), start[3], line[start.end() : at], _GLOBAL_PARTS.findall(line[at:])


def type_and_value(text: str) -> tuple[str, str]:
    """A type and what stands behind it; the value of a large table is not looked at.

    >>> type_and_value("[2 x i8] [i8 1, i8 2]")
    ('[2 x i8]', '[i8 1, i8 2]')
    """
    depth = end = 0
    for token in _TOKEN.finditer(text):
        depth += token[0] in ("(", "[", "{", "<")
        depth -= token[0] in (")", "]", "}", ">")
        end = token.end()
        if depth == 0 and not text.startswith(" addrspace(", end) and token[0] != "addrspace":
            break
    return text[:end], text[end:].strip()


def plain(symbol: str) -> str:
    """A name without its mark and quotes."""
    return symbol[1:].strip('"')


def quoted(name: str) -> str:
    """A name as LLVM wants it."""
    return name if _PLAIN.fullmatch(name) else f'"{name}"'


class Line:
    """Tokens with a cursor."""

    __slots__ = ("at", "tokens")

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = _TOKEN.findall(text)
        self.tokens.append("")
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at]

    def next(self) -> str:
        token = self.tokens[self.at]
        if not token:
            raise ValueError(f"more was expected in {' '.join(self.tokens)}")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if self.tokens[self.at] != token:
            raise ValueError(f"expected {token!r}, got {self.tokens[self.at]!r} in {' '.join(self.tokens)}")
        self.at += 1

    def bracketed(self) -> str:
        """From an opening bracket to the one that closes it, as one text."""
        start = self.at
        depth = 0
        while True:
            token = self.next()
            depth += token in ("(", "[", "{", "<")
            depth -= token in (")", "]", "}", ">")
            if depth <= 0:
                return " ".join(self.tokens[start : self.at])
