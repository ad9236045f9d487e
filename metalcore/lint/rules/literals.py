"""implicit-bfloat and half-literal: floats that become 16-bit floats, in every instantiation."""

from __future__ import annotations

import math

from metalcore.lint.context import Context

# Smallest magnitude that rounds to infinity, largest that rounds to zero.
_ENDS = {"half": (65520.0, 2.0**-25), "bfloat": (3.3961775292304601e38, 2.0**-134)}


def check(context: Context) -> None:
    """Conversions that Metal refuses, and literals that do not survive theirs."""
    for cast in context.tree.casts:
        if cast.offset < 0:
            continue
        place = context.places.at_offset(cast.offset)
        if cast.target == "bfloat" and not cast.explicit and not cast.excused:
            what = f"the literal {_shown(cast.value)}" if cast.value is not None else f"this {cast.source}"
            context.findings.add("implicit-bfloat", place, f"{what} does not become a bfloat by itself")
        if cast.value is None or cast.value == 0 or math.isinf(cast.value):
            continue
        infinite, zero = _ENDS[cast.target]
        if abs(cast.value) >= infinite or abs(cast.value) <= zero:
            end = "infinite" if abs(cast.value) >= infinite else "zero"
            text = f"the literal {_shown(cast.value)} is {end} as {cast.target}"
            context.findings.add("half-literal", place, text)


def _shown(value: float | None) -> str:
    return f"{value:.7g}"
