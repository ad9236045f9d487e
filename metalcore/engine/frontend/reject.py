"""What Apple's compiler refuses and clang would take: found on the tokens, before anything is compiled."""

from __future__ import annotations

import re

from metalcore.engine.frontend.attributes import UNSUPPORTED, Attributes
from metalcore.engine.frontend.diagnostics import Sources, at
from metalcore.engine.frontend.structure import Structure
from metalcore.engine.frontend.tokens import Tokens
from metalcore.errors import UnsupportedFeature

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
    "object_data": "object and mesh functions",
    "vertex": "vertex functions",
    "fragment": "fragment functions",
}
# Names that clang does not find because the feature is missing.
MISSING = (
    (re.compile(r"^(texture|depth)(1d|2d|3d|cube|_buffer)|^access$"), "textures"),
    (re.compile(r"^(sampler|filter|coord|address)$"), "samplers"),
    (re.compile(r"raytracing|^acceleration_structure|^intersector|^intersection_|^ray$"), "ray tracing"),
    (re.compile(r"^(visible_function_table|intersection_function_table)"), "function tables"),
    (re.compile(r"^(mpp|tensor_ops|tensor|tensor_handle|dextents|cooperative_tensor)$"), "Metal 4 tensor operations"),
    (re.compile(r"^(imageblock|r8unorm|rgba8unorm)"), "imageblocks"),
    (re.compile(r"^(compute_command|render_command|command_buffer)"), "indirect command buffers"),
)
_BUILTIN_TYPE = re.compile(
    r"(?:(?:packed_)?(?:float|half|bfloat|bool|u?char|u?short|u?int|u?long|size_t|u?int(?:8|16|32|64)_t)(?:[234](?:x[234])?)?"
    r"|void|unsigned|signed|atomic_(?:u?int|bool|float|ulong))"
)
_SPACES = frozenset(("device", "threadgroup", "constant", "thread", "threadgroup_imageblock", "ray_data"))
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
    _check_pointers(tokens, structure, sources)


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


def check_threadgroup_variable(tokens: Tokens, i: int, in_kernel: bool, sources: Sources) -> None:
    """A threadgroup variable stands in a kernel and has no initialiser."""
    if not in_kernel:
        text = "a variable in the threadgroup address space can be declared only inside a kernel"
        raise at(*tokens.where(i), text, sources)
    while tokens.at(i) not in (";", ""):
        if tokens.text[i] in ("(", "[", "{"):
            i = max(tokens.match[i], i)
        if tokens.text[i] == "=":
            text = "a variable in the threadgroup address space cannot have an initialiser"
            raise at(*tokens.where(i), text, sources)
        i = tokens.forward(i)


def _check_pointers(tokens: Tokens, structure: Structure, sources: Sources) -> None:
    """Refuse pointers and references to built-in types that name no address space."""
    for i, word in enumerate(tokens.text):
        if word not in ("*", "&"):
            continue
        before = tokens.back(i)
        first = before
        seen_type = False
        while True:
            text = tokens.at(first)
            if text in _SPACES:
                break
            if _BUILTIN_TYPE.fullmatch(text):
                seen_type = True
            elif text not in _SPECIFIERS:
                break
            first = tokens.back(first)
        if seen_type and tokens.at(first) not in _SPACES and tokens.at(first) not in ("::", "operator", ".", "->", ")"):
            kind = "pointer" if word == "*" else "reference"
            text = f"a {kind} needs an address space: device, threadgroup, constant or thread"
            raise at(*tokens.where(i), text, sources)
