"""Tables, scattered sums and the short convolution, of mlx's own functions. An index out of range is not looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.mlx.compositions.wide import refuse_export, wide


def _embedding_bag(
    weight: Any,
    index: Any,
    offsets: Any,
    samples: Any,
    mode: str,
    last: bool,
    padding: int,
    frequency: bool,
) -> Any:
    mx = mlx_module()
    if frequency:
        refuse_export("embedding_bag", "scale_grad_by_freq is of a gradient that mlx's functions do not have")
    flat, width = index.reshape(-1), weight.shape[1]
    if offsets is None:
        bags = index.shape[0]
        bag = mx.arange(flat.size) // max(1, index.shape[1])
    else:
        bags = offsets.shape[0] - last
        starts = offsets.astype(mx.int64)[:bags]
        bag = (mx.arange(flat.size)[:, None] >= starts).sum(1) - 1 if bags and flat.size else mx.zeros((0,), mx.int64)
    if not flat.size or not bags or not width:
        return mx.zeros((bags, width), weight.dtype)
    counts = (flat != padding) & (bag >= 0)
    if offsets is not None and last:
        counts = counts & (mx.arange(flat.size) < offsets[-1])
    rows = wide(weight[flat])
    if samples is not None:
        rows = rows * wide(samples.reshape(-1))[:, None]
    bag = mx.where(counts, bag, bags)  # what does not count goes to a bag behind the others
    sizes = mx.zeros((bags + 1,), rows.dtype).at[bag].add(mx.ones(bag.shape, rows.dtype))[:bags, None]
    if mode == "max":
        return mx.where(sizes > 0, _largest(rows, bag, bags), 0.0).astype(weight.dtype)
    found = mx.zeros((bags + 1, width), rows.dtype).at[bag].add(rows)[:bags]
    return (found / mx.maximum(sizes, 1) if mode == "mean" else found).astype(weight.dtype)


def _largest(rows: Any, bag: Any, bags: int) -> Any:
    """Of each bag and column, taken from the first row that has it: the gradient goes there alone."""
    mx, count = mlx_module(), rows.shape[0]
    known = mx.stop_gradient(rows)
    most = mx.full((bags + 1, rows.shape[1]), -mx.inf, rows.dtype).at[bag].maximum(known)
    place = mx.where(known == most[bag], mx.arange(count)[:, None], count - 1)
    first = mx.full(most.shape, count - 1, place.dtype).at[bag].minimum(place)
    return mx.take_along_axis(rows, first[:bags], 0)


def _scatter_add(x: Any, index: Any, src: Any, dim: int) -> Any:
    mx = mlx_module()
    if not index.size or not x.size:
        return x
    if not x.ndim:
        return (wide(x) + wide(src)).astype(x.dtype)
    places = list(mx.meshgrid(*[mx.arange(n) for n in index.shape], sparse=True, indexing="ij"))
    places[dim] = index
    part = src[tuple(slice(n) for n in index.shape)]
    return wide(x).at[tuple(places)].add(wide(part)).astype(x.dtype)


def _causal_conv1d(x: Any, weight: Any, bias: Any, state: Any, is_silu: bool) -> tuple[Any, Any]:
    mx = mlx_module()
    width = weight.shape[1]
    before = mx.zeros((*x.shape[:2], width - 1), x.dtype) if state is None else state.astype(x.dtype)
    whole = mx.concatenate((before, x), -1)
    length = x.shape[-1]
    y = sum((wide(whole[..., i : i + length]) * wide(weight)[:, i : i + 1] for i in range(width)), mx.array(0.0))
    y = y if bias is None else y + wide(bias)[:, None]
    y = y * mx.sigmoid(y) if is_silu else y
    return y.astype(x.dtype), whole[..., whole.shape[-1] - (width - 1) :]


SPARSE: dict[str, Callable[..., Any]] = {
    "causal_conv1d": _causal_conv1d,
    "embedding_bag": _embedding_bag,
    "scatter_add": _scatter_add,
}
