"""Turns clang's messages into a CompileError that names the user's file and line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from metalcore import settings
from metalcore.engine.files import read_regular
from metalcore.engine.frontend import toolchain
from metalcore.engine.frontend.columns import MadeLines, source_column
from metalcore.engine.store.identity import digest
from metalcore.errors import CompileError

_LINE = re.compile(
    r"^(?P<file>.+?):(?P<line>\d{1,10}):(?P<column>\d{1,10}): (?P<level>fatal error|error|warning|note): (?P<text>.*)$"
)
_WIDEST = 400  # characters of a line that is quoted
_ADVICE = re.compile(r"\buse -f[\w-]+=\w+ to (?:increase|see) ")  # the user has no such flag
PRELUDE = "<prelude>"  # how messages call what stands in front of the source
# clang's spellings of what the rewriting made, back to Metal's.
_SPELLING = (
    (re.compile(r"const __attribute__\(\(opencl_global_device\)\)|__global_device"), "constant"),
    (re.compile(r"__attribute__\(\(opencl_global\)\)|__global\b"), "device"),
    (re.compile(r"__attribute__\(\(opencl_local\)\)|__local\b"), "threadgroup"),
    (re.compile(r"\b__mc_(device|threadgroup|constant|thread)\b"), r"\1"),
    (re.compile(r"\b_Float16\b"), "half"),
    (re.compile(r"\b__bf16\b"), "bfloat"),
    (re.compile(r"\bdouble\b"), "float"),  # no source has it: it is float, read as double
    (re.compile(r"('[^']*') \(aka \1\)"), r"\1"),
    (re.compile(r"'[^']*\b__mc_vec\d[^']*' \(aka ('[^']*')\)"), r"\1"),  # what a swizzle gives
    (re.compile(r"static assertion failed due to requirement '[^']*__mc[^']*'(?:: )?"), ""),
)


@dataclass(frozen=True)
class Diagnostic:
    """One message of clang with its presumed place."""

    file: str
    line: int
    column: int
    level: str
    text: str


@dataclass
class Sources:
    """The texts that messages quote: the main source and the files that it includes, never another.

    A #line may name any file of the host; what it names is not read.
    """

    main: str
    text: str
    includes: Mapping[str, str] = field(default_factory=dict)  # path -> digest
    _lines: dict[str, list[str]] = field(default_factory=dict)

    def line(self, file: str, number: int) -> str | None:
        """Line *number* of *file*, or None where it cannot be read."""
        if file not in self._lines:
            text = self.text if file == self.main else self.included(os.path.normpath(file))
            self._lines[file] = lines_of(text)
        lines = self._lines[file]
        return lines[number - 1] if 0 < number <= len(lines) else None

    def name(self, file: str) -> str:
        """What a file is called from here on: one that a #line made up is in angle brackets, and never opened.

        >>> Sources("a.metal", "").name("/etc/passwd")
        '</etc/passwd>'
        """
        known = file == self.main or file.startswith("<") or os.path.normpath(file) in self.includes
        return file if known else f"<{file}>"

    def included(self, path: str) -> str:
        """The text of a file that was included, empty where it is another by now."""
        known = self.includes.get(path)
        if known is None:
            return ""
        try:
            data = read_regular(path, settings.source_size())
        except OSError:
            return ""
        return data.decode("utf-8", "replace") if digest(data) == known else ""


def lines_of(text: str) -> list[str]:
    """The lines as clang counts them: other separators, such as a form feed, are characters of a line."""
    lines = re.split(r"\r\n|\n|\r", text)
    return lines if lines[-1] else lines[:-1]


def with_prelude(sources: Sources, prelude: str) -> Sources:
    """The same, with the lines that a host puts in front of the source."""
    if prelude:
        sources._lines[PRELUDE] = lines_of(prelude)
    return sources


def parse(output: str) -> list[Diagnostic]:
    """The messages in clang's output, in order."""
    found = []
    for line in output.split("\n"):
        match = _LINE.match(line)
        if match and not _ADVICE.search(match["text"]):
            text = match["text"]
            for pattern, word in _SPELLING:
                text = pattern.sub(word, text)
            place = (match["file"], int(match["line"]), int(match["column"]))
            found.append(Diagnostic(*place, match["level"], text))
    return found


def is_ours(file: str) -> bool:
    """Whether *file* belongs to the engine and not to the user."""
    return file.startswith((str(toolchain.INCLUDE), "<built-in>", "<command line>", "<stdin>", "<scratch space>"))


def group(diagnostics: Iterable[Diagnostic]) -> list[list[Diagnostic]]:
    """Each error or warning with the notes that follow it."""
    groups: list[list[Diagnostic]] = []
    for diagnostic in diagnostics:
        if diagnostic.level == "note" and groups:
            groups[-1].append(diagnostic)
        else:
            groups.append([diagnostic])
    return groups


def compile_error(output: str, sources: Sources, rewritten: str | None = None) -> CompileError:
    """The error for clang's *output*; *rewritten* is the text that clang read, where it is not the user's own."""
    errors = [g for g in group(parse(output)) if g[0].level != "warning"]
    if not errors:
        return CompileError("the compiler failed:\n" + (output.strip() or "no message"))
    shown: list[str] = []
    first: Diagnostic | None = None
    for entry in errors:
        head = entry[0]
        # An error inside our headers is shown where the user's code led there.
        place = next((d for d in entry if not is_ours(d.file)), None)
        first = first or place
        kept = [d for d in entry if not is_ours(d.file)]
        if is_ours(head.file) and place is not None:
            kept.insert(0, Diagnostic(place.file, place.line, place.column, head.level, head.text))
            kept.remove(place)
        shown += [line for d in (kept or entry) for line in _show(d, sources)]
    return located(errors[0][0].text, shown, first, sources, rewritten)


def located(
    title: str, shown: list[str], first: Diagnostic | None, sources: Sources, rewritten: str | None = None
) -> CompileError:
    """A CompileError with SyntaxError's fields set."""
    error = CompileError("\n".join([title, *shown]))
    if first is not None:
        text = sources.line(first.file, first.line)
        error.filename, error.lineno, error.text = first.file, first.line, text
        error.offset = _offset(first, text or "", rewritten)
    return error


def restate(diagnostic: Diagnostic, text: str, sources: Sources, rewritten: str) -> CompileError:
    """A CompileError for a message of clang's, in our words."""
    ours = Diagnostic(diagnostic.file, diagnostic.line, diagnostic.column, "error", text)
    return located(text, _show(ours, sources), ours, sources, rewritten)


def at(file: str, line: int, text: str, sources: Sources, made: tuple[str, int] | None = None) -> CompileError:
    """A CompileError of our own for a place in the user's source; *made*: its preprocessed line and a column there."""
    column = source_column(*made, sources.line(file, line) or "") if made else 0
    diagnostic = Diagnostic(file, line, max(column, 1), "error", text)
    shown = _show(diagnostic, sources)
    if column:
        shown[0] = f"{file}:{line}:{column}: error: {text}"
    return located(text, shown, diagnostic, sources)


def _show(diagnostic: Diagnostic, sources: Sources) -> list[str]:
    lines = [f"{diagnostic.file}:{diagnostic.line}: {diagnostic.level}: {diagnostic.text}"]
    quoted = (sources.line(diagnostic.file, diagnostic.line) or "").strip()
    if quoted:
        lines.append("    " + (quoted if len(quoted) <= _WIDEST else quoted[:_WIDEST] + " ..."))
    return lines


def _offset(diagnostic: Diagnostic, text: str, rewritten: str | None) -> int:
    """Column in the user's line of the word that clang points at in the rewritten line."""
    indent = len(text) - len(text.lstrip()) + 1
    if rewritten is None:
        return diagnostic.column if diagnostic.column > 1 else indent
    line = MadeLines(rewritten).get(diagnostic.file, diagnostic.line)
    return source_column(line, diagnostic.column, text) or indent
