"""Source text to Unit: preprocess, rewrite, check once with clang."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from metalcore import settings
from metalcore.engine.frontend import compiler, toolchain
from metalcore.engine.frontend.constants import described
from metalcore.engine.frontend.declared import declarations
from metalcore.engine.frontend.diagnostics import Sources
from metalcore.engine.frontend.entry import constant_text, with_entry
from metalcore.engine.frontend.model import Unit
from metalcore.engine.frontend.preprocess import preprocess
from metalcore.engine.frontend.rewrite import Rewritten, rewrite
from metalcore.errors import ArgumentError

_MARK = re.compile(r"/\*__mc:c(\d+)\*/")
__all__ = ["Unit", "constant_prologue", "dump", "make_unit"]


def make_unit(
    source: str,
    *,
    path: str | None = None,
    include_dirs: Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    math_mode: str = "safe",
    float_type: str = "float",
    prelude: str = "",
) -> Unit:
    """Read an MSL source; raises CompileError where it does not compile. *prelude* is text that goes in front of it.

    Example: `make_unit("kernel void f(device float* x) { x[0] = 1; }").functions == ("f",)`
    """
    if math_mode not in toolchain.MATH_MODES:
        raise ArgumentError(f"math_mode is {math_mode!r}; it must be one of {', '.join(toolchain.MATH_MODES)}")
    if float_type not in toolchain.FLOAT_TYPES:
        raise ArgumentError(f"float_type is {float_type!r}; it must be one of {', '.join(toolchain.FLOAT_TYPES)}")
    prepared = preprocess(source, path, include_dirs, defines or {}, math_mode, float_type, prelude)
    declared = declarations(prepared.sources)
    rewritten = rewrite(prepared.text, prepared.sources, declared, float_type)
    # The check leaves function constants open; its IR tells their types and indices.
    asking = {r.marker: constant_text(r.marker, r.name, r.index) for r in rewritten.constants}
    text = _MARK.sub(lambda match: match[0] + asking[int(match[1])], rewritten.text)
    prologue = constant_prologue(len(rewritten.constants), {})
    checked_ir = _only_kernel(rewritten, prepared.sources, math_mode, float_type)
    if checked_ir:
        ir, patched = "", text
    else:
        ir, patched = compiler.compile_text(
            prologue + text,
            prepared.sources,
            math_mode,
            emit=bool(rewritten.constants),
            optimised=True,
            float_type=float_type,
        )
    first, *pieces = _MARK.split(patched[len(prologue) :])
    marked = zip(pieces[::2], pieces[1::2], strict=True)
    text = first + "".join(f"/*__mc:c{n}*/{piece.removeprefix(asking[int(n)])}" for n, piece in marked)
    constants, slots = described(rewritten.constants, ir)
    unit = Unit(
        functions=tuple(kernel.host_name for kernel in rewritten.kernels),
        constants=constants,
        includes=prepared.includes,
        probes=prepared.probes,
        searched=prepared.searched,
        text=text,
        math_mode=math_mode,
        path=prepared.sources.main,
        source=prepared.sources.text,
        kernels=tuple(rewritten.kernels),
        slots=slots,
        float_type=float_type,
        prelude=prelude,
        checked_ir=checked_ir,
    )
    dump("unit.cpp", prologue + text)
    return unit


def _only_kernel(rewritten: Rewritten, sources: Sources, math_mode: str, float_type: str) -> str:
    """IR of the only kernel of a source, made by the run of clang that checks the source; empty where that takes more:
    several kernels, templates, constants, errors. Then one run checks, and others make IR as kernels are asked for."""
    if len(rewritten.kernels) != 1 or rewritten.constants or "<" in rewritten.kernels[0].expression:
        return ""
    text = with_entry(rewritten.text, rewritten.kernels[0])
    return compiler.compile_as_it_is(text, sources, math_mode, float_type) or ""


def constant_prologue(count: int, values: Mapping[int, str]) -> str:
    """Macros that give function constants their values; one without a value stays a name that nobody defines."""
    lines = []
    for marker in range(count):
        value = values.get(marker)
        lines.append(f"#define __MC_LINKAGE_{marker} {'extern' if value is None else ''}")
        lines.append(f"#define __MC_VALUE_{marker} {'' if value is None else value}")
        lines.append(f"#define __MC_DEFINED_{marker} {'false' if value is None else 'true'}")
    return "".join(line + "\n" for line in lines)


def dump(name: str, text: str) -> None:
    """Write a stage's output into the folder of METALCORE_DUMP, where one is named."""
    folder = settings.dump_dir()
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
