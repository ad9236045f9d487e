"""What benchmarks/attention.py measures: each row makes its inputs, our call and those of its peers, and what its
result is compared with in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from metalcore.ops import function

DTYPES = ("float32", "float16", "bfloat16")
SDPA, VARLEN, PAGED = "scaled_dot_product_attention", "flash_attn_varlen_func", "paged_attention"
FORWARD = {"float32": {"flash": 0.7, "torch": 2.5}, "float16": {"flash": 1.0, "torch": 2.5}, "*": {"torch": 2.5}}
BACKWARD = {"*": {"flash": 0.6, "torch": 1.0}}
FEATURES = {"*": {"torch": 2.0}}
DECODE = {"float32": {"flash": 1.2}, "bfloat16": {"flash": 2.5}}
OTHERS = {"*": {"torch": 1.5}}  # paged and packed
Function = Callable[..., Any]


@dataclass
class Side:
    """One contestant: a function of `inputs`, which may be in a layout of its own, and of nothing else."""

    run: Function
    inputs: tuple[torch.Tensor, ...]
    grad: torch.Tensor  # of the result
    usual: Function = field(default=lambda tensor: tensor)  # a result or a gradient as the others have it

    def forward(self) -> Any:
        with torch.no_grad():
            return self.run(*self.inputs)

    def both(self) -> tuple[Any, ...]:
        leaves = [x.detach().requires_grad_() for x in self.inputs]
        return torch.autograd.grad(self.run(*leaves), leaves, self.grad)

    def backward(self) -> Callable[[], Any]:
        """The gradient alone, of a forward pass that has been done."""
        leaves = [x.detach().requires_grad_() for x in self.inputs]
        out = self.run(*leaves)
        return lambda: torch.autograd.grad(out, leaves, self.grad, retain_graph=True)


@dataclass
class Products:
    """The products of attention alone, by torch in float32: nothing between them, nothing read but their operands. Two,
    and five for the gradients, of which two make the weights again. A kernel with their rate could be no faster."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    grad: torch.Tensor

    @staticmethod
    def of(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, grad: torch.Tensor) -> Products:
        """Key heads are repeated before the clock runs."""
        return Products(
            q.float(), *(x.float().repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v)), grad.float()
        )

    def forward(self) -> Any:
        with torch.no_grad():
            return (self.q @ self.k.mT) @ self.v

    def backward(self) -> Callable[[], Any]:
        def run() -> Any:
            weights, gradient = self.q @ self.k.mT, self.grad @ self.v.mT
            return gradient @ self.k, gradient.mT @ self.q, weights.mT @ self.grad

        return run


@dataclass
class Setup:
    ours: Side
    peers: dict[str, Side | Products]  # "flash": torch's flash kernel; "torch": MATH, or what one writes with torch
    exact: Side  # in float64
    plain: Side  # the same in the row's dtype: its error is what the rule allows a multiple of


@dataclass(frozen=True)
class Row:
    what: str
    size: str
    dtype: str
    kind: str  # "forward" or "backward"
    make: Callable[[torch.dtype], Setup]
    targets: Mapping[str, float]  # least speed against a peer
    is_quick: bool

    @property
    def key(self) -> str:
        return f"{self.what} {self.size} {self.dtype} {self.kind}"


def _random(dtype: torch.dtype, *shape: int, seed: int = 7) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def by(backend: SDPBackend, run: Function) -> Function:
    def call(*inputs: torch.Tensor) -> Any:
        with sdpa_kernel(backend):
            return run(*inputs)

    return call


def _sides(ours: Function, theirs: Function, inputs: Sequence[torch.Tensor], grad: torch.Tensor) -> Setup:
    """torch's function, or code around it, by both backends; flash is left out where torch refuses it."""
    given, wide = tuple(inputs), tuple(x.double() for x in inputs)
    math_side = Side(by(SDPBackend.MATH, theirs), given, grad)
    peers: dict[str, Side | Products] = {"torch": math_side}
    flash = Side(by(SDPBackend.FLASH_ATTENTION, theirs), given, grad)
    try:
        flash.forward()
    except RuntimeError as refusal:
        if "No available kernel" not in str(refusal):
            raise
    else:
        peers["flash"] = flash
    exact = Side(by(SDPBackend.MATH, theirs), wide, grad.double())
    return Setup(Side(ours, given, grad), peers, exact, math_side)


def _dense(heads: int, key_heads: int, queries: int, keys: int, depth: int, causal: bool, dtype: torch.dtype) -> Setup:
    q = _random(dtype, 1, heads, queries, depth)
    k, v = (_random(dtype, 1, key_heads, keys, depth, seed=seed) for seed in (8, 9))
    named: dict[str, Any] = {"is_causal": causal, "enable_gqa": heads != key_heads}
    grad = _random(dtype, 1, heads, queries, depth, seed=10)
    setup = _sides(partial(function(SDPA), **named), partial(torch_attention, **named), (q, k, v), grad)
    if not causal and queries > 1:
        setup.peers["products"] = Products.of(q, k, v, grad)
    return setup


def _masked(is_bool: bool, length: int, dtype: torch.dtype) -> Setup:
    """A mask of every query and key: half of the keys are seen, or each has a bias."""
    q, k, v, grad = (_random(dtype, 1, 8, length, 64, seed=seed) for seed in (7, 8, 9, 10))
    bias = _random(torch.float32, length, length, seed=11)
    mask = bias > 0 if is_bool else bias.to(dtype)

    def theirs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return torch_attention(q, k, v, attn_mask=mask if is_bool else mask.to(q.dtype))

    setup = _sides(partial(function(SDPA), attn_mask=mask), theirs, (q, k, v), grad)
    setup.peers["products"] = Products.of(q, k, v, grad)
    return setup


def _windowed(left: int, length: int, dtype: torch.dtype) -> Setup:
    """torch has no window: it gets a mask, made before the clock runs."""
    q, k, v, grad = (_random(dtype, 1, 8, length, 64, seed=seed) for seed in (7, 8, 9, 10))
    distance = torch.arange(length)[:, None] - torch.arange(length)
    seen = (distance >= 0) & (distance <= left)
    theirs = partial(torch_attention, attn_mask=seen)
    return _sides(partial(function(SDPA), window_size=(left, 0)), theirs, (q, k, v), grad)


def _capped(cap: float, length: int, dtype: torch.dtype) -> Setup:
    """torch has no softcap: one writes it, with float intermediates as MATH has them."""
    q, k, v, grad = (_random(dtype, 1, 8, length, 64, seed=seed) for seed in (7, 8, 9, 10))
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)

    def composed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = (q.to(wide) * (1.0 / math.sqrt(q.shape[-1]))) @ k.to(wide).mT
        weights = torch.softmax((cap * torch.tanh(scores / cap)).masked_fill(hidden, -math.inf), -1)
        return (weights @ v.to(wide)).to(q.dtype)

    plain = Side(composed, (q, k, v), grad)
    exact = Side(composed, tuple(x.double() for x in (q, k, v)), grad.double())
    ours = Side(partial(function(SDPA), softcap=cap, is_causal=True), (q, k, v), grad)
    return Setup(ours, {"torch": plain}, exact, plain)


def lengths(count: int, least: int, most: int) -> list[int]:
    """From `least` to `most`, both there, in no order."""
    generator = torch.Generator().manual_seed(3)
    drawn: list[int] = torch.randint(least, most + 1, (count - 2,), generator=generator).tolist()
    return [drawn[0], most, *drawn[1:], least]


def _packed(sizes: list[int], causal: bool, dtype: torch.dtype) -> Setup:
    """Sequences one after the other, against torch's call on arrays padded before the clock runs."""
    ends, longest = [0, *torch.tensor(sizes).cumsum(0).tolist()], max(sizes)
    q, k, v, grad = (_random(dtype, ends[-1], 8, 64, seed=seed) for seed in (7, 8, 9, 10))
    starts = torch.tensor(ends, dtype=torch.int32)
    is_token = torch.arange(longest) < torch.tensor(sizes)[:, None]

    def padded(tensor: torch.Tensor) -> torch.Tensor:
        out = tensor.new_zeros(len(sizes), longest, *tensor.shape[1:])
        out[is_token] = tensor
        return out.transpose(1, 2).contiguous()

    def usual(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.transpose(1, 2)[is_token]

    # With padding at the end, no token sees any of it where causal.
    named: dict[str, Any] = {"is_causal": True} if causal else {"attn_mask": is_token[:, None, None, :]}
    theirs = partial(torch_attention, **named)
    inputs = tuple(map(padded, (q, k, v)))
    ours = Side(partial(function(VARLEN), cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=longest,
                        max_seqlen_k=longest, causal=causal), (q, k, v), grad)  # fmt: skip
    plain = Side(by(SDPBackend.MATH, theirs), inputs, padded(grad), usual)
    exact = Side(plain.run, tuple(x.double() for x in inputs), plain.grad.double(), usual)
    return Setup(ours, {"torch": Side(theirs, inputs, plain.grad, usual)}, exact, plain)


def _paged(sizes: list[int], heads: int, key_heads: int, dtype: torch.dtype) -> Setup:
    """One step of sequences in blocks of 16 tokens, against gathering the blocks of each."""
    block, depth = 16, 128
    counts = [-(-n // block) for n in sizes]
    places = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(5)).to(torch.int32)
    tables = torch.zeros(len(sizes), max(counts), dtype=torch.int32)
    for i, part in enumerate(places.split(counts)):
        tables[i, : len(part)] = part
    q = _random(dtype, len(sizes), heads, depth)
    keys, values = (_random(dtype, sum(counts), block, key_heads, depth, seed=seed) for seed in (8, 9))

    def gathered(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(q)
        for i, (size, count) in enumerate(zip(sizes, counts, strict=True)):
            both = (c[tables[i, :count]].view(1, -1, key_heads, depth)[:, :size] for c in (keys, values))
            k, v = (part.transpose(1, 2) for part in both)  # four dimensions, or torch does not take its flash kernel
            out[i] = torch_attention(q[i, None, :, None], k, v, enable_gqa=heads != key_heads)[0, :, 0]
        return out

    inputs = (q, keys, values)
    seq_lens = torch.tensor(sizes, dtype=torch.int32)
    ours = Side(partial(function(PAGED), block_tables=tables, seq_lens=seq_lens), inputs, q)
    plain = Side(by(SDPBackend.MATH, gathered), inputs, q)
    exact = Side(plain.run, tuple(x.double() for x in inputs), q.double())
    return Setup(ours, {"torch": Side(gathered, inputs, q)}, exact, plain)


def _of(
    what: str, size: str, make: Callable[[torch.dtype], Setup], kind: str,
    targets: Mapping[str, Mapping[str, float]], is_quick: bool = True,
) -> Iterator[Row]:  # fmt: skip
    for dtype in DTYPES:
        yield Row(what, size, dtype, kind, make, targets.get(dtype, targets.get("*", {})), is_quick)


def rows() -> Iterator[Row]:
    shapes = [(8, 8, 512, 64), (8, 8, 1024, 64), (8, 8, 2048, 64), (32, 8, 1024, 128), (8, 8, 1000, 80)]
    for kind, targets in (("forward", FORWARD), ("backward", BACKWARD)):
        for heads, key_heads, length, depth in shapes:
            size = f"1x{heads}x{length}x{depth}" + (f", {key_heads} key heads" if heads != key_heads else "")
            for causal in (False, True):
                make = partial(_dense, heads, key_heads, length, length, depth, causal)
                what = "prefill, causal" if causal else "prefill"
                yield from _of(what, size, make, kind, targets, length <= 512)
    features: dict[str, Callable[..., Setup]] = {
        "bool mask": partial(_masked, True),
        "float mask": partial(_masked, False),
        "softcap 30, causal": partial(_capped, 30.0),
        "window of 256": partial(_windowed, 255),
    }
    for kind, targets in (("forward", FEATURES), ("backward", {})):
        for what, made in features.items():
            for length in (512, 1024):
                yield from _of(what, f"1x8x{length}x64", partial(made, length), kind, targets, length <= 512)
    for keys in (1024, 4096):
        for key_heads in (32, 8):
            size = f"1x32x1x128, {keys} keys" + (", 8 key heads" if key_heads == 8 else "")
            make = partial(_dense, 32, key_heads, 1, keys, 128, False)
            yield from _of("decode", size, make, "forward", DECODE, keys <= 1024)
    for key_heads in (32, 8):
        size = f"8 sequences of 100 to 4000, 32 heads, {key_heads} key heads"
        yield from _of(
            "paged", size, partial(_paged, lengths(8, 100, 4000), 32, key_heads), "forward", OTHERS, key_heads == 8
        )
    for kind, targets in (("forward", OTHERS), ("backward", {})):
        for causal in (False, True):
            what = "varlen, causal" if causal else "varlen"
            size = "16 sequences of 17 to 1000, 8 heads of 64"
            yield from _of(
                what, size, partial(_packed, lengths(16, 17, 1000), causal), kind, targets, kind == "forward"
            )
