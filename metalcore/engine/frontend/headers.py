"""Headers of Metal's that the engine does not have: valid MSL, and an error that names the header."""

from __future__ import annotations

import re

from metalcore.errors import UnsupportedFeature

_REFUSED = re.compile(r'error: "([^"\n]*) is not supported yet"')  # the #error of a file in include/stubs
_FROM = re.compile(r"In file included from ([^\n]+):(\d+):")
# Metal's own headers have no extension.
_NOT_FOUND = re.compile(
    r"^([^\n]+?):(\d+):\d+: fatal error: "
    r"'(metal_\w+|metal/\w+|MetalPerformancePrimitives/[\w./]+|simd/[\w./]+)' file not found",
    re.MULTILINE,
)


def unsupported_header(errors: str) -> UnsupportedFeature | None:
    """The error for what clang's preprocessor says of a header that is missing, None where it says something else.

    >>> str(unsupported_header("a.metal:2:10: fatal error: 'metal_news' file not found"))
    'a.metal:2: the header <metal_news> is not supported yet'
    """
    refused = _REFUSED.search(errors)
    if refused:
        places = _FROM.findall(errors[: refused.start()])
        file, line = places[0] if places else ("", "0")
        return UnsupportedFeature(f"{file}:{line}: the header {refused[1]} is not supported yet")
    missing = _NOT_FOUND.search(errors)
    if missing:
        return UnsupportedFeature(f"{missing[1]}:{missing[2]}: the header <{missing[3]}> is not supported yet")
    return None
