"""double-type, missing-address-space and the plain form of implicit-bfloat: seen on the tokens, and mended there."""

from __future__ import annotations

from metalcore.engine.frontend.reject import implicit_bfloat, pointers_without_space
from metalcore.engine.frontend.structure import Declaration
from metalcore.engine.frontend.tokens import Tokens
from metalcore.lint.context import Findings, token_place
from metalcore.lint.front import Preprocessed
from metalcore.lint.places import Place


def check(prepared: Preprocessed, findings: Findings) -> str:
    """Report, and answer the text as it would be right, so that the rest of the file can be looked at."""
    tokens = prepared.tokens
    mended = Tokens(prepared.text)
    for i, word in enumerate(tokens.text):
        if word == "double" and tokens.at(tokens.back(i)) not in ("operator", ".", "->"):
            findings.add("double-type", _place(prepared, i), "'double' is not a type of Metal")
            mended.text[i] = "float"
        elif word == "bfloat" and (value := implicit_bfloat(tokens, i)) >= 0:
            text = f"the literal {tokens.text[value]} does not become a bfloat by itself"
            findings.add("implicit-bfloat", _place(prepared, value), text)
            mended.text[value] = f"bfloat({tokens.text[value]})"
    for i in sorted(set(pointers_without_space(tokens, prepared.structure))):
        kind = "pointer" if tokens.text[i] == "*" else "reference"
        text = f"this {kind} names no address space"
        findings.add("missing-address-space", _place(prepared, i), text)
        space = "device" if _in_kernel_signature(prepared, i) else "thread"
        mended.text[i] = f" {space} {tokens.text[i]}"
    return mended.join()


def _place(prepared: Preprocessed, i: int) -> Place:
    tokens = prepared.tokens
    file, line = tokens.where(i)
    first = i
    while first > 0 and tokens.where(first - 1) == (file, line):
        first -= 1
    return token_place(prepared, file, line, tokens.text[i], tokens.text[first:i].count(tokens.text[i]))


def _in_kernel_signature(prepared: Preprocessed, i: int) -> bool:
    tokens = prepared.tokens

    def is_kernel(function: Declaration) -> bool:
        return "kernel" in tokens.words(function.start, function.open)

    return any(f.open < i < f.close and is_kernel(f) for f in prepared.structure.functions)
