"""Findings as JSON: the schema is in docs/sanitizer.md, and `version` changes with it."""

from __future__ import annotations

import json
from typing import Any

from metalcore.diagnostics.formats import LEVELS, Document
from metalcore.diagnostics.model import Diagnostic

VERSION = 1


def write_json(document: Document) -> str:
    """One object with all findings."""
    levels = [diagnostic.level for diagnostic in document.diagnostics]
    data = {
        "version": VERSION,
        "tool": document.tool,
        "summary": {level: levels.count(level) for level in LEVELS},
        "findings": [_finding(diagnostic, document) for diagnostic in document.diagnostics],
    }
    return json.dumps(data, indent=2, default=str) + "\n"


def _finding(diagnostic: Diagnostic, document: Document) -> dict[str, Any]:
    return {
        "rule": diagnostic.rule,
        "level": diagnostic.level,
        **_place(document, diagnostic.file, diagnostic.line, diagnostic.column),
        "message": diagnostic.message,
        "kernel": diagnostic.kernel,
        "remedy": diagnostic.remedy,
        "related": [
            {**_place(document, related.file, related.line, related.column), "message": related.message}
            for related in diagnostic.related
        ],
        "properties": dict(sorted(diagnostic.properties.items())),
    }


def _place(document: Document, file: str, line: int, column: int) -> dict[str, Any]:
    text = document.lines.line(file, line)
    return {"file": document.shown(file), "line": line, "column": column, "text": text}
