"""bfloat-shuffle: shuffles of a type that the Metal library has no shuffle for."""

from __future__ import annotations

from metalcore.lint.context import Context

SINCE = (4, 0)  # docs/rules/bfloat-shuffle.md says what is known about this


def check(context: Context) -> None:
    """Calls of the library's own functions; a project may bring overloads of its own, and many do."""
    if context.options.metal_version >= SINCE:
        return
    version = ".".join(map(str, context.options.metal_version))
    for call in context.tree.calls:
        if call.offset >= 0 and call.callee not in context.tree.user_functions:
            place = context.places.at_offset(call.offset)
            context.findings.add("bfloat-shuffle", place, f"Metal {version} has no {call.name} of a bfloat")
