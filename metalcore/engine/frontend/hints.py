"""Lines that a kernel's host puts in front of its source: a hint where clang misses what well-known ones bring."""

from __future__ import annotations

import re

_UNKNOWN = re.compile(
    r"(?:unknown type name|no (?:template|type|member) named|use of undeclared identifier) '(?:\w+::)*(\w+)'"
)
_IN_METAL = re.compile(r"did you mean (?:simply )?'(?:::)?metal::")
_USING = re.compile(r"\busing\s+namespace\s+metal\b")
# Names that only such a text declares, and what that text is.
_TEXTS = (
    (
        re.compile(
            r"^(bfloat16_t|float16_t|complex64_t|elem_to_loc\w*|Limits|instantiate_kernel|ceildiv|log1p|expm1f?)$"
        ),
        '#include "mlx/backend/metal/kernels/utils.h", as MLX does',
    ),
    (
        re.compile(
            r"^(block_i?q\w+|block_mxfp4|ggml_metal_kargs_\w+|QK\w*|QR\d\w*|QI\d\w*|N_(R0|SG|SIMDWIDTH)\w*|FC_[A-Z_]+)$"
        ),
        '#include "ggml-common.h" and "ggml-metal-impl.h", as ggml does',
    ),
    (re.compile(r"^(c10|REGISTER_\w+|opmath_t)$"), "#include <c10/metal/utils.h>, as PyTorch does"),
)


def hint(errors: str, text: str) -> str:
    """A line for the user, empty where nothing points at a text of the host.

    >>> hint("a:1:1: error: use of undeclared identifier 'simd_sum'; did you mean 'metal::simd_sum'?", "")
    'hint: the host of this kernel may put lines in front of it: pass them as prelude="using namespace metal;"'
    """
    if _IN_METAL.search(errors) and not _USING.search(text):
        return _said('prelude="using namespace metal;"')
    for found in _UNKNOWN.finditer(errors):
        for pattern, lines in _TEXTS:
            if pattern.match(found[1]):
                return _said(f"prelude=..., here {lines}")
    return ""


def _said(what: str) -> str:
    return f"hint: the host of this kernel may put lines in front of it: pass them as {what}"
