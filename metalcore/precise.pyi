# Made by `python -m tests.ops.stubs`; do not edit.
# ruff: noqa

from collections.abc import Sequence
from typing import Any

def cholesky(A: Any, *, upper: bool = False, precision: str = 'float-float') -> Any:
    """L of A = L L^T, or with `upper` U of A = U^T U, as torch.linalg.cholesky, computed in float-float and
    then rounded."""

def dot(x: Any, y: Any, *, precision: str = 'float-float', pair: bool = False) -> Any:
    """The dot product over the last dimension, in float32; x and y have the same shape."""

def matmul(a: Any, b: Any, *, precision: str = 'float-float', pair: bool = False) -> Any:
    """a @ b of matrices or batches of them, in float32; on one side a single matrix may stand for a batch."""

def norm(x: Any, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, precision: str = 'float-float', pair: bool = False) -> Any:
    """The Euclidean norm over `dim` (None: all), in float32. No square overflows or is lost."""

def qr(A: Any, mode: str = 'reduced', *, precision: str = 'float-float') -> Any:
    """(Q, R) of A = Q R, as torch.linalg.qr, computed in float-float and then rounded."""

def solve(A: Any, B: Any, *, precision: str = 'float-float', pair: bool = False) -> Any:
    """X of A X = B, as torch.linalg.solve; A is factorised in float32, and residuals in float-float ("exact": with one
    rounding) correct the result: up to a condition of 1e7 or so it is right to float32's last digit."""

def sum(x: Any, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, precision: str = 'float-float', pair: bool = False) -> Any:
    """The sum over `dim` (None: all), in float32."""
