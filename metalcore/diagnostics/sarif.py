"""Findings as SARIF 2.1.0, which code scanning services and editors read."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from metalcore.diagnostics.formats import Document, details
from metalcore.diagnostics.model import Diagnostic, Rule
from metalcore.version import VERSION

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def write_sarif(document: Document) -> str:
    """One run with its rules, results and the texts that are no files."""
    rules = _rules(document)
    index = {rule.id: number for number, rule in enumerate(rules)}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": document.tool,
                "version": VERSION,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic, document, index) for diagnostic in document.diagnostics],
    }
    texts = _texts(document)
    if texts:
        run["artifacts"] = texts
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, default=str) + "\n"


def _rules(document: Document) -> list[Rule]:
    """The rules given, and any that a finding names and nobody gave."""
    rules = {rule.id: rule for rule in document.rules}
    for diagnostic in document.diagnostics:
        rules.setdefault(diagnostic.rule, Rule(diagnostic.rule, diagnostic.rule, diagnostic.remedy, diagnostic.level))
    return list(rules.values())


def _rule(rule: Rule) -> dict[str, Any]:
    written: dict[str, Any] = {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "defaultConfiguration": {"level": rule.level},
    }
    if rule.remedy:
        written["help"] = {"text": rule.remedy}
    if rule.page:
        written["helpUri"] = rule.page
    return written


def _result(diagnostic: Diagnostic, document: Document, index: dict[str, int]) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": _physical(document, diagnostic.file, diagnostic.line, diagnostic.column)
    }
    if diagnostic.kernel:
        location["logicalLocations"] = [{"name": diagnostic.kernel, "kind": "function"}]
    rows = [words if what == "again" else f"{what}: {words}" for what, words in details(diagnostic)]
    result: dict[str, Any] = {
        "ruleId": diagnostic.rule,
        "ruleIndex": index[diagnostic.rule],
        "level": diagnostic.level,
        "message": {"text": "\n".join([diagnostic.message, *rows])},
        "locations": [location],
    }
    if diagnostic.related:
        result["relatedLocations"] = [
            {
                "id": number,
                "physicalLocation": _physical(document, related.file, related.line, related.column),
                "message": {"text": related.message},
            }
            for number, related in enumerate(diagnostic.related, 1)
        ]
    result["partialFingerprints"] = {"metalcore/v1": _fingerprint(diagnostic, document)}
    if diagnostic.properties:
        result["properties"] = dict(sorted(diagnostic.properties.items()))
    return result


def _physical(document: Document, file: str, line: int, column: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(document, file)}}
    if line > 0:
        region: dict[str, Any] = {"startLine": line}
        if column > 0:
            region["startColumn"] = column
        text = document.lines.line(file, line)
        if text is not None:
            region["snippet"] = {"text": text}
        place["region"] = region
        around = [(n, document.lines.line(file, n)) for n in (line - 1, line, line + 1)]
        known = [(n, t) for n, t in around if t is not None]
        if len(known) > 1:
            place["contextRegion"] = {
                "startLine": known[0][0],
                "endLine": known[-1][0],
                "snippet": {"text": "\n".join(t for _, t in known)},
            }
    return place


def _uri(document: Document, file: str) -> str:
    shown = document.shown(file)
    return PurePath(shown).as_uri() if os.path.isabs(shown) else quote(shown)


def _fingerprint(diagnostic: Diagnostic, document: Document) -> str:
    """The same while rule, file, kernel and the line's text are, wherever the line moves to."""
    text = document.lines.line(diagnostic.file, diagnostic.line) or ""
    parts = (diagnostic.rule, document.shown(diagnostic.file), diagnostic.kernel, text.strip())
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def _texts(document: Document) -> list[dict[str, Any]]:
    """Sources given as strings travel with the report: nobody else has them."""
    names = {d.file for d in document.diagnostics} | {r.file for d in document.diagnostics for r in d.related}
    texts = ((name, document.lines.text(name)) for name in sorted(names))
    return [{"location": {"uri": _uri(document, name)}, "contents": {"text": text}} for name, text in texts if text]
