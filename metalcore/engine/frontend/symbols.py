"""What a kernel's unoptimised IR may name: nothing that would be found outside of it, and no variable that is kept."""

from __future__ import annotations

from collections.abc import Iterator

from metalcore.engine.frontend.attributes import THREAD_ATTRIBUTES
from metalcore.engine.frontend.diagnostics import Sources, at
from metalcore.engine.frontend.model import Kernel
from metalcore.engine.ir import DebugLines, Function, Global, Instr, Module
from metalcore.engine.names import first_name
from metalcore.errors import CompileError

# What the headers declare and later stages lower. The hooks of sanitize mode are put in behind the front end.
_CALLS = ("arg", "threadgroup_arg", "fence", "threadgroup_barrier", "simdgroup_barrier", "say")
_EXTERNAL = frozenset(f"__mc_{name}" for name in (*_CALLS, *THREAD_ATTRIBUTES))
_FAMILIES = ("__mc_simd_", "__mc_simdgroup_mma_", "__mc_simdgroup_load_", "__mc_simdgroup_store_")
_KEPT = ("@llvm.used", "@llvm.compiler.used")
_STARTING = ("__cxx_global_var_init", "_GLOBAL__")  # functions that LLVM writes to compute variables


def check_symbols(module: Module, kernel: Kernel, sources: Sources) -> None:
    """Refuse functions and variables without a definition, variables that change, arrays of unknown length."""
    for message, instr in _found(module):
        raise _error(module, instr, message, kernel, sources)


def _found(module: Module) -> Iterator[tuple[str, Instr | None]]:
    """Each mistake with the instruction that it shows in."""
    for function in module.functions.values():
        if function.is_declaration and not function.name.startswith("llvm.") and not _is_ours(function.name):
            yield f"the function '{first_name(function.name)}' is called and has no definition", _use(module, function)
    started = [f for f in module.defined() if f.linkage == "internal" and f.name.startswith(_STARTING)]
    kept = {name for table in _KEPT if table in module.globals for name in module.globals[table].names()}
    for variable in module.globals.values():
        if not variable.name.startswith("@llvm."):
            yield from _wrong(module, variable, variable.name in kept, started)
    for function in module.defined():
        # An array with a length has it behind its type; no constant has one.
        if any(", i" in operands for operands in function.operands_of("alloca")):
            for instr in function.instructions():
                if instr.op == "alloca" and any(isinstance(length, Instr) for length in instr.args):
                    yield "an array whose length is not a constant is not supported in Metal", instr
    for function in module.defined():
        if function.mentions(" asm "):
            for instr in function.instructions():
                if instr.op == "call" and "unknown" in instr.extra:
                    yield "inline assembly is not supported", instr


def _is_ours(name: str) -> bool:
    return name in _EXTERNAL or any(name.startswith(family) and name != family for family in _FAMILIES)


def _wrong(
    module: Module, variable: Global, is_kept: bool, started: list[Function]
) -> Iterator[tuple[str, Instr | None]]:
    name = first_name(variable.plain_name)
    if variable.kind in ("alias", "ifunc"):
        yield f"'{name}' is an alias, which Metal does not have", None
    elif variable.is_external:
        yield f"the variable '{name}' is used and has no definition", _use(module, variable)
    elif "thread_local" in variable.words:
        yield f"'{name}' is thread_local, which Metal does not have", _use(module, variable)
    elif not variable.constant and not is_kept:
        # A constant whose initialiser LLVM has still to compute looks the same, and only that code stores to it.
        computing = [f for f in started if variable.linkage == "internal" and variable.plain_name in f.symbols()]
        for function in module.defined():
            for instr in function.naming(variable.plain_name):
                if not computing or not (instr.op == "load" or function in started):
                    yield mutable(name), instr


def mutable(name: str) -> str:
    """The message for a variable that would outlive a thread."""
    return f"the variable '{name}' at file scope or static can be changed: Metal has only constant ones ('constant')"


def _use(module: Module, named: Function | Global) -> Instr | None:
    name = named.name if isinstance(named, Function) else named.plain_name
    return next((instr for function in module.defined() for instr in function.naming(name)), None)


def _error(module: Module, instr: Instr | None, message: str, kernel: Kernel, sources: Sources) -> CompileError:
    frames = DebugLines(module.metadata).frames(instr.line) if instr is not None else iter(())
    place = next((frame for frame in frames if sources.line(frame.file, frame.line) is not None), None)
    if place is None:
        return at(kernel.file, kernel.line, message, sources)
    written = sources.line(place.file, place.line) or ""
    return at(place.file, place.line, message, sources, (written, place.column))
