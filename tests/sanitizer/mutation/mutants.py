"""Changes of a kernel's text, one at a time: barriers deleted or weakened, bounds widened, indices shifted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

BARRIER, BOUND, INDEX = "barrier", "bound", "index"
_BARRIER = re.compile(r"(threadgroup|simdgroup)_barrier\((mem_flags::mem_(\w+))\);")
_GUARD = re.compile(r"\b(?:if|for|while) \(|\?")
_COMPARE = re.compile(r" (<=|>=|<|>) ")
_FIELD = re.compile(r"\b(\w+)\.([xy])\b")
_SUBSCRIPT = re.compile(r"(?<=\w)\[(?!\[)|(?<=\])\[(?!\[)")


@dataclass(frozen=True)
class Mutant:
    kernel: str
    number: int  # within its kernel
    family: str  # BARRIER, BOUND or INDEX
    change: str  # in words
    line: int
    before: str  # the line
    after: str
    source: str

    @property
    def id(self) -> str:
        return f"{self.kernel}-{self.number}"


@dataclass(frozen=True)
class _Edit:
    family: str
    change: str
    start: int
    end: int
    text: str


def unchanged(kernel: str, source: str) -> Mutant:
    """The kernel itself, to see that it is right and that nothing is found in it."""
    return Mutant(kernel, -1, BARRIER, "none", 0, "", "", source)


def mutants_of(kernel: str, source: str) -> list[Mutant]:
    """Every mutant of a kernel, by place; two edits with one result are one mutant."""
    body = source.index("{", source.index("kernel void"))
    edits = sorted(
        (*_barriers(source), *_bounds(source, body), *_indices(source, body)),
        key=lambda edit: (edit.start, edit.end, edit.text),
    )
    known = {source}
    made: list[Mutant] = []
    for edit in edits:
        text = source[: edit.start] + edit.text + source[edit.end :]
        if text in known:
            continue
        known.add(text)
        line = source.count("\n", 0, edit.start)
        made.append(
            Mutant(
                kernel,
                len(made),
                edit.family,
                edit.change,
                line + 1,
                source.split("\n")[line].strip(),
                text.split("\n")[line].strip(),
                text,
            )
        )
    return made


def _barriers(source: str) -> Iterator[_Edit]:
    for match in _BARRIER.finditer(source):
        start, end = match.span()
        yield _Edit(BARRIER, "barrier deleted", start, end, ";")
        flag = match.span(2)
        yield _Edit(BARRIER, "flag mem_none", *flag, "mem_flags::mem_none")
        other = "device" if match[3] == "threadgroup" else "threadgroup"
        yield _Edit(BARRIER, f"flag mem_{other}", *flag, f"mem_flags::mem_{other}")
        if match[1] == "threadgroup":
            yield _Edit(BARRIER, "simdgroup_barrier instead", *match.span(1), "simdgroup")


def _closing(source: str, opening: int) -> int:
    """Position of the bracket that closes the one at `opening`."""
    pairs = {"(": ")", "[": "]"}
    depth = 0
    for at in range(opening, len(source)):
        if source[at] == source[opening]:
            depth += 1
        elif source[at] == pairs[source[opening]]:
            depth -= 1
            if depth == 0:
                return at
    raise ValueError(f"nothing closes the bracket at {opening}")


def _conditions(source: str, body: int) -> Iterator[tuple[str, int, int]]:
    """The conditions of if, for and ?: as (word, start, end)."""
    for match in _GUARD.finditer(source, body):
        if match[0] == "?":
            # From the start of the expression: an assignment, an argument or a bracket.
            start = max(source.rfind(mark, 0, match.start()) + len(mark) for mark in (" = ", "(", "[", ", "))
            yield "?", start, match.start()
            continue
        opening = match.end() - 1
        closing = _closing(source, opening)
        if match[0].startswith("for"):
            first = source.index(";", opening) + 1
            yield "for", first, source.index(";", first)
        else:
            yield "if", opening + 1, closing


def _bounds(source: str, body: int) -> Iterator[_Edit]:
    """Comparisons with a size become one wider; a guard is dropped. `step > 0` is no bound: the loop would not end."""
    for word, start, end in _conditions(source, body):
        is_return = source.startswith(") return;", end)
        for match in _COMPARE.finditer(source, start, end):
            sign = match[1]
            right = _operand_end(source, match.end(), end)
            if sign == "<":
                yield _Edit(BOUND, "< becomes <=", *match.span(1), "<=")
                yield _Edit(BOUND, "bound + 3", right, right, " + 3")
            elif sign == ">=" and is_return:
                yield _Edit(BOUND, ">= becomes >", *match.span(1), ">")
            elif sign == ">=" and source[match.end() : right] != "0":
                yield _Edit(BOUND, "one below the bound", match.start(), match.start(), " + 1")
            elif sign == "<=":
                yield _Edit(BOUND, "bound doubled", right, right, " * 2")
        # A dropped test of `lane == 0` or of a size; not of data.
        text = source[start:end].strip()
        if word == "if" and not is_return and re.search(r"[<=] ", text) and not re.search(r"[\[>]", text):
            yield _Edit(BOUND, "guard dropped", start, end, "true")
            if " && " in text:
                left = text.split(" && ")[0]
                yield _Edit(BOUND, "half of the guard dropped", start, end, left)
        elif word == "?" and "<" in text:
            yield _Edit(BOUND, "guard dropped", start, end, "true ")


def _operand_end(source: str, start: int, end: int) -> int:
    """Where the right side of a comparison ends: at && or || or a closing bracket, or with the condition."""
    depth = 0
    for at in range(start, end):
        if source[at] in "([":
            depth += 1
        elif source[at] in ")]":
            depth -= 1
            if depth < 0:
                return at
        elif depth == 0 and source[at : at + 4] in (" && ", " || "):
            return at
    return len(source[:end].rstrip())


def _indices(source: str, body: int) -> Iterator[_Edit]:
    for match in _SUBSCRIPT.finditer(source, body):
        opening = match.start()
        closing = _closing(source, opening)
        inner = source[opening + 1 : closing]
        if re.search(r"threadgroup \w+ \w+(\[\d+\])*$", source[:opening]):
            continue  # the declaration
        yield _Edit(INDEX, "index + 1", closing, closing, " + 1")
        yield _Edit(INDEX, "index - 1", closing, closing, " - 1")
        for product in re.finditer(r" \* (\w+)", inner):
            at = opening + 1 + product.start(1)
            size = len(product[1])
            yield _Edit(INDEX, "stride + 1", at, at + size, f"({product[1]} + 1)")
            yield _Edit(INDEX, "stride - 1", at, at + size, f"({product[1]} - 1)")
    for match in _FIELD.finditer(source, body):
        other = "y" if match[2] == "x" else "x"
        yield _Edit(INDEX, f".{match[2]} becomes .{other}", *match.span(2), other)
