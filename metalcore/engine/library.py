"""MSL source as a library of kernels that run on this CPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from metalcore.engine.constants import chosen_constants
from metalcore.engine.function import Function
from metalcore.engine.isolate.current import current as current_sandbox
from metalcore.engine.model import FunctionConstant
from metalcore.engine.options import Source, checked_defines, checked_folders, shown
from metalcore.engine.source_text import read_source, without_zeros
from metalcore.engine.units import Constants, SourceUnit
from metalcore.engine.unpicklable import Unpicklable
from metalcore.errors import ArgumentError, ConstantError, UnknownFunction

if TYPE_CHECKING:
    from metalcore.engine.isolate import block as isolation
    from metalcore.engine.isolate.sandbox import Sandbox
    from metalcore.engine.isolate.unit import IsolatedUnit

MATH_MODES = ("safe", "relaxed", "fast")
FLOAT_TYPES = ("float", "double")


class Library(Unpicklable):
    """The kernels of one Metal source. Each is compiled when it is asked for.

    With `float_type="double"` what the source calls float is read as double, arguments included: gradients and
    errors are then judged on the kernel's own source, without its roundings (docs/design/retype.md).
    `prelude` is text that the kernel's host puts in front of the source, such as `using namespace metal;`. Lines of
    the source keep their numbers in messages; those of the prelude are called `<prelude>`.

    >>> import numpy as np
    >>> lib = Library("kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }")
    >>> lib.functions
    ('twice',)
    >>> x = np.arange(4, dtype=np.float32)
    >>> lib.function("twice")(x, threads=4)
    >>> x
    array([0., 2., 4., 6.], dtype=float32)
    """

    def __init__(
        self,
        source_or_path: str | os.PathLike[str],
        include_dirs: Sequence[str | os.PathLike[str]] = (),
        defines: Mapping[str, object] | None = None,
        math_mode: str = "safe",
        float_type: str = "float",
        prelude: str = "",
        isolate: bool | isolation.isolate | None = None,
    ) -> None:
        if not isinstance(prelude, str):
            raise ArgumentError(f"prelude must be MSL text, not {type(prelude).__name__}")
        if math_mode not in MATH_MODES:
            raise ArgumentError(f"math_mode={math_mode!r} must be one of {', '.join(MATH_MODES)}")
        if float_type not in FLOAT_TYPES:
            raise ArgumentError(f"float_type={float_type!r} must be one of {', '.join(FLOAT_TYPES)}")
        folders, macros = checked_folders(include_dirs), checked_defines(defines)
        source, self.path = read_source(source_or_path)
        prelude = without_zeros(prelude, "the prelude")
        given = Source(source, self.path, folders, macros, math_mode, float_type, prelude)
        sandbox = current_sandbox() if isolate is None else _sandbox(isolate)
        self._unit: SourceUnit | IsolatedUnit = SourceUnit(given) if sandbox is None else sandbox.unit(given)
        self._follows = isolate is None
        self._made: dict[tuple[str, Constants], Function] = {}

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of all kernels, instantiations of templates included."""
        return self._unit.functions

    @property
    def constants(self) -> tuple[FunctionConstant, ...]:
        """The function constants that kernels of this library may be specialised on."""
        return self._unit.constants

    def function(self, name: str, constants: Mapping[int | str, object] | None = None) -> Function:
        """One kernel, specialised on the given function constants (by index or name)."""
        if name not in self.functions:
            raise UnknownFunction(_no_such(name, self.functions))
        if constants is not None and not isinstance(constants, Mapping):
            raise ConstantError(f"constants={shown(constants)} must be a dict of function constants, as in {{0: True}}")
        chosen = chosen_constants(self.constants, constants or {})
        made = self._made.get((name, chosen))
        if made is None:
            made = self._made.setdefault((name, chosen), Function(self._unit, name, chosen, self._follows))
        return made

    def check(self) -> None:
        """Compile every kernel that is an instantiation of a template, so that an error in any shows now.

        Ordinary kernels were checked when the library was made; those that need function constants are left alone.
        """
        for name in self._unit.templates:
            with suppress(ConstantError):
                self._unit.signature(name, ())

    def __repr__(self) -> str:
        return f"<metalcore.Library of {len(self.functions)} kernels{f' from {self.path}' if self.path else ''}>"

    def _repr_html_(self) -> str:
        from metalcore.diagnostics.html import html_table

        constants = ", ".join(f"{c.name} ({c.type})" for c in self.constants)
        note = f"function constants: {constants}" if constants else ""
        return html_table(self.path or "a library", ["kernel"], [[name] for name in self.functions], note)


def _sandbox(given: bool | isolation.isolate) -> Sandbox | None:
    from metalcore.engine.isolate.block import chosen

    return chosen(given)


def _no_such(name: object, functions: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(str(name), functions, n=3)
    if near:
        hint = f"did you mean {' or '.join(repr(n) for n in near)}?"
    else:
        hint = f"it has {', '.join(functions[:20]) or 'no kernels at all'}{' ...' * (len(functions) > 20)}"
    return f"the library has no kernel named {name!r}; {hint}"
