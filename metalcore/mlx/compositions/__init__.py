"""Ops as compositions of mlx's own functions, for what is exported: forward stages by noun, public outputs alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metalcore.mlx.compositions.attention import ATTENTION
from metalcore.mlx.compositions.basic import BASIC
from metalcore.mlx.compositions.linalg import LINALG, NO_LINALG
from metalcore.mlx.compositions.losses import LOSSES
from metalcore.mlx.compositions.quantized import QUANTIZED
from metalcore.mlx.compositions.recurrent import RECURRENT
from metalcore.mlx.compositions.sparse import SPARSE

COMPOSED: dict[str, Callable[..., Any]] = BASIC | ATTENTION | LINALG | LOSSES | QUANTIZED | RECURRENT | SPARSE
_PAGED = "blocks of caches have no composition; export attention on whole keys and values"
_PRECISE = "no function of mlx gives its sums beyond float32"
NOT_COMPOSED: dict[str, str] = NO_LINALG | {
    **dict.fromkeys(("copy_blocks", "swap_blocks", "gather_kv_cache", "reshape_and_cache"), _PAGED),
    **dict.fromkeys(("reshape_and_cache_flash", "paged_attention", "paged_attention_v1", "paged_attention_v2"), _PAGED),
    **{f"precise_{name}": _PRECISE for name in ("cholesky", "dot", "matmul", "norm", "qr", "solve", "sum")},
}
"""Ops that have none, and why."""
