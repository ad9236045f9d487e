"""PyTorch's error buffer (c10/metal/error.h): kernels report errors into it, the host raises them."""

from __future__ import annotations

import numpy as np

from metalcore.arrays.numpy import address_of
from metalcore.engine.runtime.raw_binding import Binding
from metalcore.errors import KernelFault

MESSAGES = 30  # c10::metal::error_message_count
MESSAGE = np.dtype([("file", "S128"), ("func", "S128"), ("message", "S250"), ("pad", "V2"), ("line", "<u4")])
BUFFER = np.dtype([("count", "<u4"), ("msg", MESSAGE, (MESSAGES,))])


class ErrorBuffer:
    """A zeroed `c10::metal::ErrorMessages` for one launch."""

    def __init__(self) -> None:
        self._data = np.zeros(1, BUFFER)

    @property
    def binding(self) -> Binding:
        """The buffer as a kernel argument."""
        return Binding(address_of(self._data), self._data.nbytes, self._data)

    def raise_reported(self) -> None:
        """Raise what the kernel reported, if it did."""
        record = self._data[0]
        count = int(record["count"])
        if count == 0:
            return
        lines = [
            f"{entry['file'].decode(errors='replace')}:{entry['line']} in {entry['func'].decode(errors='replace')}: "
            f"{entry['message'].decode(errors='replace')}"
            for entry in record["msg"][: min(count, MESSAGES)]
        ]
        more = f"\n... and {count - MESSAGES} more" if count > MESSAGES else ""
        raise KernelFault("\n".join(lines) + more)
