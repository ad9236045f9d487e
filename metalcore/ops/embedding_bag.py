"""Sums, means and maxima of rows of a table: kernels/embedding_bag.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_float, check_shape, dtype_name, refuse
from metalcore.ops.base.index import check_index, explain_index
from metalcore.ops.base.launch import accumulator, row_launch
from metalcore.ops.base.op import Benchmark, Op, stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

CHECK = Kernel("embedding_bag", "embedding_bag_check")
FORWARD = Kernel("embedding_bag", "embedding_bag_forward", ("has_sample_weight",))
OWNER = Kernel("embedding_bag", "embedding_bag_owner")
BACKWARD = Kernel("embedding_bag", "embedding_bag_backward", ("has_sample_weight",))
SAMPLE_WEIGHT = Kernel("embedding_bag", "embedding_bag_sample_weight")
MODES = {"sum": 0, "mean": 1, "max": 2}
HAS_OFFSETS, BY_FREQUENCY = 4, 8  # as in the kernel


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, mean or maximum of the rows `weight[i]` over each bag of indices, as torch.nn.functional.embedding_bag.

    `input` has a bag in each row, or all bags one after the other with `offsets` that say where each begins. The
    gradient of the table is dense and the same in every run; with `scale_grad_by_freq` each row's is divided by how
    often the row stands in `input`. `max_norm` and `sparse` are not supported. An index out of range raises
    IndexRangeError; on a GPU it adds nothing (METALCORE_CHECK_GPU=1 makes it an error there).

    >>> import numpy as np, metalcore
    >>> table = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    >>> metalcore.embedding_bag(np.array([0, 2, 1]), table, np.array([0, 2]), mode="sum")
    array([[6., 8.],
           [3., 4.]], dtype=float32)
    """
    if max_norm is not None or sparse:
        refuse("embedding_bag", "max_norm and sparse", "None and False: they are not supported", (max_norm, sparse))
    rows, padding = weight.shape[0] if len(weight.shape) else 0, -1
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            refuse("embedding_bag", "padding_idx", f"in -{rows} to {rows - 1}", padding_idx)
        padding = padding_idx % rows
    by_frequency = bool(scale_grad_by_freq)
    return OP(weight, input, offsets, per_sample_weights, mode, bool(include_last_offset), padding, by_frequency)


def check(weight: Any, input: Any, offsets: Any, samples: Any, mode: str, last: bool, by_frequency: bool) -> None:
    """Dtypes and shapes; part of the plan, so that they are looked at once."""
    dtype = check_float("embedding_bag", "weight", weight)
    if len(weight.shape) != 2:
        refuse("embedding_bag", "weight", "of two dimensions", f"of shape {tuple(weight.shape)}")
    check_index("embedding_bag", "input", input)
    if len(input.shape) == 2:
        if offsets is not None:
            refuse("embedding_bag", "offsets", "None where the input has two dimensions", "an array")
    elif len(input.shape) != 1:
        refuse("embedding_bag", "input", "of one or two dimensions", f"of shape {tuple(input.shape)}")
    elif offsets is None or len(offsets.shape) != 1:
        given = "None" if offsets is None else f"of shape {tuple(offsets.shape)}"
        refuse("embedding_bag", "offsets", "of one dimension where the input has one", given)
    else:
        check_index("embedding_bag", "offsets", offsets)
        if last and offsets.shape[0] < 1:
            refuse("embedding_bag", "offsets", "of at least one element where include_last_offset is set", "empty")
    if mode not in MODES:
        refuse("embedding_bag", "mode", "sum, mean or max", repr(mode))
    if mode == "max" and by_frequency:
        refuse("embedding_bag", "scale_grad_by_freq", "False with mode max", True)
    if samples is not None:
        if mode != "sum":
            refuse("embedding_bag", "per_sample_weights", f"None with mode {mode}", "an array")
        check_shape("embedding_bag", "per_sample_weights", samples, tuple(input.shape))
        if dtype_name(samples) != dtype:
            expected = f"of the weight's dtype {dtype}"
            refuse("embedding_bag", "per_sample_weights", expected, f"of dtype {dtype_name(samples)}")


class Bags:
    """Sizes of a call: indices, bags, where the last bag ends, and the kernel's flags."""

    __slots__ = ("count", "dim", "ends", "flags", "number", "offset_type", "rows", "width")

    def __init__(
        self, run: Runtime, weight: Any, input: Any, offsets: Any, mode: str, last: bool, frequency: bool
    ) -> None:
        self.rows, self.dim = weight.shape
        self.flags = MODES[mode]
        self.flags |= BY_FREQUENCY if frequency else 0
        if offsets is None:
            self.number, self.width = input.shape
            self.count, self.ends, self.offset_type = self.number * self.width, 0, run.dtype(input)
        else:
            self.count, self.width, self.ends = input.shape[0], 1, offsets.shape[0]
            self.number = self.ends - 1 if last else self.ends
            self.flags |= HAS_OFFSETS
            self.offset_type = run.dtype(offsets)

    @property
    def sizes(self) -> dict[str, int]:
        """What all kernels are told of it."""
        return dict(count=self.count, rows=self.rows, dim=self.dim, width=self.width, options=self.flags)


_NUMBERS = "str mode, bool last, int padding, bool frequency"


@stage(
    f"(Tensor weight, Tensor input, Tensor? offsets, Tensor? sample_weight, {_NUMBERS}) -> "
    "(Tensor out, Tensor chosen, Tensor sizes)"
)
def forward(run: Runtime, weight: Any, input: Any, offsets: Any, sample_weight: Any, *numbers: Any) -> tuple[Any, ...]:
    mode, last, padding, frequency = numbers
    check(weight, input, offsets, sample_weight, mode, last, frequency)
    dtype, kind = run.dtype(weight), run.dtype(input)
    bags = Bags(run, weight, input, offsets, mode, last, frequency)
    weight, input = run.contiguous(weight), run.contiguous(input)
    # What a flag turns off is not read: another array stands in its place.
    offsets = input if offsets is None else run.contiguous(offsets)
    has_samples = sample_weight is not None
    sample_weight = run.contiguous(sample_weight) if has_samples else weight
    vector, group = row_launch(run, "embedding_bag", dtype, bags.dim)
    each: int = policy("embedding_bag", run.family, dtype)["bags_each"]
    types = (dtype, kind, bags.offset_type, vector)
    arguments = dict(bags.sizes, index=input, weight=weight, offsets=offsets, sample_weight=sample_weight)
    arguments |= dict(out=Out((bags.number, bags.dim), dtype), sizes=Out((bags.number,), accumulator(dtype)))
    arguments |= dict(chosen=Out((bags.number, bags.dim) if mode == "max" else (0,), "int32"))
    arguments |= dict(ends=bags.ends, padding=padding, bags=bags.number, each=each)
    groups = (-(-bags.number // each),)
    out, chosen, sizes = run.launch(FORWARD, types, (has_samples,), arguments, groups, group)
    arguments = dict(index=input, offsets=offsets, sizes=sizes, errors=Out((2, 3), "int64"))
    arguments |= dict(count=bags.count, rows=bags.rows, ends=bags.ends, bags=bags.number)
    threads = policy("embedding_bag", run.family, dtype)["check_threads"]
    (errors,) = run.launch(CHECK, (kind, bags.offset_type), (), arguments, (1,), (threads,))
    run.check_errors(errors, lambda place, value: _explain(place, value, bags.rows, bags.count))
    return out, chosen, sizes


def _explain(place: int, value: int, rows: int, count: int) -> str:
    if place >= 0:
        return explain_index("embedding_bag", "input", place, value, rows)
    if place == -1:
        return f"embedding_bag: offsets must begin with 0, not {value}"
    return (
        f"embedding_bag: offsets must not fall and not be above the input's length {count}, "
        f"but offsets[{-1 - place}] is {value}"
    )


@stage(
    "(Tensor grad_out, Tensor weight, Tensor input, Tensor? offsets, Tensor? sample_weight, Tensor chosen, "
    f"Tensor sizes, {_NUMBERS}, bool[] wanted) -> (Tensor dweight, Tensor dsample_weight)"
)
def backward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    grad_out, weight, input, offsets, sample_weight, chosen, sizes, mode, last, padding, frequency, wanted = values
    dtype, kind = run.dtype(weight), run.dtype(input)
    bags = Bags(run, weight, input, offsets, mode, last, frequency)
    g, weight, input = run.contiguous(grad_out), run.contiguous(weight), run.contiguous(input)
    has_offsets, has_samples = offsets is not None, sample_weight is not None
    offsets = run.contiguous(offsets) if has_offsets else input
    sample_weight = run.contiguous(sample_weight) if has_samples else weight
    vector, group = row_launch(run, "embedding_bag", dtype, bags.dim)
    dweight = dsample = run.empty((0,), dtype)
    if wanted[0]:
        ordered, order = run.sort(input)
        owner: Any = chosen
        if has_offsets:
            arguments = dict(offsets=offsets, owner=Out((bags.count,), "int32"), ends=bags.ends, count=bags.count)
            (owner,) = run.launch(OWNER, (bags.offset_type,), (), arguments, (bags.number,), (32,))
        each = max(1, -(-bags.rows // policy("embedding_bag", run.family, dtype)["row_blocks"]))
        arguments = dict(bags.sizes, g=g, sorted=ordered, order=order, owner=owner, sample_weight=sample_weight)
        arguments |= dict(chosen=chosen, sizes=sizes, dweight=Out((bags.rows, bags.dim), dtype))
        arguments |= dict(padding=padding, each=each)
        groups = (-(-bags.rows // each),)
        (dweight,) = run.launch(BACKWARD, (dtype, kind, vector), (has_samples,), arguments, groups, group)
    if wanted[1] and has_samples:
        arguments = dict(bags.sizes, g=g, index=input, weight=weight, offsets=offsets)
        arguments |= dict(dsample_weight=Out(tuple(input.shape), dtype), ends=bags.ends, padding=padding)
        types = (dtype, kind, bags.offset_type)
        (dsample,) = run.launch(SAMPLE_WEIGHT, types, (), arguments, (bags.number,), group)
    return dweight, dsample


def accepts(
    input: Any, weight: Any, offsets: Any = None, max_norm: Any = None, norm_type: float = 2, *rest: Any, **named: Any
) -> str:
    """The override leaves to torch what this op does not support."""
    if dtype_name(weight) not in ("float32", "float16", "bfloat16"):
        return f"weight of dtype {dtype_name(weight)}"
    if max_norm is not None or named.get("sparse") or (len(rest) > 2 and rest[2]):
        return "max_norm or sparse"
    return "scale_grad_by_freq" if named.get("scale_grad_by_freq") or any(rest[:1]) else ""


def _make(rows: int, dim: int, bags: int, width: int, mode: str) -> Any:
    def make(torch: Any, dtype: Any) -> Any:
        index = torch.randint(0, rows, (bags * width,))
        offsets = torch.arange(0, bags * width, width)
        return (index, torch.randn(rows, dim).to(dtype), offsets), {"mode": mode}

    return make


OP = Op(
    "embedding_bag",
    "sum, mean or maximum of table rows over bags of indices",
    forward,
    backward,
    kept=2,
    namesake="torch.nn.functional.embedding_bag",
    accepts=accepts,
    benchmarks=[
        Benchmark(
            f"{mode} {rows}x{dim} {bags}x{width}",
            _make(rows, dim, bags, width, mode),
            bags * width * dim,
            targets={"*": 0.9},
        )
        for rows, dim, bags, width, mode in (
            (100000, 64, 4096, 20, "sum"),
            (100000, 64, 4096, 20, "mean"),
            (50000, 128, 2048, 50, "sum"),
            (30522, 768, 512, 16, "mean"),
            (50000, 128, 512, 20, "max"),
        )
    ],
)
