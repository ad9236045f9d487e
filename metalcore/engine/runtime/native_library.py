"""Builds (once), loads and declares the C runtime."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from metalcore.engine.locks import locks
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.loading import load_shared
from metalcore.engine.store.cache import disk_cache
from metalcore.engine.store.identity import digest, key_of, machine_key
from metalcore.engine.store.prebuilt import prebuilt_library
from metalcore.engine.sysctl import number
from metalcore.engine.target import Target

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")


# Each library's C files. Sanitize mode is a library of its own, because most programs never need it; `track` may use
# what this machine has, because it handles shadow records four at a time. The runtime waits for Python and for memory
# more than it computes, and a first call waits for it.
RUNTIME, SANITIZER = ("runtime",), ("sanitizer", "track")


def content_key(library: Sequence[str] = RUNTIME) -> str:
    """Of the C files alone: what a wheel brought is looked up by it."""
    rows = []
    for name in sorted(os.listdir(SOURCES)):
        if name.endswith((".c", ".h")):
            with open(os.path.join(SOURCES, name), "rb") as file:
                rows.append((name, digest(file.read())))
    return key_of(*library, rows)


def source_key(library: Sequence[str] = RUNTIME) -> str:
    """Of what is built on this machine."""
    return key_of(content_key(library), machine_key())


def build(library: Sequence[str], target: Target | None = None) -> bytes:
    """A shared object of the runtime for *target*, or for this machine."""
    import tempfile

    from metalcore.engine.toolchain import compile_c, link_shared

    where = None if target is None else target.platform
    with tempfile.TemporaryDirectory(prefix="metalcore-") as folder:
        output = os.path.join(folder, "library.so")
        objects = [os.path.join(folder, f"{name}.o") for name in library]
        for name, made in zip(library, objects, strict=True):
            features = _wide(target) if name == "track" else ()
            compile_c(os.path.join(SOURCES, f"{name}.c"), made, features, quick=library is RUNTIME, where=where)
        link_shared(objects, output, where)
        with open(output, "rb") as file:
            return file.read()


def _wide(target: Target | None) -> tuple[str, ...]:
    from metalcore.engine.optimiser.llvm import this_target

    return ("+avx2",) if (target or this_target()).has("avx2") else ()


def is_built() -> bool:
    """Whether the cache or a wheel has the runtime."""
    return _found(RUNTIME) is not None


def _found(library: Sequence[str]) -> str | None:
    cached = disk_cache().read_binary("runtime", source_key(library))
    return cached[0] if cached is not None else prebuilt_library(content_key(library))


def library_path(library: Sequence[str] = RUNTIME) -> str:
    """A shared object of the runtime, from the cache, from a wheel or built now."""
    return _found(library) or disk_cache().write_binary("runtime", source_key(library), build(library), {})


_NAMES = (
    *("data_ptr", "dtype", "shape", "is_contiguous", "untyped_storage", "nbytes", "storage_offset", "is_neg"),
    *("base", "contiguous"),
)


def _python_functions() -> Any:
    """struct mc_python of native/python.c."""
    import numpy as np

    api = ctypes.pythonapi
    functions = (
        *(api.PyObject_GetBuffer, api.PyBuffer_Release, api.PyTuple_GetItem, api.PyTuple_Size, api.PyObject_Type),
        *(api.Py_DecRef, api.PyFloat_AsDouble, api.PyLong_AsLongLong, api.PyErr_Occurred, api.PyErr_Clear),
        *(api.PyEval_SaveThread, api.PyEval_RestoreThread, api.Py_IncRef, api.PyObject_GetAttr),
        *(api.PyObject_RichCompareBool, api.PyObject_VectorcallDict, api.PyObject_VectorcallMethod),
        *(api.PyLong_AsUnsignedLongLong, api.PyLong_FromLongLong, api.PyTuple_New, api.PyTuple_SetItem),
        *(api.PyList_New, api.PyList_SetItem, api.PyGILState_Ensure, api.PyGILState_Release),
        *(api.PyErr_CheckSignals, api.PyErr_Fetch, api.PyErr_Restore),
    )
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    objects = [id(value) for value in (np.ndarray, float, int, None, *_NAMES)]
    return (ctypes.c_void_p * (len(addresses) + len(objects)))(*addresses, *objects)


def _last_cache() -> int:
    """Bytes of the last cache before memory, as the system says; the size of a common one where it does not."""
    found = max(number(f"hw.{name}") for name in ("l3cachesize", "perflevel0.l2cachesize", "l2cachesize"))
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with suppress(OSError, ValueError):
            found = max(found, int(path.read_text().strip().removesuffix("K")) << 10)
    return found or 32 << 20


@cache
def _load() -> ctypes.CDLL:
    library = load_shared(library_path())
    pointer, u32 = ctypes.c_void_p, ctypes.c_uint32
    library.mc_call.argtypes = [pointer, ctypes.c_char_p, u32, pointer, ctypes.c_uint64, ctypes.c_uint64]
    library.mc_call.restype = ctypes.c_int
    ctypes.c_uint64.in_dll(library, "mc_stream_from").value = _last_cache() // 2
    library.mc_set_python(_python_functions())
    library.mc_set_main_thread.argtypes = [ctypes.c_uint64]
    library.mc_set_main_thread(threading.main_thread().ident)
    library.mc_last_error.argtypes = [ctypes.POINTER(layout.Error)]
    library.mc_last_error.restype = None
    library.mc_after_fork.restype = None
    # The pool's threads do not live on in a child process.
    os.register_at_fork(after_in_child=library.mc_after_fork)
    if _shares_openmp:
        _use_openmp(library)
    return library


def method(name: str, of: object) -> Any:
    """A method that the runtime has for Python: called without ctypes, which takes longer than what it does."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(ctypes.c_byte.in_dll(runtime_library(), name)), of, None)


@cache
def call_objects() -> Any:
    """(plan, arguments, threads, how) -> status."""
    return method("mc_call_objects", None)


def know(arguments: Sequence[Any]) -> None:
    """From now on C binds arrays of the frameworks of these, as far as it can."""
    from metalcore.arrays.find import is_mlx, is_torch

    for value in arguments:
        if is_torch(value):
            _know_torch()
        elif is_mlx(value):
            _know_mlx()


@cache
def _know_torch() -> None:
    """Tensors, where the torch that is loaded has DLPack's C exchange API."""
    from metalcore.arrays.torch_private import exchange_api

    torch, exchange, pointer = sys.modules["torch"], exchange_api(), ctypes.c_void_p
    if exchange is not None:
        tell = ctypes.CFUNCTYPE(None, pointer, pointer, pointer)(("mc_set_torch", runtime_library()))
        tell(id(torch.Tensor), id(torch.nn.Parameter), exchange)


@cache
def _know_mlx() -> None:
    """Arrays, where elements are asked for and the mlx that is loaded is as C knows it."""
    from metalcore.arrays.mlx_private import is_tracer

    found, pointer = is_tracer(), ctypes.c_void_p
    if found is not None:
        tell = ctypes.CFUNCTYPE(None, pointer, pointer)(("mc_set_mlx", runtime_library()))
        tell(id(sys.modules["mlx.core"].array), found)


def raise_again() -> None:
    """Raises what a signal's handler raised during the last launch of this thread."""
    ctypes.PYFUNCTYPE(None)(("mc_raise_again", runtime_library()))()


_shares_openmp = False


def use_openmp() -> None:
    """Launches share the threads of OpenMP (libgomp), where a library of this process has brought it. The runtime is
    told when it is there: it need not be built for that."""
    global _shares_openmp
    with locks.of("runtime"):
        _shares_openmp = True
        if _load.cache_info().currsize:
            _use_openmp(_load())


def _use_openmp(library: ctypes.CDLL) -> None:
    with suppress(AttributeError, OSError):
        openmp = ctypes.CDLL(None)
        names = ("GOMP_parallel", "omp_get_max_threads", "omp_get_thread_num")
        library.mc_use_openmp(*[ctypes.cast(getattr(openmp, name), ctypes.c_void_p) for name in names])


@cache
def _load_sanitizer() -> ctypes.CDLL:
    library, pointer = load_shared(library_path(SANITIZER)), ctypes.c_void_p
    library.mc_sanitize.argtypes = [pointer, ctypes.c_char_p, pointer, ctypes.c_uint64, pointer, ctypes.c_uint64]
    library.mc_sanitize.restype = ctypes.c_int
    library.mc_sanitize_after_fork.restype = library.mc_set_services.restype = None
    library.mc_set_services(ctypes.byref(ctypes.c_void_p.in_dll(runtime_library(), "mc_for_sanitizer")))
    os.register_at_fork(after_in_child=library.mc_sanitize_after_fork)
    return library


def sanitizer_library() -> ctypes.CDLL:
    """The loaded library of sanitize mode; safe to ask for from several threads."""
    with locks.of("sanitizer"):
        return _load_sanitizer()


def runtime_library() -> ctypes.CDLL:
    """The loaded runtime; safe to ask for from several threads."""
    with locks.of("runtime"):
        return _load()
