"""Keys of the random numbers in kernels: a function of a stored seed, the step and the parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def seed_of(seed: int | None) -> int:
    """The given seed, or that of torch."""
    return torch.initial_seed() & (2**63 - 1) if seed is None else int(seed)


def stream_keys(origins: Sequence[tuple[int, int]], numbers: Sequence[int]) -> np.ndarray[Any, Any]:
    """Two 32-bit keys for each parameter, from (seed, step) and its number in the optimizer."""
    seeds = np.array([seed & (2**64 - 1) for seed, _ in origins], np.uint64)
    steps = np.array([step for _, step in origins], np.uint64)
    mixed = _mix(_mix(seeds + np.array(numbers, np.uint64) * _ODD) ^ steps)
    return np.stack([mixed & np.uint64(0xFFFFFFFF), mixed >> np.uint64(32)], 1).astype(np.uint32)


_ODD = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A bijection of 64 bits in which every bit of x changes about half of the result (splitmix64's last step)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
