"""The line of `metalcore doctor` that says how ops on mlx arrays run."""

from __future__ import annotations

from importlib.util import find_spec


def mlx_route() -> tuple[bool, str]:
    if find_spec("mlx") is None:
        return True, "mlx is not installed"
    from metalcore.mlx.primitive import explain

    return True, explain()
