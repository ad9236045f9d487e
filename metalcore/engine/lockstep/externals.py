"""The functions that scalar code calls and lockstep writes: one table of their names, and of what is known of each.

`docs/design/contracts.md` says what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from metalcore.engine.ir import DOUBLE, FLOAT, I32, Type

PREFIX = "__mc_"


@dataclass(frozen=True)
class Reduction:
    op: str
    type: Type
    identity: str


@dataclass(frozen=True)
class External:
    name: str  # without the prefix
    emitter: str  # what kind of code it becomes: `Body` and `Simd` know who writes it
    operands: int
    is_uniform: bool = False  # one result for all lanes
    feature: str = ""  # of a GPU family, where not all have it
    reduction: Reduction | None = None
    decided_by: int | None = None  # one result for all lanes where this operand is one for all
    is_hook: bool = False  # sanitize mode's own

    @property
    def kind(self) -> str:
        """Its last words: `rotate_up` of `simd_shuffle_rotate_up`."""
        return self.name.removeprefix("simd_").removeprefix("shuffle_")


_INFINITY, _MINUS_INFINITY = "0x7FF0000000000000", "0xFFF0000000000000"
_REDUCTIONS = {
    "sum_f32": Reduction("fadd", FLOAT, "0.0"),
    "product_f32": Reduction("fmul", FLOAT, "1.0"),
    "sum_f64": Reduction("fadd", DOUBLE, "0.0"),
    "product_f64": Reduction("fmul", DOUBLE, "1.0"),
    "sum_i32": Reduction("add", I32, "0"),
    "sum_u32": Reduction("add", I32, "0"),
    "product_i32": Reduction("mul", I32, "1"),
    "product_u32": Reduction("mul", I32, "1"),
    "min_i32": Reduction("smin", I32, "2147483647"),
    "max_i32": Reduction("smax", I32, "-2147483648"),
    "min_u32": Reduction("umin", I32, "-1"),
    "max_u32": Reduction("umax", I32, "0"),
    "min_f32": Reduction("minimum", FLOAT, _INFINITY),
    "max_f32": Reduction("maximum", FLOAT, _MINUS_INFINITY),
    "min_f64": Reduction("minimum", DOUBLE, _INFINITY),
    "max_f64": Reduction("maximum", DOUBLE, _MINUS_INFINITY),
    "and_u32": Reduction("and", I32, "-1"),
    "or_u32": Reduction("or", I32, "0"),
    "xor_u32": Reduction("xor", I32, "0"),
}
_PERMUTE, _REDUCE, _FILL = "simd-permute", "simd-reduction", "simd-shift-and-fill"
_SHIFTS = ("xor", "up", "down", "rotate_up", "rotate_down")
ATTRIBUTES = (
    *("thread_position_in_grid", "threadgroup_position_in_grid", "thread_position_in_threadgroup"),
    *("threads_per_threadgroup", "threads_per_grid", "threadgroups_per_grid", "dispatch_threads_per_threadgroup"),
    *("thread_index_in_threadgroup", "thread_index_in_simdgroup", "simdgroup_index_in_threadgroup"),
    *("simdgroups_per_threadgroup", "dispatch_simdgroups_per_threadgroup", "threads_per_simdgroup"),
    *("quadgroup_index_in_threadgroup", "thread_index_in_quadgroup"),
    *("quadgroups_per_threadgroup", "dispatch_quadgroups_per_threadgroup"),
)
_TABLE = (
    *(External(name, "argument", 1, is_uniform=True) for name in ("arg", "threadgroup_arg")),
    *(External(name, "attribute", 1) for name in ATTRIBUTES),  # uniform or not: ids.py, by the group's layout
    External("threadgroup_barrier", "barrier", 1),
    External("simdgroup_barrier", "barrier", 1),
    External("fence", "barrier", 3),
    *(External(f"simd_{n}", "reduce", 1, True, _REDUCE, how) for n, how in _REDUCTIONS.items()),
    *(
        External(f"simd_prefix_{kind}_{n}", f"{kind} scan", 1, False, _REDUCE, how)
        for kind in ("inclusive", "exclusive")
        for n, how in _REDUCTIONS.items()
        if n.startswith(("sum", "product"))
    ),
    External("simd_shuffle", "shuffle", 2, feature=_PERMUTE, decided_by=1),
    *(External(f"simd_shuffle_{how}", "shuffle", 2, feature=_PERMUTE) for how in _SHIFTS),
    *(External(f"simd_{name}", "shuffle", 4, feature=_FILL) for name in ("fill_up", "fill_down")),
    External("simd_take", "take", 2, decided_by=1),  # a shuffle of the headers' own
    External("simd_broadcast", "broadcast", 2, True, _PERMUTE),
    External("simd_broadcast_first", "first", 1, True, _PERMUTE),
    *(External(f"simd_{name}", "vote", 1, True, _PERMUTE) for name in ("ballot", "any", "all")),
    External("simd_active_threads_mask", "vote", 0, True),
    External("simd_is_first", "vote", 0, feature=_PERMUTE),
    External("simdgroup_mma_f32", "matrix", 6, feature="simdgroup-matrix"),
    *(External(f"simdgroup_load_{bits}", "matrix", 3) for bits in ("b32", "b16")),
    *(External(f"simdgroup_store_{bits}", "matrix", 5) for bits in ("b32", "b16")),
    *(External(name, "access", 2, is_hook=True) for name in ("read", "copy", "touch_atomically", "load_atomically")),
    *(External(name, "access", 3, is_hook=True) for name in ("write", "store_atomically")),
    External("has_no_value", "value", 2, is_uniform=True, is_hook=True),  # a bit for each lane
    External("lose_value", "loss", 3, is_hook=True),
    External("report_if", "report", 2),
    External("report_unset", "report", 2, is_hook=True),
    External("tell", "tell", 2),
)
EXTERNALS = {PREFIX + external.name: external for external in _TABLE}
