"""llvmlite, set up once: target machines and the two optimisation pipelines.

Functions that take a *target* work for this machine where none is given.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as binding

from metalcore.engine import ir
from metalcore.engine.garbage import without_collections
from metalcore.engine.ir.registers import without_variables
from metalcore.engine.optimiser.defined import with_values, without_promises
from metalcore.engine.optimiser.own_arrays import guard
from metalcore.engine.target import AARCH64, X86_64, Target, baseline, has_half_arithmetic, this_platform
from metalcore.forking import UnforkedLock, unforked

LOCK = UnforkedLock()  # LLVM's global context is not for two threads at once
LARGE = 16_000  # lines, from which on the code generator takes twice as long for nearly the same code
_OPTIONS = (
    "-unroll-runtime=false",
    "-unroll-allow-partial=false",
    "-disable-loop-idiom-all",
    "-unroll-threshold=300",
    "-phi-node-folding-threshold=2",
    "-disable-lsr",
    # The order that the lockstep pass writes keeps few registers live; schedulers undo it and take a third of the time.
    "-enable-misched=false",
    "-pre-RA-sched=source",
    # How far the register allocator looks for a better place to split a value: it is two thirds of the code generator's
    # time in functions of many blocks, for code that is no shorter. Kernels of the usual size stay as they are.
    "-grow-region-complexity-budget=500",
)


@functools.cache
def _initialise() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    for option in _OPTIONS:
        binding.set_option("metalcore", option)


@functools.cache
def _initialise_all() -> None:
    """Code generators for other machines than this one."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


@functools.cache
def this_target() -> Target:
    """This machine."""
    where = this_platform()
    with unforked():
        cpu, features = binding.get_host_cpu_name(), _said_features()
    if not features and where.machine == AARCH64:  # there LLVM asks the system, and does not know how to everywhere
        features = baseline(where).features
    if has_half_arithmetic(where) and "+fullfp16" not in features:
        features = (*features, "+fullfp16")
    return Target(where, cpu, features)


def _said_features() -> tuple[str, ...]:
    try:
        return tuple(filter(None, binding.get_host_cpu_features().flatten().split(",")))
    except RuntimeError:  # LLVM cannot tell
        return ()


def vector_width(has_matrices: bool = False, is_short: bool = False, target: Target | None = None) -> int:
    """Lanes of 32 bits in one register of the machine; products of 8x8 matrices are written for eight at most.

    *is_short*: a few instructions and no loop. They wait for memory, and a stream of data comes sooner where each load
    asks for half of a line.
    """
    target = target or this_target()
    if not (has_matrices or is_short) and has_wide(target):
        return 16
    # Arm's registers have four: pairs of them cost it nothing, and eight numbers of 16 bits fill one.
    return 8 if target.has("avx2") or target.platform.machine == AARCH64 else 4


def has_wide(target: Target) -> bool:
    """Whether it has registers of 512 bits that are worth their name."""
    return target.has(*_WIDE)


# Ice Lake, Zen 4 and later: before them a processor slows down where it meets registers of 512 bits.
_WIDE = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi2")


def _features(target: Target) -> tuple[str, ...]:
    """As LLVM takes them; it would halve vectors of 512 bits where it prefers those of 256."""
    return (*target.features, "-prefer-256-bit") if vector_width(target=target) == 16 else target.features


def has_fma(target: Target | None = None) -> bool:
    """Whether the machine has all the floating-point instructions that kernels use; LLVM calls libm for the rest."""
    target = target or this_target()
    return target.platform.machine == AARCH64 or target.has("fma")


@functools.cache
def target_machine(level: int = 2, target: Target | None = None) -> Any:
    """*level*: how hard the code generator tries."""
    _initialise()
    target = target or this_target()
    if target.platform.machine != this_platform().machine:
        _initialise_all()
    return binding.Target.from_triple(target.platform.triple).create_target_machine(
        cpu=target.cpu, features=",".join(_features(target)), opt=level, reloc="pic", codemodel="default"
    )


@functools.cache
def clang_target(target: Target | None = None) -> tuple[str, ...]:
    """The same machine and the same options, as `clang -cc1` takes them."""
    target = target or this_target()
    features = (word for name in _features(target) for word in ("-target-feature", name))
    options = (word for option in _OPTIONS for word in ("-mllvm", option))
    machine = ("-triple", target.platform.triple, "-target-cpu", target.cpu)
    return (*machine, *features, *options, "-mrelocation-model", "pic", "-pic-level", "2")


@functools.cache
def target_lines(target: Target | None = None) -> str:
    """What begins a module's text for the machine."""
    machine = target_machine(target=target)
    return f'target datalayout = "{machine.target_data}"\ntarget triple = "{machine.triple}"\n'


@functools.cache
def keeps_registers(target: Target | None = None) -> str:
    """Attributes of a function that preserves all registers. On x86 LLVM would restore them and then, before it
    returns, clear the upper halves of the vectors (LLVM 22)."""
    target = target or this_target()
    if target.platform.machine != X86_64:
        return ""
    return f'"target-features"="{",".join((*_features(target), "-vzeroupper"))}"'


def parse(text: str) -> Any:
    _initialise()
    module = binding.parse_assembly(text)
    module.verify()
    return module


def optimise(module: Any, level: int, target: Target | None = None) -> None:
    options = binding.create_pipeline_tuning_options(level)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    options.loop_unrolling = True
    builder = binding.create_pass_builder(target_machine(target=target), options)
    builder.getModulePassManager().run(module, builder)


_UNROLL, _UNROLLED = "llvm.loop.unroll.", "metalcore.unroll."
_PRAGMAS = tuple(f'!"{_UNROLL}{word}"' for word in ("full", "enable", "count"))


@LOCK.around
@without_collections
def optimise_scalar(
    raw: str | ir.Module, entry: str = "__mc_entry", *, guarded: bool = False, target: Target | None = None
) -> str:
    """Inline everything into the kernel and optimise it as scalar code; no vectors, no unrolling beyond full.

    *guarded*: no access past a private array or a constant table is optimised away.
    `settle` takes out what is left of that.
    """
    before = ir.parse(raw, entry) if isinstance(raw, str) else raw
    is_unrolled = before.notes.mentions(*_PRAGMAS)
    is_inlined = sum(1 for _ in before.defined()) == 1  # sanitize mode has done it
    if not is_inlined:
        for function in before.defined():
            without_variables(function)
    with_values(before)
    if guarded:
        guard(before)
    module = scalar_module(before, [entry], target)
    if guarded and not is_inlined:
        _inline(module, target)
        inlined = ir.parse(str(module), entry)
        if guard(inlined):
            module = parse(ir.print_module(inlined))
    if is_unrolled:
        module = _unroll(module, target)
    optimise(module, 2, target)
    return str(module)


def _unroll(module: Any, target: Target | None) -> Any:
    """Loops unrolled as their pragmas ask. What cannot be unrolled loses its pragma: LLVM would print a warning."""
    options = binding.create_pipeline_tuning_options(2)
    builder = binding.create_pass_builder(target_machine(target=target), options)
    _inline(module, target)
    simplify = builder.getFunctionPassManager()
    simplify.add_loop_unroll_pass()
    for function in module.functions:
        if not function.is_declaration:
            simplify.run(function, builder)
    unrolled = ir.parse(str(module))
    unrolled.notes.rename({_UNROLL + word: _UNROLLED + word for word in ("full", "enable", "count")})
    return parse(ir.print_module(unrolled))


@LOCK.around
def inline_scalar(raw: ir.Module) -> ir.Module:
    """Inline everything into the kernel and do nothing else: every variable is still in memory."""
    module = scalar_module(raw, [raw.entry])
    _inline(module)
    return ir.parse(str(module), raw.entry)


def _inline(module: Any, target: Target | None = None) -> None:
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    options = binding.create_pipeline_tuning_options(0)
    passes.run(module, binding.create_pass_builder(target_machine(target=target), options))


@LOCK.around
def promote_scalar(inlined: ir.Module) -> ir.Module:
    """Variables in registers where they can be, and nothing else: no access to other memory is moved or removed."""
    module = parse(ir.print_module(inlined))
    passes = binding.create_new_function_pass_manager()
    passes.add_sroa_pass()
    builder = binding.create_pass_builder(target_machine(), binding.create_pipeline_tuning_options(0))
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return ir.parse(str(module), inlined.entry)


_OWN_WORDS = frozenset(("noinline", "optnone", "alwaysinline", "mustprogress", "noreturn", "minsize", "optsize"))
_VISIBLE = frozenset(("dso_local", "hidden"))


def scalar_module(raw: ir.Module, entries: Sequence[str], target: Target | None = None) -> Any:
    """Raw scalar IR with everything but its entry points made internal and always inlined; the caller holds LOCK."""
    without_promises(raw)
    raw.header = [line for line in raw.header if not line.startswith("target ")]
    for number, words in raw.attributes.items():
        raw.attributes[number] = ["alwaysinline", *(word for word in words if word not in _OWN_WORDS)]
    raw.comdats = []
    for function in raw.defined():
        if function.name not in entries:
            function.linkage = "internal"
            function.words = [word for word in function.words if word not in _VISIBLE]
            function.suffix = [word for word in function.suffix if not word.startswith("comdat")]
            function.returned_attributes = [word for word in function.returned_attributes if word != "noundef"]
    for variable in raw.globals.values():
        variable.suffix = [part for part in variable.suffix if not part.startswith("comdat")]
    module = parse(ir.print_module(raw))
    machine = target_machine(target=target)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    return module


@LOCK.around
def emit_object(text: str, dump: Any = None, *, quick: bool = False, target: Target | None = None) -> bytes:
    """Optimise lockstep IR for the machine and emit an object file.

    *quick*: with less effort, for code that calls the runtime all the time and gains little by more.
    """
    module = parse(text)
    machine = target_machine(1 if text.count("\n") > LARGE else 2, target)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    optimise(module, 1 if quick else 2, target)
    if dump is not None:
        dump("optimised.ll", str(module))
        dump("kernel.s", machine.emit_assembly(module))
    return bytes(machine.emit_object(module))
