"""Rotary position embedding of q and k in one launch: kernels/rope.metal."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.base.check import check_float, check_shape, dtype_name, refuse
from metalcore.ops.base.elementwise import check_alike
from metalcore.ops.base.index import check_index, explain_index
from metalcore.ops.base.op import Benchmark, Op, stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

KERNEL = Kernel("rope", "rope", ("is_interleaved", "is_spread", "has_positions"))
WHOLE = -1  # no `rotary_dim` was given


def rope(
    q: Any, k: Any, cos: Any, sin: Any, position_ids: Any = None, interleaved: bool = False,
    rotary_dim: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """q and k, (batch, heads, tokens, dim), turned by the angles of their positions; heads may differ in number.

    `cos` and `sin` are (tokens, n) or (batch, tokens, n); with `position_ids`, (tokens,) or (batch, tokens), they are
    tables (positions, n) whose rows the ids name. n is `rotary_dim`, or half of it: one angle a pair. The default of
    `rotary_dim` is the whole head where n is dim or dim / 2, else n. Elements from `rotary_dim` on stay as they are.
    Pairs are (i, i + rotary_dim / 2), as Hugging Face's rotate_half has it, or (2 i, 2 i + 1) where `interleaved`.
    A position out of range raises IndexRangeError. Tables may be float32 beside q and k in half precision.

    >>> import numpy as np, metalcore
    >>> q = np.array([[[[1.0, 0.0]]]], np.float32)
    >>> metalcore.rope(q, q, np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32))[0]
    array([[[[0., 1.]]]], dtype=float32)
    """
    return OP(q, k, cos, sin, position_ids, bool(interleaved), WHOLE if rotary_dim is None else rotary_dim)  # type: ignore[no-any-return]


def check(q: Any, k: Any, cos: Any, sin: Any, position_ids: Any) -> None:
    """Dtypes and shapes; part of the plan, so that they are looked at once."""
    check_float("rope", "q", q)
    check_float("rope", "k", k)
    _check_tables(q, cos, sin)
    if len(q.shape) < 2 or q.shape[-1] == 0:
        refuse("rope", "q", "of shape (batch, heads, tokens, dim)", f"of shape {tuple(q.shape)}")
    if tuple(k.shape[:-3]) != tuple(q.shape[:-3]) or tuple(k.shape[-2:]) != tuple(q.shape[-2:]) or q.ndim != k.ndim:
        refuse("rope", "k", f"as q, {tuple(q.shape)}, but for the heads", f"of shape {tuple(k.shape)}")
    tokens = q.shape[-2]
    batch = (q.shape[-4],) if len(q.shape) >= 4 else ()
    if position_ids is None:
        if tuple(cos.shape[:-1]) not in ((tokens,), (*batch, tokens), (1, tokens)):
            refuse(
                "rope", "cos", f"of shape ({tokens}, n) or {(*batch, tokens)} + (n,)", f"of shape {tuple(cos.shape)}"
            )
    else:
        check_index("rope", "position_ids", position_ids)
        if tuple(position_ids.shape) not in ((tokens,), (*batch, tokens), (1, tokens)):
            expected = f"of shape ({tokens},) or {(*batch, tokens)}"
            refuse("rope", "position_ids", expected, f"of shape {tuple(position_ids.shape)}")
        if len(cos.shape) != 2:
            refuse("rope", "cos", "a table (positions, n) with position_ids", f"of shape {tuple(cos.shape)}")


def turned_part(rotary_dim: int, dim: int, width: int) -> int:
    """How many elements of a head are turned."""
    if rotary_dim == WHOLE:
        rotary_dim = dim if width * 2 == dim else width
    if rotary_dim % 2 or not 0 <= rotary_dim <= dim or width not in (rotary_dim, rotary_dim // 2):
        expected = f"even, at most {dim}, and the width {width} of the tables or twice that"
        refuse("rope", "rotary_dim", expected, str(rotary_dim))
    return rotary_dim


def _check_tables(q: Any, cos: Any, sin: Any) -> None:
    for name, table in (("cos", cos), ("sin", sin)):
        dtype = check_float("rope", name, table)
        if dtype not in ("float32", dtype_name(q)):
            refuse("rope", name, f"float32 or {dtype_name(q)} as q", f"of dtype {dtype}")
    if len(cos.shape) not in (2, 3):
        refuse("rope", "cos", "of 2 or 3 dimensions", f"of shape {tuple(cos.shape)}")
    check_shape("rope", "sin", sin, tuple(cos.shape))


def _turn(
    run: Runtime, q: Any, k: Any, cos: Any, sin: Any, ids: Any, interleaved: bool, rotary_dim: int, backward: bool
) -> tuple[Any, Any]:
    dtype, table_type = check_alike("rope", run, q, k=k), check_alike("rope", run, cos, sin=sin)
    q_shape, k_shape = tuple(q.shape), tuple(k.shape)
    q_heads = q_shape[-3] if len(q_shape) > 2 else 1
    k_heads = k_shape[-3] if len(k_shape) > 2 else 1
    tokens, dim = q_shape[-2:]
    width = cos.shape[-1]
    rot = turned_part(rotary_dim, dim, width)
    outer = math.prod(q_shape[:-3])
    indexed = cos if ids is None else ids
    batches = math.prod(indexed.shape[:-2] if ids is None else indexed.shape[:-1])
    q, k, cos, sin = run.contiguous(q), run.contiguous(k), run.contiguous(cos), run.contiguous(sin)
    chosen = policy("rope", run.family, dtype)
    each: int = chosen["rows"]
    blocks = -(-tokens // each)
    vector = 2 if interleaved and dim % 2 == 0 else 1
    group = (min(chosen["threads"], max(32, -(-rot // 64) * 32)), 1, 1)
    q_out, k_out, errors = run.launch(
        KERNEL,
        (dtype, table_type, "int64" if ids is None else run.dtype(ids), vector),
        (interleaved, interleaved and width == rot, ids is not None),
        dict(
            q=q,
            k=k,
            cosines=cos,
            sines=sin,
            positions=None if ids is None else run.contiguous(ids),
            q_out=Out(q_shape, dtype),
            k_out=Out(k_shape, dtype),
            errors=Out((0 if ids is None else blocks * outer, 3), "int64"),
            q_heads=q_heads,
            k_heads=k_heads,
            tokens=tokens,
            dim=dim,
            rot=rot,
            width=width,
            table_rows=cos.shape[-2],
            batches=max(1, batches),
            each=each,
            is_backward=int(backward),
        ),
        (q_heads + k_heads, blocks, outer),
        group,
    )
    if ids is not None and not backward:
        run.check_errors(
            errors, lambda place, value: explain_index("rope", "position_ids", place, value, cos.shape[-2])
        )
    return q_out, k_out


@stage(
    "(Tensor q, Tensor k, Tensor cos, Tensor sin, Tensor? position_ids, bool interleaved, int rotary_dim)"
    " -> (Tensor q_out, Tensor k_out)"
)
def forward(
    run: Runtime, q: Any, k: Any, cos: Any, sin: Any, position_ids: Any, interleaved: bool, rotary_dim: int
) -> tuple[Any, ...]:
    check(q, k, cos, sin, position_ids)
    return _turn(run, q, k, cos, sin, position_ids, interleaved, rotary_dim, False)


@stage(
    "(Tensor grad_q_out, Tensor grad_k_out, Tensor cos, Tensor sin, Tensor? position_ids, bool interleaved,"
    " int rotary_dim) -> (Tensor dq, Tensor dk)"
)
def backward(
    run: Runtime,
    grad_q_out: Any,
    grad_k_out: Any,
    cos: Any,
    sin: Any,
    position_ids: Any,
    interleaved: bool,
    rotary_dim: int,
) -> tuple[Any, ...]:
    return _turn(run, grad_q_out, grad_k_out, cos, sin, position_ids, interleaved, rotary_dim, True)


def _make(batch: int, tokens: int, q_heads: int, k_heads: int, dim: int) -> Any:
    def make(torch: Any, dtype: Any) -> Any:
        angles = torch.rand(tokens, dim // 2)
        tables = [torch.cat((t, t), dim=-1).to(dtype) for t in (angles.cos(), angles.sin())]
        heads = [torch.randn(batch, n, tokens, dim).to(dtype) for n in (q_heads, k_heads)]
        return (*heads, *tables), {}

    return make


OP = Op(
    "rope",
    "rotary position embedding of q and k",
    forward,
    backward,
    batched=("q", "k"),
    benchmarks=[
        Benchmark(
            f"{batch}x{tokens} {q_heads}+{k_heads} heads of {dim}",
            _make(batch, tokens, q_heads, k_heads, dim),
            batch * tokens * (q_heads + k_heads) * dim,
            targets={"*": 1.5},
            constants=(2, 3),
        )
        for batch, tokens, q_heads, k_heads, dim in (
            (1, 1, 32, 8, 128),
            (1, 64, 32, 8, 128),
            (4, 512, 12, 12, 64),
            (1, 2048, 32, 8, 128),
            (1, 4096, 32, 32, 128),
        )
    ],
)
