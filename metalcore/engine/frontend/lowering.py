"""One kernel of a Unit to scalar LLVM IR with its signature."""

from __future__ import annotations

from collections.abc import Mapping

from metalcore.engine.frontend import calls, compiler, constants, entry, places, signature
from metalcore.engine.frontend.diagnostics import Sources, at, with_prelude
from metalcore.engine.frontend.model import Kernel, Unit
from metalcore.engine.frontend.reject import unsupported
from metalcore.engine.frontend.symbols import check_symbols
from metalcore.engine.frontend.unit import constant_prologue, dump
from metalcore.engine.ir import Module, parse, print_module
from metalcore.engine.model import INITIAL, Argument, ScalarKernel
from metalcore.engine.names import plain_name
from metalcore.errors import UnknownFunction
from metalcore.launch.expression import ExpressionError
from metalcore.launch.requirements import conditions

_GUARD = "@_ZGV"  # begins the names of variables that say whether others are set
LARGEST_INDEX = 30  # Metal binds 31 buffers


def lower(
    unit: Unit, name: str, values: Mapping[int | str, object] | None = None, *, optimised: bool = True
) -> ScalarKernel:
    """Compile kernel *name* of *unit* with the given function constants.

    Example: `lower(make_unit("kernel void f(device float* x) { x[0] = 1; }"), "f", None).arguments[0].index == 0`
    """
    kernel = next((k for k in unit.kernels if k.host_name == name), None)
    if kernel is None:
        raise UnknownFunction(_unknown(unit, name))
    given = constants.initialisers(unit, values)
    sources = with_prelude(Sources(unit.path, unit.source, dict(unit.includes)), unit.prelude)
    text = entry.with_entry(unit.text, kernel)
    if unit.checked_ir and optimised:
        ir = unit.checked_ir
    else:
        prologue = constant_prologue(len(unit.slots), given)
        ir, text = compiler.compile_text(
            prologue + text, sources, unit.math_mode, emit=True, optimised=optimised, float_type=unit.float_type
        )
    module = parse(ir)
    places.restore(module, text, sources.line)
    error = constants.missing(unit, name, module)
    if error is not None:
        raise error
    _check_guards(module, kernel, sources)
    check_symbols(module, kernel, sources)
    arguments = signature.arguments(module, kernel)
    _check_bindings(kernel, arguments, sources)
    _check_requirements(unit, kernel, arguments, sources)
    limit = signature.max_threads(module)
    signature.strip(module)
    scalar = print_module(calls.resolve_recursion(module, sources))
    dump("scalar_raw.ll", scalar)
    return ScalarKernel(name, scalar, arguments, limit, unit.math_mode, tuple(kernel.requirements))


def _check_guards(module: Module, kernel: Kernel, sources: Sources) -> None:
    """Refuse what C++ would set when a thread first gets there: threads of a kernel share it and start together."""
    guard = next((name for name in module.globals if name.startswith(_GUARD)), None)
    if guard is None:
        return
    guarded = module.globals.get("@_Z" + guard[len(_GUARD) :])
    if guarded is not None and guarded.section.startswith(INITIAL):
        text = f"the initialiser of threadgroup variable '{plain_name(guarded.name)}' is not a constant"
        raise at(kernel.file, kernel.line, f"{text}: it is set before the threads of the group start", sources)
    raise unsupported("threadgroup variables with a constructor that runs code", kernel.file, kernel.line)


def _unknown(unit: Unit, name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, unit.functions, n=3)
    hint = f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
    return f"no kernel {name!r} in {unit.path} ({len(unit.functions)} kernels){hint}"


def _check_requirements(unit: Unit, kernel: Kernel, arguments: tuple[Argument, ...], sources: Sources) -> None:
    """Refuse a declaration that names what the kernel does not have."""
    constants = dict.fromkeys(c.name for c in unit.constants)
    for requirement in kernel.requirements:
        try:
            conditions(kernel.host_name, [requirement], arguments, constants)
        except ExpressionError as error:
            raise at(requirement.file, requirement.line, str(error), sources) from None


def _check_bindings(kernel: Kernel, arguments: tuple[Argument, ...], sources: Sources) -> None:
    """Refuse a slot that two parameters share and one that Metal does not have."""
    taken: dict[tuple[str, int], Argument] = {}
    for argument in arguments:
        if argument.kind == "builtin":
            continue
        family = "threadgroup" if argument.kind == "threadgroup" else "buffer"
        place = f"[[{family}({argument.index})]]"
        if argument.index > LARGEST_INDEX:
            text = f"{place} of parameter '{argument.name}' is out of range: Metal has 0 to {LARGEST_INDEX}"
            raise at(kernel.file, kernel.line, text, sources)
        other = taken.setdefault((family, argument.index), argument)
        if other is not argument and other.enabled and argument.enabled:
            text = f"{place} is bound twice in kernel '{kernel.host_name}': by '{other.name}' and by '{argument.name}'"
            raise at(kernel.file, kernel.line, text, sources)
