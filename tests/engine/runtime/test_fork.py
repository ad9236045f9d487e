"""fork while other threads compile or run kernels: the child compiles and runs its own."""

from __future__ import annotations

import subprocess
import sys

BEGIN = """
import faulthandler, multiprocessing, os, signal, sys, threading, time
faulthandler.dump_traceback_later(50, exit=True)
import numpy as np
import metalcore
fresh = int(time.time() * 1000) % 1_000_000 * 10  # so that nothing is in the cache
def source(k): return "kernel void k(device float* o, uint i [[thread_position_in_grid]]) { o[i] += %d; }" % (k + fresh)
def once(k):
    x = np.zeros(50_000, np.float32)
    metalcore.Library(source(k)).function("k")(x, threads=x.size)
    return bool((x == k + fresh).all())
def children(count):
    for r in range(count):
        time.sleep(0.05)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            faulthandler.register(signal.SIGALRM, chain=True)
            os._exit(0 if once(5 + r % 2) else 3)
        status = os.waitpid(child, 0)[1]
        assert status == 0, status
"""


def run(code: str) -> str:
    command = [sys.executable, "-c", BEGIN + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_while_threads_compile() -> None:
    """From the very first compilation on, which imports the compiler."""
    code = """
going = True
def work(t):
    k = t * 100_000 + 10
    while going:
        k += 1
        assert once(k)
threads = [threading.Thread(target=work, args=(t,)) for t in (1, 2)]
for thread in threads: thread.start()
children(4)
going = False
for thread in threads: thread.join()
print("done")
"""
    assert run(code) == "done\n"


def test_while_threads_run_kernels() -> None:
    """The pool is busy; a kernel is under way that never ends."""
    code = """
endless = "kernel void e(device volatile uint* x, uint i [[thread_position_in_grid]]) { while (x[i] == 0) {} }"
endless = metalcore.Library(endless).function("e")
metalcore.set_num_threads(2)
assert once(1) and once(5) and once(6)
x = np.zeros(4096, np.uint32)
thread = threading.Thread(target=lambda: endless(x, threads=4096, group_size=32))
thread.start()
time.sleep(0.05)
children(3)
def child(queue):
    try:
        endless(np.zeros(4096, np.uint32), threads=4096, group_size=32, timeout=0.05)
    except metalcore.errors.LaunchTimeout:
        queue.put(once(5))
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=child, args=(queue,))
process.start()
print(queue.get(timeout=20))
process.join()
x[:] = 1
thread.join()
assert once(1)
"""
    assert run(code) == "True\n"


def test_a_child_that_lives_on_does_not_hold_up_the_compiler() -> None:
    """It would, if it had the other end of clang's standard input."""
    code = """
done = threading.Event()
def work():
    for k in range(1, 6): assert once(k)
    done.set()
thread = threading.Thread(target=work)
thread.start()
alive = []
while not done.is_set() and len(alive) < 40:
    time.sleep(0.02)
    child = os.fork()
    if child == 0:
        time.sleep(40)
        os._exit(0)
    alive.append(child)
assert done.wait(20)
for child in alive:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print("done")
"""
    assert run(code) == "done\n"


def test_locks_of_a_child() -> None:
    code = """
from metalcore.engine.locks import ForkLock
held, own = ForkLock(), ForkLock()
def hold():
    with held: time.sleep(60)
threading.Thread(target=hold, daemon=True).start()
time.sleep(0.05)
with own:
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        with held, own: pass
if child == 0: os._exit(0)
print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""
    assert run(code) == "0\n"


def test_signals_in_a_child() -> None:
    """Forked by another thread than the main one: that is the child's main thread."""
    code = """
endless = "kernel void e(device volatile uint* x, uint i [[thread_position_in_grid]]) { while (x[i] == 0) {} }"
endless = metalcore.Library(endless).function("e")
endless(np.ones(64, np.uint32), threads=64)
def fork():
    child = os.fork()
    if child == 0:
        class Alarm(Exception): pass
        def alarm(*_): raise Alarm
        signal.signal(signal.SIGALRM, alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            endless(np.zeros(64, np.uint32), threads=64)
        except Alarm:
            os._exit(0)
        os._exit(4)
    print(os.waitpid(child, 0)[1])
thread = threading.Thread(target=fork)
thread.start()
thread.join()
"""
    assert run(code) == "0\n"
