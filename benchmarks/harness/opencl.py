"""The same kernels in OpenCL, run by PoCL on the CPU, where pyopencl and a CPU platform are installed."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "opencl"


@functools.cache
def _queue() -> Any:
    """A command queue on PoCL, or None where there is none."""
    try:
        import pyopencl as cl
    except ImportError:
        return None
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return None
    for platform in platforms:
        if "Portable Computing Language" in platform.name:
            devices = platform.get_devices(cl.device_type.CPU)
            if devices:
                return cl.CommandQueue(cl.Context([devices[0]]))
    return None


def version() -> str | None:
    """PoCL's version, or None where it is not installed."""
    queue = _queue()
    return str(queue.device.platform.version).split("PoCL")[-1].split()[0] if queue is not None else None


@functools.cache
def _program(file: str) -> Any:
    import pyopencl as cl

    return cl.Program(_queue().context, (FOLDER / file).read_text()).build("-cl-std=CL1.2")


def use_threads(threads: int) -> None:
    """How many threads PoCL will use; read by it once, when it starts."""
    os.environ["POCL_MAX_PTHREAD_COUNT"] = str(threads)
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")


def bind(
    file: str, name: str, grid: tuple[int, ...], group: int | tuple[int, ...], *arguments: Any
) -> Callable[[], object] | None:
    """A call that runs the kernel to its end on the arrays' own memory; None where PoCL is not there."""
    queue = _queue()
    if queue is None:
        return None
    import pyopencl as cl

    function = cl.Kernel(_program(file), name)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    bound = [
        cl.Buffer(queue.context, flags, hostbuf=value) if isinstance(value, np.ndarray) else value
        for value in arguments
    ]
    function.set_args(*bound)
    local = group if isinstance(group, tuple) else (group,)

    def call(_kept: object = bound) -> None:  # the kernel does not keep its buffers alive
        cl.enqueue_nd_range_kernel(queue, function, grid, local)
        queue.finish()

    return call
