"""Seccomp filters: a list of what the launch worker may ask of the kernel, and one of what the compiler may not."""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Mapping
from typing import NamedTuple

from metalcore.engine.isolate.kernel import SET_NO_NEW_PRIVS, libc, prctl, system_call
from metalcore.engine.isolate.syscalls import NUMBERS

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_X32 = 0x40000000  # numbers of a second table on x86-64

_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_TSYNC, _SPEC_ALLOW = 1, 4
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06


class OnlyIf(NamedTuple):
    """A call is good where an argument, masked, has one of these values."""

    argument: int
    mask: int
    values: tuple[int, ...]


_WHOLE = 0xFFFFFFFF
# Open for reading, nothing made: O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_TMPFILE are absent.
_TO_READ = 0x3 | 0x40 | 0x200 | 0x400 | 0x400000
# Shared anonymous memory is counted nowhere: MAP_SHARED | MAP_ANONYMOUS.
_SHARED_ANONYMOUS = 0x21

LAUNCH: Mapping[str, OnlyIf | None] = {
    **dict.fromkeys(
        (
            *("read", "readv", "pread64", "write", "close", "lseek", "fstat", "newfstatat", "stat", "lstat", "statx"),
            *("poll", "ppoll", "recvfrom", "recvmsg", "sendto", "sendmsg", "munmap", "mprotect", "mremap", "madvise"),
            *("brk", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "sched_yield", "nanosleep"),
            *("clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "futex", "getpid", "gettid"),
            *("getppid", "getuid", "geteuid", "getgid", "getegid", "exit", "exit_group", "restart_syscall", "uname"),
            *("getrandom", "getcpu", "sched_getaffinity", "sysinfo", "getrusage", "set_robust_list", "rseq"),
            *("readlink", "readlinkat", "access", "faccessat", "getcwd", "membarrier", "getrlimit", "arch_prctl"),
        )
    ),
    "mmap": OnlyIf(3, _SHARED_ANONYMOUS, (0x00, 0x01, 0x20)),
    "open": OnlyIf(1, _TO_READ, (0,)),
    "openat": OnlyIf(2, _TO_READ, (0,)),
    "fcntl": OnlyIf(1, _WHOLE, (1, 2, 3)),  # flags of descriptors; never F_SETOWN, which sends signals
}

COMPILE_DENIED = (
    *("socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "setsockopt", "ptrace", "kcmp"),
    *("process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_open", "pidfd_getfd"),
    *("pidfd_send_signal", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "unshare", "setns", "mount", "umount2"),
    *("pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick"),
    *("mount_setattr", "bpf", "userfaultfd", "perf_event_open", "io_uring_setup", "io_uring_enter"),
    *("io_uring_register", "io_setup", "add_key", "request_key", "keyctl", "kexec_load", "kexec_file_load"),
    *("init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "acct", "quotactl"),
    *("quotactl_fd", "syslog", "sethostname", "setdomainname", "settimeofday", "clock_settime", "clock_adjtime"),
    *("adjtimex", "iopl", "ioperm", "personality", "name_to_handle_at", "open_by_handle_at", "fanotify_init"),
    *("mknod", "mknodat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr"),
    *("removexattrat", "utime", "utimes", "futimesat", "utimensat", "truncate", "shmget", "msgget", "semget"),
    *("mq_open", "migrate_pages", "move_pages", "vmsplice", "seccomp", "link", "linkat"),
)
# Namespaces made by clone: CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET.
_NAMESPACES = 0x7E020000
COMPILE: Mapping[str, OnlyIf | None] = {
    "clone": OnlyIf(0, _NAMESPACES, (0,)),
    "mmap": OnlyIf(3, _SHARED_ANONYMOUS, (0x00, 0x01, 0x20)),
    "fcntl": OnlyIf(1, _WHOLE, (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1031, 1032)),  # no F_SETOWN, F_SETSIG, no leases
}


def machine() -> str:
    return platform.machine()


def is_supported() -> bool:
    """Whether the kernel takes filters, and this machine's numbers are known."""
    if machine() not in NUMBERS:
        return False
    asked = (ctypes.c_uint(2), ctypes.c_uint(0), ctypes.byref(ctypes.c_uint32(_KILL)))  # SECCOMP_GET_ACTION_AVAIL
    return bool(libc().syscall(ctypes.c_long(_SECCOMP[machine()]), *asked) == 0)


def install(*, launch: bool, may_kill: bool = False) -> None:
    """Filter every thread of this process from now on, and whatever it starts."""
    code = launch_program(machine()) if launch else compile_program(machine(), may_kill)
    steps = len(code) // 8
    memory = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    program = Program(steps, ctypes.addressof(memory))
    prctl(SET_NO_NEW_PRIVS, 1)
    left_out = system_call(
        _SECCOMP[machine()], ctypes.c_uint(1), ctypes.c_uint(_TSYNC | _SPEC_ALLOW), ctypes.byref(program)
    )
    if left_out:
        raise OSError(f"seccomp: thread {left_out} could not be filtered")


def launch_program(cpu: str) -> bytes:
    """All but LAUNCH is refused."""
    steps = _start(cpu)
    for name, rule in LAUNCH.items():
        number = NUMBERS[cpu].get(name)
        if number is not None:
            steps += _when(number, _checked(rule) if rule else [_step(_RETURN, _ALLOW)])
    return b"".join([*steps, _step(_RETURN, _ERRNO | _EPERM)])


def compile_program(cpu: str, may_kill: bool) -> bytes:
    """COMPILE_DENIED is refused, COMPILE in part; signals go nowhere unless something else keeps them in."""
    steps = _start(cpu)
    numbers = NUMBERS[cpu]
    for name in (*COMPILE_DENIED, *(() if may_kill else ("kill", "tgkill"))):
        if name in numbers:
            steps += _when(numbers[name], [_step(_RETURN, _ERRNO | _EPERM)])
    for name in ("clone3", "openat2"):  # their arguments lie in memory, where no filter looks: older calls serve
        steps += _when(numbers[name], [_step(_RETURN, _ERRNO | _ENOSYS)])
    for name, rule in COMPILE.items():
        assert rule is not None
        steps += _when(numbers[name], _checked(rule))
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _start(cpu: str) -> list[bytes]:
    """Only this architecture; then the number of the call is at hand."""
    steps = [_step(_LOAD, 4), _step(_EQUAL, _ARCHITECTURE[cpu], 1, 0), _step(_RETURN, _KILL), _step(_LOAD, 0)]
    if cpu == "x86_64":
        steps += [_step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, _KILL)]
    return steps


def _when(number: int, then: list[bytes]) -> list[bytes]:
    """Steps for one call; they return."""
    return [_step(_EQUAL, number, 0, len(then)), *then]


def _checked(rule: OnlyIf) -> list[bytes]:
    steps = [_step(_LOAD, 16 + 8 * rule.argument), _step(_AND, rule.mask)]
    for value in rule.values:
        steps += [_step(_EQUAL, value, 0, 1), _step(_RETURN, _ALLOW)]
    return [*steps, _step(_RETURN, _ERRNO | _EPERM)]
