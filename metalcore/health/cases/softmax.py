"""Fuzzed cases of softmax, and the op in plain torch."""

from __future__ import annotations

from metalcore.health.cases.base.softmax import reference_of, samples

__all__ = ["reference", "samples"]
reference = reference_of("softmax")
