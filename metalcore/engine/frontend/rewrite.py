"""Turns preprocessed MSL into the C++ of clang's SYCL device mode and records what only MSL says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from metalcore.engine.frontend import deduction, inputs, literals, methods, reject, shared
from metalcore.engine.frontend.attributes import Attributes
from metalcore.engine.frontend.closed import check_closed, check_edited, check_text
from metalcore.engine.frontend.declared import Declared, attach
from metalcore.engine.frontend.diagnostics import Sources
from metalcore.engine.frontend.kernels import collect_kernels
from metalcore.engine.frontend.model import Kernel
from metalcore.engine.frontend.structure import CLASS_KEYS, Structure
from metalcore.engine.frontend.tokens import Tokens

SPACES = frozenset(("device", "threadgroup", "constant", "thread"))
_FUNCTION_NAMES = frozenset(("__func__", "__FUNCTION__", "__PRETTY_FUNCTION__"))
_LITERAL_OWNERS = frozenset(
    ("static_assert", "_Static_assert", "__attribute__", "annotate", "deprecated", "visibility", "(")
)


@dataclass
class ConstantRecord:
    """A function constant as written: its name, the expression of its index, and where it stands."""

    name: str
    index: str
    optional: bool = False  # is_function_constant_defined asks for it
    used: bool = False
    marker: int = 0


@dataclass
class Rewritten:
    """The C++ text with markers `/*__mc:kN*/` and `/*__mc:cN*/`, and what the markers stand for."""

    text: str
    kernels: list[Kernel] = field(default_factory=list)
    constants: list[ConstantRecord] = field(default_factory=list)


def rewrite(text: str, sources: Sources, declared: Sequence[Declared] = (), float_type: str = "float") -> Rewritten:
    """Rewrite preprocessed MSL; `declared` are the declarations in its comments, which go to their kernels.

    Example: `rewrite("void f(device float* x) { x[0] = 1.0; }", s).text` holds `__mc_device float* x` and `1.0f`.
    """
    tokens = Tokens(text)
    check_closed(tokens, sources)
    structure = Structure(tokens)
    reject.check_words(tokens, structure, sources)
    attributes = Attributes(tokens, sources)
    reject.check_attributes(tokens, attributes, sources)
    kernels = collect_kernels(tokens, structure, attributes, sources)
    attach(declared, kernels.definitions, tokens, sources)
    constants = _function_constants(tokens, structure, attributes)
    inputs.file_scope(tokens, structure, attributes)
    _local_classes(structure)
    _array_parameters(tokens, structure)
    deduction.unify_sizes(tokens, structure)
    methods.strip_spaces(tokens, structure)
    methods.simplify_constructors(tokens, structure)
    kernel_bodies = [(k.body, tokens.match[k.body]) for k in kernels.definitions if k.body >= 0]
    shared.local_variables(tokens, structure, kernel_bodies, sources)
    _words(tokens, float_type)
    kernels.finish(tokens)
    check_edited(tokens, attributes.openers, sources)
    check_text(text, tokens, sources)
    return Rewritten(tokens.join(), kernels.found, constants)


def _words(tokens: Tokens, float_type: str) -> None:
    """Replace what needs no context: address spaces, numbers, pragmas, `kernel`, `coherent(...)`."""
    text = tokens.text
    openers: dict[int, int] = {}
    for i, word in enumerate(text):
        if not word:
            continue
        if word in SPACES:
            text[i] = "__mc_" + word
        elif word[0].isdigit() or (word[0] == "." and word[1:2].isdigit()):
            text[i] = literals.number(word, float_type)
        elif word[0] == "#":
            if "pragma" in word:
                text[i] = literals.pragma(word)
        elif word[-1] == '"' or word in _FUNCTION_NAMES:
            _string(tokens, i, openers)
        elif word == "kernel":
            text[i] = ""
        elif word == "coherent":
            after = tokens.forward(i)
            tokens.blank(i, tokens.match[after] + 1 if tokens.at(after) == "(" else i + 1)


def _string(tokens: Tokens, i: int, openers: dict[int, int]) -> None:
    """A string literal lies in the constant address space; where C++ wants a bare literal it stays one.

    *openers* keeps what was found for the literals before, so that a long list of them is walked through once.
    """
    before = tokens.back(i)
    word = tokens.at(before)
    if word[-1:] == '"' or word == "extern" or (word == "=" and tokens.at(tokens.back(before)) == "]"):
        return
    opener = before
    while opener >= 0 and tokens.text[opener] not in ("(", "{", ";", "}"):
        if opener in openers:
            opener = openers[opener]
        else:
            opener = tokens.back(opener if tokens.text[opener] not in (")", "]") else tokens.match[opener])
    openers[i] = opener
    owner = tokens.at(tokens.back(opener)) if tokens.at(opener) == "(" else ""
    if owner in _LITERAL_OWNERS or owner.startswith("__builtin"):
        return
    if tokens.at(opener) in ("(", "{") and tokens.at(tokens.back(tokens.back(opener))) == "os_log":
        return  # `constexpr os_log mine("subsystem", "category");`
    last = i
    while tokens.at(tokens.forward(last))[-1:] == '"':
        last = tokens.forward(last)
    tokens.insert(i, "((__mc_constant char*)")
    tokens.text[last] += ")"


def _function_constants(tokens: Tokens, structure: Structure, attributes: Attributes) -> list[ConstantRecord]:
    """Give each function constant macros for its linkage and value, and answer is_function_constant_defined."""
    found: list[ConstantRecord] = []
    for declaration in structure.all:
        if declaration.kind != "variable" or declaration.owner is not None:
            continue
        for attribute in attributes.within(declaration.start, declaration.end):
            if attribute.name == "function_constant":
                number = len(found)
                record = ConstantRecord(declaration.name, attribute.arguments, marker=number)
                found.append(record)
                for i in range(declaration.head, declaration.name_start):
                    if tokens.text[i] in ("constexpr", "static", "inline"):
                        tokens.blank(i, i + 1)  # its value comes later
                tokens.insert(declaration.head, f"__MC_LINKAGE_{number} ")
                tokens.text[declaration.end] = f" __MC_VALUE_{number}; /*__mc:c{number}*/"
    by_name = {record.name: record for record in found}
    if not by_name:
        return found
    counts = dict.fromkeys(by_name, 0)
    for i, word in enumerate(tokens.text):
        if word in counts:
            counts[word] += 1
        elif word == "is_function_constant_defined":
            _answer_defined(tokens, i, by_name)
    used = {a for attribute in attributes.found if attribute.name == "function_constant" for a in attribute.pieces}
    for record in found:
        record.used = counts[record.name] > 1 or record.name in used
    return found


def _answer_defined(tokens: Tokens, i: int, by_name: dict[str, ConstantRecord]) -> None:
    open_ = tokens.forward(i)
    if tokens.at(open_) != "(":
        return
    close = tokens.match[open_]
    record = by_name.get((tokens.words(open_ + 1, close) or [""])[-1])
    if record is None:
        return
    record.optional = True
    before = tokens.back(i)
    while tokens.at(before) == "::":  # metal::is_function_constant_defined
        tokens.blank(before, before + 1)
        scope = tokens.back(before)
        if tokens.at(scope) == "metal":
            tokens.blank(scope, scope + 1)
        before = tokens.back(scope)
    tokens.blank(i, close + 1)
    tokens.text[i] = f"__MC_DEFINED_{record.marker}"


def _local_classes(structure: Structure) -> None:
    """Read the classes that stand inside function bodies, so that their methods are treated like all others."""
    tokens = structure.tokens
    for function in structure.functions:
        if function.body < 0:
            continue
        i = function.body
        while i < function.end:
            i += 1
            if tokens.text[i] in CLASS_KEYS and tokens.at(tokens.back(i)) in (";", "{", "}"):
                found = structure.declaration(i, function.end, function.scope, None)
                i = max(i, found.end)


def _array_parameters(tokens: Tokens, structure: Structure) -> None:
    """`constant T s[2]` as a parameter is a pointer: clang refuses an address space on the array."""
    for function in structure.functions:
        if function.open < 0 or "[" not in tokens.text[function.open : function.close]:
            continue
        for start, stop in tokens.split(function.open + 1, function.close):
            words = tokens.words(start, stop)
            bracket = _first_bracket(tokens, start, stop)
            if bracket < 0 or tokens.text[bracket] != "[" or SPACES.isdisjoint(words):
                continue
            name = tokens.back(bracket)
            after = tokens.forward(tokens.match[bracket])
            more = tokens.at(after) == "["
            tokens.blank(bracket, tokens.match[bracket] + 1)
            tokens.text[name] = f"(*{tokens.text[name]})" if more else f"*{tokens.text[name]}"


def _first_bracket(tokens: Tokens, start: int, stop: int) -> int:
    """The first `[`, `=` or `(` of a parameter that is not an attribute's; -1 where there is none."""
    i = start
    while i < stop:
        if tokens.text[i] == "[" and tokens.at(tokens.forward(i)) == "[":
            i = max(tokens.match[i], i)
        elif tokens.text[i] in ("[", "=", "("):
            return i
        i += 1
    return -1
