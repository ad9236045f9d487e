"""What Apple's compiler refuses and clang would take: found on the tokens, before anything is compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator

from metalcore.engine.frontend.attributes import UNSUPPORTED, Attributes
from metalcore.engine.frontend.diagnostics import Sources, at
from metalcore.engine.frontend.structure import Structure
from metalcore.engine.frontend.tokens import Tokens
from metalcore.errors import CompileError, UnsupportedFeature

_FORBIDDEN = {
    "double": "'double' is not supported in Metal",
    "virtual": "virtual functions are not supported in Metal",
    "goto": "'goto' is not supported in Metal",
    "new": "'new' is not supported in Metal: there is no heap",
    "throw": "exceptions are not supported in Metal",
    "try": "exceptions are not supported in Metal",
    "catch": "exceptions are not supported in Metal",
    "dynamic_cast": "'dynamic_cast' is not supported in Metal",
    "typeid": "'typeid' is not supported in Metal",
    "thread_local": "'thread_local' is not supported in Metal",
}
_UNSUPPORTED_WORDS = {
    "asm": "inline assembly and AIR intrinsics (asm)",
    "__asm": "inline assembly and AIR intrinsics (__asm)",
    "__asm__": "inline assembly and AIR intrinsics (__asm__)",
    "threadgroup_imageblock": "imageblocks",
    "ray_data": "ray tracing payloads",
    "raytracing": "ray tracing (metal::raytracing) functions",
    "object_data": "object and mesh functions",
    "vertex": "vertex functions",
    "fragment": "fragment functions",
}
# Names that clang does not find because the feature is missing; `filter::` is one that stands before its members.
MISSING = (
    (re.compile(r"^(texture|depth)(1d|2d|3d|cube|_buffer)|^access::$"), "textures"),
    (
        re.compile(r"^(sampler|sampler::|filter::|coord::|address::|mag_filter::|min_filter::|mip_filter::)$"),
        "samplers",
    ),
    (re.compile(r"raytracing|^acceleration_structure|^intersector|^intersection_|^ray$"), "ray tracing"),
    (re.compile(r"^(visible_function_table|intersection_function_table)"), "function tables"),
    (
        re.compile(r"^(mpp|tensor_ops|tensor|tensor_handle|dextents|cooperative_tensor)(::)?$"),
        "Metal 4 tensor operations",
    ),
    (re.compile(r"^(imageblock|r8unorm|rgba8unorm)"), "imageblocks"),
    (re.compile(r"^(compute_command|render_command|command_buffer)"), "indirect command buffers"),
)
_BUILTIN_TYPE = re.compile(
    r"(?:(?:packed_)?(?:float|half|bfloat|bool|u?char|u?short|u?int|u?long|size_t|u?int(?:8|16|32|64)_t)(?:[234](?:x[234])?)?"
    r"|void|unsigned|signed|atomic_(?:u?int|bool|float|ulong))"
)
_SPACES = frozenset(("device", "threadgroup", "constant", "thread", "threadgroup_imageblock", "ray_data"))
_FLOAT = re.compile(r"(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?[fF]?")
IMPLICIT_BFLOAT = "no implicit conversion from float to bfloat: write bfloat(x)"
_NAME = re.compile(r"[A-Za-z_]\w*")
_NOT_TYPES = frozenset(("return", "else", "case", "auto", "sizeof", "do"))
_SPECIFIERS = frozenset(("const", "volatile", "unsigned", "signed", "long", "short", "int", "static", "constexpr"))


def check_words(tokens: Tokens, structure: Structure, sources: Sources) -> None:
    """Refuse words that Metal does not have."""
    for i, word in enumerate(tokens.text):
        if word in _FORBIDDEN:
            before = tokens.at(tokens.back(i))
            if before not in ("operator", ".", "->"):
                raise at(*tokens.where(i), _FORBIDDEN[word], sources)
        elif word == "delete" and tokens.at(tokens.back(i)) not in ("=", "operator"):
            raise at(*tokens.where(i), "'delete' is not supported in Metal: there is no heap", sources)
        elif word in _UNSUPPORTED_WORDS:
            if word in ("vertex", "fragment") and not _starts_declaration(tokens, i):
                continue
            raise unsupported(_UNSUPPORTED_WORDS[word], *tokens.where(i))
        elif word == "bfloat" and (value := implicit_bfloat(tokens, i)) >= 0:
            raise at(*tokens.where(value), IMPLICIT_BFLOAT, sources)
    for i in pointers_without_space(tokens, structure):
        raise at(*tokens.where(i), _needs_space(tokens.text[i]), sources)


def implicit_bfloat(tokens: Tokens, i: int) -> int:
    """Index of the literal in `bfloat x = 1.0f`, where the `bfloat` at *i* starts that, else -1.

    clang itself tells of every other implicit conversion, but not of exact constants.
    """
    name = tokens.forward(i)
    equal = tokens.forward(name)
    value = tokens.forward(equal)
    if tokens.at(value) in ("-", "+"):
        value = tokens.forward(value)
    is_literal = tokens.at(equal) == "=" and _FLOAT.fullmatch(tokens.at(value))
    return value if is_literal and tokens.at(tokens.forward(value)) in (";", ",") else -1


def _starts_declaration(tokens: Tokens, i: int) -> bool:
    return tokens.at(tokens.back(i)) in (";", "}", "{", ">", "]", "")


def unsupported(feature: str, file: str, line: int) -> UnsupportedFeature:
    """The error for valid MSL that the engine does not run."""
    return UnsupportedFeature(f"{file}:{line}: {feature} are not supported yet")


def check_attributes(tokens: Tokens, attributes: Attributes, sources: Sources) -> None:
    """Refuse attributes of features that the engine does not have."""
    for attribute in attributes.found:
        if attribute.name in UNSUPPORTED:
            raise unsupported(UNSUPPORTED[attribute.name], *tokens.where(attribute.index))


def threadgroup_variable_outside(tokens: Tokens, i: int, sources: Sources) -> CompileError:
    """The error for a threadgroup variable that stands in no kernel."""
    text = "a variable in the threadgroup address space can be declared only inside a kernel"
    return at(*tokens.where(i), text, sources)


def pointers_without_space(tokens: Tokens, structure: Structure) -> Iterator[int]:
    """The `*` or `&` of every pointer and reference that names no address space."""
    text = tokens.text
    for i, word in enumerate(text):
        if word in ("*", "&") and (_points_to_builtin(tokens, i) or _declares_pointer(tokens, i)):
            yield i
    for function in structure.functions:
        if function.body < 0:
            continue
        for start, stop in tokens.split(function.open + 1, function.close):
            words = tokens.words(start, stop)
            if ("*" in words or "&" in words) and _SPACES.isdisjoint(words):
                i = _declarator(tokens, start, stop)
                if i >= 0 and "auto" not in words:
                    yield i


def _needs_space(word: str) -> str:
    kind = "pointer" if word == "*" else "reference"
    return f"a {kind} needs an address space: device, threadgroup, constant or thread"


def _points_to_builtin(tokens: Tokens, i: int) -> bool:
    """Whether the `*` or `&` at *i* stands behind a built-in type that has no address space, as in `(float*)p`."""
    first, seen_type = tokens.back(i), False
    while True:
        word = tokens.at(first)
        if _BUILTIN_TYPE.fullmatch(word):
            seen_type = True
        elif word not in _SPECIFIERS:
            return seen_type and word not in _SPACES and word not in ("::", "operator", ".", "->", ")")
        first = tokens.back(first)


def _declares_pointer(tokens: Tokens, i: int) -> bool:
    """Whether the `*` or `&` at *i* belongs to a statement such as `Row* p = ...;` or a member `Row& r;`."""
    name = tokens.forward(i)
    if not _NAME.fullmatch(tokens.at(name)) or tokens.at(tokens.forward(name)) not in ("=", ";"):
        return False
    first = tokens.back(i)
    while tokens.at(first) in ("const", "volatile"):
        first = tokens.back(first)
    if not _NAME.fullmatch(tokens.at(first)) or tokens.at(first) in _NOT_TYPES:
        return False
    first = tokens.back(first)
    while tokens.at(first) in ("const", "volatile"):
        first = tokens.back(first)
    return tokens.at(first) in (";", "{", "}")


def _declarator(tokens: Tokens, start: int, stop: int) -> int:
    """Index of the `*` or `&` of a parameter, -1 where these stand only inside brackets or a default value."""
    i = start
    while i < stop and tokens.text[i] != "=":
        if tokens.text[i] in ("*", "&"):
            return i
        if tokens.text[i] in ("(", "[", "{"):
            i = max(tokens.match[i], i)
        elif tokens.text[i] == "<":
            i = max(tokens.close_angle(i, stop), i)
        i += 1
    return -1
