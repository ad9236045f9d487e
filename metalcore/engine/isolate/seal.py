"""How a worker gives up what it will not need, before it sees anything of a stranger."""

from __future__ import annotations

import importlib.util
import io
import os
import resource
import sysconfig
from collections.abc import Callable, Iterable

from metalcore.engine.isolate import kernel, landlock, seccomp

SIGKILL = 9
_LARGEST_FILE = 512 << 20
_OPEN_LAUNCH, _OPEN_COMPILE, _PROCESSES = 4096, 1024, 512


def enter_namespaces() -> bool:
    """A user, process, network and IPC namespace for all that follows, where the system lets one be made."""
    try:
        kernel.unshare(kernel.NEW_USER | kernel.NEW_PID | kernel.NEW_NET | kernel.NEW_IPC)
    except OSError:
        return False
    return True


def keep_only(descriptor: int) -> int:
    """Every other descriptor is closed; standard input and output lead nowhere. The answer is its new number."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    kept = os.dup2(descriptor, 200) if descriptor != 200 else descriptor
    for standard in range(3):
        os.dup2(nowhere, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return kept


def _limit(what: int, value: int) -> None:
    hard = resource.getrlimit(what)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(what, (value, value))


def _data_in_use(status: io.FileIO) -> int:
    """Bytes that RLIMIT_DATA counts already: Python, LLVM, the stacks of threads."""
    for line in os.pread(status.fileno(), 8192, 0).splitlines():
        if line.startswith(b"VmData:"):
            return int(line.split()[1]) << 10
    raise OSError("/proc/self/status names no VmData")


def seal_launch(memory: int, has_landlock: bool, start_threads: Callable[[], object]) -> None:
    """For the process that runs kernels: no file, no process, no thread, no socket but the one it has."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, _OPEN_LAUNCH)
    kernel.prctl(kernel.SET_NO_NEW_PRIVS, 1)
    with open("/proc/self/status", "rb", buffering=0) as status:
        if has_landlock:
            landlock.restrict(())  # before its threads start: it holds for one thread and what that starts
        start_threads()
        _limit(resource.RLIMIT_DATA, _data_in_use(status) + memory)
    kernel.drop_capabilities()
    seccomp.install(launch=True)


def seal_compile(memory: int, has_landlock: bool, has_namespaces: bool, private: str, folders: Iterable[str]) -> None:
    """For a process that compiles: it reads the toolchain and the folders of the source, it writes its own folder."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, _LARGEST_FILE)
    _limit(resource.RLIMIT_NOFILE, _OPEN_COMPILE)
    with open("/proc/self/status", "rb", buffering=0) as status:
        _limit(resource.RLIMIT_DATA, _data_in_use(status) + memory)
    if has_namespaces:
        _limit(resource.RLIMIT_NPROC, _PROCESSES)  # counted in the namespace; outside it all of the user's would be
    kernel.prctl(kernel.SET_NO_NEW_PRIVS, 1)
    if has_landlock:
        landlock.restrict(_compiler_files(private, folders))
    kernel.drop_capabilities()
    keeps_signals = has_namespaces or (has_landlock and landlock.version() >= 6)
    seccomp.install(launch=False, may_kill=keeps_signals)


def _compiler_files(private: str, folders: Iterable[str]) -> list[tuple[str, int]]:
    read = landlock.READ
    rules = [(private, landlock.CHANGE), (os.devnull, read | landlock.WRITE_FILE), ("/dev/urandom", read)]
    rules += [(folder, read) for folder in folders]
    rules += [(sysconfig.get_path(name), read) for name in ("stdlib", "platstdlib")]
    for package in ("metalcore", "numpy", "llvmlite", "ziglang"):
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            rules.append((place, read))
            if package == "ziglang":
                rules.append((os.path.join(place, "zig"), read | landlock.EXECUTE))
    return rules
