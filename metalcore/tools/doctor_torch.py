"""The line of `metalcore doctor` that says how torch's tensors on MPS run."""

from __future__ import annotations

from importlib.util import find_spec


def torch_route() -> tuple[bool, str]:
    if find_spec("torch") is None:
        return True, "torch is not installed"
    from metalcore.runtimes.mps_route import route

    return True, str(route())
