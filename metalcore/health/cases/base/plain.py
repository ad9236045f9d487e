"""Plain torch as the reference of an op."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any


def of_torch(name: str) -> Callable[..., Any]:
    """torch's own function, for example of_torch("linalg.qr"); torch is imported when it is called."""

    def reference(*arguments: Any, **named: Any) -> Any:
        import torch

        return attrgetter(name)(torch)(*arguments, **named)

    return reference
