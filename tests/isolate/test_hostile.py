"""A worker that dies, hangs or was taken over: an exception here, arrays as they were, a new worker next."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.engine.isolate import client, seccomp
from metalcore.engine.isolate.messages import Nonsense, dump, items, rebuild_error, receive_frame, record, send_packet
from metalcore.engine.isolate.syscalls import NUMBERS
from metalcore.engine.isolate.unit import _native
from metalcore.engine.model import Site
from metalcore.engine.runtime import layout
from metalcore.errors import ArgumentError, CompileError, IsolationError, IsolationTimeout, MetalcoreError
from tests.isolate.kernels import SOURCE


def hostile(isolation: metalcore.isolate, code: str) -> str:
    """What Python code says that runs in the sealed launch worker, as a kernel could that has taken it over."""
    sandbox = isolation.sandbox
    with sandbox.lock:
        return str(sandbox.launcher().ask({"op": "hook", "code": textwrap.dedent(code)})["said"])


def tell(isolation: metalcore.isolate, code: str) -> None:
    """The same, where nobody waits for an answer."""
    with isolation.sandbox.lock:
        send_packet(isolation.sandbox.launcher().link, dump({"op": "hook", "code": code}))


def works(library: metalcore.Library) -> bool:
    y = np.zeros(8, np.float32)
    library.function("axpy")(y, np.arange(8, dtype=np.float32), 1.0, threads=8)
    return y.tolist() == list(range(8))


@pytest.mark.feature("API", "isolate: a crash of the worker is an IsolationError, and the next launch works")
def test_a_wild_store_in_fast_mode(library: metalcore.Library) -> None:
    x = np.zeros(64, np.uint32)
    with metalcore.mode("fast"), pytest.raises(IsolationError, match=r"SIGSEGV.*arrays are as they were") as caught:
        library.function("wild")(x, np.array([8], np.uint64), threads=64)
    assert caught.value.signal == "SIGSEGV" and not x.any()
    assert works(library)


@pytest.mark.feature("API", "isolate: a hang is ended by its timeout")
def test_an_endless_loop(isolation: metalcore.isolate) -> None:
    x, limited = np.zeros(32, np.uint32), metalcore.isolate(timeout=0.5)
    for mode in ("checked", "fast"):
        with limited, metalcore.mode(mode):
            library = metalcore.Library(SOURCE)
            started = time.monotonic()
            with pytest.raises(IsolationTimeout, match=r"longer than 0\.5 s.*timeout") as caught:
                library.function("forever")(x, np.zeros(1, np.uint32), threads=32)
            assert isinstance(caught.value, TimeoutError) and time.monotonic() - started < 15
            assert not x.any() and works(library)


def test_a_handler_of_a_signal_runs_while_the_worker_does(library: metalcore.Library) -> None:
    class Enough(Exception): ...

    def stop(*_: object) -> None:
        raise Enough

    f, x = library.function("forever"), np.zeros(32, np.uint32)
    f(x, np.ones(1, np.uint32), threads=32)
    x[:] = 0
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Enough):
            f(x, np.zeros(1, np.uint32), threads=32)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not x.any() and works(library)


def test_what_a_worker_that_was_taken_over_may_not_do(isolation: metalcore.isolate, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("secret")
    attempts = {
        "socket": "import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
        "unix socket": "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
        "netlink": "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
        "new file": f"open({str(tmp_path / 'new')!r}, 'w')",
        "new file in /tmp": "open('/tmp/metalcore-hostile', 'x')",
        "folder": f"os.mkdir({str(tmp_path / 'folder')!r})",
        "remove": f"os.unlink({str(home)!r})",
        "truncate": f"os.truncate({str(home)!r}, 0)",
        "chmod": f"os.chmod({str(home)!r}, 0)",
        "read": f"open({str(home)!r}).read()",
        "passwd": "open('/etc/passwd').read()",
        "environment of the parent": f"open('/proc/{os.getpid()}/environ', 'rb').read()",
        "memory of the parent": f"open('/proc/{os.getpid()}/mem', 'rb').read(1)",
        "list": "os.listdir('/')",
        "fork": "os.fork()",
        "exec": "os.execv('/bin/true', ['true'])",
        "thread": "import _thread; _thread.start_new_thread(print, ())",
        "kill the parent": f"os.kill({os.getpid()}, 0)",
        "kill everybody": "os.kill(-1, 9)",
        "kill the server": "os.kill(os.getppid() or 1, 9)",
        "signal by fcntl": f"call(72 if X86 else 25, link.fileno(), 8, {os.getpid()})",
        "memfd": "os.memfd_create('x')",
        "shared memory": "import mmap; mmap.mmap(-1, 1 << 20)",
        "limits": "import resource; resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))",
        "ptrace": f"call(101 if X86 else 117, 16, {os.getpid()}, 0, 0)",
        "process_vm_readv": f"call(310 if X86 else 270, {os.getpid()}, 0, 0, 0, 0, 0)",
        "pidfd_open": f"call(434, {os.getpid()}, 0)",
        "unshare": "call(272 if X86 else 97, 0x10000000)",
        "mount": "call(165 if X86 else 40, 0, 0, 0, 0, 0)",
        "bpf": "call(321 if X86 else 280, 0, 0, 0)",
        "userfaultfd": "call(323 if X86 else 282, 0)",
        "io_uring": "call(425, 1, 0)",
        "keyctl": "call(250 if X86 else 219, 0, 0)",
        "clone3": "call(435, 0, 0)",
    }
    said = hostile(
        isolation,
        f"""
        import ctypes, os
        X86 = os.uname().machine == "x86_64"
        libc = ctypes.CDLL(None, use_errno=True)
        def call(number, *arguments):
            if libc.syscall(number, *map(ctypes.c_long, arguments)) < 0:
                raise OSError(ctypes.get_errno(), "")
        for name, code in {attempts!r}.items():
            try:
                exec(code)
                print(name)
            except (OSError, RuntimeError, MemoryError, ValueError) as error:
                refused = str(error)
        print("end")
        """,
    )
    assert said.split("\n") == ["end", ""], "these were not refused"
    assert home.read_text() == "secret" and list(tmp_path.iterdir()) == [home]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 has a second table of calls")
def test_another_table_of_system_calls_ends_the_worker(
    isolation: metalcore.isolate, library: metalcore.Library
) -> None:
    tell(isolation, "import ctypes; ctypes.CDLL(None).syscall(0x40000000 | 39)")
    with pytest.raises(IsolationError) as caught:
        works(library)
    assert caught.value.signal == "SIGSYS" and works(library)


def test_no_secret_of_the_environment_and_no_descriptor(isolation: metalcore.isolate) -> None:
    isolation.close()  # a new worker, which has loaded nothing
    said = hostile(
        isolation,
        """
        import os
        def is_open(n):
            try:
                return bool(os.fstat(n))
            except OSError:
                return False
        print(*sorted(os.environ))
        print([n for n in range(3, 4096) if is_open(n)])
        """,
    ).split("\n")
    known = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ", "METALCORE_CACHE", "OMP_NUM_THREADS", "PATH")
    assert set(said[0].split()) <= {*known, "OPENBLAS_NUM_THREADS"}
    assert said[1] == "[200]"


@pytest.mark.feature("API", "isolate: a limit of memory, seccomp, landlock and namespaces; what is enforced is said")
def test_a_memory_bomb(isolation: metalcore.isolate, library: metalcore.Library) -> None:
    said = hostile(
        isolation,
        """
        import mmap
        kept = []
        try:
            while len(kept) < 64: kept.append(mmap.mmap(-1, 1 << 28, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except OSError:
            print(len(kept))
        kept.clear()
        """,
    )
    assert 1 <= int(said) <= 8  # of 256 MiB each: the limit is 2 GiB
    assert works(library)
    assert set(isolation.enforced) <= set(isolation.means) and "time" in isolation.enforced


@pytest.mark.parametrize(
    "lie",
    [
        "link.send(b'x' * 59000)",
        "link.send(b'x' * 72)",
        "link.send(b'')",
        "import struct; link.send(struct.pack('=II', 1, 0xffff) + bytes(SIZE))",
        "import struct; link.send(struct.pack('=II', 10**6, 0) + bytes(SIZE))",
        "import struct; link.send(struct.pack('=II', 1, 32) + bytes(SIZE))",
        "import struct; link.send(struct.pack('=II', 1, 34) + bytes(SIZE))",
        "import struct; link.send(struct.pack('=II', 1, 2) + b'\\xff' * SIZE)",
        "import os; os._exit(3)",
        "raise SystemExit",
    ],
)
def test_answers_that_cannot_be(isolation: metalcore.isolate, library: metalcore.Library, lie: str) -> None:
    y = np.zeros(8, np.float32)
    assert works(library)
    tell(isolation, lie.replace("SIZE", str(ctypes.sizeof(layout.Error))))
    with pytest.raises(IsolationError):
        library.function("axpy")(y, np.ones(8, np.float32), 1.0, threads=8)
    assert not y.any() and works(library)


@pytest.mark.parametrize("answer", ["[" * 40_000, "{}", '{"functions": 3}', '{"functions": [], "n": ' + "9" * 99 + "}"])
def test_a_compiler_that_lies(answer: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(struct.pack("=QQ", len(answer), 0) + answer.encode())
        with pytest.raises(Nonsense):
            told, _ = receive_frame(ours, time.monotonic() + 5)
            items(told.get("functions"))
        theirs.send(struct.pack("=QQ", 1 << 60, 0))
        with pytest.raises(Nonsense, match="too long"):
            receive_frame(ours, time.monotonic() + 5)
    with pytest.raises(Nonsense):
        record(Site, {"file": "x", "line": 1, "column": "2", "access": "load", "buffer": None, "element_size": 4})
    with pytest.raises(Nonsense):
        _native({"sites": [], "static_threadgroup_memory": 1 << 40})
    error = rebuild_error({"error": "CompileError", "words": "\x1b[31mred", "more": {"lineno": "x"}})
    assert type(error) is CompileError and str(error) == "[31mred"
    assert type(rebuild_error({"error": "SystemExit", "words": "", "kind": "SystemExit"})) is IsolationError


def test_a_worker_cannot_shorten_shared_memory_nor_write_what_is_only_read(
    isolation: metalcore.isolate, library: metalcore.Library
) -> None:
    x, y = metalcore.shared_array(1024), metalcore.shared_array(1024)
    x[:] = 3
    library.function("axpy")(y, x, 1.0, threads=1024)
    launcher = isolation.sandbox.launcher()
    there = {writable: address for (segment, writable), address in launcher._segments.items() if segment.size == 4096}
    assert set(there) == {False, True}
    said = hostile(
        isolation,
        f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        print(libc.mprotect({there[False]}, 4096, 3), libc.mprotect({there[True]}, 4096, 3))
        """,
    )
    assert said == "-1 0\n" and (x == 3).all() and (y == 3).all()


def test_the_compiler_reads_no_file_of_the_host(isolation: metalcore.isolate, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#define V 4242\n")
    body = "\nkernel void k(device uint* o) { o[0] = V; }"
    with pytest.raises(MetalcoreError) as caught:
        metalcore.Library(f'#include "{secret}"' + body, isolate=isolation)
    assert "4242" not in str(caught.value)
    with pytest.raises(MetalcoreError):
        metalcore.Library(f'constant uint t[] = {{\n#embed "{secret}"\n}};\n#define V t[0]' + body, isolate=isolation)
    allowed = metalcore.Library('#include "secret.h"' + body, include_dirs=[tmp_path], isolate=isolation)
    o = np.zeros(1, np.uint32)
    allowed.function("k")(o, threads=1)
    assert o[0] == 4242


def test_a_compiler_that_takes_too_long_or_too_much() -> None:
    slow = "template <int N> struct A { static constant int v = A<N - 1>::v + A<N - 2>::v; };\n"
    with pytest.raises(IsolationTimeout, match="compile_timeout"):
        metalcore.Library(slow + "kernel void k() {}", isolate=metalcore.isolate(compile_timeout=0.001))
    with pytest.raises((IsolationError, MemoryError, CompileError)):
        text = "kernel void k(device float* x) { x[0] = 1; }\n" + "#define A " + "x " * 1000 + "\n"
        for a, b in ("BA", "CB", "DC"):
            text += f"#define {a} " + f"{b} " * 200 + "\n"
        metalcore.Library(text + "D\n", isolate=metalcore.isolate(memory=64 << 20, compile_timeout=20))


def test_nothing_is_left_behind() -> None:
    program = textwrap.dedent(
        """
        import numpy as np, metalcore, os, tempfile, sys
        tempfile.tempdir = sys.argv[1]
        x = np.zeros(4, np.uint32)
        with metalcore.isolate() as isolation:
            f = metalcore.Library("kernel void k(device uint* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }")
            f.function("k")(x, threads=4)
            worker = isolation.sandbox._launcher
        assert os.listdir(sys.argv[1]) == [], os.listdir(sys.argv[1])
        from metalcore.engine.isolate import client
        pid = os.fork()
        if pid == 0:
            f.function("k")(x, threads=4)  # a child has workers of its own
            os._exit(int(x[0] != 2))
        assert os.waitpid(pid, 0)[1] == 0
        f.function("k")(x, threads=4)
        assert x[0] == 2
        metalcore.Library("kernel void j(device uint* x) { x[0] = 1; }", isolate=isolation)
        assert os.listdir(sys.argv[1])
        print(client.server()._process.pid, flush=True)
        os.kill(os.getpid(), 9)
        """
    )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program, folder], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == -9, done.stderr
        server = int(done.stdout)
        for _ in range(100):
            if not Path(f"/proc/{server}/stat").exists():
                break
            time.sleep(0.05)
        assert not Path(f"/proc/{server}/stat").exists(), "the server outlived the program"
        assert os.listdir(folder) == []


def test_wrong_use_is_said() -> None:
    for options in ({"memory": 5}, {"timeout": 0}, {"timeout": True}, {"require": "files"}, {"require": ["peace"]}):
        with pytest.raises(ArgumentError, match="isolate: "):
            metalcore.isolate(**options)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="isolate=3"):
        metalcore.Library("kernel void k() {}", isolate=3)  # type: ignore[arg-type]


def test_what_the_machine_cannot_enforce_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    server = client.server()
    monkeypatch.setattr(server, "landlock", 0)
    with pytest.raises(IsolationError, match=r"cannot enforce 'files', 'new files'.*require="), metalcore.isolate():
        pass
    assert metalcore.isolate(require=["network", "memory", "time"]).sandbox is not None


def test_filters_name_the_same_calls_on_both_machines() -> None:
    only_x86 = set(NUMBERS["x86_64"]) - set(NUMBERS["aarch64"])
    assert only_x86 == {
        *("access", "arch_prctl", "chmod", "chown", "futimesat", "ioperm", "iopl", "lchown", "link", "lstat", "mknod"),
        *("open", "poll", "readlink", "stat", "time", "utime", "utimes"),
    }
    assert set(NUMBERS["aarch64"]) <= set(NUMBERS["x86_64"])
    for cpu in NUMBERS:
        assert len(seccomp.launch_program(cpu)) % 8 == 0 and len(seccomp.compile_program(cpu, False)) < 8 * 4096
    assert ctypes.sizeof(ctypes.c_void_p) == 8


def test_libraries_that_are_forgotten_end_their_workers() -> None:
    library: Any = metalcore.Library(SOURCE, isolate=True)
    assert works(library)
    sandbox, link = weakref.ref(library._unit.sandbox), library._unit.sandbox._launcher.link
    folder = library._unit.sandbox._private
    del library
    gc.collect()
    assert sandbox() is None and link.fileno() == -1 and not os.path.exists(folder)


@pytest.mark.parametrize("lacking", ["namespaces", "landlock"])
def test_a_machine_that_has_less(lacking: str) -> None:
    program = f"""
    import os, numpy as np, metalcore
    from metalcore.engine.isolate import client
    from metalcore.errors import IsolationError
    client.without.append({lacking!r})
    require = [name for name in metalcore.isolate().enforced]
    x = np.zeros(4, np.uint32)
    with metalcore.isolate(_hook=True, require=require) as isolation:
        text = "kernel void k(device uint* x, uint i [[thread_position_in_grid]]) {{ x[i] += 1; }}"
        metalcore.Library(text).function("k")(x, threads=4)
        code = '''
    import os, socket
    for name in ("os.kill(%d, 0)", "os.fork()", "socket.socket()", "open('/tmp/metalcore-hostile', 'x')"):
        try:
            eval(name)
            print(name)
        except OSError:
            pass
    ''' % os.getpid()
        print(isolation.sandbox.launcher().ask({{"op": "hook", "code": code}})["said"])
    print(x.tolist(), "files" in require, "namespace" in str(isolation.means))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, timeout=60
    )
    said = f"\n[1, 1, 1, 1] {lacking != 'landlock'} {lacking != 'namespaces'}\n"
    assert done.stdout == said, done.stdout + done.stderr
