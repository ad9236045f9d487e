"""`stream=` of every function of metalcore.mlx: what mlx's own functions take."""

from __future__ import annotations

from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.ops.base.check import refuse
from metalcore.runtimes.mlx import has_metal


def on_stream(name: str, stream: Any) -> Any:
    """A block whose ops run on this stream or device."""
    mx = mlx_module()
    if isinstance(stream, (mx.Stream, getattr(mx, "ThreadLocalStream", mx.Stream))):
        device = stream.device
    elif isinstance(stream, (mx.Device, mx.DeviceType)):
        device = stream
    else:
        refuse(f"mlx.{name}", "stream", "a stream or a device of mlx, as mx.cpu", f"of type {type(stream).__name__}")
    if device == mx.gpu and not has_metal():
        refuse(f"mlx.{name}", "stream", "of the CPU, as this mlx has no GPU that Metal runs on", repr(stream))
    return mx.stream(stream)
