"""Plans recorded for the MLX primitive on a GPU: each launch with its Metal text, its buffers by their index, its size.

Built and tested as far as Linux goes (the text is the one that compile_shader gets); not run on a Mac yet.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from metalcore.mlx.record import CannotRecord, Recorder
from metalcore.runtimes.kernel import Arguments, Items, Kernel, Out, Size
from metalcore.runtimes.mlx import GRID_LIMIT
from metalcore.runtimes.slots import Slots, launch_size, make_variant
from metalcore.runtimes.text import DEVICE, shader_text, unique_key
from metalcore.runtimes.watch import note_variant

_NOTHING, _INPUT, _OUTPUT, _NUMBER = range(4)


class MetalLaunch(NamedTuple):
    """One launch: slots are (kind, array or the number's bytes, bytes of the number), in the order of the buffers."""

    library: str
    source: str
    entry: str
    slots: tuple[tuple[int, int, int], ...]
    groups: tuple[int, int, int]
    group: tuple[int, int, int]

    @property
    def numbers(self) -> list[int]:
        return [len(self.slots), *(n for slot in self.slots for n in slot), *self.groups, *self.group]


class MetalRecorder(Recorder):
    """As Recorder, with the policy of a GPU."""

    family = "apple"

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        variant = make_variant(kernel, types, constants)
        checked = Slots(variant)
        outputs: list[Any] = []
        slots: list[tuple[int, int, int]] = []
        for slot, value in zip(checked.slots, kernel.ordered(arguments), strict=True):
            if type(value) is Out:
                checked.check_dtype(slot, value.dtype)
                value = self.empty(value.shape, value.dtype)
                outputs.append(value)
                slots.append((_OUTPUT, value.index, 0))
            elif slot.convert is not None:
                code, kind = ("<q", int) if slot.parameter.type == "long" else ("<fxxxx", float)
                slots.append((_NUMBER, struct.unpack("<Q", struct.pack(code, kind(value)))[0], 8 if kind is int else 4))
            elif value is None:
                slots.append((_NOTHING, 0, 0))
            else:
                checked.check_dtype(slot, self.dtype(value))
                is_output = slot.parameter.kind == "output"
                if is_output and value.index < len(self.inputs):
                    raise CannotRecord("written argument")
                slots.append((_OUTPUT if is_output else _INPUT, value.index, 0))
        if 0 in groups:
            return outputs
        _, group = launch_size(kernel, groups, group_size, GRID_LIMIT)
        note_variant(variant, "the MLX primitive")
        counts = (*groups, 1, 1)[:3]
        text = (f"metalcore_{unique_key(variant)}", DEVICE + shader_text(variant), variant.entry_point)
        self.steps.append(MetalLaunch(*text, tuple(slots), (counts[0], counts[1], counts[2]), group))
        return outputs
