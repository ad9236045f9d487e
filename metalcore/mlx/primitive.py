"""The MLX primitive, loaded: plans that run inside of mlx's lazy graph."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from metalcore import settings
from metalcore.arrays.mlx import mlx_module
from metalcore.arrays.mlx_private import is_tracer
from metalcore.engine.locks import locks
from metalcore.engine.runtime.loading import load_shared
from metalcore.engine.runtime.native_library import runtime_library
from metalcore.errors import MetalcoreError
from metalcore.mlx.build import NotBuilt, key, library, mlx_version
from metalcore.mlx.calls import Calls

AUTOMATIC, AT_ONCE, LAZY = range(3)
"""How a plan is run: at once where its arrays are there and small, else as a step of the graph; None where one of them
takes part in a transformation. At once, whatever they are. As a step of the graph."""
_pointer = ctypes.c_void_p


class _Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", _pointer), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class Primitive:
    """The shared object, told where the engine and Python's objects are."""

    def __init__(self) -> None:
        path, self.origin = library()
        if is_tracer() is None:
            raise NotBuilt("arrays of this mlx do not lie in memory as those that the primitive knows")
        try:
            found = load_shared(path)
            found.mcx_key.restype = ctypes.c_char_p
            made_of = found.mcx_key()
        except (OSError, AttributeError) as error:
            raise NotBuilt(f"the primitive cannot be loaded: {error}") from None
        if made_of != key().encode():
            raise NotBuilt("the primitive was made of other sources")
        found.mcx_plan.restype, found.mcx_plan.argtypes = _pointer, [_pointer, ctypes.c_char_p]
        found.mcx_forget.restype, found.mcx_forget.argtypes = None, [_pointer]
        found.mcx_set.restype, found.mcx_set.argtypes = None, [_pointer] * 5
        found.mcx_dead.restype, found.mcx_dead.argtypes = ctypes.c_uint64, []
        self._kept = (mlx_module().array, 0.0)  # by address in the library
        try:
            launch = ctypes.cast(runtime_library().mc_call, _pointer)
        except MetalcoreError as error:
            raise NotBuilt(f"the engine is not there: {error}") from None
        self.calls = Calls(found.mcx_dead)
        found.mcx_set(launch, self.calls.address, id(None), *map(id, self._kept))
        self._library, self.forget = found, found.mcx_forget
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [_pointer, ctypes.py_object, _pointer]
        self._make, self._method = make, ctypes.addressof(_Method.in_dll(found, "mcx_call"))

    def plan(self, numbers: Sequence[int], texts: Sequence[str]) -> tuple[int, Callable[..., Any]]:
        """A plan's address, and what calls it: (how, threads, *arrays)."""
        words = (ctypes.c_uint64 * len(numbers))(*[n % (1 << 64) for n in numbers])
        text = b"".join(each.encode().replace(b"\0", b"") + b"\0" for each in texts)
        address: int = self._library.mcx_plan(ctypes.addressof(words), text)
        return address, self._make(self._method, address, None)


@cache
def _load() -> Primitive | str:
    if not settings.mlx_primitive():
        return "METALCORE_MLX_PRIMITIVE=0"
    try:
        return Primitive()
    except NotBuilt as error:
        return str(error)


def primitive() -> Primitive | None:
    """The primitive, or None where there is none; the first time it may be compiled."""
    with locks.of("mlx primitive"):
        found = _load()
    return found if isinstance(found, Primitive) else None


def explain() -> str:
    """What runs the ops on mlx arrays on the CPU, and why.

    >>> import metalcore.mlx
    >>> metalcore.mlx.explain().startswith("mlx ")
    True
    """
    with locks.of("mlx primitive"):
        found = _load()
    version = f"mlx {mlx_version()}"
    if isinstance(found, Primitive):
        return f"{version}: the primitive ({found.origin}), as steps of mlx's graph"
    words = "ops run when they are called, and not inside mx.compile and mx.vmap"
    return f"{version}: the Python route, since there is no primitive ({found}): {words}"
