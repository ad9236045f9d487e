"""Runs clang over rewritten text, and mends what only clang can point at."""

from __future__ import annotations

import re

from metalcore.engine.frontend import braces, inputs, patches, toolchain
from metalcore.engine.frontend.diagnostics import Sources, compile_error, group, is_ours, parse, restate
from metalcore.engine.frontend.hints import hint
from metalcore.engine.frontend.reject import IMPLICIT_BFLOAT, MISSING, unsupported
from metalcore.engine.process import Result
from metalcore.errors import MetalcoreError

_MESSAGES = ("-fno-caret-diagnostics", "-ferror-limit", "50", "-ftemplate-backtrace-limit=12")
_EMIT = ("-emit-llvm", "-disable-llvm-passes", "-debug-info-kind=line-tables-only", "-no-enable-noundef-analysis")
_QUIET = ("-Wno-everything", "-Wshift-count-overflow", "-Wshift-count-negative", "-Wdivision-by-zero")
RANGES = (*_QUIET, "-fdiagnostics-print-source-range-info", "-ferror-limit", "0")
_BFLOAT = (*_QUIET, "-Wimplicit-float-conversion", "-Wno-implicit-int-float-conversion")
_TO_BFLOAT = re.compile(r"implicit conversion loses floating-point precision: '.*' to '.*\bbfloat'")
# What clang does not know: a type, or a name that stands before `::` or `<`. A variable of such a name is the user's.
_UNKNOWN_TYPE = re.compile(r"(?:unknown type name|no template named|no type named) '(?:\w+::)*(\w+)'")
_UNKNOWN_NAME = re.compile(r"use of undeclared identifier '(?:\w+::)*(\w+)'")
_NO_MEMBER = re.compile(r"no (?:member|type|template) named '(\w+)' in namespace 'metal(?:::\w+)*'")


def compile_text(
    text: str,
    sources: Sources,
    math_mode: str,
    *,
    emit: bool,
    optimised: bool = True,
    float_type: str = "float",
) -> tuple[str, str]:
    """Compile *text*; answers the LLVM IR (empty where *emit* is false) and the text with its patches."""
    flags = toolchain.language_flags(math_mode, optimised, float_type)
    failed: tuple[int, str, str] | None = None  # number of errors, messages and text of the run before
    good: tuple[str, str] | None = None

    def ranges(text: str) -> str:
        return run(flags, text, False, RANGES).errors

    def uses(text: str) -> str:
        """clang's messages, with where deprecated names are used: those that `inputs` and `braces` look for."""
        return run(flags, text, False, (*RANGES, "-Wdeprecated-declarations")).errors

    if inputs.has_inputs(text):
        text = inputs.read_inputs(text, patches.bare(text), uses)
    if braces.has_lists_of_one(text):
        text = patches.first_only(text, uses)
    while True:
        # Only code that has the type can convert to it by accident.
        result = run(flags, text, emit, _BFLOAT if "bfloat" in text else _QUIET)
        if result.code == 0:
            check_bfloat(result.errors, sources, text)
            better = patches.unfold(text, result.errors, result.output, ranges) if good is None else None
            if better is None:
                return result.output, text
            good, text = (result.output, text), better
            continue
        if good is not None:
            return good  # a place that needs a constant
        better = patches.name_object(text, result.errors, ranges)
        if better is not None:
            text = better
            continue
        errors = result.errors.count("error: ")
        if failed is not None and errors >= failed[0]:
            raise translate(failed[1], sources, failed[2])  # the patch was no help: show the user's own words
        better = patches.patch(text, result.errors, ranges)
        if better is None:
            raise translate(result.errors, sources, text)
        failed = (errors, result.errors, text)
        text = better


def compile_as_it_is(text: str, sources: Sources, math_mode: str, float_type: str) -> str | None:
    """The LLVM IR of *text*; None where it has an error or needs an edit, which `compile_text` sees to."""
    if inputs.has_inputs(text) or braces.has_lists_of_one(text):
        return None
    flags = toolchain.language_flags(math_mode, optimised=True, float_type=float_type)
    result = run(flags, text, True, _BFLOAT if "bfloat" in text else _QUIET)
    if result.code != 0 or patches.wants_unfolding(result.errors, result.output):
        return None
    check_bfloat(result.errors, sources, text)
    return result.output


def run(flags: list[str], text: str, emit: bool, more: tuple[str, ...]) -> Result:
    """One run of clang with the Metal library included."""
    action = [*more, *_EMIT, "-o", "-"] if emit else [*more, "-fsyntax-only"]
    library = toolchain.standard_library(flags)
    result = toolchain.clang([*flags, *_MESSAGES, *action, *library], text)
    if result.code == 0 or "-include-pch" not in library or not _is_damaged(result.errors):
        return result
    return toolchain.clang([*flags, *_MESSAGES, *action, *toolchain.plain_library()], text)


def check_bfloat(errors: str, sources: Sources, text: str) -> None:
    """Raise CompileError where clang warns of a float that becomes a bfloat unasked in the user's code."""
    for warning in parse(errors):
        if warning.level == "warning" and _TO_BFLOAT.search(warning.text) and not is_ours(warning.file):
            raise restate(warning, IMPLICIT_BFLOAT, sources, text)


def _is_damaged(errors: str) -> bool:
    """Whether clang failed over the precompiled header and not over the text."""
    return bool(re.search(r"\b(?:PCH|AST) file\b|precompiled (?:header|file)|malformed or corrupted", errors))


def translate(errors: str, sources: Sources, text: str) -> MetalcoreError:
    """The Python error for clang's messages: a feature that is missing, or an error in the source."""
    for entry in group(parse(errors)):
        head = entry[0]
        if head.level == "warning" or is_ours(head.file):
            continue
        name = _missing_name(head.text, sources.line(head.file, head.line) or "")
        for pattern, feature in MISSING:
            if name and pattern.search(name):
                return unsupported(feature, head.file, head.line)
    error = compile_error(errors, sources, text)
    advice = hint(errors, text)
    if advice:
        error.msg += "\n" + advice
    return error


def _missing_name(message: str, line: str) -> str:
    """The name that a message says is not known, where that may be one of Metal's; `filter::` with its colons."""
    found = _UNKNOWN_TYPE.search(message) or _NO_MEMBER.search(message) or _UNKNOWN_NAME.search(message)
    if found is None:
        return ""
    behind = re.search(rf"\b{found[1]}\s*(::|<)", line)
    if found.re is _UNKNOWN_NAME and behind is None:
        return ""
    return found[1] + ("::" if behind is not None and behind[1] == "::" else "")
