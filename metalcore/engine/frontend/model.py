"""The frontend's results as plain data (docs/design/contracts.md). Light to import: a cached launch needs these alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Argument:
    """One parameter of a kernel that the host can see."""

    name: str
    index: int
    kind: str  # "buffer" (pointer), "value" (constant T& / device T&), "threadgroup", "builtin" (index -1)
    type: str  # MSL spelling of the pointee
    element_size: int
    element_align: int
    writable: bool
    scalar: str  # "float32", ..., "bool", "struct" or "pointer"
    lanes: int
    space: str
    enabled: bool
    attribute: str


@dataclass(frozen=True)
class FunctionConstant:
    """A function constant of a library."""

    name: str
    index: int
    type: str
    required: bool


@dataclass(frozen=True)
class ScalarKernel:
    """One entry point as raw scalar LLVM IR."""

    name: str
    ir: str
    arguments: tuple[Argument, ...]
    max_threads: int | None
    math_mode: str
