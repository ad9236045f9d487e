"""Counts outcomes, and writes them as a table, as JSON and into docs/sanitizer.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.sanitizer.mutation.judge import Outcome
from tests.sanitizer.mutation.mutants import BARRIER, BOUND, INDEX

TARGET = 0.95
PAGE = Path(__file__).parents[3] / "docs" / "sanitizer.md"
BEGIN, END = "<!-- mutation:begin -->", "<!-- mutation:end -->"
WORDS = {
    BARRIER: "barrier deleted or weakened",
    BOUND: "bound widened, guard dropped",
    INDEX: "index shifted, stride changed, x and y swapped",
}
# Why sanitize mode cannot see a mutant that counts, by kernel and changed line; look at one that is not here.
_ATOMIC = "Every access is atomic: no race, and the order in which the threads come is the program's affair."
_IN_BOUNDS = "The element is in bounds, of this threadgroup, and a barrier lies between: a plain wrong answer."
REASONS: dict[tuple[str, str], str] = {
    ("histogram", ";"): _ATOMIC,
    ("histogram", "simdgroup_barrier(mem_flags::mem_threadgroup);"): _ATOMIC,
    ("block_scan", "for (uint g = 0; g <= group; ++g) before += totals[g];"): _IN_BOUNDS,
    ("segmented_sum", "for (uint j = 0; j <= 8; ++j) total += scratch[s * size + j];"): _IN_BOUNDS,
    ("segmented_sum", "for (uint j = 0; j < 8 + 3; ++j) total += scratch[s * size + j];"): _IN_BOUNDS,
}


def reason(outcome: Outcome) -> str:
    return REASONS.get((outcome.kernel, outcome.after), "The reason is not known.")


class Summary:
    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = sorted(outcomes, key=lambda o: (o.kernel, int(o.id.rsplit("-", 1)[1])))
        self.counted = [o for o in self.outcomes if o.is_counted]
        self.found = [o for o in self.counted if o.is_found]
        self.missed = [o for o in self.counted if not o.is_found]
        self.plain = [o for o in self.outcomes if o.is_plain_wrong]
        self.broken = [o for o in self.outcomes if o.error]

    @property
    def rate(self) -> float:
        return len(self.found) / len(self.counted) if self.counted else 0.0

    @property
    def is_met(self) -> bool:
        return self.rate >= TARGET

    def rows(self) -> list[tuple[str, int, int, int, int, str]]:
        """For each family and in all: mutants, result changed, counted, found, share."""
        made = []
        for family, words in (*WORDS.items(), ("", "all")):
            mine = [o for o in self.outcomes if family in ("", o.family)]
            counted = [o for o in mine if o.is_counted]
            found = sum(o.is_found for o in counted)
            share = f"{found / len(counted):.1%}" if counted else "-"
            made.append((words, len(mine), sum(o.changed for o in mine), len(counted), found, share))
        return made

    def json(self, seed: int) -> str:
        data: dict[str, Any] = {
            "seed": seed,
            "mutants": len(self.outcomes),
            "counted": len(self.counted),
            "found": len(self.found),
            "rate": round(self.rate, 4),
            "target": TARGET,
            "kinds": dict(sorted(Counter(kind for o in self.found for kind in o.kinds).items())),
            "missed": [{**o.data(), "reason": reason(o)} for o in self.missed],
            "outcomes": [o.data() for o in self.outcomes],
        }
        return json.dumps(data, indent=1) + "\n"

    def markdown(self) -> str:
        lines = [
            "| change | mutants | result changes | counted | found | |",
            "|---|--:|--:|--:|--:|--:|",
            *(f"| {w} | {n} | {c} | {k} | {f} | {share} |" for w, n, c, k, f, share in self.rows()),
            "",
        ]
        quiet = [o for o in self.outcomes if o.is_found and not o.is_counted]
        lines.append(
            f"Found too, although no schedule changed the result or the change stays in its buffer: {len(quiet)}. "
            f"Index mutants that are plain wrong answers, in bounds and without a collision: {len(self.plain)}, "
            f"of which {sum(o.is_found for o in self.plain)} are found. Not compiled or not ended: {len(self.broken)}."
        )
        if self.missed:
            lines += ["", "Not found:", ""]
            lines += [f"- `{o.kernel}` line {o.line}, {o.change}: `{o.after}`. {reason(o)}" for o in self.missed]
        return "\n".join(lines)

    def write_docs(self) -> None:
        text = PAGE.read_text()
        if BEGIN not in text or END not in text:
            raise SystemExit(f"{PAGE.name} has no {BEGIN} and {END} to write between")
        before, rest = text.split(BEGIN, 1)
        after = rest.split(END, 1)[1]
        PAGE.write_text(f"{before}{BEGIN}\n{self.markdown()}\n{END}{after}")
