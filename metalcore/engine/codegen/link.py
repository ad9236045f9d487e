"""The last step to machine code: an object file becomes a shared object that needs nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable

from metalcore.engine.codegen import own_functions
from metalcore.engine.codegen.closed_object import check_object, undefined
from metalcore.engine.target import Target
from metalcore.engine.toolchain import link_shared


def link(folder: str, code: bytes, allowed: Iterable[str], target: Target) -> str:
    """A shared object that holds all that it uses, but for what is *allowed*."""
    library, objects = os.path.join(folder, "kernel.so"), [os.path.join(folder, "kernel.o")]
    _write(objects[0], code)
    link_shared(objects, library, target.platform)
    if undefined(library) & own_functions.NAMES:
        objects.append(os.path.join(folder, "own.o"))
        _write(objects[1], own_functions.object_file(target))
        link_shared(objects, library, target.platform)
    check_object(library, allowed)
    for path in objects:
        os.unlink(path)
    return library


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
