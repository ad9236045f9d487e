"""unused-parameter, buffer-bound-twice, too-many-buffers: the parameters of kernels."""

from __future__ import annotations

from metalcore.diagnostics import Related
from metalcore.engine.frontend.lowering import LARGEST_INDEX
from metalcore.lint.context import Context, Findings, parameter_place
from metalcore.lint.front import Preprocessed
from metalcore.lint.program import Program


def check_unused(prepared: Preprocessed, findings: Findings) -> None:
    """A parameter that the body never names."""
    for tokens, definition in prepared.definitions:
        used = set(tokens.words(definition.body, definition.end))
        parts = [p for p in tokens.split(*definition.types) if tokens.words(*p) != ["void"]]
        for index, (parameter, part) in enumerate(zip(definition.parameters, parts, strict=True)):
            words = tokens.words(*part)
            if not parameter.name or parameter.name in used or any("maybe_unused" in word for word in words):
                continue
            if len([w for w in words if w[0].isalpha() or w[0] == "_"]) < 2:
                continue  # a type without a name
            text = f"parameter '{parameter.name}' of kernel '{definition.name}' is never used"
            findings.add("unused-parameter", parameter_place(prepared, tokens, definition, index), text)


def check_bindings(context: Context, program: Program) -> None:
    """Slots as clang numbers them, so that expressions and macros are understood."""
    kernel = program.kernel
    taken: dict[tuple[str, int], int] = {}
    for index, (parameter, row) in enumerate(zip(kernel.parameters, program.lowered.rows, strict=False)):
        if row.kind == "builtin":
            continue
        family = "threadgroup" if row.kind == "threadgroup" else "buffer"
        where = context.place_of_parameter(kernel, index)
        if row.slot > LARGEST_INDEX:
            text = f"'{parameter.name}' is {family}({row.slot}); Metal has 0 to {LARGEST_INDEX}"
            context.findings.add("too-many-buffers", where, text, kernel.host_name)
        first = taken.setdefault((family, row.slot), index)
        other = kernel.parameters[first]
        # Two parameters may share a slot where function constants turn one of them off.
        if first == index or (other.enabled != parameter.enabled and other.enabled and parameter.enabled):
            continue
        text = f"{family}({row.slot}) is bound twice: by '{other.name}' and by '{parameter.name}'"
        place = context.place_of_parameter(kernel, first)
        related = (Related(place.file, place.line, place.column, f"'{other.name}' is here"),)
        context.findings.add("buffer-bound-twice", where, text, kernel.host_name, related)
