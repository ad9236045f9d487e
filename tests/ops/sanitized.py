"""Every kernel of the library under the sanitizer, on the launches of a CPU and of a GPU.

python -m tests.ops.sanitized [OP...]       exit status 0: nothing was found
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from itertools import product

import metalcore
from metalcore.arrays.torch import TorchArrays
from metalcore.health import routes
from metalcore.health.verify import draw_sample
from metalcore.ops import find, nouns
from metalcore.runtimes.cpu import CpuRuntime
from tests.ops import attention_cases, sequence_cases

CASES = 4
MORE = {
    "scaled_dot_product_attention": attention_cases.launched_otherwise,
    "paged_attention": sequence_cases.launched_otherwise,
}
"""Cases beside the fuzzed ones, with their dtype: of kernels that are chosen by size."""
FAMILIES = ("cpu", "apple")


@dataclass
class Found:
    """What one op did under the sanitizer."""

    noun: str
    launches: set[str] = field(default_factory=set)
    findings: list[str] = field(default_factory=list)


class Noting(CpuRuntime):
    """The engine's runtime, which writes down the variants that it runs."""

    def __init__(self, family: str, found: Found, keeps_arguments: bool = False) -> None:
        super().__init__(TorchArrays(), family)
        self._found, self.keeps_arguments = found, keeps_arguments

    def prepared(self, kernel, types, constants):  # type: ignore[no-untyped-def]
        self._found.launches.add(f"{kernel.name} {self.family}")
        return super().prepared(kernel, types, constants)


def examine(noun: str, dtype: str = "float32", cases: int = CASES, families: tuple[str, ...] = FAMILIES) -> Found:
    """The first cases of an op, forward and backward, and those that reach its other kernels; of one that writes in
    place, the form for mlx too."""
    op, found = find(noun), Found(noun)
    chosen = [(str(i), draw_sample(op, i), dtype) for i in range(cases)]
    chosen += [(str(sample.label), sample, of) for sample, of in MORE.get(noun, list)()]
    for family, keeps in product(families, (False, True) if op.written else (False,)):
        run = Noting(family, found, keeps)
        for index, (label, sample, of) in enumerate(chosen):
            with metalcore.mode("sanitize") as report:
                routes.on_runtime(run, op, sample, of, index)
            found.findings += [f"{noun} {family} case {label}: {f}" for f in report.findings]
    return found


def main() -> int:
    chosen = sys.argv[1:] or nouns()
    failed = 0
    for noun in chosen:
        found = examine(noun)
        failed += len(found.findings)
        print(f"{noun}: {len(found.launches)} kernels ({', '.join(sorted(found.launches))}), ", end="")
        print("nothing found" if not found.findings else f"{len(found.findings)} findings", flush=True)
        for line in found.findings:
            print(f"  {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
