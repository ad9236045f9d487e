"""Objects that stand for machine code or for a process: they are not copied, and not sent to another process."""

from __future__ import annotations

from typing import NoReturn, TypeVar

from metalcore.errors import ArgumentError

_T = TypeVar("_T", bound="Unpicklable")


class Unpicklable:
    """A copy is the object itself, a pickle an error that says so."""

    __slots__ = ()

    def __copy__(self: _T) -> _T:
        return self

    def __deepcopy__(self: _T, memo: object) -> _T:
        return self

    def __reduce__(self) -> NoReturn:
        raise ArgumentError(
            f"a metalcore {type(self).__name__} cannot be pickled: it belongs to this process. Send the source and "
            "make it again there; the cache has the compiled kernels"
        )
