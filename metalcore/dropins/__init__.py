"""Calls of PyTorch and MLX that need a Mac, answered by the engine: same names, same rules, same errors."""

from metalcore.dropins.compile_shader import compile_shader
from metalcore.dropins.emulate import emulate
from metalcore.dropins.metal_kernel import metal_kernel

__all__ = ["compile_shader", "emulate", "metal_kernel"]
