"""The order of the stages from scalar IR to a shared object: one kernel, one variant.

What comes before, source to scalar IR, is `frontend.make_unit` and `frontend.lower`; `units.py` keeps the results of
both ways on disk and asks for what is not there.
"""

from __future__ import annotations

from collections.abc import Callable

from metalcore import settings
from metalcore.engine.checks.covered import cover
from metalcore.engine.checks.instrument import instrument
from metalcore.engine.checks.said import place_sayings, refuse_hooks, silence
from metalcore.engine.codegen import facts
from metalcore.engine.codegen.closed_object import MATH
from metalcore.engine.codegen.link import link
from metalcore.engine.frontend.limits import check_tables, check_text, inlined_size
from metalcore.engine.garbage import without_collections
from metalcore.engine.ir import Module, parse, print_module
from metalcore.engine.lockstep import LockstepModule, vectorise
from metalcore.engine.lockstep.driver import is_short
from metalcore.engine.model import NativeKernel, Place, ScalarKernel, Variant
from metalcore.engine.optimiser import child, llvm
from metalcore.engine.optimiser.settled_arrays import settle
from metalcore.engine.target import AARCH64, Target
from metalcore.errors import LaunchError, UnsupportedFeature
from metalcore.forking import temporary_folder

# Bytes of private arrays that a thread may have. Metal has such a limit too, but Apple names no number for it.
PRIVATE_MEMORY = 256 << 10
Dump = Callable[[str, str], None]
_STARTED = ("@llvm.global_ctors", "@llvm.global_dtors")


def _dumper(kernel: ScalarKernel, variant: Variant) -> Dump | None:
    folder = settings.dump_dir()
    if folder is None:
        return None
    target = folder / kernel.name / variant.key

    def write(name: str, text: str) -> None:
        target.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text)

    return write


def value_sizes(kernel: ScalarKernel) -> dict[int, int]:
    """Slots whose bytes need no test: native/launch.c starts no kernel with fewer (Binder has the same sizes)."""
    bound = sorted((a for a in kernel.arguments if a.kind in ("buffer", "value")), key=lambda a: a.enabled)
    last = {a.index: a for a in bound}
    return {i: a.element_size for i, a in last.items() if a.kind == "value" and a.space == "constant"}


def build(kernel: ScalarKernel, variant: Variant, target: Target | None = None) -> NativeKernel:
    """Compile to machine code for *target*, or for this machine. The result's file lies in a fresh temporary folder."""
    target = target or llvm.this_target()
    dump = _dumper(kernel, variant)
    raw, places = _hooked(kernel, variant, dump)
    scalar = _optimised(raw, target, guarded=variant.checked)
    places = place_sayings(scalar, places)
    if dump:
        dump("scalar.ll", print_module(scalar))
    _check_started(kernel, scalar)
    check_tables(scalar)
    needed, whole = facts.features(scalar), facts.whole_simdgroups(scalar)  # lockstep changes the module
    module = _vectorised(kernel, variant, scalar, target)
    if dump:
        dump("lockstep.ll", module.ir)
    _check_private(kernel, variant, module)
    code = _emitted(module, dump, target, quick=variant.sanitized)
    path = link(temporary_folder(), code, () if llvm.has_fma(target) else MATH, target)
    return NativeKernel(
        path,
        module.sites,
        module.static_threadgroup_memory,
        module.threadgroup_variables,
        module.written,
        module.has_loops,
        places,
        features=needed,
        whole_simdgroups=whole,
        stack_size=module.stack_size,
        wide_from=module.wide_from,
        writes_anywhere=module.writes_anywhere,
    )


@without_collections
def _hooked(kernel: ScalarKernel, variant: Variant, dump: Dump | None) -> tuple[Module, tuple[Place, ...]]:
    """What the front end made, with the hooks of checks in sanitize mode."""
    raw = parse(kernel.ir)
    refuse_hooks(raw)
    if not variant.checked:
        silence(raw)
    if not variant.sanitized:
        return raw, cover(raw) if variant.covered else ()
    raw, places = instrument(raw, kernel, also=variant.also)
    if dump:
        dump("hooked.ll", print_module(raw))
    return raw, places


def _optimised(raw: Module, target: Target, guarded: bool) -> Module:
    """Scalar code, everything inlined and optimised; a large kernel's in a process of its own."""
    if inlined_size(raw) > child.LARGE and not child.is_bounded:
        scalar = child.optimise_scalar(print_module(raw), guarded=guarded, target=target)
    else:
        scalar = llvm.optimise_scalar(raw, guarded=guarded, target=target)
    check_text(scalar, "when it is optimised")
    module = parse(scalar)
    settle(module)
    return module


def _check_started(kernel: ScalarKernel, scalar: Module) -> None:
    if any(name in scalar.globals and scalar.globals[name].value_type.length for name in _STARTED):
        raise UnsupportedFeature(
            f"kernel {kernel.name!r}: a constant at file scope that is computed when a program starts"
        )


def _vectorised(kernel: ScalarKernel, variant: Variant, scalar: Module, target: Target) -> LockstepModule:
    """32 lanes in lockstep."""
    return vectorise(
        scalar,
        layout=variant.layout,
        single=variant.single,
        checked=variant.checked,
        sanitized=variant.sanitized,
        tail=variant.tail,
        width=llvm.vector_width(
            any(name.startswith("__mc_simdgroup_mma") for name in scalar.functions), is_short(scalar.function), target
        ),
        has_half=target.has("fullfp16"),
        masks_rows=target.platform.machine != AARCH64,
        has_pairs=llvm.has_wide(target),
        has_extremes=target.platform.machine == AARCH64,
        value_sizes=value_sizes(kernel),
        max_threads=kernel.max_threads,
        wide=variant.wide,
        keep_tests=variant.keep_tests,
        keeps_registers=llvm.keeps_registers(target),
    )


def _check_private(kernel: ScalarKernel, variant: Variant, module: LockstepModule) -> None:
    # The sanitizer keeps as much again beside each array: what of it has been written.
    private_memory = module.private_memory // 2 if variant.sanitized else module.private_memory
    if private_memory > PRIVATE_MEMORY:
        raise LaunchError(
            f"kernel '{kernel.name}': the private arrays of a thread take {private_memory:,} bytes, and the "
            f"limit is {PRIVATE_MEMORY:,}: use fewer or smaller ones, or a device buffer"
        )


def _emitted(module: LockstepModule, dump: Dump | None, target: Target, *, quick: bool) -> bytes:
    """An object file; what is dumped is made in this process, as a small kernel's is."""
    check_text(module.ir, "for all lanes")
    if dump is None and module.ir.count("\n") > child.SMALL:
        return child.emit_object(module.ir, quick=quick, target=target)
    return llvm.emit_object(module.ir, dump, quick=quick, target=target)
