"""llvmlite, set up once: the host's target machine and the two optimisation pipelines."""

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


def host_features() -> dict[str, bool]:
    with unforked():
        return dict(binding.get_host_cpu_features())


@functools.cache
def vector_width(has_matrices: bool = False, is_short: bool = False) -> int:
    """Lanes of 32 bits in one register of this machine; products of 8x8 matrices are written for eight at most.

    *is_short*: a few instructions and no loop. They wait for memory, and a stream of data comes sooner where each load
    asks for half of a line.
    """
    features = host_features()
    if not (has_matrices or is_short) and all(features.get(name) for name in _WIDE):
        return 16
    if features.get("avx2"):
        return 8
    return 4


# Ice Lake, Zen 4 and later: before them a processor slows down where it meets registers of 512 bits.
_WIDE = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi2")


def _features() -> str:
    """Of this machine, as LLVM takes them; it would halve vectors of 512 bits where it prefers those of 256."""
    found: str = binding.get_host_cpu_features().flatten()
    return f"{found},-prefer-256-bit" if vector_width() == 16 else found


def has_fma() -> bool:
    """Whether this machine has all the floating-point instructions that kernels use; LLVM calls libm for the rest."""
    features = host_features()
    return bool(features.get("fma") or features.get("neon") or features.get("fp-armv8"))


@functools.cache
def target_machine(level: int = 2) -> Any:
    """*level*: how hard the code generator tries."""
    _initialise()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=_features(), opt=level, reloc="pic", codemodel="default"
    )


@functools.cache
def clang_target() -> tuple[str, ...]:
    """The same machine and the same options, as `clang -cc1` takes them."""
    machine, host = target_machine(), ("-target-cpu", binding.get_host_cpu_name())
    features = (word for name in _features().split(",") if name for word in ("-target-feature", name))
    options = (word for option in _OPTIONS for word in ("-mllvm", option))
    return ("-triple", machine.triple, *host, *features, *options, "-mrelocation-model", "pic", "-pic-level", "2")


@functools.cache
def target_lines() -> str:
    """What begins a module's text for this machine."""
    machine = target_machine()
    return f'target datalayout = "{machine.target_data}"\ntarget triple = "{machine.triple}"\n'


@functools.cache
def keeps_registers() -> str:
    """Attributes of a function that preserves all registers. On x86 LLVM would restore them and then, before it
    returns, clear the upper halves of the vectors (LLVM 22)."""
    return f'"target-features"="{_features()},-vzeroupper"' if "x86" in target_machine().triple else ""


def parse(text: str) -> Any:
    _initialise()
    module = binding.parse_assembly(text)
    module.verify()
    return module


def optimise(module: Any, level: int) -> None:
    options = binding.create_pipeline_tuning_options(level)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    options.loop_unrolling = True
    builder = binding.create_pass_builder(target_machine(), options)
    builder.getModulePassManager().run(module, builder)


_UNROLL, _UNROLLED = "llvm.loop.unroll.", "metalcore.unroll."
_PRAGMAS = tuple(f'!"{_UNROLL}{word}"' for word in ("full", "enable", "count"))


@LOCK.around
@without_collections
def optimise_scalar(raw: str | ir.Module, entry: str = "__mc_entry", *, guarded: bool = False) -> str:
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
    module = scalar_module(before, [entry])
    if guarded and not is_inlined:
        _inline(module)
        inlined = ir.parse(str(module), entry)
        if guard(inlined):
            module = parse(ir.print_module(inlined))
    if is_unrolled:
        module = _unroll(module)
    optimise(module, 2)
    return str(module)


def _unroll(module: Any) -> Any:
    """Loops unrolled as their pragmas ask. What cannot be unrolled loses its pragma: LLVM would print a warning."""
    options = binding.create_pipeline_tuning_options(2)
    builder = binding.create_pass_builder(target_machine(), options)
    _inline(module)
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


def _inline(module: Any) -> None:
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, binding.create_pass_builder(target_machine(), binding.create_pipeline_tuning_options(0)))


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


def scalar_module(raw: ir.Module, entries: Sequence[str]) -> Any:
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
    module.triple = target_machine().triple
    module.data_layout = str(target_machine().target_data)
    return module


@LOCK.around
def emit_object(text: str, dump: Any = None, *, quick: bool = False) -> bytes:
    """Optimise lockstep IR for this machine and emit an object file.

    *quick*: with less effort, for code that calls the runtime all the time and gains little by more.
    """
    module = parse(text)
    machine = target_machine(1 if text.count("\n") > LARGE else 2)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    optimise(module, 1 if quick else 2)
    if dump is not None:
        dump("optimised.ll", str(module))
        dump("kernel.s", machine.emit_assembly(module))
    return bytes(machine.emit_object(module))
