"""CPU seconds that kernels take to compile in sanitize mode, against fast mode, each of them cold, by stage.

    python -m tests.sanitizer.compile_times [--only TEXT] [--times N] [--save FILE]

Both modes get the same scalar IR and the same group size, and clang's run counts for each of them. Of N times the
quickest one is shown. Exit status 1: a kernel takes more than MOST times as long.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import math
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metalcore.engine import pipeline
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.frontend.model import Unit
from metalcore.engine.model import Variant
from metalcore.health.routes import Recorder, on_runtime
from metalcore.health.verify import draw_sample
from metalcore.ops import find
from metalcore.runtimes.kernel import Variant as Launched
from metalcore.runtimes.text import engine_text, include_dirs
from tests.foreign import batch, compile_times
from tests.foreign.corpus import HERE

STAGES = ("clang", "hooks", "scalar", "lockstep", "code", "rest")
MOST = 2.0
Group = tuple[int, int, int]
OWN = HERE.parent.parent / "benchmarks" / "kernels"
# File of benchmarks/kernels, threads of a group, kernels
BENCHMARKS: tuple[tuple[str, Group, str], ...] = (
    ("elementwise", (1024, 1, 1), "saxpy silu gelu"),
    ("norm", (32, 1, 1), "rms_norm layer_norm softmax"),
    ("norm", (256, 1, 1), "rms_norm layer_norm softmax"),
    ("reduce", (32, 1, 1), "chunk_sum row_scan"),
    ("reduce", (256, 1, 1), "row_sum row_scan"),
    ("gemm", (32, 16, 1), "gemm_tiled"),
    ("gemm", (128, 1, 1), "gemm_simdgroup"),
    ("sort", (512, 1, 1), "bitonic_sort"),
)
# Op, dtype, family whose launches are taken: forward and gradient
OPS: tuple[tuple[str, str, str], ...] = (
    ("rms_norm", "float32", "cpu"),
    ("rms_norm", "bfloat16", "apple"),
    ("layer_norm", "float32", "cpu"),
    ("softmax", "float32", "cpu"),
    ("cross_entropy", "float32", "cpu"),
    ("swiglu", "bfloat16", "cpu"),
    ("rope", "float32", "cpu"),
    ("scaled_dot_product_attention", "float32", "cpu"),
    ("scaled_dot_product_attention", "bfloat16", "apple"),
    ("mlstm_chunkwise", "float32", "cpu"),
    ("matmul_int4", "float32", "cpu"),
    ("linalg_qr", "float32", "cpu"),
    ("linalg_cholesky", "float32", "cpu"),
)
# File of tests/foreign, threads of a group, kernels
FOREIGN: tuple[tuple[str, Group, str], ...] = (
    ("mlx/steel_gemm_fused", (32, 2, 2), "gemm_nn_float32"),
    ("mlx/quantized", (32, 2, 1), "qmv_float32_64_4"),
    ("mlx/scan", (128, 1, 1), "contiguous_inclusive_sum_float32"),
    ("mlx/reduce", (96, 1, 1), "all_Max_float32 row_looped_nd_Sum_float32"),
    ("mlx/reduce", (256, 1, 1), "col_looped_8_128_Sum_bfloat16"),
    ("mlx/softmax", (64, 1, 1), "block_softmax_float32"),
    ("mlx/rms_norm", (96, 1, 1), "rmsfloat32"),
    ("mlx/gemv", (32, 1, 4), "gemv_float32"),
)


@dataclass(frozen=True)
class Item:
    """A kernel with what it is compiled for."""

    name: str
    unit: Unit
    function: str
    constants: dict[int | str, object]
    group: Group


@dataclass(frozen=True)
class Row:
    name: str
    fast: dict[str, float]
    sanitize: dict[str, float]
    fast_lines: int
    sanitize_lines: int

    @property
    def seconds(self) -> tuple[float, float]:
        return sum(self.fast.values()), sum(self.sanitize.values())

    @property
    def ratio(self) -> float:
        fast, sanitize = self.seconds
        return sanitize / fast


class Measure(compile_times.Measure):
    """Builds a kernel in both modes."""

    def __init__(self) -> None:
        super().__init__(checked=False)
        self.clock.watch(pipeline, "instrument", "hooks")

    def both(self, item: Item, times: int = 1) -> Row:
        plain = Variant.choose(item.group, checked=False)
        variants = plain, plain.with_checks((), clipped=False)
        least: list[dict[str, float]] = [{}, {}]
        lines = [0, 0]
        for _ in range(times):
            with self._stages() as clang, self.clock.stage("clang"):
                kernel = lower(item.unit, item.function, item.constants)
            for i, variant in enumerate(variants):
                gc.collect()  # what others left is not counted for whoever comes next
                with self._stages() as seconds, self.clock.stage("rest"):
                    native = pipeline.build(kernel, variant)
                shutil.rmtree(Path(native.path).parent)
                taken = seconds | {"clang": clang["clang"]}
                if not least[i] or sum(taken.values()) < sum(least[i].values()):
                    least[i] = taken
                lines[i] = self.lines["lockstep"]
        return Row(item.name, least[0], least[1], lines[0], lines[1])

    def _stages(self) -> _Stages:
        return _Stages(self.clock)


class _Stages:
    """Seconds of each stage inside of a block."""

    def __init__(self, clock: compile_times.Clock) -> None:
        self._clock = clock

    def __enter__(self) -> dict[str, float]:
        self._clock.seconds.clear()
        self._seconds: dict[str, float] = {}
        return self._seconds

    def __exit__(self, *_: object) -> None:
        self._seconds |= {stage: self._clock.seconds[stage] for stage in STAGES}


def of_files() -> Iterator[tuple[str, Path, str, Group]]:
    for folder, table in ((OWN, BENCHMARKS), (HERE, FOREIGN)):
        for file, group, names in table:
            for name in names.split():
                yield f"{file}/{name} {math.prod(group)}", folder / f"{file}.metal", name, group


def of_ops(op: str, dtype: str, family: str) -> Iterator[tuple[str, Launched, Group]]:
    """What the first case of an op launches; nothing is run."""
    found: dict[str, tuple[Launched, Group]] = {}
    run = Recorder()
    run.family = family
    on_runtime(run, find(op), draw_sample(find(op), 0), dtype, 0)
    for launch in run.launches:
        width, height, depth = (*launch.group_size, 1, 1)[:3]
        group = (width, height, depth)
        found.setdefault(f"{launch.variant.label} {math.prod(group)}", (launch.variant, group))
    for name, (variant, group) in found.items():
        yield f"{op} {family}/{name}", variant, group


def chosen(only: str) -> Iterator[Item]:
    unit = functools.cache(batch.read_unit)
    for name, path, function, group in of_files():
        if only in name:
            made = unit(path)
            yield Item(name, made, function, batch.constant_choices(made)[0], group)
    for op, dtype, family in OPS:
        for name, variant, group in of_ops(op, dtype, family):
            if only in name:
                constants: dict[int | str, Any] = dict(zip(variant.kernel.constants, variant.constants, strict=True))
                folders = list(include_dirs())
                made = make_unit(engine_text(variant), path=None, include_dirs=folders, defines={}, math_mode="safe")
                yield Item(name, made, variant.entry_point, constants, group)


def print_table(rows: list[Row]) -> None:
    head = "".join(f"{stage:>16}" for stage in STAGES)
    print(f"{'kernel (CPU s, fast and sanitize)':60}{'ratio':>6}{'total':>14}{head}{'lines':>17}")
    for row in sorted(rows, key=lambda row: -row.ratio):
        total = "{:7.2f}{:7.2f}".format(*row.seconds)
        parts = "".join(f"{row.fast[stage]:9.3f}{row.sanitize[stage]:7.3f}" for stage in STAGES)
        print(f"{row.name[:59]:60}{row.ratio:6.2f}{total}{parts}{row.fast_lines:9}{row.sanitize_lines:8}")
    fast, sanitize = ({stage: sum(getattr(row, of)[stage] for row in rows) for stage in STAGES} for of in MODES)
    for mode, seconds in zip(MODES, (fast, sanitize), strict=True):
        sums = "  ".join(f"{stage} {seconds[stage]:.2f}" for stage in STAGES)
        print(f"{mode}: {sum(seconds.values()):.2f} CPU s: {sums}")
    mean = math.exp(sum(math.log(row.ratio) for row in rows) / len(rows))
    above = sum(row.ratio > MOST for row in rows)
    print(f"{len(rows)} kernels: geometric mean {mean:.2f}, worst {max(row.ratio for row in rows):.2f}; ", end="")
    print(f"above {MOST:g}: {above}")


MODES = ("fast", "sanitize")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    parser.add_argument("--times", type=int, default=1, help="how often each is compiled")
    parser.add_argument("--save", type=Path, help="the rows as JSON")
    given = parser.parse_args()
    measure, rows = Measure(), []
    for item in chosen(given.only):
        rows.append(measure.both(item, given.times))
        print(f"{rows[-1].ratio:5.2f}  {item.name}", file=sys.stderr, flush=True)
    measure.close()
    print_table(rows)
    if given.save:
        given.save.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 1 if any(row.ratio > MOST for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
