"""What the runtimes and the drop-ins ask of an array framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Arrays(Protocol):
    """One framework's arrays: NumpyArrays, TorchArrays, MlxArrays."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any: ...

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Any]:
        """Makes such arrays, again and again."""

    def memory(self, array: Any) -> tuple[int, int]:
        """Address and size in bytes of a contiguous array."""

    def contiguous(self, array: Any) -> Any:
        """The array, or a copy whose rows lie one after the other."""

    def strides(self, array: Any) -> tuple[int, ...]:
        """In elements."""

    def dtype(self, array: Any) -> str: ...

    def cast(self, array: Any, dtype: str) -> Any:
        """The array in another dtype; itself where it has that already."""

    @property
    def linalg_error(self) -> type[Exception]:
        """What the framework raises for a matrix that has no factorisation."""

    def sort(self, indices: Any) -> tuple[Any, Any]:
        """A vector of integers sorted, and where each came from (int64); equal ones stay in their order."""
