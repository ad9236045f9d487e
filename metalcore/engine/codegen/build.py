"""One kernel, one variant -> a shared object."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

from metalcore import settings
from metalcore.engine.codegen.variant import NativeKernel, Place, Variant
from metalcore.engine.frontend.model import ScalarKernel
from metalcore.errors import LaunchError

# Bytes of private arrays that a thread may have. Metal has such a limit too, but Apple names no number for it.
PRIVATE_MEMORY = 256 << 10


def _dumper(kernel: ScalarKernel, variant: Variant) -> Callable[[str, str], None] | None:
    folder = settings.dump_dir()
    if folder is None:
        return None
    target = folder / kernel.name / variant.key

    def write(name: str, text: str) -> None:
        target.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text)

    return write


def build(kernel: ScalarKernel, variant: Variant) -> NativeKernel:
    """Compile to machine code for this CPU. The result's file lies in a fresh temporary folder."""
    from metalcore.engine.codegen import facts, llvm
    from metalcore.engine.lockstep import vectorise
    from metalcore.engine.runtime.toolchain import link_shared

    dump = _dumper(kernel, variant)
    places: tuple[Place, ...] = ()
    if variant.sanitized:
        from metalcore.engine.checks.instrument import instrument

        hooked, places = instrument(kernel, also=variant.also)
        if dump:
            dump("hooked.ll", hooked)
        scalar = llvm.optimise_scalar(hooked)
    else:
        scalar = llvm.optimise_scalar(kernel.ir)
    if dump:
        dump("scalar.ll", scalar)
    values = {a.index: a.element_size for a in kernel.arguments if a.kind == "value" and a.space == "constant"}
    module = vectorise(
        scalar,
        layout=variant.layout,
        single=variant.single,
        checked=variant.checked,
        sanitized=variant.sanitized,
        tail=variant.tail,
        width=llvm.vector_width(),
        value_sizes=values,
        wide=variant.wide,
        keep_tests=variant.keep_tests,
    )
    if dump:
        dump("lockstep.ll", module.ir)
    if module.private_memory > PRIVATE_MEMORY:
        raise LaunchError(
            f"kernel '{kernel.name}': the private arrays of a thread take {module.private_memory:,} bytes, and the "
            f"limit is {PRIVATE_MEMORY:,}: use fewer or smaller ones, or a device buffer"
        )
    code = llvm.emit_object(module.ir, dump)
    folder = tempfile.mkdtemp(prefix="metalcore-")
    object_path, library_path = os.path.join(folder, "kernel.o"), os.path.join(folder, "kernel.so")
    with open(object_path, "wb") as file:
        file.write(code)
    link_shared([object_path], library_path)
    os.unlink(object_path)
    return NativeKernel(
        library_path,
        module.sites,
        module.static_threadgroup_memory,
        module.threadgroup_variables,
        module.written,
        module.has_loops,
        places,
        features=facts.features(scalar),
        whole_simdgroups=facts.whole_simdgroups(scalar),
        stack_size=module.stack_size,
        wide_from=module.wide_from,
    )
