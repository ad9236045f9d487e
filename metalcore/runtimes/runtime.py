"""What a plan asks of the runtime that it is given, `run`: memory, dtypes, launches. Plans see nothing else of a
framework or a device, so a new runtime is a class with these members."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from metalcore.runtimes.kernel import Arguments, Items, Kernel, Size

Explain = Callable[[int, int], str]
"""Words for the first error that a kernel noted: its position, and the value found there."""


@runtime_checkable
class Runtime(Protocol):
    """Carries out plans on arrays of one framework; an `array` is one of these, a dtype a name such as "float32"."""

    @property
    def family(self) -> str:
        """ "cpu" or "apple": which part of kernels/launch.toml holds."""

    @property
    def writes_in_place(self) -> bool:
        """Whether a kernel may write an array that exists, not only an `Out`."""

    @property
    def keeps_arguments(self) -> bool:
        """Whether arrays of the caller are immutable (mlx): what an op would write in place it returns."""

    def dtype(self, array: Any) -> str:
        """The name of its dtype."""

    def contiguous(self, array: Any) -> Any:
        """The array, or a row-contiguous copy."""

    def cast(self, array: Any, dtype: str) -> Any:
        """The array in another dtype; itself where it has that already."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Memory that is not initialised."""

    def sort(self, indices: Any) -> tuple[Any, Any]:
        """A vector of integers sorted, and where each came from (int64); equal ones stay in their order."""

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        """Run `groups` threadgroups of `group_size` threads of one variant of a kernel.

        `types` are dtypes or numbers for its template, `constants` values of the function constants that it names.
        `arguments` go by the names of the parameters in the Metal file: an array, a number, None for an input that
        the kernel does not touch, or an `Out`, which is allocated. Returns what was allocated, in the order of the
        parameters. Of 0 groups nothing runs, and outputs are allocated all the same.
        """

    def check_errors(self, errors: Any, explain: Explain) -> None:
        """Raise the first error that a kernel noted: rows of {1 or 0, position, value}. A GPU is not waited for."""

    def check_info(self, info: Any, explain: Explain) -> None:
        """Raise for the first matrix whose factorisation failed: `info` holds 0 where it did not."""

    def any_set(self, flags: Any) -> bool:
        """Whether a kernel set one of these, for a plan that goes on by what it found. A GPU is waited for."""

    def stream(self, number: int) -> AbstractContextManager[Any]:
        """A context whose launches may run beside those of other numbers."""


if TYPE_CHECKING:
    from metalcore.runtimes.cpu import CpuRuntime
    from metalcore.runtimes.fake import FakeRuntime
    from metalcore.runtimes.mlx import MlxRuntime
    from metalcore.runtimes.mps import MpsRuntime
    from metalcore.runtimes.mps_native import NativeRuntime

    def _all(
        cpu: CpuRuntime, mps: MpsRuntime, native: NativeRuntime, mlx: MlxRuntime, fake: FakeRuntime
    ) -> tuple[Runtime, ...]:
        """mypy compares each with the protocol."""
        return cpu, mps, native, mlx, fake
