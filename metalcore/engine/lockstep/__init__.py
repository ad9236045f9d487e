"""Scalar IR to 32-lane lockstep IR."""

from .module import LockstepModule, vectorise

__all__ = ["LockstepModule", "vectorise"]
