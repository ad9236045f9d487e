"""Operators that a program registers for MPS, in torch.library: called for tensors on the emulated device.

To torch's dispatcher such tensors are CPU tensors. So what is registered for MPS goes to the CPU's key behind a choice:
tensors on mps get the kernel for MPS, others the one for the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metalcore.dropins.emulate_device import RESIDENTS, DeviceMode, tensors

DEFAULTS = ("", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
TORCH_OWN = ("aten", "prim", "prims", "quantized", "inductor")  # these keep the kernels that they have
Kernels = dict[str, Callable[..., Any]]


def library_impl(original: Callable[..., None]) -> Callable[..., None]:
    """torch.library.Library.impl that also knows what MPS means here."""
    known: dict[str, Kernels] = {}

    def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        key = dispatch_key or self.dispatch_key
        # A kernel that asks for the key set is not ours to call.
        if self.ns in TORCH_OWN or self.ns.startswith("_") or options.get("with_keyset"):
            original(self, op_name, fn, dispatch_key, **options)
            return
        name = f"{self.ns}::{str(op_name).rpartition('::')[2]}"
        kernels = known.setdefault(name, {})
        chosen = "MPS" in kernels  # the CPU's key holds the choice already, which sees what is added here
        if key in ("MPS", "CPU", *DEFAULTS):
            kernels["default" if key in DEFAULTS else key] = fn
        if not (chosen and key == "CPU"):
            original(self, op_name, fn, dispatch_key, **options)
        if key == "MPS" and not chosen:
            original(self, op_name, _choice(name, kernels), "CPU")

    return impl


def _choice(name: str, kernels: Kernels) -> Callable[..., Any]:
    def choose(*args: Any, **kwargs: Any) -> Any:
        given = list(tensors((args, kwargs)))
        on_mps = not given or any(RESIDENTS.holds(tensor) for tensor in given)
        kernel = kernels.get("MPS" if on_mps else "CPU") or kernels.get("default")
        if kernel is None:
            raise NotImplementedError(f"'{name}' has no kernel for CPU tensors, only for MPS")
        if not on_mps:
            return kernel(*args, **kwargs)
        with DeviceMode(lambda: True):  # the program's own code, called back from the dispatcher
            result = kernel(*args, **kwargs)
        for tensor in tensors(result):
            RESIDENTS.add(tensor)
        return result

    return choose
