"""What the normalisations share: checks, sizes, launches of rows and benchmark sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from metalcore.ops.base.check import check_float, check_shape, refuse
from metalcore.ops.base.launch import accumulator, column_sum, row_launch
from metalcore.ops.base.op import Benchmark, Op, Stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

SIZES = ((1, 4096), (512, 768), (4096, 2048), (1024, 8192))


def check_normalized(op: str, x: Any, normalized_shape: Sequence[int]) -> tuple[int, ...]:
    """The shape that is normalised over, which must be the end of the input's."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        refuse(op, "normalized_shape", f"the last dimensions of the input, of shape {tuple(x.shape)}", shape)
    return shape


def check_parameter(op: str, name: str, parameter: Any, shape: tuple[int, ...], dtype: str) -> str:
    """The dtype of a weight or bias: any float beside an input of 16 or 32 bits, float64 beside float64 alone."""
    check_shape(op, name, parameter, shape)
    found = check_float(op, name, parameter)
    if (found == "float64") != (dtype == "float64"):
        refuse(op, name, f"of a dtype that goes with the input's, {dtype}", f"of dtype {found}")
    return found


def check_affine(op: str, weight: Any, bias: Any, shape: tuple[int, ...], dtype: str) -> None:
    """Weight and bias, either of which may be None, have one dtype."""
    kinds = {
        n: check_parameter(op, n, p, shape, dtype) for n, p in (("weight", weight), ("bias", bias)) if p is not None
    }
    if len(set(kinds.values())) > 1:
        refuse(op, "bias", f"of the dtype of weight, {kinds['weight']}", f"of dtype {kinds['bias']}")


def check_sum(op: str, x: Any, residual: Any) -> str:
    """The dtype of two terms of a sum, which are alike and have a last dimension to normalise over."""
    dtype = check_float(op, "x", x)
    if len(x.shape) == 0:
        refuse(op, "x", "of one dimension or more", "a scalar")
    check_shape(op, "residual", residual, tuple(x.shape))
    if check_float(op, "residual", residual) != dtype:
        refuse(op, "residual", f"of the dtype of x, {dtype}", f"of dtype {check_float(op, 'residual', residual)}")
    return dtype


_FEW = 1 << 17  # elements


def at_once(vector: int) -> int:
    """Rows that a threadgroup takes at once: AtOnce of kernels/norm.h."""
    return 4 if vector <= 2 else 1


def is_exact(dtype: str, rows: int, width: int) -> bool:
    """Whether gradients beside a weight of this dtype are made with more care, and a third more time.

    In a short row the terms of a gradient nearly cancel. And where there are few sums over rows, or few terms, torch's
    own error may happen to be near nothing: then what such a sum rounds off is kept.
    """
    if dtype in ("float32", "float64"):
        return width < 128 or rows * width < _FEW
    return width < 64


class Blocks(NamedTuple):
    """How the rows of a gradient that is summed over rows are dealt out."""

    number: int
    rows_each: int

    @staticmethod
    def of(run: Runtime, op: str, dtype: str, rows: int, width: int, vector: int) -> Blocks:
        """About `blocks` blocks, of at least `block_rows` rows, so that adding up their shares costs little, and at
        most `most_rows`, so that a share has few roundings. Of few elements each block takes its rows at once: its
        share is rounded once, and column_sum adds without rounding."""
        if rows * width < _FEW:
            each = at_once(vector)
        else:
            chosen = policy(op, run.family, dtype)
            each = max(chosen["block_rows"], min(-(-rows // chosen["blocks"]), chosen["most_rows"]))
        return Blocks(-(-rows // each), each)

    def share(self, shape: tuple[int, ...], dtype: str) -> Out:
        """Memory for the shares; that of a single block is the gradient itself, where the dtype is the same."""
        kind = accumulator(dtype)
        return Out(shape if self.number == 1 and kind == dtype else (self.number, math.prod(shape)), kind)

    def total(self, run: Runtime, share: Any, shape: tuple[int, ...], dtype: str) -> Any:
        """The sum of the shares."""
        if self.number == 1 and dtype == accumulator(dtype):
            return share
        return column_sum(run, share, shape, dtype)

    def totals(
        self, run: Runtime, shares: Sequence[Any], makes: Sequence[bool], shape: tuple[int, ...], dtype: str
    ) -> list[Any]:
        """The gradients of the parameters; one that was not made has no elements."""
        if len(shares) == 2 and all(makes) and not (self.number == 1 and dtype == accumulator(dtype)):
            width, out = math.prod(shape), Out(shape, dtype)
            threads: int = policy("column_sum", run.family, dtype)["threads"]
            first, second = shares
            arguments = dict(
                first_shares=first, second_shares=second, first=out, second=out, rows=self.number, width=width
            )
            found: list[Any] = run.launch(COLUMN_SUM_PAIR, (dtype,), (), arguments, (-(-width // threads),), (threads,))
            return found
        return [
            self.total(run, share, shape, dtype) if made else run.empty((0,), dtype)
            for share, made in zip(shares, makes, strict=True)
        ]


COLUMN_SUM_PAIR = Kernel("column_sum", "column_sum_pair")


def no_share(dtype: str) -> Out:
    """In the place of shares that nobody asks for, of the type that kernels write them in."""
    return Out((0,), accumulator(dtype))


def gradient(
    run: Runtime,
    kernel: Kernel,
    x: Any,
    dims: int,
    kind: str,
    arrays: Mapping[str, Any],
    makes: Mapping[str, bool],
    constants: tuple[bool, ...] = (),
) -> tuple[Any, ...]:
    """dx of a norm over the last `dims` dimensions of x, then the gradients of its parameters, which have the dtype
    `kind`. `arrays` are what the kernel reads, `makes` says by the name of their shares which gradients are made, and
    `constants` come before those that every such kernel has."""
    dtype, shape = run.dtype(x), tuple(x.shape)
    own = shape[-dims:]
    width, rows = math.prod(own), math.prod(shape[:-dims])
    vector, group = row_launch(run, kernel.file, dtype, width)
    blocks = Blocks.of(run, kernel.file, dtype, rows, width, vector)
    arguments = {name: None if array is None else run.contiguous(array) for name, array in arrays.items()}
    arguments |= {name: blocks.share(own, kind) if made else no_share(kind) for name, made in makes.items()}
    arguments |= dict(dx=Out(shape, dtype), rows=rows, width=width, rows_each=blocks.rows_each)
    flags, made = (*constants, *makes.values(), is_exact(kind, rows, width)), tuple(makes.values())
    dx, *shares = run.launch(kernel, (dtype, kind, vector), flags, arguments, (blocks.number,), group)
    return dx, *blocks.totals(run, shares, made, own, kind)


def declare_fused(noun: str, summary: str, forward: Stage[...], backward: Stage[...], make: Any) -> Op:
    """A norm of x + residual, which both have the same gradient."""
    return Op(
        *(noun, summary, forward, backward),
        same_gradient=(("residual", "x"),),
        kept=1,
        batched=("x", "residual"),
        benchmarks=benchmarks(make, {"*": 1.5}),
    )


def benchmarks(make: Any, targets: dict[str, float]) -> list[Benchmark]:
    """Sizes of real models; make(torch, dtype, rows, width) gives the arguments."""

    def one(rows: int, width: int) -> Benchmark:
        def arguments(torch: Any, dtype: Any) -> Any:
            return make(torch, dtype, rows, width), {}

        return Benchmark(f"{rows}x{width}", arguments, rows * width, targets=targets)

    return [one(rows, width) for rows, width in SIZES]
