"""Arguments of the mLSTM ops: checks, and shapes that other packages use."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_eps, check_float, check_shape, refuse
from metalcore.ops.base.mlstm_parts import DEEPEST, LEAST_CHUNK

LONGEST_CHUNK = 256


def check_sequence(op: str, q: Any, k: Any, v: Any, i: Any, f: Any, eps: Any) -> float:
    """(batch, heads, length, depth), the same for keys, (..., width) for values, (batch, heads, length) for gates."""
    check_dtypes(op, q, k=k, v=v, i=i, f=f)
    if len(q.shape) != 4:
        refuse(op, "q", "of shape (batch, heads, length, depth)", f"of shape {tuple(q.shape)}")
    check_shape(op, "k", k, tuple(q.shape))
    if len(v.shape) != 4 or tuple(v.shape[:3]) != tuple(q.shape[:3]):
        expected = f"of shape ({', '.join(map(str, q.shape[:3]))}, width)"
        refuse(op, "v", expected, f"of shape {tuple(v.shape)}")
    check_depth(op, q, v)
    for name, array in (("i", i), ("f", f)):
        check_shape(op, name, array, tuple(q.shape[:3]))
    return check_eps(op, eps)


def check_dtypes(op: str, q: Any, **others: Any) -> None:
    dtype = check_float(op, "q", q)
    for name, array in others.items():
        given = check_float(op, name, array)
        if given != dtype:
            refuse(op, name, f"of q's dtype {dtype}", given)


def check_depth(op: str, q: Any, v: Any) -> None:
    for name, array in (("q", q), ("v", v)):
        if not 0 < array.shape[-1] <= DEEPEST:
            refuse(op, name, f"of 1 to {DEEPEST} elements a row", f"of {array.shape[-1]}")


def check_states(
    op: str, q: Any, v: Any, c: Any, n: Any, m: Any, suffix: str = "_initial", has_m: bool = True
) -> tuple[Any, Any, Any]:
    """All or none; m is (batch, heads) or (batch, heads, 1)."""
    given = {f"c{suffix}": c, f"n{suffix}": n} | ({f"m{suffix}": m} if has_m else {})
    missing = [name for name, array in given.items() if array is None]
    if len(missing) == len(given):
        return None, None, None
    if missing:
        refuse(op, missing[0], "given together with the other states", "None")
    leading, dtypes = tuple(q.shape[:2]), {check_float(op, "q", q), wide_of(q)}
    for name, array in given.items():
        if check_float(op, name, array) not in dtypes:
            refuse(op, name, f"of dtype {' or '.join(sorted(dtypes))}", check_float(op, name, array))
    first = check_float(op, f"c{suffix}", c)
    for name, array in given.items():
        if check_float(op, name, array) != first:
            refuse(op, name, f"of the dtype of c{suffix}, {first}", check_float(op, name, array))
    check_shape(op, f"c{suffix}", c, (*leading, q.shape[-1], v.shape[-1]))
    check_shape(op, f"n{suffix}", n, (*leading, q.shape[-1]))
    if not has_m:
        return c, n, None
    if tuple(m.shape) == (*leading, 1):
        m = m[..., 0]
    check_shape(op, f"m{suffix}", m, leading)
    return c, n, m


def wide_of(array: Any) -> str:
    return "float64" if check_float("", "", array) == "float64" else "float32"


def check_chunk(op: str, chunk_size: Any) -> int:
    if (
        isinstance(chunk_size, bool)
        or not isinstance(chunk_size, int)
        or chunk_size < 1
        or chunk_size & (chunk_size - 1)
    ):
        refuse(op, "chunk_size", "a power of two", repr(chunk_size))
    if chunk_size > LONGEST_CHUNK:
        refuse(op, "chunk_size", f"at most {LONGEST_CHUNK}", chunk_size)
    return max(LEAST_CHUNK, int(chunk_size))
