"""CPU seconds that kernels of the corpus take to compile, each of them cold, by stage.

    python -m tests.foreign.compile_times [--only TEXT] [--mode checked|fast] [--save FILE]

Function constants that are switches are off: unaligned GEMMs and attention, the largest code that a kernel can have.
"""

from __future__ import annotations

import argparse
import functools
import json
import resource
import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metalcore.engine import pipeline
from metalcore.engine.frontend import lower
from metalcore.engine.frontend.model import Unit
from metalcore.engine.model import Variant
from metalcore.engine.optimiser import child, llvm
from tests.foreign import batch
from tests.foreign.corpus import HERE

STAGES = ("clang", "scalar", "lockstep", "code", "rest")  # code: LLVM behind lockstep; rest: reading IR, linking
# file, threads of a group, kernels
SAMPLE: tuple[tuple[str, tuple[int, int, int], str], ...] = (
    ("mlx/arange", (32, 1, 1), "arange_float32"),
    ("mlx/arg_reduce", (64, 1, 1), "argmax_float32"),
    ("mlx/binary", (32, 1, 1), "ss_Add_float32 vv_Power_float32 vv_Remainder_int32 gn4large_Add_float32"),
    ("mlx/binary", (4, 2, 2), "g3_Add_float32"),
    ("mlx/copy", (32, 1, 1), "v_copy_bfloat16_bfloat16"),
    ("mlx/copy", (4, 2, 2), "gg_copy_bfloat16_bfloat16"),
    ("mlx/cross_entropy", (96, 1, 1), "cross_entropy_float32 cross_entropy_vjp_bfloat16"),
    ("mlx/dot", (64, 1, 1), "dot_float32"),
    ("mlx/fft", (64, 1, 1), "fft_256_float32 rader_fft_256_float32"),
    ("mlx/fp_quantized", (32, 2, 1), "mxfp4_qmv_float32 mxfp4_qmv_fast_bfloat16"),
    ("mlx/fp_quantized", (32, 2, 2), "mxfp4_qmm_t_float16 mxfp4_gather_qmm_t_bfloat16"),
    ("mlx/fp_quantized", (32, 2, 1), "mxfp4_gather_qmm_rhs_bfloat16"),
    ("mlx/gated_delta_update", (32, 4, 1), "gated_delta_seq_float32 gated_delta_chunk_float32"),
    ("mlx/gemv", (32, 1, 4), "gemv_float32 gemv_axpby_bfloat16"),
    ("mlx/gemv", (32, 8, 1), "gemv_wide_float16"),
    ("mlx/gemv_masked", (32, 2, 2), "gemv_masked_float32"),
    ("mlx/hadamard", (64, 1, 1), "hadamard_n_1024_float32 hadamard_m_float16"),
    ("mlx/indexing", (8, 8, 1), "gather_front_float32 scatter_sum_float32 scatter_max_bfloat16"),
    ("mlx/layer_norm", (96, 1, 1), "layer_normfloat32 vjp_layer_normfloat32"),
    ("mlx/logsumexp", (96, 1, 1), "looped_logsumexp_float32"),
    ("mlx/quantized", (32, 1, 1), "quantize_float32_64_4 dequantize_float32_64_3"),
    ("mlx/quantized", (32, 2, 1), "qmv_float32_64_4 qvm_float16_64_4 qmv_quad_float32 qmv_float32_64_3"),
    ("mlx/quantized", (32, 2, 2), "qmm_t_float32_64_4 qmm_n_bfloat16_64_4 gather_qmm_t_bfloat16 gather_qmm_n_float16"),
    ("mlx/quantized", (32, 2, 1), "gather_qmm_rhs_t_float16 gather_qmm_rhs_n_float32"),
    ("mlx/random", (8, 1, 1), "random_bits"),
    ("mlx/reduce", (96, 1, 1), "all_Max_float32 row_simple_Sum_float32 row_looped_nd_Sum_float32"),
    ("mlx/reduce", (8, 8, 1), "col_small_Sum_float32"),
    ("mlx/reduce", (256, 1, 1), "col_looped_8_128_Sum_bfloat16 col_2pass_Sum_float32"),
    ("mlx/rms_norm", (96, 1, 1), "rmsfloat32"),
    ("mlx/scan", (128, 1, 1), "contiguous_inclusive_sum_float32 strided_inclusive_sum_float32"),
    ("mlx/sdpa", (1024, 1, 1), "sdpa_vector_64_float32 sdpa_vector_192_128_bfloat16"),
    ("mlx/softmax", (64, 1, 1), "block_softmax_float32 looped_softmax_float16"),
    ("mlx/sort", (32, 1, 1), "block_sort_float32 mb_block_sort_float16 mb_block_merge_bfloat16"),
    ("mlx/steel_attention", (32, 4, 1), "attention_64_float32 attention_128_float16 attention_128_bfloat16"),
    ("mlx/steel_conv", (32, 2, 2), "*0 *5"),
    ("mlx/steel_gemm_fused", (32, 2, 2), "gemm_nn_float32 gemm_nt_bfloat16 gemm_tt_float16"),
    ("mlx/steel_gemm_fused", (32, 2, 1), "gemm_tn_float32 gemm_tn_bfloat16"),
    ("mlx/steel_gemm_gather", (32, 2, 2), "gather_mm_nn_float32"),
    ("mlx/steel_gemm_masked", (32, 2, 2), "*0 *3"),
    ("mlx/steel_gemm_segmented", (32, 2, 2), "segmented_mm_nn_float32"),
    ("mlx/steel_gemm_splitk", (32, 2, 2), "splitk_nn_float32 splitk_nt_bfloat16"),
    ("mlx/unary", (32, 1, 1), "v_Exp_float32 v_Erf_bfloat16 v_Exp_complex64"),
    ("torch/special", (64, 1, 1), "*0 *9 polygamma"),
    ("torch/reduction", (256, 1, 1), "row_reduce_float32"),
)


@dataclass(frozen=True)
class Row:
    name: str
    seconds: dict[str, float]
    scalar_lines: int
    lockstep_lines: int

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def cpu_seconds() -> float:
    """Of this process and of the programs that it ran."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


class Clock:
    """What each stage took by itself, without the stages that it called."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.restore = ExitStack()
        self._stack: list[str] = []
        self._since = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._note()
        self._stack.append(name)
        try:
            yield
        finally:
            self._note()
            self._stack.pop()

    def _note(self) -> None:
        now = cpu_seconds()
        if self._stack:
            self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def watch(self, owner: Any, function: str, stage: str, seen: Callable[[Any], None] = lambda _: None) -> None:
        """Count a function of a module as a stage; *seen* is told what it gave."""
        inner = getattr(owner, function)

        @functools.wraps(inner)
        def timed(*args: Any, **options: Any) -> Any:
            with self.stage(stage):
                result = inner(*args, **options)
            seen(result)
            return result

        self.restore.callback(setattr, owner, function, inner)
        setattr(owner, function, timed)


class Measure:
    """Builds kernels; scalar code of large ones usually has a process of its own, here it has none."""

    def __init__(self, checked: bool) -> None:
        self.checked, self.clock = checked, Clock()
        self.lines: dict[str, int] = {}
        self.clock.restore.callback(setattr, child, "is_bounded", child.is_bounded)
        child.is_bounded = True
        self.clock.watch(llvm, "optimise_scalar", "scalar", lambda text: self._count("scalar", text))
        self.clock.watch(pipeline, "vectorise", "lockstep", lambda module: self._count("lockstep", module.ir))
        self.clock.watch(llvm, "emit_object", "code")
        self.clock.watch(child, "emit_object", "code")

    def close(self) -> None:
        """Stages are no longer watched."""
        self.clock.restore.close()

    def _count(self, stage: str, text: str) -> None:
        self.lines[stage] = text.count("\n")

    def row(self, unit: Unit, name: str, group: tuple[int, int, int]) -> Row:
        self.clock.seconds.clear()
        with self.clock.stage("clang"):
            kernel = lower(unit, name, batch.constant_choices(unit)[0])
        with self.clock.stage("rest"):
            native = pipeline.build(kernel, Variant.choose(group, self.checked))
        shutil.rmtree(Path(native.path).parent)
        seconds = {stage: self.clock.seconds[stage] for stage in STAGES}
        return Row(name, seconds, self.lines["scalar"], self.lines["lockstep"])


def chosen(only: str) -> Iterator[tuple[str, str, tuple[int, int, int]]]:
    for file, group, names in SAMPLE:
        for name in names.split():
            if only in f"{file}/{name}":
                yield file, name, group


def print_table(rows: list[Row]) -> None:
    rows = sorted(rows, key=lambda row: -row.total)
    head = "".join(f"{stage:>9}" for stage in STAGES)
    print(f"{'kernel':48}{'total':>7}{head}{'scalar':>8}{'lockstep':>10} lines")
    for row in rows:
        parts = "".join(f"{row.seconds[stage]:9.2f}" for stage in STAGES)
        print(f"{row.name[:47]:48}{row.total:7.2f}{parts}{row.scalar_lines:8}{row.lockstep_lines:10}")
    totals = [row.total for row in rows]
    sums = "  ".join(f"{stage} {sum(row.seconds[stage] for row in rows):.1f}" for stage in STAGES)
    p95 = totals[len(totals) // 20]
    print(f"{len(rows)} kernels: median {statistics.median(totals):.2f}  p95 {p95:.2f}  worst {totals[0]:.2f} CPU s")
    print(f"sum {sum(totals):.1f}: {sums}; lockstep lines {sum(row.lockstep_lines for row in rows):,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="kernels whose file/name holds this text")
    parser.add_argument("--mode", choices=("checked", "fast"), default="checked")
    parser.add_argument("--save", type=Path, help="the rows as JSON")
    given = parser.parse_args()
    measure, rows = Measure(given.mode == "checked"), []
    unit = functools.cache(lambda file: batch.read_unit(HERE / f"{file}.metal"))
    started = time.monotonic()
    for file, name, group in chosen(given.only):
        made = unit(file)
        if name.startswith("*"):
            name = made.functions[int(name[1:])]
        rows.append(measure.row(made, name, group))
        print(f"{time.monotonic() - started:5.0f} s  {name}: {rows[-1].total:.2f}", flush=True)
    measure.close()
    print_table(rows)
    if given.save:
        given.save.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
