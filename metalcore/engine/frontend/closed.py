"""What would reach the engine or the host from a kernel: refused on the preprocessed tokens.

Macros, pasted tokens and line splices are gone by then, so each token is what clang will see: what the two could read
in different ways is refused. The text goes through clang's preprocessor a second time: nothing that it would take for a
directive may be left in it.
"""

from __future__ import annotations

import re
from collections.abc import Set

from metalcore.engine.frontend.diagnostics import Sources, at
from metalcore.engine.frontend.tokens import Tokens
from metalcore.errors import CompileError

# Builtins of clang that are plain arithmetic, or that ask about a type. All others are refused.
_BUILTINS = re.compile(
    r"""__builtin_(?:
      expect(?:_with_probability)? | unreachable | assume | assume_aligned | prefetch | constant_p | bit_cast | launder
    | addressof | offsetof | types_compatible_p | choose_expr | is_constant_evaluated | LINE | COLUMN | FILE | FUNCTION
    | (?:popcount|parity|clz|ctz|ffs|clrsb)(?:l|ll|g)? | bswap(?:16|32|64) | bitreverse(?:8|16|32|64)
    | rotate(?:left|right)(?:8|16|32|64) | (?:l|ll)?abs
    | (?:s|u)?(?:add|sub|mul)(?:l|ll)?_overflow
    | (?:inf|nan|nans|huge_val)(?:f|f16)? | (?:isnan|isinf|isfinite|isnormal|signbit|fpclassify|isfpclass)(?:f)?
    | (?:isgreater|isgreaterequal|isless|islessequal|islessgreater|isunordered)
    | (?:fabs|sqrt|floor|ceil|trunc|rint|round|roundeven|nearbyint|copysign|fma|fmin|fmax)(?:f|f16)?
    | elementwise_\w+ | memcpy | memmove | memset
    )""",
    re.VERBOSE,
)
_ENGINE = re.compile(r"__mc|__MC|METALCORE_DOUBLE$")
# Entries of other runtimes and of clang's own library.
_HOST = re.compile(
    r"__(?:sync|atomic|c11_atomic|opencl_atomic|scoped_atomic|hip_atomic|spirv|nvvm|amdgcn|hlsl|sycl|arm|clang|ubsan|asan|cxa|cxx"
    r"|gnu|libc|errno|dso|tls|emutls|SV|Int\d+x|Uint\d+x|Float\d+x|Poly\d+x|Bfloat\d+x|Mfloat)\w*"
)
_TYPES = {
    "__int128": "128-bit integers are not supported in Metal",
    "__int128_t": "128-bit integers are not supported in Metal",
    "__uint128_t": "128-bit integers are not supported in Metal",
    "_BitInt": "'_BitInt' is not supported in Metal",
    "_ExtInt": "'_ExtInt' is not supported in Metal",
    "__float128": "'__float128' is not supported in Metal",
    "_Float128": "'_Float128' is not supported in Metal",
    "__ibm128": "'__ibm128' is not supported in Metal",
    "_Complex": "'_Complex' is not supported in Metal",
    "_Atomic": "'_Atomic' is not supported in Metal: use atomic_uint and its kin",
    "__thread": "'__thread' is not supported in Metal",
    "_Thread_local": "'_Thread_local' is not supported in Metal",
    "__declspec": "'__declspec' is not supported in Metal",
    "_Pragma": "'_Pragma' makes no pragma here",
    "__pragma": "'__pragma' is not supported in Metal",
    "__label__": "labels as values are not supported in Metal",
    "__try": "exceptions are not supported in Metal",
    "__except": "exceptions are not supported in Metal",
    "__finally": "exceptions are not supported in Metal",
    "__if_exists": "'__if_exists' is not supported in Metal",
    "__if_not_exists": "'__if_not_exists' is not supported in Metal",
    "co_await": "coroutines are not supported in Metal",
    "co_yield": "coroutines are not supported in Metal",
    "co_return": "coroutines are not supported in Metal",
}
# Attributes that change speed, layout or warnings. What names symbols, sections or other entries is refused.
ATTRIBUTES = frozenset(
    (
        *("always_inline", "noinline", "flatten", "hot", "cold", "optnone", "minsize", "noduplicate", "convergent"),
        *("unused", "maybe_unused", "deprecated", "unavailable", "availability", "warn_unused_result", "nodiscard"),
        *("aligned", "packed", "may_alias", "ext_vector_type", "vector_size"),
        *("const", "pure", "nothrow", "overloadable", "enable_if", "diagnose_if", "fallthrough", "artificial"),
        *("noreturn", "opencl_unroll_hint", "unroll", "likely", "unlikely", "lifetimebound", "nomerge"),
    )
)
_HARMLESS_PRAGMAS = re.compile(
    r"""\#\s*pragma\s+(?:unroll\b|nounroll\b|METAL\b|(?:clang|GCC|gcc)\s+diagnostic\b|clang\s+(?:loop|fp)\b|pack\b
    |STDC\b|float_control\b|METAL_)""",
    re.VERBOSE,
)
_HARMFUL_PRAGMAS = re.compile(
    r"\#\s*pragma\s+(?:clang\s+(?:attribute|section|module|deprecated|restrict_expansion|final|assume_nonnull|__debug"
    r"|force_cuda_host_device)|weak|redefine_extname|comment|\w*_seg|section|init_seg|alloc_text|function|vtordisp"
    r"|ms_struct|push_macro_)\b",
    re.VERBOSE,
)
_MARKER = re.compile(r'# \d+(?: "(?:[^"\\\n]|\\.)*"(?: \d)*)?[ \t]*')
_PUNCTUATION = frozenset("()[]{}<>:;,.?!~+-*/%&|^=")
_MARKER_LINE = re.compile(rf"^{_MARKER.pattern}$", re.MULTILINE)
_DIRECTIVE_LINE = re.compile(r"^[^\S\n]*#", re.MULTILINE)
_MARK = "/*__mc:"  # of the rewriting
_ENGINE_ANYWHERE = re.compile(r"__mc|__MC")


def check_closed(tokens: Tokens, sources: Sources) -> None:
    """Raise CompileError at the first token of *tokens* that a kernel may not have."""
    for i, word in enumerate(tokens.text):
        first = word[:1]
        if first == "#":
            _directive(tokens, i, sources)
        elif not word.isascii() or (len(word) == 1 and first not in _PUNCTUATION and not word.isalnum()):
            _character(tokens, i, sources)
        elif first == "_" or first in "ci":
            _name(tokens, i, sources)
        elif first == "/" and tokens.at(i + 1)[:1] in ("/", "*") and not tokens.space[i + 1]:
            raise refused(tokens, i, "a comment behind the preprocessor", sources)
        elif first == "m" and word == "module":
            _module(tokens, i, sources)


def check_text(text: str, tokens: Tokens, sources: Sources) -> None:
    """The engine's names and directives once more, in the text itself, so that no literal hides one from us alone."""
    bare = _MARKER_LINE.sub("", text)
    if _ENGINE_ANYWHERE.search(bare) or _MARK in text:
        i = next((i for i, word in enumerate(tokens.read) if _ENGINE_ANYWHERE.search(word)), 0)
        raise refused(tokens, i, "a name with '__mc' in it is the engine's, in a literal or a pragma too", sources)
    if len(_DIRECTIVE_LINE.findall(text)) != sum(word[0] == "#" for word in tokens.read):
        i = next((i for i, word in enumerate(tokens.read) if word[0] != "#" and _DIRECTIVE_LINE.search(word)), 0)
        raise refused(tokens, i, "a raw string with a line that begins with '#'", sources)


def check_edited(tokens: Tokens, known: Set[int], sources: Sources) -> None:
    """Refuse attributes and modules that only the edits have made; *known* are the `[[` that were read."""
    for i, word in enumerate(tokens.text):
        if word == "[" and i not in known and tokens.at(tokens.forward(i)) == "[":
            raise refused(tokens, i, "'[[' is an attribute's, and nothing else may stand between", sources)
        if word in ("import", "module"):
            _module(tokens, i, sources)


def _character(tokens: Tokens, i: int, sources: Sources) -> None:
    """Refuse a token with a character that is none of C++'s, which clang may skip, or take for white space."""
    word = tokens.text[i]
    if word[0] in "\"'" and len(word) == 1:
        raise refused(tokens, i, f"missing terminating {word} character", sources)
    if word == "\\":
        raise refused(tokens, i, "a backslash outside of a literal", sources)
    if word[-1] not in "\"'" and not word.replace("$", "_").isidentifier():
        strange = next((c for c in word if c not in "$.'" and not f"a{c}".isidentifier()), word[0])
        is_number = strange.isdecimal() or strange == "."
        what = f"'{word}' is no number" if is_number else f"unexpected character <U+{ord(strange):04X}>"
        raise refused(tokens, i, what, sources)


def refused(tokens: Tokens, i: int, text: str, sources: Sources) -> CompileError:
    """The error for token *i*, with its column."""
    return at(*tokens.where(i), text, sources, tokens.line_and_column(i))


def _name(tokens: Tokens, i: int, sources: Sources) -> None:
    word = tokens.text[i]
    if word in _TYPES:
        raise refused(tokens, i, _TYPES[word], sources)
    if word == "import":
        _module(tokens, i, sources)
    if word[:2] != "__":
        return
    if _ENGINE.match(word):
        raise refused(tokens, i, f"'{word}' is a name of the engine: names that begin with '__mc' are its own", sources)
    if word.startswith("__builtin"):
        if not _BUILTINS.fullmatch(word):
            raise refused(tokens, i, f"'{word}' is not supported in Metal", sources)
    elif _HOST.fullmatch(word):
        raise refused(tokens, i, f"'{word}' is not supported in Metal", sources)
    elif word in ("__attribute__", "__attribute"):
        _attributes(tokens, i, sources)


def _attributes(tokens: Tokens, i: int, sources: Sources) -> None:
    """`__attribute__((a, b(1)))`."""
    opener = tokens.forward(i)
    inner = tokens.forward(opener)
    if tokens.at(opener) != "(" or tokens.at(inner) != "(" or tokens.match[inner] < 0:
        raise refused(tokens, i, f"expected '((...))' after '{tokens.text[i]}'", sources)
    for start, stop in tokens.split(inner + 1, tokens.match[inner]):
        check_attribute(tokens, start, stop, sources)


def check_attribute(tokens: Tokens, start: int, stop: int, sources: Sources) -> None:
    """Refuse one attribute, `name`, `scope::name` or `name(...)`, that is not known to be harmless."""
    words = [j for j in range(start, stop) if tokens.text[j] and tokens.text[j][0] != "#"]
    if not words:
        return
    names = [j for j in words if tokens.text[j] != "::"]
    place = names[1] if len(words) > 1 and tokens.text[words[1]] == "::" and len(names) > 1 else names[0]
    name = tokens.text[place]
    plain = name[2:-2] if name.startswith("__") and name.endswith("__") and len(name) > 4 else name
    is_default = plain == "visibility" and '"default"' in tokens.words(start, stop)
    if plain not in ATTRIBUTES and not is_default:
        raise refused(tokens, place, f"the attribute '{plain}' is not supported in Metal", sources)


def _module(tokens: Tokens, i: int, sources: Sources) -> None:
    """`import <x>;` and `module;` are directives of C++ where they begin a line."""
    after = tokens.at(tokens.forward(i))
    if tokens.at(tokens.back(i)) in (";", "}", "", "export") and re.match(r'[A-Za-z_"<:;]', after):
        raise refused(tokens, i, "modules are not supported in Metal", sources)


def _directive(tokens: Tokens, i: int, sources: Sources) -> None:
    """A line that starts with `#`: only the preprocessor's own line markers and pragmas may be left."""
    word = tokens.text[i]
    # The preprocessor writes its own in the first column, and everything else that starts with '#' behind it.
    at_start = tokens.space[i][-1:] in ("\n", "") and (i == 0 or "\n" in tokens.space[i])
    if not at_start or not (_MARKER.fullmatch(word) or re.match(r"#(?:pragma|ident)\b", word)):
        raise refused(tokens, i, "a stray '#': a macro cannot make a directive", sources)
    if not word.startswith("# ") and 'R"' in word:
        raise refused(tokens, i, "a raw string in a pragma", sources)  # it may go on in the next line
    if _HARMFUL_PRAGMAS.match(word):
        raise refused(tokens, i, f"'{' '.join(word.split())}' is not supported in Metal", sources)
    if not word.startswith("# ") and not _HARMLESS_PRAGMAS.match(word):
        tokens.text[i] = ""  # no meaning here, as to Apple's compiler
