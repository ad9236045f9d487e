"""What is checked before a launch, for every runtime: limits of Metal and of GPU families, what kernels declare.

It knows no runtime. Each of them calls `validate` with what it knows of the kernel.
"""

from metalcore.launch.device import chosen_target, current_limits, target
from metalcore.launch.limits import COMMON, SIMD_WIDTH, Limits, ThreadLimit
from metalcore.launch.shape import Shape
from metalcore.launch.validate import (
    Code,
    Kernel,
    Launch,
    check_buffers,
    check_group,
    describe,
    thread_limit,
    thread_limits,
    validate,
)

__all__ = [
    "COMMON",
    "SIMD_WIDTH",
    "Code",
    "Kernel",
    "Launch",
    "Limits",
    "Shape",
    "ThreadLimit",
    "check_buffers",
    "check_group",
    "chosen_target",
    "current_limits",
    "describe",
    "target",
    "thread_limit",
    "thread_limits",
    "validate",
]
