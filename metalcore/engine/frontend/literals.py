"""Numbers and pragmas: where Metal's meaning differs from C++'s."""

from __future__ import annotations

import re

_FLOAT = re.compile(
    r"(?P<digits>0[xX][0-9a-fA-F']*\.?[0-9a-fA-F']*[pP][+-]?\d+"
    r"|(?:\d[\d']*\.[\d']*|\.\d[\d']*)(?:[eE][+-]?\d+)?"
    r"|\d[\d']*[eE][+-]?\d+)(?P<suffix>[A-Za-z]*)"
)
_HALF_INTEGER = re.compile(r"(?P<digits>\d+)(?P<suffix>[hH])")
_PRAGMA = re.compile(r"#\s*pragma\s+(\S+)\s*(.*)")


def number(text: str, float_type: str = "float") -> str:
    """C++ spelling of a Metal number: a float literal without suffix is a float, `h` is half, `bf` bfloat.

    >>> number("0.1"), number("0.1f", "double"), number("1h")
    ('0.1f', '0.1', '1.0f16')
    """
    match = _FLOAT.fullmatch(text) or _HALF_INTEGER.fullmatch(text)
    if match is None:
        return text
    digits, suffix = match["digits"], match["suffix"].lower()
    if suffix in ("", "f") and float_type == "double":
        return digits
    if suffix == "":
        return digits + "f"
    if suffix == "h":
        return f"{digits}{'' if _FLOAT.fullmatch(digits) else '.0'}f16"
    if suffix == "bf":
        return f"((bfloat){digits}f)"
    return text


def pragma(line: str) -> str:
    """clang's spelling of a pragma; empty where Metal's has no meaning here."""
    match = _PRAGMA.match(line)
    if match is None:
        return line
    family, rest = match[1], match[2].strip()
    if family.startswith("unroll"):
        count = re.fullmatch(r"\(?\s*(\d+)\s*\)?", line[line.index("unroll") + len("unroll") :].strip())
        return f"#pragma unroll({count[1]})" if count and int(count[1]) > 0 else "#pragma unroll"
    if family == "clang" and re.match(r"loop\b", rest):
        # Lockstep wants scalar code: of what a loop may be asked to do, unrolling alone is meant for a GPU.
        kept = re.findall(r"unroll(?:_count)?\s*\([^()]*(?:\([^()]*\))*[^()]*\)", rest)
        return f"#pragma clang loop {' '.join(kept)}" if kept else ""
    # Exceptions, the rounding mode and wider intermediate results: none of them exists in Metal.
    if family == "clang" and re.match(r"fp\b", rest):
        kept = re.findall(r"(?:contract|reassociate|reciprocal)\s*\(\s*[\w-]+\s*\)", rest)
        return f"#pragma clang fp {' '.join(kept)}" if kept else ""
    if family == "STDC":
        return line if re.match(r"FP_CONTRACT\b", rest) else ""
    if family.startswith("float_control") and re.search(r"\bexcept\b", line):
        return "#pragma float_control(push)" if re.search(r"\bpush\b", line) else ""
    if family != "METAL":
        return line
    if contract := re.match(r"fp[\s_]+contract\s*\(\s*(\w+)\s*\)", rest):
        return f"#pragma clang fp contract({contract[1]})"
    if mode := re.match(r"fp\s+math_mode\s*\(\s*(\w+)\s*\)", rest):
        return {
            "safe": "#pragma float_control(precise, on)",
            "relaxed": "#pragma clang fp reassociate(on) reciprocal(on) contract(fast)",
            "fast": "#pragma float_control(precise, off)",
        }.get(mode[1], line)
    return ""  # `#pragma METAL internals : enable` and the like
