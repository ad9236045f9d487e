"""The only module that reads the environment."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from metalcore.errors import ArgumentError


def dump_dir() -> Path | None:
    """METALCORE_DUMP: folder that receives every stage's output."""
    value = os.environ.get("METALCORE_DUMP")
    if not value:
        return None
    folder = Path(value)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"METALCORE_DUMP={value!r} is no folder that can be made: {error.strerror}") from None
    return folder


def logs_variants() -> bool:
    """METALCORE_LOG=variants: whether each variant of a library kernel is named on stderr when it is made."""
    value = os.environ.get("METALCORE_LOG", "").strip()
    if value not in ("", "0", "variants"):
        raise ArgumentError(f"METALCORE_LOG must be variants, which names the kernels that are made, not {value!r}")
    return value == "variants"


def log_lines() -> int:
    """METALCORE_LOG_LINES: how many lines of os_log a launch may write to stderr (default 1,000)."""
    return _amount("METALCORE_LOG_LINES", 1000, "lines of os_log")


def is_dumb_terminal() -> bool:
    """TERM=dumb: the terminal cannot clear a line."""
    return os.environ.get("TERM") == "dumb"


def cache_dir() -> Path:
    """METALCORE_CACHE: where compiled kernels are kept (default: the user's cache folder)."""
    value = os.environ.get("METALCORE_CACHE")
    if value:
        return _short_enough("METALCORE_CACHE", value)
    if sys.platform == "linux":  # as platformdirs has it, without the time its import takes
        shared = os.environ.get("XDG_CACHE_HOME", "").strip()
        return Path(shared or os.path.expanduser("~/.cache")) / "metalcore"
    import platformdirs

    return Path(platformdirs.user_cache_dir("metalcore"))


def uses_prebuilt() -> bool:
    """METALCORE_PREBUILT: whether kernels of a wheel are used; 0: all are compiled for this processor."""
    return os.environ.get("METALCORE_PREBUILT", "1") not in ("", "0")


def keep_tests() -> bool:
    """METALCORE_KEEP_TESTS: whether checked mode tests every access, those too that are proven to lie inside."""
    return os.environ.get("METALCORE_KEEP_TESTS", "0") not in ("", "0")


def mlx_primitive() -> bool:
    """METALCORE_MLX_PRIMITIVE=0: ops on mlx arrays take the Python route, and nothing is compiled for mlx."""
    return os.environ.get("METALCORE_MLX_PRIMITIVE", "1") not in ("", "0")


def _amount(name: str, default: int, unit: str) -> int:
    value = os.environ.get(name, "").strip()
    if not value:
        return default
    if not value.isascii() or not value.isdigit() or not 0 < int(value) < 1 << 31:
        raise ArgumentError(f"{name} must be a positive whole number ({unit}), not {value!r}")
    return int(value)


def source_size() -> int:
    """METALCORE_SOURCE_SIZE: MB of text in a source, in a file that it includes, and in what the preprocessor makes of
    them (default 8). The answer is in bytes."""
    return _amount("METALCORE_SOURCE_SIZE", 8, "MB of source text") * 1_000_000


def compile_seconds() -> int:
    """METALCORE_COMPILE_SECONDS: processor time of one run of the compiler (default 120)."""
    return _amount("METALCORE_COMPILE_SECONDS", 120, "seconds")


def compile_memory() -> int:
    """METALCORE_COMPILE_MEMORY: MB that one run of the compiler may ask for (default 4096). The answer is in bytes."""
    return _amount("METALCORE_COMPILE_MEMORY", 4096, "MB") * 1_000_000


def kernel_size() -> int:
    """METALCORE_KERNEL_SIZE: instructions that a kernel may have, every call inlined (default 500,000)."""
    return _amount("METALCORE_KERNEL_SIZE", 500_000, "instructions")


def cache_size() -> int:
    """METALCORE_CACHE_SIZE: MB of compiled kernels that are kept (default 2048); what was not used for longest goes
    first. The answer is in bytes."""
    return _amount("METALCORE_CACHE_SIZE", 2048, "MB") * 1_000_000


def _short_enough(name: str, value: str) -> Path:
    """A folder whose files can have names: file systems take 255 bytes for a part of a path and 4,096 for all of it."""
    longest = max(len(os.fsencode(part)) for part in value.split(os.sep))
    if longest > 255 or len(os.fsencode(value)) > 3800:
        problem = f"{len(value)} characters, {longest} bytes between two slashes"
        raise ArgumentError(f"{name} is too long for a path ({problem}): name a folder of fewer than 3,800 characters")
    return Path(value)


def worker_environment() -> dict[str, str]:
    """What a worker of `metalcore.isolate` sees of the environment: how to load libraries, the cache, the language.
    No name of the user, no token."""
    limits = ("SOURCE_SIZE", "COMPILE_SECONDS", "COMPILE_MEMORY", "KERNEL_SIZE", "CACHE_SIZE")
    names = ("LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", *(f"METALCORE_{name}" for name in limits))
    kept = {name: os.environ[name] for name in names if name in os.environ}
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # a process is forked while it has one thread
    return {**kept, **single, "PATH": os.defpath, "METALCORE_CACHE": os.path.abspath(cache_dir())}


def num_threads() -> int:
    """METALCORE_THREADS: CPU threads a launch may use (default: all that the process may run on)."""
    value = os.environ.get("METALCORE_THREADS", "").strip()
    if value:
        if not re.fullmatch(r"-?[0-9]{1,9}", value):
            raise ArgumentError(f"METALCORE_THREADS must be a positive whole number (CPU threads), not {value!r}")
        return min(max(1, int(value)), 1024)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def matmul_tile() -> tuple[int, int] | None:
    """METALCORE_MATMUL_TILE: rows and columns that a threadgroup of a product computes, as in 16x16 (default: the
    launch policy's)."""
    value = os.environ.get("METALCORE_MATMUL_TILE", "").strip()
    if not value:
        return None
    match = re.fullmatch(r"(\d+)x(\d+)", value)
    if match is None:
        raise ArgumentError(f"METALCORE_MATMUL_TILE must be rows and columns, as in 16x16, not {value!r}")
    return int(match[1]), int(match[2])


def use_usual_torch() -> None:
    """Before torch's results are what ours are compared with. With AVX-512 its gelu of infinity is NaN, and on virtual
    machines that name AMX and do not let it be used its products of bfloat16 end the process: AVX2 has neither."""
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")


def mps_fast_math() -> bool:
    """PYTORCH_MPS_FAST_MATH: as torch.mps.compile_shader reads it."""
    return os.environ.get("PYTORCH_MPS_FAST_MATH", "0") not in ("", "0")


def target() -> str:
    """METALCORE_TARGET: chip or GPU family whose limits every launch is held to (default: those common to all)."""
    return os.environ.get("METALCORE_TARGET", "").strip()


def check_gpu() -> bool:
    """METALCORE_CHECK_GPU: whether an index out of range is an error on a GPU too, at the price of waiting for it."""
    return os.environ.get("METALCORE_CHECK_GPU", "0") not in ("", "0")


def torch_extension() -> bool:
    """METALCORE_TORCH_EXTENSION: 0 leaves kernels on MPS to torch.mps.compile_shader (default: the extension, where it
    fits)."""
    return os.environ.get("METALCORE_TORCH_EXTENSION", "1") not in ("", "0")


def system_environment() -> dict[str, str]:
    """What a tool of ours is started with: nothing, but for what Windows needs to start a program at all."""
    return {name: os.environ[name] for name in ("SYSTEMROOT", "TEMP") if os.name == "nt" and name in os.environ}


def github_actions() -> bool:
    """GITHUB_ACTIONS: whether this is a job of GitHub Actions, whose log shows annotations."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def github_workspace() -> str | None:
    """GITHUB_WORKSPACE: the checkout, to which the paths of annotations are relative."""
    return os.environ.get("GITHUB_WORKSPACE") or None


def colour(terminal: bool) -> bool:
    """NO_COLOR and FORCE_COLOR: whether text is coloured (default: where it goes to a terminal)."""
    if os.environ.get("NO_COLOR"):
        return False
    return terminal or bool(os.environ.get("FORCE_COLOR"))
