"""Many hostile launches over several processes, with counts by family and mode."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.case import Verdict
from tests.hostile.generate import family_of, generate
from tests.hostile.guarded import Pages
from tests.hostile.make_launch import make_launch
from tests.hostile.printer import msl
from tests.hostile.shrink import shrink
from tests.hostile.worker import MODES, Worker

KEPT = "checked, every test kept"
KEEP_TESTS = {"METALCORE_KEEP_TESTS": "1"}


@dataclass(frozen=True)
class Failure:
    seed: int
    number: int
    mode: str
    kind: str
    detail: str

    @property
    def text(self) -> str:
        where = f"seed {self.seed} ({family_of(self.seed)}), launch {self.number}, {self.mode}"
        return f"{where}: {self.kind}: {self.detail}"


@dataclass
class Counts:
    """What was run. Keys are `family/mode`."""

    launches: Counter[str] = field(default_factory=Counter)
    inside: Counter[str] = field(default_factory=Counter)
    kernels: int = 0
    failures: list[Failure] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)  # seed -> launches

    @property
    def total(self) -> int:
        return sum(self.launches.values())

    def add(self, seed: int, number: int, mode: str, inside: bool, verdict: Verdict) -> None:
        key = f"{family_of(seed)}/{mode}"
        self.launches[key] += 1
        self.inside[key] += inside
        if not verdict.good:
            self.failures.append(Failure(seed, number, mode, verdict.kind, verdict.detail))

    def to_json(self) -> str:
        failures = [vars(f) for f in self.failures]
        data = {"launches": self.launches, "inside": self.inside, "kernels": self.kernels, "done": self.done}
        return json.dumps({**data, "failures": failures})

    @classmethod
    def from_json(cls, text: str) -> Counts:
        data = json.loads(text)
        failures = [Failure(**f) for f in data["failures"]]
        return cls(Counter(data["launches"]), Counter(data["inside"]), data["kernels"], failures, data["done"])


class Runner:
    """Takes seeds one after another until enough launches are done."""

    def __init__(
        self,
        processes: int = 1,
        launches: int = 30,
        modes: tuple[str, ...] = MODES,
        keep_tests: bool = False,
        timeout: float = 60.0,
    ) -> None:
        self.processes, self.per_kernel, self.modes = processes, launches, modes
        self.keep_tests, self.timeout = keep_tests, timeout
        self.counts = Counts()
        self.lock = threading.Lock()
        self.state: Path | None = None

    def one(self, seed: int, plain: Worker, kept: Worker) -> None:
        found = [*plain.seed(seed, self.per_kernel, self.modes)]
        if self.keep_tests:
            for n, mode, inside, v in kept.seed(seed, self.per_kernel, ("checked",)):
                found.append((n, KEPT if mode == "checked" else mode, inside, v))
        with self.lock:
            self.counts.kernels += 1
            for number, mode, inside, verdict in found:
                self.counts.add(seed, number, mode, inside, verdict)
            self.counts.done[str(seed)] = len(found)
            if self.state is not None:
                part = self.state.with_suffix(".part")
                part.write_text(self.counts.to_json())
                part.replace(self.state)

    def run(self, seeds: Iterable[int], most: int | None = None, tell: float = 0.0, stop: int = 0) -> Counts:
        """Runs seeds until `most` launches are done, or `stop` failures are found; a line every `tell` seconds."""
        source = iter(seeds)
        ended = threading.Event()

        def feed() -> int | None:
            with self.lock:
                if most is not None and self.counts.total >= most:
                    return None
                if ended.is_set() or (stop and len(self.counts.failures) >= stop):
                    return None
                return next((s for s in source if str(s) not in self.counts.done), None)

        def work() -> None:
            plain = Worker(self.timeout)
            kept = Worker(self.timeout, KEEP_TESTS)
            try:
                while (seed := feed()) is not None:
                    self.one(seed, plain, kept)
            finally:
                plain.close()
                kept.close()

        threads = [threading.Thread(target=work) for _ in range(self.processes)]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(max(tell, 0.2) / len(threads))
                if tell:
                    c = self.counts
                    goal = f" of {most}" if most else ""
                    line = f"{c.total}{goal} launches, {c.kernels} kernels, {len(c.failures)} failures"
                    print(f"{line}, {time.monotonic() - start:.0f} s", flush=True)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        return self.counts


def explain(failure: Failure, seconds: float = 60.0) -> str:
    """The failing launch, made small, with its source."""
    kernel = generate(failure.seed)
    head = failure.text
    if failure.number < 0:
        return f"{head}\n{msl(kernel)}"
    made = make_launch(kernel, failure.number, Pages())
    if made is None:
        return f"{head}\n(the launch could not be drawn again)\n{msl(kernel)}"
    environment = KEEP_TESTS if failure.mode == KEPT else {}
    mode = "checked" if failure.mode == KEPT else failure.mode
    worker = Worker(environment=environment)
    last = Verdict(failure.kind, failure.detail)

    def fails(case: object) -> bool:
        nonlocal last
        verdict = worker.case(*case, mode)  # type: ignore[misc]
        same = verdict.kind == failure.kind
        if same:
            last = verdict
        return same

    small, launch = shrink((kernel, made[0]), fails, seconds)
    worker.close()
    owns = {n: v[:40] for n, v in launch.owns.items()}
    lines = [head, f"smallest: {last.kind}: {last.detail}", f"threads={launch.shape.threads}, "]
    lines[-1] += f"group_size={launch.shape.group}, mode {failure.mode}"
    lines += [f"b = {launch.params}", f"v = {owns}", f"constants = {dict(small.constants)}"]
    arrays = [f"{a.name}: {launch.shape.elements(a)} x {a.element.name}" for a in small.arrays]
    return "\n".join([*lines, f"arrays: {', '.join(arrays)}", msl(small)])
