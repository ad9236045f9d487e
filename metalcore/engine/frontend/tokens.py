"""A tokenizer for preprocessed MSL that loses nothing: joining the pieces gives the text back."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

# As clang reads it, or such that `closed.py` refuses the token. White space is ASCII's, and every other character from
# U+0080 belongs to a name or a number, which must then be all of letters.
# Sets are written as the ASCII characters that they lack: Python takes 5 ms to compile one that goes beyond 255.
# `>` is always alone, so that `vec<vec<T, 2>>` closes twice; joining the pieces restores `>>`.
_TOKEN = re.compile(
    r"""([ \t\n\v\f]*)(
      \#[^\n]*                                            # line marker or pragma: the preprocessor leaves no other '#'
    | (?:u8|[uUL])?R"([^()\\\s]{0,16})\((?:.|\n)*?\)\3"   # raw string
    | (?:u8|[uUL])?"(?:[^"\\\r\n]|\\[^\r\n])*"
    | (?:u8|[uUL])?'(?:[^'\\\r\n]|\\[^\r\n])+'
    | [^\x00-\#%-@\[-^`{-\x7f][^\x00-\#%-/:-@\[-^`{-\x7f]*
    | 0[xX](?:[eEpP][+-]|'?[A-Za-z0-9_]|[^\x00-\-/-\x7f])*      # a preprocessing number: `p+` in a hexadecimal alone
    | \.?[0-9](?:[eE][+-]|'?[A-Za-z0-9_]|[^\x00-\-/-\x7f])*
    | ::|->\*?|\+\+|--|&&|\|\||<<=|<=|<<|>=|==|!=|[-+*/%&|^]=|\.\.\.|[^ \t\n\v\f]
    )""",
    re.VERBOSE,
)
_MARKER = re.compile(r'#(?:line)?\s+(\d{1,10})(?:\s+"((?:[^"\\]|\\.)*)")?')
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"\\": b"\\", b'"': b'"'}
_CLOSERS = {")": "(", "]": "[", "}": "{"}
_NEVER_JOINED = frozenset("()[]{};, \n") | {""}
ANGLE_STOP = frozenset((";", "{", "}", "&&", "||"))


class Tokens:
    """Token texts with the white space before each; edits replace texts in place and never touch line breaks."""

    def __init__(self, text: str) -> None:
        self.text: list[str] = []
        self.space: list[str] = []
        self.inserted: dict[int, str] = {}  # text to put before a token
        for space, token, _ in _TOKEN.findall(text):
            self.space.append(space)
            self.text.append(token)
        self.read = tuple(self.text)  # before any edit

    def __len__(self) -> int:
        return len(self.text)

    def join(self) -> str:
        """The text with all edits; what was edited or removed does not make one token of its neighbours."""
        pieces: list[str] = []
        before, edited = "", False  # the last character, and whether something changed behind it
        for i, (space, token, read) in enumerate(zip(self.space, self.text, self.read, strict=True)):
            piece = self.inserted.get(i, "") + token
            edited |= piece != read
            if space:
                before = " "
            if edited and piece and not {before, piece[0]} & _NEVER_JOINED:
                space = " "
            pieces += (space, piece)
            if piece:
                before, edited = piece[-1], piece != read
        return "".join(pieces) + "\n"

    def insert(self, i: int, piece: str) -> None:
        """Put *piece* before token *i*, behind what was put there earlier."""
        self.inserted[i] = self.inserted.get(i, "") + piece

    @cached_property
    def match(self) -> list[int]:
        """For each bracket the index of its partner, -1 where it has none; other tokens have -1."""
        partner = [-1] * len(self.text)
        stack: list[int] = []
        for i, token in enumerate(self.text):
            if token in ("(", "[", "{"):
                stack.append(i)
            elif token in _CLOSERS and stack and self.text[stack[-1]] == _CLOSERS[token]:
                opener = stack.pop()
                partner[opener], partner[i] = i, opener
        return partner

    def blank(self, start: int, stop: int) -> None:
        """Remove tokens start..stop-1; line breaks, line markers and pragmas stay."""
        for i in range(start, stop):
            if not self.text[i].startswith("#"):
                self.text[i] = ""
                if "\n" not in self.space[i]:
                    self.space[i] = " "

    def forward(self, i: int) -> int:
        """Index of the next token after *i* that is not a line marker, a pragma or removed."""
        i += 1
        while i < len(self.text) and (not self.text[i] or self.text[i][0] == "#"):
            i += 1
        return i

    def back(self, i: int) -> int:
        """Index of the token before *i* that is not a line marker, a pragma or removed; -1 at the start."""
        i -= 1
        while i >= 0 and (not self.text[i] or self.text[i][0] == "#"):
            i -= 1
        return i

    def at(self, i: int) -> str:
        """Text of token *i*, empty outside the file."""
        return self.text[i] if 0 <= i < len(self.text) else ""

    def words(self, start: int, stop: int) -> list[str]:
        """Texts of start..stop-1 without line markers and removed tokens."""
        return [t for t in self.text[start:stop] if t and t[0] != "#"]

    def source(self, start: int, stop: int) -> str:
        """Text of start..stop-1 on one line."""
        return " ".join(self.words(start, stop))

    @cached_property
    def _angles(self) -> list[int]:
        """For each '<' the index of the '>' that closes it, -1 where it is no bracket; other tokens have -1."""
        partner = [-1] * len(self.text)
        open_: list[list[int]] = [[]]  # of each bracket around the token
        for i, token in enumerate(self.text):
            if token == "<":
                open_[-1].append(i)
            elif token == ">":
                if open_[-1]:
                    partner[open_[-1].pop()] = i
            elif token in ("(", "[", "{") and self.match[i] >= 0:
                open_.append([])
            elif token in _CLOSERS and self.match[i] >= 0:
                open_.pop()
            elif token in ("(", "[", "{", ";", ")", "]", "}"):
                open_[-1].clear()
        return partner

    def close_angle(self, i: int, limit: int | None = None) -> int:
        """Index of the '>' that closes the '<' at *i*, or -1 where it is no bracket."""
        close = self._angles[i] if 0 <= i < len(self.text) else -1
        return close if limit is None or close < limit else -1

    def split(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Ranges between the commas of start..stop-1 that stand outside every kind of bracket."""
        parts: list[tuple[int, int]] = []
        first = i = start
        while i < stop:
            token = self.text[i]
            if token in ("(", "[", "{"):
                i = max(self.match[i], i)
            elif token == "<":
                i = max(self.close_angle(i, stop), i)
            elif token == ",":
                parts.append((first, i))
                first = i + 1
            i += 1
        if self.words(first, stop):
            parts.append((first, stop))
        return parts

    @cached_property
    def _lines(self) -> tuple[list[int], list[tuple[str, int]]]:
        """Indices of the tokens that start a line, and the file and line, as the line markers say, of each."""
        starts: list[int] = [0]
        places: list[tuple[str, int]] = [("", 1)]
        file, line = "", 1
        for i, (space, token) in enumerate(zip(self.space, self.text, strict=True)):
            if "\n" in space:
                line += space.count("\n")
                starts.append(i)
                places.append((file, line))
            if token[:1] == "#" and (marker := _MARKER.match(token)):
                # The line break that ends the marker itself is counted with the next token.
                line = int(marker[1]) - 1
                file = unescape(marker[2]) if marker[2] is not None else file
            elif "\n" in token:
                line += token.count("\n")
                starts.append(i + 1)
                places.append((file, line))
        return starts, places

    def where(self, index: int) -> tuple[str, int]:
        """File and line, as the line markers say, of token *index*."""
        starts, places = self._lines
        return places[bisect_right(starts, index) - 1]

    def line_and_column(self, index: int) -> tuple[str, int]:
        """The line of the text that token *index* stands in, and its column there, from 1."""
        first = index
        while first > 0 and "\n" not in self.space[first]:
            first -= 1
        last = index + 1
        while last < len(self.text) and "\n" not in self.space[last]:
            last += 1
        pieces = [piece for i in range(first, last) for piece in (self.space[i].rpartition("\n")[2], self.text[i])]
        return "".join(pieces), len("".join(pieces[: 2 * (index - first) + 1])) + 1


def unescape(name: str) -> str:
    """File name as written between the quotes of a line marker: clang writes what is not ASCII as octal bytes."""
    if "\\" not in name:
        return name

    def byte(match: re.Match[bytes]) -> bytes:
        octal = match[1].isdigit() and match[1] < b"8"
        return bytes([int(match[1], 8) & 255]) if octal else _ESCAPES.get(match[1], match[1])

    data = re.sub(rb"\\([0-7]{1,3}|.)", byte, name.encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "surrogateescape")


def escape(name: str) -> str:
    """A file name as clang writes it between the quotes of a line marker."""
    if name.isascii() and name.isprintable():
        return name.replace("\\", "\\\\").replace('"', '\\"')
    letters = {byte[0]: "\\" + letter.decode() for letter, byte in _ESCAPES.items()}
    data = name.encode("utf-8", "surrogateescape")
    return "".join(letters.get(b, chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data)


def literal(pieces: Sequence[str]) -> str:
    """Value of adjacent string literals, as in `host_name("a" "b")`."""
    return "".join(unescape(piece[piece.index('"') + 1 : -1]) for piece in pieces if '"' in piece)
