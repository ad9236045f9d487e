"""Runs clang over rewritten text, and mends what only clang can point at."""

from __future__ import annotations

import re

from metalcore.engine.frontend import patches, toolchain
from metalcore.engine.frontend.diagnostics import Sources, compile_error, group, is_ours, parse
from metalcore.engine.frontend.reject import MISSING, unsupported
from metalcore.errors import MetalcoreError

_MESSAGES = ("-fno-caret-diagnostics", "-ferror-limit", "50", "-ftemplate-backtrace-limit=12")
_EMIT = ("-emit-llvm", "-disable-llvm-passes", "-debug-info-kind=line-tables-only", "-no-enable-noundef-analysis")
_RANGES = ("-fdiagnostics-print-source-range-info",)
_UNKNOWN = re.compile(
    r"(?:unknown type name|no template named|use of undeclared identifier|no type named|no member named)"
    r" '(?:\w+::)*(\w+)'"
)


def compile_text(text: str, sources: Sources, math_mode: str, *, emit: bool, optimised: bool = True) -> tuple[str, str]:
    """Compile *text*; answers the LLVM IR (empty where *emit* is false) and the text with its patches."""
    flags = toolchain.language_flags(math_mode, optimised)
    patched = 0
    while True:
        result = run(flags, text, emit)
        if result.code == 0:
            return result.output, text
        better = (
            patches.patch(text, result.errors, lambda t: run(flags, t, False, _RANGES).errors) if patched < 4 else None
        )
        if better is None:
            raise translate(result.errors, sources, text)
        text, patched = better, patched + 1


def run(flags: list[str], text: str, emit: bool, more: tuple[str, ...] = ()) -> toolchain.Result:
    """One run of clang with the Metal library included."""
    action = [*more, *_EMIT, "-o", "-"] if emit else [*more, "-fsyntax-only"]
    for _ in range(2):
        library = toolchain.standard_library(flags)
        result = toolchain.clang([*flags, *_MESSAGES, "-w", *action, *library], text)
        if result.code == 0 or "-include-pch" not in library or not _is_damaged(result.errors):
            return result
        toolchain.forget_header(flags)
    return toolchain.clang([*flags, *_MESSAGES, "-w", *action, *toolchain.plain_library()], text)


def _is_damaged(errors: str) -> bool:
    """Whether clang failed over the precompiled header and not over the text."""
    return not parse(errors) or bool(re.search(r"\b(PCH|AST) file\b|malformed or corrupted", errors))


def translate(errors: str, sources: Sources, text: str) -> MetalcoreError:
    """The Python error for clang's messages: a feature that is missing, or an error in the source."""
    for entry in group(parse(errors)):
        head = entry[0]
        match = _UNKNOWN.search(head.text) if head.level != "warning" else None
        if match and not is_ours(head.file):
            for pattern, feature in MISSING:
                if pattern.search(match[1]):
                    return unsupported(feature, head.file, head.line)
    return compile_error(errors, sources, text)
