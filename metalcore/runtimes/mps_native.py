"""Library kernels through the native torch extension, on the current MPS stream, with no synchronisation."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from metalcore import settings
from metalcore.arrays.torch import torch_module
from metalcore.runtimes.dump import dump_shader
from metalcore.runtimes.kernel import Arguments, Items, Kernel, Size, any_set, raise_first, raise_info, read
from metalcore.runtimes.mps_tensors import MpsTensors
from metalcore.runtimes.native_torch import ADDRESSES, BUFFER, BYTES, Extension, Words
from metalcore.runtimes.slots import Slots, launch_size, make_variant
from metalcore.runtimes.text import DEVICE
from metalcore.runtimes.watch import launched, note_variant, recorders

_MASK = (1 << 64) - 1


def place(tensor: Any) -> tuple[int, int]:
    """The buffer that a tensor lies in, and where, in bytes. On MPS the address of a storage is its MTLBuffer."""
    return tensor.untyped_storage().data_ptr(), tensor.storage_offset() * tensor.element_size()


class Native:
    """One variant: its pipeline, and arguments as the extension takes them."""

    def __init__(self, extension: Extension, slots: Slots) -> None:
        self.slots = slots
        variant = slots.variant
        dump_shader(variant, DEVICE + read(variant.kernel.file) + variant.instantiation)
        note_variant(variant, "native extension")
        self.pipeline = extension.pipeline(variant)

    def words(self, tensors: MpsTensors, given: Items, outputs: list[Any], kept: list[Any]) -> list[Words]:
        """What fills each buffer. `kept` holds what the words point at until the launch is encoded."""
        found: list[Words] = []
        for slot, value in zip(self.slots.slots, given, strict=True):
            if type(value) is list:
                found.append(list_words([t if t.nbytes else tensors.nothing for t in value], kept))
            elif slot.convert is not None:
                found.append(number_words(slot.convert(value)))
            else:
                found.append(tensor_words(tensors.bound(self.slots, slot, value, outputs)))
        return found


def tensor_words(tensor: Any) -> Words:
    """A buffer from an offset on."""
    return BUFFER, *place(tensor), tensor.nbytes


def number_words(value: Any) -> Words:
    """The bytes of a `constant long&` or a `constant float&`."""
    if type(value) is float:
        return BYTES, struct.unpack("<I", struct.pack("<f", value))[0], 0, 4
    return BYTES, value & _MASK, 0, 8


def list_words(column: Sequence[Any], kept: list[Any]) -> Words:
    """An array of the addresses of tensors. `kept` must live until the launch is encoded."""
    pairs = [word for tensor in column for word in place(tensor)]
    packed = struct.pack(f"={len(pairs)}Q", *pairs)
    kept.append(packed)
    return ADDRESSES, _address(packed), 0, len(column)


def _address(packed: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(packed), ctypes.c_void_p).value or 0


class NativeRuntime:
    """Runs kernels on tensors of one device, by an extension."""

    family = "apple"
    writes_in_place, keeps_arguments = True, False
    any_set = staticmethod(any_set)

    def __init__(self, extension: Extension, device: str = "mps") -> None:
        self.extension = extension
        self.tensors = MpsTensors(device)
        arrays = self.tensors.arrays
        self.dtype, self.contiguous, self.empty = arrays.dtype, arrays.contiguous, arrays.empty
        self.sort, self.cast = arrays.sort, arrays.cast
        self._known: dict[Any, Native] = {}

    def stream(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        """Run `groups` threadgroups; each `Out` among the arguments is allocated, and all of them are returned."""
        native = self.native(kernel, types, constants)
        outputs: list[Any] = []
        kept: list[Any] = []
        words = native.words(self.tensors, kernel.ordered(arguments), outputs, kept)
        if 0 not in groups:
            if recorders:
                launched(kernel, types, constants)
            _, group = launch_size(kernel, groups, group_size)
            self.extension.launch(native.pipeline, words, (*groups, 1, 1)[:3], group)
        return outputs

    def native(self, kernel: Kernel, types: Items, constants: Items) -> Native:
        """One variant, with its pipeline."""
        key = (kernel, types, constants)
        found = self._known.get(key)
        if found is None:
            found = self._known.setdefault(key, Native(self.extension, Slots(make_variant(*key))))
        return found

    @property
    def looks_at_errors(self) -> bool:
        return settings.check_gpu()

    def check_errors(self, errors: Any, explain: Callable[[int, int], str]) -> None:
        """Nothing, since it would wait for the GPU; METALCORE_CHECK_GPU asks for it."""
        if self.looks_at_errors:
            raise_first(errors, explain)

    def check_info(self, info: Any, explain: Callable[[int, int], str]) -> None:
        """Waits for the GPU, as torch.linalg does; the functions that end in _ex do not."""
        raise_info(info, explain, torch_module().linalg.LinAlgError)
