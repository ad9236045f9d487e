"""What a wheel brings: the runtime, and kernels of the op library, made for a few processors. docs/design/wheels.md.

The files are part of the package: nobody writes here, and they are trusted as its code is. A store is a folder of
metalcore/prebuilt for one target. It is left aside where the processor lacks one of its features, or where the engine's
files are not those that made it; so is a unit whose source files have changed. What is left aside is compiled.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from metalcore import settings
from metalcore.engine.files import MISSING, state_of
from metalcore.engine.store.cache import engine_key
from metalcore.engine.store.identity import ENGINE, key_of, processor_flags

if TYPE_CHECKING:
    from metalcore.engine.options import Source

PACKAGE = os.path.dirname(ENGINE)
HOME = os.path.join(PACKAGE, "prebuilt")
HERE = "<metalcore>"  # stands for the package's folder in what is stored
FACTS = "store.json"


class Store(NamedTuple):
    """One folder."""

    folder: str
    libraries: dict[str, str]  # the runtime's parts: file names by the key of their sources
    rank: int  # the greater, the more of a processor it uses


class PrebuiltUnit(NamedTuple):
    """What there is of one source: its manifest, signatures and kernels."""

    folder: str
    manifest: dict[str, Any]
    signatures: dict[str, dict[str, Any]]
    kernels: dict[str, dict[str, Any]]

    def signature(self, name: str, constants: Sequence[Any]) -> dict[str, Any] | None:
        return self.signatures.get(signature_key(name, constants))

    def kernel(self, name: str, constants: Sequence[Any], variant: str) -> tuple[str, dict[str, Any]] | None:
        """Path of a shared object, and what is known of the kernel."""
        found = self.kernels.get(kernel_key(name, constants, variant))
        return None if found is None else (os.path.join(self.folder, found["file"]), found["meta"])


def signature_key(name: str, constants: Sequence[Any]) -> str:
    return key_of(name, tuple(constants))


def kernel_key(name: str, constants: Sequence[Any], variant: str) -> str:
    return key_of(name, tuple(constants), variant)


def unit_key(source: Source) -> str | None:
    """Names a source, wherever the package lies; None where it looks at files of others."""
    if source.path is not None or not all(_is_ours(folder) for folder in source.include_dirs):
        return None
    folders = [within(folder) for folder in source.include_dirs]
    defines = sorted((k, repr(v)) for k, v in source.defines.items())
    return key_of(source.text, folders, defines, source.math_mode, source.float_type, source.prelude)


def within(path: str) -> str:
    """A path inside the package, as it is stored."""
    return HERE + path[len(PACKAGE) :] if _is_ours(path) else path


def _is_ours(path: str) -> bool:
    return path == PACKAGE or path.startswith(PACKAGE + os.sep)


def prebuilt_unit(source: Source) -> PrebuiltUnit | None:
    """The unit of a source from the best store that has it."""
    key = unit_key(source) if stores() else None
    if key is None:
        return None
    for store in stores():
        unit = _read_unit(store.folder, key)
        if unit is not None and _is_as_it_was(unit.manifest["files"]):
            return unit
    return None


def prebuilt_library(key: str) -> str | None:
    """A part of the runtime, by the key of its C files."""
    for store in stores():
        if key in store.libraries:
            return os.path.join(store.folder, store.libraries[key])
    return None


@cache
def stores() -> tuple[Store, ...]:
    """Those that serve this process, the best first."""
    if not settings.uses_prebuilt():
        return ()
    try:
        names = os.listdir(HOME)
    except OSError:  # a clone has none
        return ()
    found = [store for store in map(_read_store, sorted(names)) if store is not None]
    return tuple(sorted(found, key=lambda store: -store.rank))


def _read_store(name: str) -> Store | None:
    folder = os.path.join(HOME, name)
    facts = _read(os.path.join(folder, FACTS))
    if facts is None or (facts["system"], facts["machine"]) != (platform.system(), platform.machine()):
        return None
    if not processor_flags().issuperset(facts["flags"]) or facts["engine"] != engine_key():
        return None
    return Store(folder, facts["libraries"], facts["rank"])


@cache
def _read_unit(folder: str, key: str) -> PrebuiltUnit | None:
    data = _read(os.path.join(folder, f"{key}.json"))
    return None if data is None else PrebuiltUnit(folder, data["manifest"], data["signatures"], data["kernels"])


def _read(path: str) -> dict[str, Any] | None:
    """A JSON file with the places of this installation."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return None
    data: dict[str, Any] = json.loads(text.replace(HERE, json.dumps(PACKAGE)[1:-1]))
    return data


def _is_as_it_was(files: Sequence[Sequence[str]]) -> bool:
    """Whether the files of the package that the source includes are those that the kernels were made of."""
    roots, limit = [os.path.realpath(PACKAGE)], settings.source_size()
    for path, known in files:
        if known == MISSING and not os.path.lexists(path):
            continue
        if state_of(path, roots, limit)[0] != known:
            return False
    return True
