"""Compiled source, kept on disk: what a library holds, kernels' signatures, machine code.

The cache works as ccache's direct mode does: the source text, its options and the toolchain name a manifest, which
lists every file that was included and what it contained. While all of them are as they were, nothing is preprocessed
again.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from metalcore import settings
from metalcore.engine.files import MISSING, state_of, torch_headers
from metalcore.engine.locks import locks
from metalcore.engine.model import Argument, FunctionConstant, NativeKernel, Variant
from metalcore.engine.notice import compiling, name_of
from metalcore.engine.options import Source
from metalcore.engine.runtime.launch import LoadedKernel
from metalcore.engine.store.cache import disk_cache, toolchain_key
from metalcore.engine.store.identity import key_of
from metalcore.engine.store.prebuilt import PrebuiltUnit, prebuilt_unit
from metalcore.errors import CompileError
from metalcore.forking import import_whole
from metalcore.launch.declaration import Requirement

if TYPE_CHECKING:
    from metalcore.engine.frontend.model import Unit
    from metalcore.engine.frontend.records import Type
    from metalcore.engine.model import ScalarKernel

# What is imported on the way to machine code: whole, so that a child of a fork never waits for the rest of a module.
_FRONTEND = (
    *("metalcore.engine.frontend.unit", "metalcore.engine.frontend.lowering", "metalcore.engine.frontend.records"),
    *("metalcore.engine.store.prune", "difflib", "json", "resource", "shutil", "subprocess", "tempfile"),
)
_CODE_GENERATION = (
    *("metalcore.engine.pipeline", "metalcore.engine.codegen.facts", "metalcore.engine.optimiser.llvm"),
    *("metalcore.engine.optimiser.child", "metalcore.engine.codegen.closed_object"),
    *("metalcore.engine.codegen.own_functions",),
    *("metalcore.engine.lockstep", "metalcore.engine.toolchain", "metalcore.engine.checks.instrument"),
    *("shutil", "tempfile", "struct"),
)

Constants = tuple[tuple[int, Any], ...]  # (index, value), sorted


used: dict[str, bool] | None = None
"""Keys of the machine code that this process has asked for, and whether it was compiled here; None: nobody asks."""


asked: Callable[[Source, str, Constants, Variant], None] | None = None
"""Hears of each kernel that this process asks for; None: nobody wants to."""


class Signature(NamedTuple):
    """What the host must know of a kernel to call it."""

    arguments: tuple[Argument, ...]
    max_threads: int | None
    requirements: tuple[Requirement, ...] = ()


def signature_data(kernel: ScalarKernel) -> dict[str, Any]:
    """What is kept of a kernel's signature."""
    return {
        "arguments": [dataclasses.asdict(a) for a in kernel.arguments],
        "max_threads": kernel.max_threads,
        "requirements": [list(r) for r in kernel.requirements],
    }


def _is_as_it_was(manifest: dict[str, Any]) -> bool:
    """Whether every file that was read is the same, and nothing is to be found where nothing was found."""
    limit, roots, links = settings.source_size(), manifest["roots"], dict(manifest["links"])
    for path, known in manifest["files"]:
        if known == MISSING:
            try:
                os.stat(path)
            except (OSError, ValueError):
                continue
        state, real, _ = state_of(path, roots, limit)
        if state != known or (real and real != links.get(path, path)):
            return False
    return manifest["torch"] is None or manifest["torch"] == (torch_headers() or "")


def _in_background(name: str, prepare: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=prepare, name=name)
    thread.start()
    return thread


@cache
def _prepare_header(math_mode: str, float_type: str) -> threading.Thread:
    """metal_stdlib precompiled, where it is not yet, while the source is read."""

    def prepare() -> None:
        import_whole("metalcore.engine.frontend.toolchain")
        from metalcore.engine.frontend import toolchain

        toolchain.standard_library(toolchain.language_flags(math_mode, optimised=True, float_type=float_type))

    return _in_background("metalcore-header", prepare)


@cache
def _prepare_code_generation() -> threading.Thread:
    """What every compilation needs after the frontend, made ready while clang runs: LLVM, and the runtime once."""

    def prepare() -> None:
        from metalcore.engine.runtime.native_library import runtime_library

        with suppress(Exception):  # what is wrong shows where the part is used
            import_whole(*_CODE_GENERATION)  # while the caller waits for the header, which has a core of its own
            with locks.of("header"):  # and the runtime has it next: nobody needs that before there is a kernel to run
                pass
            runtime_library()

    return _in_background("metalcore-prepare", prepare)


@cache
def _prepare_sanitizer() -> threading.Thread:
    """The library of sanitize mode, made while its first kernel is compiled."""

    def prepare() -> None:
        from metalcore.engine.runtime.native_library import sanitizer_library

        with suppress(Exception):  # what is wrong shows where it is used
            sanitizer_library()

    return _in_background("metalcore-sanitizer", prepare)


@cache
def get_ready() -> None:
    """Where the cache has nothing of the engine's own yet, it is made while the caller is still importing."""
    from metalcore.engine.runtime.native_library import is_built

    if not is_built():
        _prepare_header("safe", "float")
        _prepare_code_generation()


class SourceUnit:
    """One source with its options. Nothing is compiled where the cache knows the answer."""

    def __init__(self, source: Source) -> None:
        self.source = source = source.settled()
        defines = sorted((k, repr(v)) for k, v in source.defines.items())
        options = (source.path, source.include_dirs, defines, source.math_mode, source.float_type)
        self._manifest = key_of(source.text, (*options, source.prelude), toolchain_key())
        self._unit: Unit | None = None
        self._scalar: dict[tuple[str, Constants], ScalarKernel] = {}
        self._records: dict[str, Type] = {}
        self._key: str | None = None
        manifest = self._read_manifest()
        if manifest is None:
            manifest = self._prebuilt.manifest if self._prebuilt else self._get_manifest()
        else:
            self._key = manifest["unit"]
        self.functions: tuple[str, ...] = tuple(manifest["functions"])
        self.templates: tuple[str, ...] = tuple(manifest["templates"])  # instantiations, compiled when asked for
        self.constants = tuple(FunctionConstant(**c) for c in manifest["constants"])

    @cached_property
    def _prebuilt(self) -> PrebuiltUnit | None:
        """What a wheel brought of this source; nobody asks where kernels are compiled for this very processor."""
        return prebuilt_unit(self.source) if used is None else None

    @property
    def key(self) -> str:
        """Names what is compiled here. A unit of a wheel has none until something must be."""
        if self._key is None:
            self._get_manifest()
        assert self._key is not None
        return self._key

    def _get_manifest(self) -> dict[str, Any]:
        source = self.source
        with compiling(name_of(source.text, source.path)), locks.of(self._manifest):
            manifest = self._read_manifest() or self._make_manifest()
        self._key = manifest["unit"]
        return manifest

    def remember(self) -> str:
        """Keep the text for a report, which quotes lines of it; the answer names it there."""
        from metalcore.diagnostics.sources import remember

        return remember(self.source.text, self.source.path)

    def _read_manifest(self) -> dict[str, Any] | None:
        """The manifest, where every file that it lists is as it was."""
        manifest: dict[str, Any] | None = disk_cache().read_json("manifests", self._manifest)
        return manifest if manifest is not None and _is_as_it_was(manifest) else None

    def _make_manifest(self) -> dict[str, Any]:
        unit = self._unit = self._make_unit()
        manifest: dict[str, Any] = {
            "unit": self._key_of(unit),
            "files": [*unit.includes, *unit.probes],
            "roots": unit.searched.roots,
            "links": unit.searched.links,
            "torch": unit.searched.torch,
            "functions": list(unit.functions),
            "templates": [kernel.host_name for kernel in unit.kernels if "<" in kernel.expression],
            "constants": [dataclasses.asdict(c) for c in unit.constants],
        }
        disk_cache().write("units", manifest["unit"], unit.to_json().encode())
        disk_cache().write_json("manifests", self._manifest, manifest)
        return manifest

    def _key_of(self, unit: Unit) -> str:
        return key_of(self._manifest, unit.includes, unit.probes, unit.searched)

    def _make_unit(self) -> Unit:
        import_whole(*_FRONTEND)
        from metalcore.engine.frontend import make_unit

        _prepare_header(self.source.math_mode, self.source.float_type)
        _prepare_code_generation()
        options = self.source._asdict()
        return make_unit(options.pop("text"), **options)

    def _get_unit(self) -> Unit:
        if self._unit is None:
            from metalcore.engine.frontend.model import Unit

            kept = disk_cache().read("units", self.key)
            unit = Unit.from_json(kept.decode()) if kept is not None else self._make_unit()
            if self._key_of(unit) != self.key:
                raise CompileError("a file that the source includes has changed meanwhile: make the library again")
            self._unit = unit
        return self._unit

    def _lower(self, name: str, constants: Constants) -> ScalarKernel:
        """Scalar IR of a kernel; the caller holds the lock of its key."""
        kernel = self._scalar.get((name, constants))
        if kernel is None:
            import_whole(*_FRONTEND)
            from metalcore.engine.frontend import lower

            kernel = lower(self._get_unit(), name, dict(constants))
            self._scalar[name, constants] = kernel
        return kernel

    def signature(self, name: str, constants: Constants) -> Signature:
        """The kernel's arguments; compiles it where it was never compiled, so that its errors show here."""
        kept = None
        if self._key is not None:
            kept = disk_cache().read_json("signatures", key_of(self._key, name, constants))
        if kept is None and self._prebuilt is not None:
            kept = self._prebuilt.signature(name, constants)
        if kept is None:
            kept = self._make_signature(name, constants)
        requirements = tuple(Requirement(*r) for r in kept["requirements"])
        return Signature(tuple(Argument(**a) for a in kept["arguments"]), kept["max_threads"], requirements)

    def _make_signature(self, name: str, constants: Constants) -> dict[str, Any]:
        key = key_of(self.key, name, constants)
        with compiling(name), locks.of(key):
            made = signature_data(self._lower(name, constants))
        disk_cache().write_json("signatures", key, made)
        return made

    def record(self, name: str, constants: Constants, parameter: int) -> Type:
        """The layout of the struct that a parameter points to."""
        key = key_of(self.key, name, constants, parameter)
        made = self._records.get(key)
        if made is None:
            from metalcore.engine.frontend.records import Type, record_of

            kept = disk_cache().read_json("records", key)
            made = Type.from_json(kept) if kept else record_of(self._get_unit(), name, dict(constants), parameter)
            if not kept:
                disk_cache().write_json("records", key, made.to_json())
            self._records[key] = made
        return made

    def load(self, name: str, constants: Constants, variant: Variant) -> LoadedKernel:
        """The same, in this process."""
        return LoadedKernel(self.native(name, constants, variant), variant)

    def native(self, name: str, constants: Constants, variant: Variant) -> NativeKernel:
        """Machine code of a kernel for one kind of threadgroup: from the cache, from a wheel, or compiled now."""
        if asked is not None:
            asked(self.source, name, constants, variant)
        found = None
        if self._key is not None:
            found = disk_cache().read_binary("kernels", self._kernel_key(name, constants, variant))
        if found is None and self._prebuilt is not None:
            found = self._prebuilt.kernel(name, constants, variant.key)
        if found is None:
            key = self._kernel_key(name, constants, variant)
            with compiling(name), locks.of(key):
                found = disk_cache().read_binary("kernels", key)  # another thread may have built it meanwhile
                if found is None:
                    return self._build(key, name, constants, variant)
        path, meta = found
        return NativeKernel.from_json(meta, path)

    def _kernel_key(self, name: str, constants: Constants, variant: Variant) -> str:
        key = key_of(self.key, name, constants, variant.key)
        if used is not None:
            used.setdefault(key, False)
        return key

    def _build(self, key: str, name: str, constants: Constants, variant: Variant) -> NativeKernel:
        import_whole(*_CODE_GENERATION)
        import shutil

        from metalcore.engine.pipeline import build

        if variant.sanitized:
            _prepare_sanitizer()
        with locks.of(key_of(self.key, name, constants)):
            kernel = self._lower(name, constants)
        native: NativeKernel = build(kernel, variant)
        if used is not None:
            used[key] = True
        with open(native.path, "rb") as file:
            data = file.read()
        shutil.rmtree(os.path.dirname(native.path))  # a folder made for this one file
        path = disk_cache().write_binary("kernels", key, data, native.to_json())
        return dataclasses.replace(native, path=path)
