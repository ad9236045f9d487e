"""Arguments of attention as its plans take them: checked, with three dimensions or more, in memory as they lie."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from metalcore.ops.base.attention import DEEPEST, FAR
from metalcore.ops.base.check import check_array, check_float, dtype_name, refuse


def check_numbers(op: str, dropout_p: float, scale: float | None, softcap: float, scale_name: str = "scale") -> None:
    if not isinstance(dropout_p, (int, float)) or not 0.0 <= dropout_p < 1.0:
        refuse(op, "dropout_p", "from 0 to below 1", repr(dropout_p))
    if scale is not None and (not isinstance(scale, (int, float)) or not math.isfinite(scale)):
        refuse(op, scale_name, "None or a finite number", repr(scale))
    if not isinstance(softcap, (int, float)) or not 0.0 <= softcap < math.inf:
        refuse(op, "softcap", "0, which is off, or a number above it", repr(softcap))


def check_window(op: str, window_size: Any) -> tuple[int, int]:
    """Keys to the left and to the right, -1 for all."""
    if not isinstance(window_size, (tuple, list)) or len(window_size) != 2:
        refuse(op, "window_size", "a pair (left, right)", repr(window_size))
    for n in window_size:
        if not isinstance(n, int) or isinstance(n, bool) or n < -1:
            refuse(op, "window_size", "two whole numbers from 0 on, or -1 for no bound", repr(tuple(window_size)))
    left, right = window_size
    return min(left, FAR), min(right, FAR)


def draw_seed(like: Any, dropout_p: float) -> Any:
    """A seed of 64 bits from the framework's own generator, where one is needed."""
    if not dropout_p:
        return None
    if isinstance(like, np.ndarray):
        return np.random.randint(0, 1 << 62, (1,), np.int64)
    if "torch" in sys.modules and isinstance(like, sys.modules["torch"].Tensor):
        torch = sys.modules["torch"]
        return torch.randint(0, 1 << 62, (1,), dtype=torch.int64, device=like.device)
    mx = sys.modules["mlx.core"]
    return mx.random.randint(0, (1 << 31) - 1, (1,)).astype(mx.int64)


@dataclass(frozen=True)
class Arguments:
    """What the op takes, and how its outputs get the shape that the caller expects."""

    query: Any
    key: Any
    value: Any
    mask: Any
    slopes: Any
    sinks: Any
    query_rows_first: bool
    key_rows_first: bool
    keys: int  # -1: all rows
    wants_gradient: bool
    is_flat: bool  # the caller's arrays have no dimension of heads

    @property
    def depth(self) -> int:
        return int(self.query.shape[-1])

    @staticmethod
    def of(
        op: str,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        slopes: Any,
        sinks: Any,
        enable_gqa: bool,
        names: tuple[str, str, str] = ("query", "key", "value"),
    ) -> Arguments:
        query, key, value, mask = _autocast(query, key, value, mask)
        dtype = check_float(op, names[0], query)
        for name, array in ((names[1], key), (names[2], value)):
            if check_float(op, name, array) != dtype:
                refuse(op, name, f"of the dtype of {names[0]}, {dtype}", f"of dtype {dtype_name(array)}")
            if len(array.shape) != len(query.shape):
                expected = f"of as many dimensions as {names[0]}, {len(query.shape)}"
                refuse(op, name, expected, f"of shape {tuple(array.shape)}")
            _check_device(op, names[0], query, name, array)
        for name, array in (("attn_mask", mask), ("alibi_slopes", slopes), ("sinks", sinks)):
            if array is not None:
                check_array(op, name, array)
                _check_device(op, names[0], query, name, array)
        if len(query.shape) < 2:
            refuse(op, names[0], "of shape (..., rows, depth)", f"of shape {tuple(query.shape)}")
        is_flat = len(query.shape) == 2
        if is_flat:
            query, key, value = query[None], key[None], value[None]
        query, key, value = _alike(op, query, key, value, enable_gqa, names)
        heads, queries, keys = query.shape[-3], query.shape[-2], key.shape[-2]
        mask = _checked_mask(op, mask, query, dtype, keys)
        exact = "float64" if dtype == "float64" else "float32"
        slopes = _checked_slopes(op, slopes, query, exact)
        if sinks is not None:
            check_float(op, "sinks", sinks)
            if tuple(sinks.shape) != (heads,):
                refuse(op, "sinks", f"of shape ({heads},), one for each head", f"of shape {tuple(sinks.shape)}")
            sinks = cast(sinks, exact)
        if max(queries, keys) >= FAR:
            refuse(op, "query and key", f"of fewer than {FAR} rows", f"of {max(queries, keys)}")
        rows = queries * heads // max(1, key.shape[-3])
        is_wanted = wants_gradient((query, key, value, mask, sinks), rows, keys)
        query, query_first = _as_it_lies(query)
        whole = None if is_wanted else _whole_caches(key, value)
        if whole is not None:
            return Arguments(query, *whole, mask, slopes, sinks, query_first, False, keys, False, is_flat)
        (key, key_first), (value, value_first) = _as_it_lies(key), _as_it_lies(value)
        if key_first != value_first:  # both layouts are one to kernels
            key = key.swapaxes(-3, -2) if key_first else key
            value = value.swapaxes(-3, -2) if value_first else value
            key_first = False
        return Arguments(query, key, value, mask, slopes, sinks, query_first, key_first, -1, is_wanted, is_flat)

    def restored(self, out: Any, lse: Any) -> tuple[Any, Any]:
        out = out.swapaxes(-3, -2) if self.query_rows_first else out
        return (out[0], lse[0]) if self.is_flat else (out, lse)


def _autocast(query: Any, *others: Any) -> tuple[Any, ...]:
    """Inside torch.autocast arrays of several dtypes go together, as they do for torch's function."""
    arrays = (query, *others)
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(query, torch.Tensor) or query.device.type not in ("cpu", "mps"):
        return arrays
    if not torch.is_autocast_enabled(query.device.type):
        return arrays
    target = torch.get_autocast_dtype(query.device.type)
    kinds = (torch.float32, torch.float16, torch.bfloat16)
    return tuple(a.to(target) if isinstance(a, torch.Tensor) and a.dtype in kinds else a for a in arrays)


def _check_device(op: str, first: str, query: Any, name: str, array: Any) -> None:
    if hasattr(array, "is_cpu") and hasattr(query, "is_cpu") and array.device != query.device:
        refuse(op, name, f"on the device of {first}, {query.device}", f"on {array.device}")


def _alike(
    op: str, query: Any, key: Any, value: Any, enable_gqa: bool, names: tuple[str, str, str]
) -> tuple[Any, Any, Any]:
    """Checked shapes; leading dimensions of 1 are repeated, as torch repeats them."""
    if query.shape[-1] != key.shape[-1]:
        refuse(op, names[1], f"of the depth of {names[0]}, {query.shape[-1]}", f"of shape {tuple(key.shape)}")
    for name, array in ((names[0], query), (names[2], value)):
        if not 1 <= array.shape[-1] <= DEEPEST:
            refuse(op, name, f"of a depth from 1 to {DEEPEST}", f"of shape {tuple(array.shape)}")
    if key.shape[-2] != value.shape[-2]:
        refuse(op, names[2], f"of as many rows as {names[1]}, {key.shape[-2]}", f"of shape {tuple(value.shape)}")
    heads, key_heads = query.shape[-3], key.shape[-3]
    if value.shape[-3] != key_heads:
        refuse(op, names[2], f"of as many heads as {names[1]}, {key_heads}", f"of shape {tuple(value.shape)}")
    if key_heads != heads and (key_heads == 0 or heads % key_heads or not (enable_gqa or key_heads == 1)):
        expected = f"of {heads} heads, as {names[0]}, or of a divisor of that with enable_gqa=True"
        expected = f"of as many heads as divide those of {names[0]}, {heads}" if enable_gqa else expected
        refuse(op, names[1], expected, f"of {key_heads}")
    shapes = [tuple(x.shape[:-3]) for x in (query, key, value)]
    if shapes[0] == shapes[1] == shapes[2]:
        return query, key, value
    try:
        leading = np.broadcast_shapes(*shapes)
    except ValueError:
        given = ", ".join(map(str, shapes))
        refuse(op, " and ".join(names), "of leading dimensions that go together", given)
    query, key, value = (_repeated(x, (*leading, *x.shape[-3:])) for x in (query, key, value))
    return query, key, value


def _checked_mask(op: str, mask: Any, query: Any, dtype: str, keys: int) -> Any:
    if mask is None:
        return None
    kind = check_array(op, "attn_mask", mask).rstrip("_")
    if kind not in ("bool", dtype):
        refuse(op, "attn_mask", f"bool, or of the dtype of query, {dtype}", f"of dtype {kind}")
    full = (*query.shape[:-1], keys)
    shape = tuple(mask.shape)
    fits = len(shape) <= len(full) and all(n in (1, m) for n, m in zip(shape[::-1], full[::-1], strict=False))
    if not fits:
        refuse(op, "attn_mask", f"of a shape that can be broadcast to {tuple(full)}", f"of shape {shape}")
    if len(shape) > 4:  # kernels have one stride for the whole batch
        leading = math.prod(shape[:-3])
        if leading not in (1, math.prod(full[:-3])):
            mask = _repeated(mask, (*full[:-3], *shape[-3:]))
        mask = mask.reshape(math.prod(mask.shape[:-3]), *shape[-3:])
    elif len(shape) == 4 and len(full) > 4 and shape[0] > 1:
        mask = _repeated(mask, (*full[:-3], *shape[-3:])).reshape(-1, *shape[-3:])
    return mask


def _checked_slopes(op: str, slopes: Any, query: Any, exact: str) -> Any:
    if slopes is None:
        return None
    check_float(op, "alibi_slopes", slopes)
    heads, batch = query.shape[-3], math.prod(query.shape[:-3])
    shape = tuple(slopes.shape)
    if shape not in ((heads,), (batch, heads)):
        refuse(op, "alibi_slopes", f"of shape ({heads},) or ({batch}, {heads})", f"of shape {shape}")
    return cast(slopes, exact)


def cast(array: Any, dtype: str) -> Any:
    if dtype_name(array) == dtype:
        return array
    if isinstance(array, np.ndarray):
        return array.astype(dtype)
    if hasattr(array, "requires_grad"):
        return array.to(getattr(sys.modules["torch"], dtype))
    return array.astype(getattr(sys.modules["mlx.core"], dtype))


def _repeated(array: Any, shape: tuple[int, ...]) -> Any:
    if tuple(array.shape) == shape:
        return array
    if isinstance(array, np.ndarray):
        return np.broadcast_to(array, shape)
    if hasattr(array, "expand"):
        return array.expand(shape)
    return sys.modules["mlx.core"].broadcast_to(array, shape)


def wants_gradient(arrays: tuple[Any, ...], rows: int = FAR, keys: int = 0) -> bool:
    """Whether the gradient may be asked for. mlx does not tell: there, few rows over many keys are taken for decoding,
    whose gradient has a digit less."""
    first = arrays[0]
    if hasattr(first, "requires_grad"):
        torch = sys.modules["torch"]
        return torch.is_grad_enabled() and any(getattr(a, "requires_grad", False) for a in arrays)
    return not isinstance(first, np.ndarray) and not (rows <= 8 and keys >= 256)


def _whole_caches(key: Any, value: Any) -> tuple[Any, Any] | None:
    """Where both are the first rows of each head of larger caches, those caches: a step of decoding must not copy all
    that came before it. What stands behind the rows is not looked at."""
    if not hasattr(key, "as_strided") or sys.modules["torch"].compiler.is_compiling():
        return None
    found = [_whole_cache(x) for x in (key, value)]
    if found[0] is None or found[1] is None or found[0].shape[-2] != found[1].shape[-2]:
        return None
    return found[0], found[1]


def _whole_cache(array: Any) -> Any:
    if array.is_contiguous() or array.ndim != 4 or type(array) is not sys.modules["torch"].Tensor:
        return None
    batch, heads, rows, depth = array.shape
    steps = array.stride()
    room = steps[1] // depth
    if steps[2:] != (depth, 1) or steps[1] % depth or room <= rows or (batch > 1 and steps[0] != heads * steps[1]):
        return None
    size = batch * heads * room * depth
    if array.storage_offset() + size > array.untyped_storage().nbytes() // array.element_size():
        return None
    return array.as_strided((batch, heads, room, depth), (heads * room * depth, room * depth, depth, 1))


def _as_it_lies(array: Any) -> tuple[Any, bool]:
    """(heads, rows, depth), or the memory behind it as (rows, heads, depth) where that is what lies one after the
    other: no copy is made of a head's rows."""
    if hasattr(array, "is_contiguous"):
        if not array.is_contiguous():
            turned = array.transpose(-3, -2)
            if turned.is_contiguous():
                return turned, True
    elif isinstance(array, np.ndarray) and not array.flags.c_contiguous:
        turned = array.swapaxes(-3, -2)
        if turned.flags.c_contiguous:
            return turned, True
    return array, False
