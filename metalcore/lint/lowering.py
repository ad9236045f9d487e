"""Kernels as inlined scalar IR with variables in registers: what the data-flow rules read."""

from __future__ import annotations

import re
from dataclasses import dataclass

import llvmlite.binding as binding

from metalcore.engine.codegen import llvm
from metalcore.engine.frontend import calls, entry
from metalcore.engine.frontend.entry import Row
from metalcore.engine.frontend.lowering import lower
from metalcore.engine.frontend.model import Kernel
from metalcore.engine.lockstep.debug import metadata_of
from metalcore.lint.front import Front, template_of

_ANNOTATIONS = re.compile(r"^@llvm\.global\.annotations = .*$", re.MULTILINE)
_PROMISE = re.compile(r" nofpclass\([a-z ]*\)")  # fast math's, which the parser need not know
_ARRAY_INDEX = re.compile(r"getelementptr [^\n]*\[\d+ x ")

Details = list[tuple[Kernel, str, tuple[Row, ...], int | None]]  # kernel, its entry point, parameters, limit


@dataclass(frozen=True)
class Lowered:
    """IR of one kernel: type and global lines, the body of its entry, and where its debug locations are."""

    kernel: Kernel
    text: str
    entry: str
    rows: tuple[Row, ...]  # one for each parameter
    max_threads: int | None
    metadata: dict[int, str]
    optimised: str = ""  # the same after full optimisation, where private arrays are left
    optimised_metadata: dict[int, str] | None = None


def lower_sample(front: Front, values: dict[int | str, object]) -> list[Lowered]:
    """The kernels that are looked at closely, for these function constants."""
    kernels = front.sample()
    if not kernels:
        return []
    raw = front.ir_of(kernels, values)
    if calls.resolve_recursion(raw, front.sources) is not raw:
        return _one_by_one(front, kernels, values)
    tables = _tables(raw)
    details = [(k, f"__mc_entry_{k.marker}", _rows(tables, k), _max_threads(raw, k)) for k in kernels]
    return _finish(raw, details)


def _one_by_one(front: Front, kernels: list[Kernel], values: dict[int | str, object]) -> list[Lowered]:
    """Functions call each other in a ring: the engine proves for each kernel apart that the ring ends."""
    found: list[Lowered] = []
    unit = front.plain_unit()
    for kernel in kernels:
        scalar = lower(unit, kernel.host_name, values)
        found += _finish(scalar.ir, [(kernel, "__mc_entry", (), scalar.max_threads)])
    return found


def _tables(raw: str) -> str:
    """The lines of the IR that describe parameters: a small part of it."""
    found = [line for line in raw.split("\n") if line.startswith("@")]
    found += re.findall(r"^define [^\n]*@__mc_describe.*?^}", raw, re.MULTILINE | re.DOTALL)
    return "\n".join(found) + "\n"


def _rows(raw: str, kernel: Kernel) -> tuple[Row, ...]:
    return tuple(entry.Tables(raw).rows(f"__mc_describe_{kernel.marker}"))


def _max_threads(raw: str, kernel: Kernel) -> int | None:
    if "mc_max_threads" not in raw:
        return None
    return entry.max_threads(raw.replace(f"@__mc_entry_{kernel.marker}(", "@__mc_entry("))


def _finish(raw: str, details: Details) -> list[Lowered]:
    names = [name for _, name, _, _ in details]
    text = _PROMISE.sub("", entry.strip(raw))
    with llvm.LOCK:
        module = llvm.scalar_module(_ANNOTATIONS.sub("", text), names)
        _promote(module)
        light = str(module)
        shared, bodies = _split(light, names)
        arrays = list(_with_arrays(details, bodies).values())
        heavy = ""
        if arrays:
            module = llvm.scalar_module(light, arrays)
            llvm.optimise(module, 2)
            heavy = str(module)
    heavy_shared, heavy_bodies = _split(heavy, names) if heavy else ("", {})
    metadata, heavy_metadata = metadata_of(light), metadata_of(heavy)
    return [
        Lowered(
            kernel,
            shared + bodies[name],
            name,
            rows,
            limit,
            metadata,
            heavy_shared + heavy_bodies[name] if " alloca " in heavy_bodies.get(name, "") else "",
            heavy_metadata,
        )
        for kernel, name, rows, limit in details
        if name in bodies
    ]


def _with_arrays(details: Details, bodies: dict[str, str]) -> dict[str, str]:
    """One kernel of each template that indexes private arrays: optimising takes most of the time."""
    found: dict[str, str] = {}
    for kernel, name, _, _ in details:
        body = bodies.get(name, "")
        if (" alloca [" in body or " alloca %" in body) and _ARRAY_INDEX.search(body):
            found.setdefault(template_of(kernel), name)
    return found


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


def _split(text: str, names: list[str]) -> tuple[str, dict[str, str]]:
    """Lines of types and globals, and the definition of each entry point."""
    shared: list[str] = []
    bodies: dict[str, str] = {}
    lines = text.split("\n")
    i = 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("define "):
            end = lines.index("}", i)
            name = next((n for n in names if f"@{n}(" in line), None)
            if name is not None:
                bodies[name] = "\n".join(lines[i : end + 1]) + "\n"
            i = end
        elif line.startswith(("%", "@")):
            shared.append(line)
        i += 1
    return "\n".join(shared) + "\n", bodies
