"""Kernels written by hand in C against abi.h: the runtime is tested without the rest of the compiler."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any

from metalcore.engine.function import Function
from metalcore.engine.model import Argument, NativeKernel, Site, Variant
from metalcore.engine.runtime.launch import LoadedKernel
from metalcore.engine.runtime.native_library import SOURCES
from metalcore.engine.toolchain import compile_c, link_shared
from metalcore.engine.units import Signature

SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4}
SIZES |= {"uint32": 4, "int64": 8, "uint64": 8, "bool": 1, "pointer": 8}
SPELLED = {"float32": "float", "float16": "half", "bfloat16": "bfloat", "int32": "int", "uint32": "uint"}

HEAD = (
    f'#include "{os.path.join(SOURCES, "abi.h")}"\n'
    + """
#define KERNEL __attribute__((visibility("default"))) void mc_run(mc_launch* L, mc_worker* W, uint32_t gx0, \\
    uint32_t gx1, uint32_t gy, uint32_t gz, uint32_t w, uint32_t h, uint32_t d)
#define EACH_THREAD for (uint32_t gx = gx0; gx < gx1; gx++) for (uint32_t lz = 0; lz < d; lz++) \\
    for (uint32_t ly = 0; ly < h; ly++) for (uint32_t lx = 0; lx < w; lx++)
#define MUST_LEAVE (L->stop->word && L->stop->attend(L->stop))
#define X (gx * L->group[0] + lx)
#define Y (gy * L->group[1] + ly)
#define Z (gz * L->group[2] + lz)
"""
)


def argument(name: str, index: int, scalar: str = "float32", **changes: Any) -> Argument:
    """A `device T*` argument unless changed."""
    fields: dict[str, Any] = {
        "kind": "buffer",
        "type": SPELLED.get(scalar, scalar),
        "element_size": SIZES.get(scalar, 1),
        "element_align": SIZES.get(scalar, 1),
        "writable": True,
        "scalar": scalar,
        "lanes": 1,
        "space": "device",
        "enabled": True,
        "attribute": "",
    }
    return Argument(name=name, index=index, **(fields | changes))


def value(name: str, index: int, scalar: str = "float32", **changes: Any) -> Argument:
    """A `constant T&` argument."""
    return argument(name, index, scalar, **({"kind": "value", "writable": False, "space": "constant"} | changes))


class HandUnit:
    """Stands where a compiled source stands, with machine code that was written by hand."""

    def __init__(self, folder: Any, body: str, arguments: tuple[Argument, ...], **facts: Any) -> None:
        self.folder, self.arguments, self.facts = folder, arguments, facts
        self.body = body
        self.built: dict[Variant, NativeKernel] = {}
        self.lock = Lock()

    def signature(self, name: str, constants: Any) -> Signature:
        return Signature(self.arguments, self.facts.get("max_threads"))

    def native(self, name: str, constants: Any, variant: Variant) -> NativeKernel:
        with self.lock:
            if variant not in self.built:
                self.built[variant] = self._compile(name, variant)
            return self.built[variant]

    def load(self, name: str, constants: Any, variant: Variant) -> LoadedKernel:
        return LoadedKernel(self.native(name, constants, variant), variant)

    def _compile(self, name: str, variant: Variant) -> NativeKernel:
        edge = "#define IS_EDGE 1\n" if variant.layout == "any" else "#define IS_EDGE 0\n"
        path = _shared_object(os.path.join(str(self.folder), f"{name}-{variant.key}"), edge + HEAD + self.body)
        sites = self.facts.get("sites", (Site("hand.metal", 3, 5, "store", 0, 4),))
        return NativeKernel(path, sites, self.facts.get("static", 0), (), self.facts.get("written", (0,)))


_compiled: dict[str, str] = {}  # one compiler run for all tests with the same kernel


def _shared_object(stem: str, source: str) -> str:
    if source not in _compiled:
        with open(stem + ".c", "w") as file:
            file.write(source)
        compile_c(stem + ".c", stem + ".o")
        link_shared([stem + ".o"], stem + ".so")
        _compiled[source] = stem + ".so"
    return _compiled[source]


def function(folder: Any, name: str, body: str, arguments: tuple[Argument, ...], **facts: Any) -> Function:
    """A callable kernel from C."""
    return Function(HandUnit(folder, body, arguments, **facts), name, ())  # type: ignore[arg-type]
