"""Kernels that do not end: Ctrl-C, handlers of signals, timeouts. Each program is a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOPS = {
    "counted": "for (ulong j = 0; j < 1000000000000ul; j++) s = s * 1664525u + b[j & 63];",
    "counted_down": "for (long j = 1000000000000l; j > 0; j -= 3) s = s * 1664525u + b[j & 63];",
    "never_met": "for (uint j = 1; j != 0x80000000u; j += 2) s = s * 1664525u + b[j & 63];",
    "strided": "for (uint j = i; j < 0xfffffff0u; j += n[0]) s = s * 1664525u + b[j & 63];",
    "all_numbers": "for (uint j = 0; j <= n[2]; j++) s = s * 1664525u + b[j & 63];",
    "signed_start": "for (int j = int(n[3]); j < int(n[4]); j++) s = s * 1664525u + b[j & 63];",
    "divergent": "for (ulong j = i; j < 1000000000000ul + i; j++) s = s * 1664525u + b[j & 63];",
    "small_inside": "for (ulong j = 0; j < END; j++) for (uint k = 0; k < 64; k++) s += b[k ^ (s & 63)];",
    "endless": "while (o[i] == 0) s++;",
    "short_counter": "for (ushort j = 0; j != n[1]; j += 2) s = s * 1664525u + b[j & 63];",
    "compare_and_swap": """device atomic_uint* a = (device atomic_uint*)o; uint want = 7;
        constexpr auto order = memory_order_relaxed;
        while (!atomic_compare_exchange_weak_explicit(a, &want, 8u, order, order)) want = 7;
        s = want;""",
    "barriers": "for (ulong j = 0; j < END; j++) { threadgroup_barrier(mem_flags::mem_threadgroup); s += b[j & 63]; }",
    "endless_barriers": "while (n[2]) { threadgroup_barrier(mem_flags::mem_threadgroup); s += b[s & 63]; }",
    "branches": """for (ulong j = 0; j < 1000000000000ul; j++) {
        if ((s ^ i) & 1) { s = s * 1664525u + b[j & 63]; for (uint k = 0; k < n[5]; k++) s ^= b[k & 63] * s; s += 9; }
        else { s = s * 22695477u + 1u; s ^= s << 5; s += b[s & 63]; } }""",
    "one_lane": "if (i == 5) { for (ulong j = 0; j < 1000000000000ul; j++) s = s * 1664525u + b[j & 63]; }",
}
HEAD = "device uint* o, device const int* b, device const uint* n, uint i [[thread_position_in_grid]]"
SOURCE = "using namespace metal;\nconstant ulong END = 1000000000000ul;\n" + "\n".join(
    f"kernel void {name}({HEAD}) {{ uint s = i; {body} o[i] = s; }}" for name, body in LOOPS.items()
)
SOURCE += f"""
kernel void good({HEAD}) {{ o[i] = i + b[i & 63]; }}
kernel void one_group({HEAD}) {{ uint s = 0; if (i >= 64) for (ulong j = 0; j < END; j++) s = s * 3u + b[j & 63];
  o[i] = s; }}
kernel void long_one({HEAD}) {{ uint s = 0; for (ulong j = 0; j < n[6]; j++) s = s * 3u + b[j & 63]; o[i] = s; }}
"""
BEGIN = f"""
import faulthandler, math, os, signal, sys, threading, time
faulthandler.dump_traceback_later(50, exit=True)
import numpy as np
import metalcore
from metalcore.errors import LaunchTimeout
library = metalcore.Library({SOURCE!r})
NAMES = {tuple(LOOPS)!r}
b = np.arange(64, dtype=np.int32)
n = np.array([32, 0x10001, 0xffffffff, 0x80000000, 0x7fffffff, 3, 60_000_000], np.uint32)
def arrays(size=256): return np.zeros(size, np.uint32), b, n
def good():
    o, *rest = arrays()
    library.function("good")(o, *rest, threads=256, group_size=64)
    assert (o == np.arange(256) + np.arange(256) % 64).all()
def later(seconds, action):
    thread = threading.Timer(seconds, action)
    thread.daemon = True
    thread.start()
class Alarm(Exception): pass
def alarm(*_): raise Alarm
"""


def run(code: str, *arguments: str, status: int = 0) -> str:
    command = [sys.executable, "-c", BEGIN + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.mark.feature("API", "kernels that never end: timeout= of a launch, Ctrl-C and handlers of signals")
@pytest.mark.parametrize("mode", ["checked", "sanitize", "fast"])
def test_every_loop_is_stopped(mode: str) -> None:
    """By a timeout and by a handler that raises; groups of 40 threads have a partial simdgroup."""
    code = """
signal.signal(signal.SIGALRM, alarm)
with metalcore.mode(sys.argv[1]):
    for name in NAMES[::3] if sys.argv[1] == "sanitize" else NAMES:
        function = library.function(name)
        for size, threads in ((40, 1), (128, 2)):
            metalcore.set_num_threads(threads)
            function.check_launch(threads=size, group_size=size)  # compiles
            begin = time.perf_counter()
            try:
                if size == 40:
                    signal.setitimer(signal.ITIMER_REAL, 0.02)
                function(*arrays(), threads=size, group_size=size, timeout=0.02 if size != 40 else None)
                raise SystemExit(f"{name} has ended")
            except LaunchTimeout as error:
                assert size != 40 and f"kernel '{name}' did not end within 0.02 s" in str(error), error
                assert isinstance(error, TimeoutError)
            except Alarm:
                assert size == 40
            print(name, size, round(time.perf_counter() - begin, 3), flush=True)
        good()
print("done")
"""
    assert run(code, mode).endswith("done\n")


@pytest.mark.parametrize("cpu_threads", ["1", "2"])
def test_ctrl_c(cpu_threads: str) -> None:
    code = """
metalcore.set_num_threads(int(sys.argv[1]))
good()
for name in ("counted", "endless"):
    later(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        library.function(name)(*arrays(4096), threads=4096, group_size=64)
    except KeyboardInterrupt:
        print("interrupted")
    good()
try:  # Python's own handling still works after a launch
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(code, cpu_threads) == "interrupted\n" * 3


def test_a_program_that_ignores_ctrl_c_is_not_stopped() -> None:
    code = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
later(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
later(0.3, lambda: os._exit(7))
library.function("counted")(*arrays(), threads=64)
"""
    run(code, status=7)


def test_a_handler_that_returns_lets_the_launch_go_on() -> None:
    """And it may launch kernels itself."""
    code = """
heard = []
good()
def listen(number, frame):
    good()
    heard.append((number, threading.current_thread() is threading.main_thread()))
for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, listen)
    later(0.08, lambda number=number: os.kill(os.getpid(), number))
for threads in (1, 2):
    metalcore.set_num_threads(threads)
    o, *rest = arrays(64)
    library.function("long_one")(o, *rest, threads=64, group_size=32)
    assert (o == o[0]).all() and o[0] != 0
    if threads == 1:
        assert sorted(heard) == [(2, True), (10, True), (15, True)], heard
        first = o.copy()
assert (o == first).all()
print("done")
"""
    assert run(code) == "done\n"


def test_a_handler_that_launches_in_sanitize_mode() -> None:
    """One launch of that mode at a time; a second one of the same thread would wait for ever."""
    code = """
def handler(number, frame):
    with metalcore.mode("sanitize"): good()
signal.signal(signal.SIGALRM, handler)
good()
with metalcore.mode("sanitize"):
    library.function("counted").check_launch(threads=64)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        library.function("counted")(*arrays(), threads=64)
    except metalcore.errors.LaunchError as error:
        assert "signal's handler" in str(error)
    good()
print("done")
"""
    assert run(code) == "done\n"


def test_looking_changes_no_value() -> None:
    """A launch of the main thread looks for signals every 20 ms, in the middle of its loops; one beside it does not."""
    code = """
HEAD = "device const float* x, device float* o, constant uint& n, uint i [[thread_position_in_grid]]"
BODIES = {
  "block": "for (uint j = 0; j < n; j++) s += x[j & 63] * i;",
  "each": "for (uint j = 0; j < n; j++) { if (x[j & 63] < 0) break; s += x[j & 63] * i; }",
  "masked": "if (i % 3) for (uint j = 0; j < n / 4; j++) { s += x[j & 63] * i; if (s < 0) s = i; }",
  "barrier": "for (uint j = 0; j < n / 2; j++) { if (!(j & 4095)) threadgroup_barrier(mem_flags::mem_none);"
             " s += x[j & 63] * i; }",
}
text = "using namespace metal;" + "".join(
    "kernel void k_%s(%s) { float s = i; %s o[i] = s; }" % (k, HEAD, b) for k, b in BODIES.items())
kernels = metalcore.Library(text)
x = np.random.default_rng(1).random(64, np.float32)
metalcore.set_num_threads(1)
for mode in ("checked", "fast"):
    for name in BODIES:
        ends = np.zeros((2, 72), np.float32)
        def launch(o):
            with metalcore.mode(mode):
                kernels.function("k_" + name)(x, o, 25_000_000, threads=72, group_size=72)
        thread = threading.Thread(target=launch, args=(ends[1],))
        thread.start()
        launch(ends[0])
        thread.join()
        assert (ends[0] == ends[1]).all() and ends[0, 71] > 0, (mode, name)
print("done")
"""
    assert run(code) == "done\n"


def test_the_exception_of_the_handler_is_raised() -> None:
    code = """
class Own(Exception): pass
value = Own("as it was")
def handler(number, frame): raise value
signal.signal(signal.SIGTERM, handler)
later(0.1, lambda: os.kill(os.getpid(), signal.SIGTERM))
try:
    library.function("counted")(*arrays(), threads=64)
except Own as error:
    assert error is value
    names = []
    at = error.__traceback__
    while at:
        names.append(at.tb_frame.f_code.co_name)
        at = at.tb_next
    assert names[-1] == "handler" and names[0] == "<module>", names
good()
print("done")
"""
    assert run(code) == "done\n"


@pytest.mark.parametrize("openmp", ["pool", "openmp"])
def test_the_caller_waits_for_another_thread(openmp: str) -> None:
    """The caller's share of the work is done; a helper's never is."""
    if openmp == "openmp":
        pytest.importorskip("torch")
    code = """
if sys.argv[1] == "openmp":
    import torch
    torch.set_num_threads(2)
    torch.ones(1 << 20).exp()
    from metalcore.engine.runtime.native_library import use_openmp
    use_openmp()
metalcore.set_num_threads(2)
good()
signal.signal(signal.SIGALRM, alarm)
for groups in (2, 64):
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        library.function("one_group")(*arrays(4096), threads=64 * groups, group_size=64)
    except Alarm:
        print("alarm")
    try:
        library.function("one_group")(*arrays(4096), threads=64 * groups, group_size=64, timeout=0.1)
    except LaunchTimeout:
        print("timeout")
    good()
"""
    assert run(code, openmp) == "alarm\ntimeout\n" * 2


def test_signals_are_the_main_threads_affair() -> None:
    """A launch of another thread hears of none; its timeout ends it."""
    code = """
ends = []
def work():
    try:
        library.function("counted")(*arrays(), threads=64, timeout=0.6)
    except BaseException as error:
        ends.append((type(error).__name__, time.perf_counter()))
begin = time.perf_counter()
worker = threading.Thread(target=work)
worker.start()
later(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    worker.join()
except KeyboardInterrupt:
    print("interrupted", not ends)
while not ends:  # an interrupted join has taken the thread for ended
    time.sleep(0.02)
assert ends[0][0] == "LaunchTimeout" and ends[0][1] - begin >= 0.6, ends
good()
print("done")
"""
    assert run(code) == "interrupted True\ndone\n"


def test_launches_beside_one_another() -> None:
    """Many at once, each with its own time; none ends another."""
    code = """
from concurrent.futures import ThreadPoolExecutor
def work(k):
    if k % 3:
        for _ in range(20): good()
        return "good"
    try:
        library.function("counted")(*arrays(), threads=64, timeout=0.05 + 0.02 * k)
    except LaunchTimeout:
        return "timeout"
with ThreadPoolExecutor(12) as pool:
    got = list(pool.map(work, range(12)))
assert got == ["good" if k % 3 else "timeout" for k in range(12)], got
print("done")
"""
    assert run(code) == "done\n"


def test_a_second_ctrl_c_ends_a_program_whose_thread_never_ends() -> None:
    code = """
worker = threading.Thread(target=lambda: library.function("counted")(*arrays(), threads=64))
worker.start()
for seconds in (0.3, 0.6):
    later(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
worker.join()
"""
    run(code, status=-2)


def test_a_fork_in_a_handler() -> None:
    """The child has no helpers that would finish the launch."""
    code = """
children = []
def handler(number, frame):
    children.append(os.fork())
    if children[-1]:
        raise Alarm
signal.signal(signal.SIGALRM, handler)
metalcore.set_num_threads(2)
good()
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    library.function("counted")(*arrays(4096), threads=4096, group_size=64)
except Alarm:
    assert os.waitpid(children[0], 0)[1] == 0
    good()
    print("done")
except metalcore.errors.MetalcoreError as error:
    good()
    os._exit(0 if children[0] == 0 and "forked" in str(error) else 3)
"""
    assert run(code) == "done\n"


def test_a_handler_compiles_the_source_that_is_being_compiled() -> None:
    """It runs in the middle of the compilation, in the same thread, at whatever stage that is."""
    code = """
import faulthandler, signal, time
import numpy as np, metalcore
faulthandler.dump_traceback_later(50, exit=True)
fresh = time.time_ns() % 1_000_000_000
def once(k):
    x = np.zeros(4, np.uint32)
    source = "kernel void q(device uint* x, uint i [[thread_position_in_grid]]) { x[i] = %d; }" % (k + fresh)
    metalcore.Library(source).function("q")(x, threads=4)
    return x.tolist() == [k + fresh] * 4
once(0)  # an import cannot be interrupted so
called = []
for k, delay in enumerate((0.005, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13), 1):
    signal.signal(signal.SIGALRM, lambda *_: called.append(once(k)))
    signal.setitimer(signal.ITIMER_REAL, delay)
    assert once(k)
    signal.setitimer(signal.ITIMER_REAL, 0)
assert len(called) > 1 and all(called), called
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "done\n", done.stderr
