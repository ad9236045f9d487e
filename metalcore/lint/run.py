"""Lints one source: tokens, then clang's verdict, then the syntax tree and the data flow of its kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from metalcore.diagnostics import Diagnostic
from metalcore.engine.frontend import compiler
from metalcore.engine.ir import Module
from metalcore.errors import MetalcoreError, UnsupportedFeature
from metalcore.lint import silence
from metalcore.lint.context import Context, Findings
from metalcore.lint.front import ClangErrors, Front, Options, Preprocessed, Source
from metalcore.lint.lowering import Lowered, lower_sample
from metalcore.lint.places import Places
from metalcore.lint.program import Program
from metalcore.lint.registry import RULES
from metalcore.lint.tree import Tree, read_tree

_SMALL_FLOAT = re.compile(r"\b(?:half\d?|bfloat\w*|_Float16|__bf16|float16_t)\b")


@dataclass
class Outcome:
    """What was found in one source, and the error where it does not compile."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    error: MetalcoreError | None = None
    notes: list[str] = field(default_factory=list)  # what could not be looked at, and why


def lint(source: Source, options: Options, rules: Collection[str] | None = None) -> Outcome:
    """Everything that the given rules (all of them by default) find in a source.

    >>> text = "kernel void f(device float* x, uint i [[thread_position_in_grid]]) { double d = x[i]; x[i] = d; }"
    >>> [found.rule for found in lint(Source("f.metal", text), Options()).diagnostics]
    ['double-type']
    """
    outcome = Outcome()
    findings = Findings()
    prepared: Preprocessed | None = None
    try:
        prepared = Preprocessed(source, options)
        _look(prepared, findings, outcome)
    except MetalcoreError as error:
        outcome.error = error
    found = findings.all()
    texts = {source.path: source.text}
    if prepared is not None:
        texts |= {path: _text(path) for path, _ in prepared.includes}
    silences = {file: silence.read(file, text) for file, text in texts.items()}
    found = [d for d in found if d.file not in silences or not silences[d.file].covers(d.rule, d.line)]
    found += [d for known in silences.values() for d in known.unknown if not known.covers(d.rule, d.line)]
    wanted = set(RULES) if rules is None else set(rules)
    outcome.diagnostics = [d for d in found if d.rule in wanted]
    return outcome


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _look(prepared: Preprocessed, findings: Findings, outcome: Outcome) -> None:
    """All rules, as far as the source gets."""
    from metalcore.lint.rules import definition_order, initialisers, parameters, words

    text = words.check(prepared, findings)
    parameters.check_unused(prepared, findings)
    initialisers.check(prepared, findings)
    try:
        front = Front(prepared, text)
    except ClangErrors as failed:
        if not definition_order.check(prepared, failed, findings):
            outcome.error = compiler.translate(failed.errors, prepared.sources, failed.text)
        outcome.notes.append("it does not compile, so most rules were not tried")
        return
    _compiled(prepared, front, findings, outcome)


def _compiled(prepared: Preprocessed, front: Front, findings: Findings, outcome: Outcome) -> None:
    from metalcore.lint import stages

    sample = front.sample()
    seen: set[str] = set()
    for number, values in enumerate(front.choices):
        text = front.text_of(sample, values)
        places = Places(text, front.sources)
        tree = Tree()
        if number == 0 and _SMALL_FLOAT.search(text):
            tree = read_tree(text, front.options.math_mode)
        lowered = [kernel for kernel in lower_sample(front, values) if _is_new(kernel, seen)]
        programs = _programs(lowered, places, outcome, lambda k: k.module)
        optimised = _programs(lowered, places, outcome, lambda k: k.optimised)
        context = Context(prepared, front, places, tree, programs, optimised, findings)
        for check in stages.SOURCE:
            check(context)
        for program in programs:
            for check_program in stages.PROGRAM:
                check_program(context, program)
        for program in optimised:
            for check_program in stages.OPTIMISED:
                check_program(context, program)


def _is_new(kernel: Lowered, seen: set[str]) -> bool:
    """Whether function constants changed the kernel's code."""
    code = kernel.code()
    fresh = code not in seen
    seen.add(code)
    return fresh


def _programs(
    lowered: list[Lowered],
    places: Places,
    outcome: Outcome,
    of: Callable[[Lowered], Module | None],
) -> list[Program]:
    found = []
    for kernel in lowered:
        module = of(kernel)
        if module is None:
            continue
        try:
            found.append(Program(kernel, places, module))
        except UnsupportedFeature as error:
            note = f"kernel '{kernel.kernel.host_name}': its data flow was not looked at ({error})"
            if note not in outcome.notes:
                outcome.notes.append(note)
    return found
