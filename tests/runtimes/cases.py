"""Which fuzzed cases the tests of the text routes take: compiling for many simdgroups or vectors is what costs."""

from __future__ import annotations

from functools import cache
from math import prod

from metalcore.health.routes import launches_of
from metalcore.ops import find
from metalcore.runtimes.kernel import Launch

LOOKED_AT = 22  # Draw.size has been through all its sizes by then


@cache
def launches(noun: str, dtype: str, index: int) -> list[Launch]:
    """What a case launches on a GPU; nothing where a size is 0."""
    return [launch for launch in launches_of(find(noun), dtype, index) if 0 not in launch.groups]


def _cost(found: list[Launch]) -> float:
    each = {launch.variant: launch for launch in found}
    return sum((4 if 4 in v.types else 1) * (3 if prod(x.group_size) > 32 else 1) for v, x in each.items())


@cache
def cheapest(noun: str, dtype: str = "float32") -> int:
    """The case that is compiled soonest, of those that launch the most kernels."""
    cases = [(i, launches(noun, dtype, i)) for i in range(LOOKED_AT)]
    most = max(len({launch.variant.kernel for launch in found}) for _, found in cases)
    full = [(i, found) for i, found in cases if len({x.variant.kernel for x in found}) == most]
    return min(full, key=lambda case: _cost(case[1]))[0]


def like(noun: str, dtype: str, index: int) -> list[int]:
    """This case, and the next one that needs no other variants."""
    own = {launch.variant for launch in launches(noun, dtype, index)}
    others = [
        i
        for i in range(LOOKED_AT)
        if i != index and (found := launches(noun, dtype, i)) and {launch.variant for launch in found} <= own
    ]
    return [index, *others[:1]]
