"""Kernels as inlined scalar IR with variables in registers: what the data-flow rules read."""

from __future__ import annotations

from dataclasses import dataclass

import llvmlite.binding as binding

from metalcore.engine.frontend import calls
from metalcore.engine.frontend.lowering import lower
from metalcore.engine.frontend.model import Kernel
from metalcore.engine.frontend.signature import Row, Tables, max_threads, strip
from metalcore.engine.ir import Function, Module, global_text, parse, type_of, without_numbers
from metalcore.engine.optimiser import llvm
from metalcore.lint.front import Front, template_of

_PROMISE = "nofpclass("  # fast math's

Detail = tuple[Kernel, str, tuple[Row, ...], int | None]  # kernel, its entry point, parameters, limit
Details = list[Detail]


@dataclass(frozen=True)
class Lowered:
    """IR of one kernel, which is the entry point of its module."""

    kernel: Kernel
    module: Module
    rows: tuple[Row, ...]  # one for each parameter
    max_threads: int | None
    optimised: Module | None = None  # the same after full optimisation, where private arrays are left

    def code(self) -> str:
        """What it does: the same for two kernels that differ in their debug places alone."""
        variables = "\n".join(map(global_text, self.module.globals.values()))
        return without_numbers(f"{variables}\n{self.module.function.text}")


def lower_sample(front: Front, values: dict[int | str, object]) -> list[Lowered]:
    """The kernels that are looked at closely, for these function constants."""
    kernels = front.sample()
    if not kernels:
        return []
    raw = parse(front.ir_of(kernels, values))
    details = [_details(raw, kernel) for kernel in kernels]
    if calls.resolve_recursion(raw, front.sources) is not raw:
        return _one_by_one(front, kernels, values)
    return _finish(raw, details)


def _one_by_one(front: Front, kernels: list[Kernel], values: dict[int | str, object]) -> list[Lowered]:
    """Functions call each other in a ring: the engine proves for each kernel apart that the ring ends."""
    found: list[Lowered] = []
    unit = front.plain_unit()
    for kernel in kernels:
        scalar = lower(unit, kernel.host_name, values)
        found += _finish(parse(scalar.ir), [(kernel, "__mc_entry", (), scalar.max_threads)])
    return found


def _details(raw: Module, kernel: Kernel) -> Detail:
    entry = f"__mc_entry_{kernel.marker}"
    return kernel, entry, tuple(Tables(raw).rows(f"__mc_describe_{kernel.marker}")), max_threads(raw, entry)


def _finish(raw: Module, details: Details) -> list[Lowered]:
    names = [name for _, name, _, _ in details]
    strip(raw)
    _drop_promises(raw)
    with llvm.LOCK:
        module = llvm.scalar_module(raw, names)
        _promote(module)
        light = parse(str(module))
        arrays = list(_with_arrays(details, light).values())
        heavy: Module | None = None
        if arrays:
            module = llvm.scalar_module(parse(str(module)), arrays)
            llvm.optimise(module, 2)
            heavy = parse(str(module))
    return [
        Lowered(kernel, light.at(name), rows, limit, heavy.at(name) if heavy and _has_variables(heavy, name) else None)
        for kernel, name, rows, limit in details
        if name in light.functions
    ]


def _drop_promises(module: Module) -> None:
    """No class of numbers is ruled out."""
    for function in module.functions.values():
        lists = [function.returned_attributes, *(p.attributes for p in function.parameters)]
        for call in function.instructions() if function.mentions(_PROMISE) else ():
            if call.op == "call" and _PROMISE in (call.rest or _PROMISE):
                call.changed()
                own = call.extra.get("attributes")
                lists += [call.extra.get("returned"), *(own if isinstance(own, list) else ())]  # type: ignore[list-item]
        for attributes in lists:
            if attributes:
                attributes[:] = [word for word in attributes if not word.startswith(_PROMISE)]


def _has_variables(module: Module, name: str) -> bool:
    """Whether something is left in memory of a kernel that LLVM has kept."""
    found = module.functions.get(name)
    return found is not None and any(instr.op == "alloca" for instr in found.instructions())


def _with_arrays(details: Details, module: Module) -> dict[str, str]:
    """One kernel of each template that indexes private arrays: optimising takes most of the time."""
    found: dict[str, str] = {}
    for kernel, name, _, _ in details:
        if name in module.functions and _indexes_arrays(module.functions[name]):
            found.setdefault(template_of(kernel), name)
    return found


def _indexes_arrays(function: Function) -> bool:
    if not any(i.op == "alloca" and type_of(i, "allocated").is_aggregate for i in function.instructions()):
        return False
    return any(i.op == "getelementptr" and "[" in type_of(i, "source").spelled for i in function.instructions())


def _promote(module: binding.ModuleRef) -> None:
    """Inline, put variables into registers, fold constants. Nothing that rewrites arithmetic."""
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_sccp_pass()
    passes.add_simplify_cfg_pass()
    passes.add_sroa_pass()
    passes.add_jump_threading_pass()  # clang's way out of a loop goes through a switch
    passes.add_aggressive_dce_pass()
    passes.add_simplify_cfg_pass()
    options = binding.create_pipeline_tuning_options(0)
    passes.run(module, binding.create_pass_builder(llvm.target_machine(), options))
