"""paged_attention_v1 with the arguments of Hugging Face's function for long contexts."""

from __future__ import annotations

import dataclasses
from typing import Any

from metalcore.ops import paged_attention_v1 as v1
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.runtime import Runtime

NOUN = "paged_attention_v2"


def paged_attention_v2(
    out: Any, exp_sums: Any, max_logits: Any, tmp_out: Any, query: Any, key_cache: Any, value_cache: Any,
    num_kv_heads: int, scale: float, block_tables: Any, seq_lens: Any, block_size: int, max_seq_len: int,
    alibi_slopes: Any = None, kv_cache_dtype: str = "auto", k_scale: Any = 1.0, v_scale: Any = 1.0, tp_rank: int = 0,
    blocksparse_local_blocks: int = 0, blocksparse_vert_stride: int = 0, blocksparse_block_size: int = 64,
    blocksparse_head_sliding_step: int = 0,
) -> Any:  # fmt: skip
    """As `metalcore.paged_attention_v1`. Keys are split by the launch policy in both, with sums in float32 that the op
    allocates: `exp_sums`, `max_logits` and `tmp_out`, Hugging Face's room for them, are neither read nor written and
    may be None.

    >>> import numpy as np, metalcore
    >>> query, out = np.ones((1, 1, 4), np.float32), np.zeros((1, 1, 4), np.float32)
    >>> keys, values = np.ones((2, 1, 1, 8, 4), np.float32), np.ones((2, 1, 4, 8), np.float32)
    >>> table, lengths = np.array([[1]], np.int32), np.array([5], np.int32)
    >>> metalcore.paged_attention_v2(out, None, None, None, query, keys, values, 1, 0.5, table, lengths, 8, 5)
    >>> out
    array([[[1., 1., 1., 1.]]], dtype=float32)
    """
    sparse = (blocksparse_local_blocks, blocksparse_vert_stride, blocksparse_head_sliding_step)
    arrays = (out, query, key_cache, value_cache, block_tables, seq_lens)
    sizes = (num_kv_heads, block_size, max_seq_len)
    return OP(*v1.prepare(NOUN, arrays, alibi_slopes, sizes, scale, (k_scale, v_scale), kv_cache_dtype, sparse))


@stage(v1.SCHEMA)
def forward(run: Runtime, *arguments: Any) -> tuple[Any, ...]:
    return v1.attend(NOUN, run, arguments)


OP: Op = dataclasses.replace(
    v1.OP,
    noun=NOUN,
    summary="paged_attention_v1 with the arguments of Hugging Face's function for long contexts",
    forward=forward,
)
