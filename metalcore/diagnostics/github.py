"""Findings as GitHub workflow commands, which a log turns into annotations at the lines of a pull request."""

from __future__ import annotations

from metalcore.diagnostics.formats import Document, details
from metalcore.diagnostics.model import Diagnostic

_COMMANDS = {"error": "error", "warning": "warning"}


def write_github(document: Document) -> str:
    """One line for each finding."""
    return "".join(_command(diagnostic, document) + "\n" for diagnostic in document.diagnostics)


def _command(diagnostic: Diagnostic, document: Document) -> str:
    file = document.shown(diagnostic.file)
    message = [diagnostic.message]
    properties = []
    if file.startswith("<"):  # no file that GitHub could show
        message.append(f"at {file}:{diagnostic.line}:{diagnostic.column}")
    else:
        properties.append(("file", file))
        properties += [(name, str(n)) for name, n in (("line", diagnostic.line), ("col", diagnostic.column)) if n]
    title = diagnostic.rule + (f" in kernel {diagnostic.kernel}" if diagnostic.kernel else "")
    properties.append(("title", title))
    message += [words if what == "again" else f"{what}: {words}" for what, words in details(diagnostic)]
    for related in diagnostic.related:
        message.append(f"{related.message} at {document.shown(related.file)}:{related.line}:{related.column}")
    if diagnostic.remedy:
        message.append(f"help: {diagnostic.remedy}")
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties)
    return f"::{_COMMANDS.get(diagnostic.level, 'notice')} {shown}::{_data(chr(10).join(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
