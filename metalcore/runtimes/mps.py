"""Library kernels through torch.mps.compile_shader, on the current MPS stream, with no synchronisation.

Not yet run on a device: the tests run it with the engine's `metalcore.compile_shader`, which has the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from metalcore import settings
from metalcore.arrays.torch import torch_module
from metalcore.runtimes.dump import dump_shader
from metalcore.runtimes.kernel import Arguments, Items, Kernel, Size, any_set, raise_first, raise_info
from metalcore.runtimes.mps_native import NativeRuntime
from metalcore.runtimes.mps_route import route
from metalcore.runtimes.mps_tensors import MpsTensors
from metalcore.runtimes.runtime import Runtime
from metalcore.runtimes.slots import Slots, launch_size, make_variant
from metalcore.runtimes.text import DEVICE, is_own, shader_text
from metalcore.runtimes.watch import launched, note_variant, recorders


class Shader:
    """One variant, compiled by PyTorch: turns arguments into what its call takes."""

    def __init__(self, compile_shader: Callable[[str], Any], slots: Slots) -> None:
        self.slots = slots
        text = ("" if is_own(compile_shader) else DEVICE) + shader_text(slots.variant)
        dump_shader(slots.variant, text)
        note_variant(slots.variant, "compile_shader")
        self.call = getattr(compile_shader(text), slots.variant.entry_point)

    def arguments(self, run: MpsRuntime, given: tuple[Any, ...], outputs: list[Any]) -> list[Any]:
        """Tensors and numbers in the order of the buffers; outputs are allocated and added to `outputs`."""
        return [
            slot.convert(value) if slot.convert is not None else run.tensors.bound(self.slots, slot, value, outputs)
            for slot, value in zip(self.slots.slots, given, strict=True)
        ]


class MpsRuntime:
    """Runs kernels on tensors of one device. `compile_shader` is torch.mps.compile_shader, or what stands in for it."""

    family = "apple"
    writes_in_place, keeps_arguments = True, False
    any_set = staticmethod(any_set)

    def __init__(self, compile_shader: Callable[[str], Any] | None = None, device: str = "mps") -> None:
        self._compile = compile_shader or torch_module().mps.compile_shader
        self.tensors = MpsTensors(device)
        arrays = self.tensors.arrays
        self.dtype, self.contiguous, self.empty = arrays.dtype, arrays.contiguous, arrays.empty
        self.sort, self.cast = arrays.sort, arrays.cast
        self._shaders: dict[Any, Shader] = {}

    def stream(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        """Run `groups` threadgroups; each `Out` among the arguments is allocated, and all of them are returned."""
        key = (kernel, types, constants)
        shader = self._shaders.get(key) or self._make(key)
        outputs: list[Any] = []
        bound = shader.arguments(self, kernel.ordered(arguments), outputs)
        if 0 not in groups:
            if recorders:
                launched(kernel, types, constants)
            threads, group = launch_size(kernel, groups, group_size)
            shader.call(*bound, threads=list(threads), group_size=list(group))
        return outputs

    def _make(self, key: tuple[Kernel, tuple[object, ...], tuple[object, ...]]) -> Shader:
        return self._shaders.setdefault(key, Shader(self._compile, Slots(make_variant(*key))))

    def check_errors(self, errors: Any, explain: Callable[[int, int], str]) -> None:
        """Nothing, since it would wait for the GPU; METALCORE_CHECK_GPU asks for it."""
        if settings.check_gpu():
            raise_first(errors, explain)

    def check_info(self, info: Any, explain: Callable[[int, int], str]) -> None:
        """Waits for the GPU, as torch.linalg does; the functions that end in _ex do not."""
        raise_info(info, explain, torch_module().linalg.LinAlgError)


@cache
def torch_mps() -> Runtime:
    """The runtime that the torch ops use for tensors on MPS: by the native extension where it fits this torch."""
    extension = route().extension
    return MpsRuntime() if extension is None else NativeRuntime(extension)
