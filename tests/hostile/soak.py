"""Everything at once: `python -m tests.hostile.soak --seconds 60 --seed 1`.

Threads launch and compile, the process forks in their midst, SIGINT and SIGALRM come at random times, and files of the
cache vanish or are replaced by damaged ones. Every result is compared; nothing may crash or hang.
"""

from __future__ import annotations

import faulthandler
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

SOURCE = """
kernel void scale(device const uint* x, device uint* y, constant uint& n, uint i [[thread_position_in_grid]]) {
  uint a[4]; for (uint j = 0; j < 4; j++) a[j] = x[(i + j) % n];
  y[i] = a[x[i] & 3u] * FACTORu + i;
}
kernel void turn(device const uint* x, device uint* y, uint i [[thread_position_in_grid]],
                 uint t [[thread_index_in_threadgroup]], uint w [[threads_per_threadgroup]]) {
  threadgroup uint s[256]; s[t] = x[i] ^ FACTORu; threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = s[w - 1 - t];
}
kernel void outside(device const uint* x, device uint* y, uint i [[thread_position_in_grid]]) { y[i] = x[i + FACTORu]; }
kernel void slow(device uint* y, constant uint& rounds, uint i [[thread_position_in_grid]]) {
  uint v = i; for (uint j = 0; j < rounds; j++) v = v * 1664525u + FACTORu; y[i] = v;
}
"""
N, GROUP = 1024, 128
KINDS = (("scale", "checked"), ("scale", "fast"), ("turn", "checked"), ("outside", "checked"), ("outside", "sanitize"))
KINDS += (("slow", "checked"),)


def source(factor: int) -> str:
    return "using namespace metal;\n" + SOURCE.replace("FACTOR", str(factor))


class Wrong(Exception):
    """A result that is not what it must be."""


def check(library: Any, factor: int, r: random.Random, kind: tuple[str, str] | None = None) -> str:
    """One launch, compared with NumPy."""
    import metalcore

    name, mode = kind or r.choice(KINDS)
    x = np.frombuffer(r.randbytes(4 * N), np.uint32).copy()
    y = np.zeros(N, np.uint32)
    i = np.arange(N, dtype=np.uint32)
    function = library.function(name)
    with metalcore.mode(mode) as report, np.errstate(over="ignore"):
        if name == "scale":
            function(x, y, N, threads=N, group_size=GROUP)
            want = x[(i + (x & 3)) % N] * np.uint32(factor) + i
        elif name == "turn":
            function(x, y, threads=N, group_size=GROUP)
            want = (x ^ np.uint32(factor)).reshape(-1, GROUP)[:, ::-1].reshape(-1)
        elif name == "slow":
            function(y, 3, threads=N, group_size=GROUP)
            want = i
            for _ in range(3):
                want = want * np.uint32(1664525) + np.uint32(factor)
        else:
            try:
                function(x, y, threads=N, group_size=GROUP)
                if mode == "checked":
                    raise Wrong("an access out of bounds was not reported")
            except metalcore.errors.KernelFault:
                pass
            if mode == "sanitize" and not any(f.kind == "out-of-bounds" for f in report.findings):
                raise Wrong("the sanitizer has not seen an access out of bounds")
            want = np.concatenate([x[factor:], np.zeros(min(factor, N), np.uint32)])[:N]
    if not (y == want).all():
        raise Wrong(f"{name} with {factor} in mode {mode}: {int((y != want).sum())} of {N} values are wrong")
    return f"{name}, {mode}"


class Soak:
    def __init__(self, seconds: float, seed: int, cache: Path) -> None:
        self.seconds, self.end = seconds, 0.0
        self.seed, self.cache = seed, cache
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.lock = threading.Lock()
        self.factors = 0

    @property
    def going(self) -> bool:
        return time.monotonic() < self.end and not self.problems

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1

    def library(self) -> tuple[Any, int]:
        """A source that was never compiled before."""
        import metalcore

        with self.lock:
            self.factors += 1
            factor = self.factors
        made = metalcore.Library(source(factor))
        self.count("libraries compiled")
        return made, factor

    def guarded(self, step: Callable[[], None]) -> None:
        """Steps until the time is over. KeyboardInterrupt is what SIGINT must bring, in whatever thread launches."""
        while self.going:
            try:
                step()
            except KeyboardInterrupt:
                self.counts["interrupts"] += 1
            except BaseException:
                self.problems.append(traceback.format_exc())

    def launches(self, number: int) -> None:
        r = random.Random(f"{self.seed}/{number}")

        def step() -> None:
            made, factor = self.library() if r.random() < 0.004 else self.warm
            self.count(check(made, factor, r))

        self.guarded(step)

    def damage(self) -> None:
        """Deletes files of the cache, or puts damaged ones in their place."""
        r = random.Random(f"{self.seed}/damage")

        def step() -> None:
            time.sleep(r.uniform(0.01, 0.2))
            files = [p for p in self.cache.rglob("*") if p.is_file() and not p.name.startswith(".damage")]
            if not files:
                return
            path = r.choice(files)
            try:
                if r.random() < 0.4:
                    path.unlink()
                    self.count("cache files deleted")
                    return
                data = bytearray(path.read_bytes())
                if data and r.random() < 0.5:
                    data[r.randrange(len(data))] ^= 0x55
                else:
                    data = data[: len(data) // 2]
                # A new file in its place: what a process has mapped stays as it was.
                part = path.with_name(f".damage-{r.randrange(1 << 30)}")
                part.write_bytes(data)
                shutil.copymode(path, part)
                part.replace(path)
                self.count("cache files damaged")
            except FileNotFoundError:
                pass

        self.guarded(step)

    def fork(self, made: Any, factor: int, r: random.Random) -> None:
        """A child that launches and compiles, while the other threads of the parent do so."""
        signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGALRM})
        child = os.fork()
        if not child:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                check(made, factor, r)
                import metalcore

                number = 1_000_000 + r.randrange(1 << 20)
                fresh = metalcore.Library(source(number % 900 + 1))
                check(fresh, number % 900 + 1, r)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
        try:
            limit = time.monotonic() + 40
            while time.monotonic() < limit:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid:
                    if status:
                        self.problems.append(f"a child ended with {os.waitstatus_to_exitcode(status)}")
                    self.count("forks")
                    return
                time.sleep(0.01)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.problems.append("a child of fork hangs")
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)

    def main(self) -> None:
        """The main thread: it has the signals."""
        r = random.Random(f"{self.seed}/main")
        alarms = [0]

        def alarm(*_: Any) -> None:
            alarms[0] += 1
            signal.setitimer(signal.ITIMER_REAL, r.uniform(0.01, 0.2))

        before = signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts programs in the background without it
        self.warm = self.library()
        for kind in KINDS:
            check(*self.warm, r, kind)
        self.end = time.monotonic() + self.seconds
        threads = [threading.Thread(target=self.launches, args=(n,), daemon=True) for n in (1, 2)]
        threads.append(threading.Thread(target=self.damage, daemon=True))
        for thread in threads:
            thread.start()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        last = [time.monotonic()]

        def step() -> None:
            made, factor = self.warm
            kind = r.random()
            if kind < 0.005:
                self.count(check(*self.library(), r))
            elif time.monotonic() - last[0] > 0.7:
                last[0] = time.monotonic()
                self.fork(made, factor, r)
            elif kind < 0.05:
                # It would take minutes: only the signal ends it.
                timer = threading.Timer(r.uniform(0.0, 0.1), os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                began = time.monotonic()
                try:
                    made.function("slow")(np.zeros(N, np.uint32), 0xFFFFFFFF, threads=N, group_size=GROUP)
                    self.problems.append("a kernel of minutes ended by itself")
                except KeyboardInterrupt:
                    self.count("kernels stopped by SIGINT")
                finally:
                    timer.join()
                if time.monotonic() - began > 20:
                    self.problems.append(f"a kernel was stopped after {time.monotonic() - began:.0f} s")
            else:
                self.count(check(made, factor, r))

        self.guarded(step)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        for thread in threads:
            thread.join(60)
            if thread.is_alive():
                self.problems.append(f"{thread.name} hangs")
        self.counts["SIGALRM handled"] = alarms[0]


@click.command()
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--patience", default=120.0, show_default=True, help="Seconds beyond which it counts as hanging.")
def main(seconds: float, seed: int, patience: float) -> None:
    """Runs in a cache of its own, which is damaged on the way."""
    with tempfile.TemporaryDirectory(prefix="metalcore-soak-") as folder:
        os.environ["METALCORE_CACHE"] = folder
        faulthandler.dump_traceback_later(3 * seconds + patience, exit=True)  # where everybody waits, if they do
        soak = Soak(seconds, seed, Path(folder))
        soak.main()
    for what, count in sorted(soak.counts.items()):
        print(f"{count:7,} {what}")
    for problem in soak.problems:
        print(problem)
    sys.stdout.flush()
    os._exit(1 if soak.problems else 0)  # a thread that hangs must not keep the process


if __name__ == "__main__":
    main()
