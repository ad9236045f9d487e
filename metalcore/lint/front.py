"""A source as far as the front end gets with it: tokens, kernels, clang's verdict, and IR of chosen kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from metalcore.engine.frontend import compiler, constants, entry, patches, toolchain
from metalcore.engine.frontend.attributes import Attributes
from metalcore.engine.frontend.diagnostics import Sources
from metalcore.engine.frontend.entry import constant_text
from metalcore.engine.frontend.kernels import Definition, collect_kernels
from metalcore.engine.frontend.model import ConstantSlot, Kernel, Unit
from metalcore.engine.frontend.preprocess import preprocess
from metalcore.engine.frontend.rewrite import rewrite
from metalcore.engine.frontend.structure import Structure
from metalcore.engine.frontend.tokens import Tokens
from metalcore.engine.frontend.unit import constant_prologue
from metalcore.engine.model import FunctionConstant

_OWN = re.compile(r"\b__mc_(request|enabled|function|kernel|entry|describe_enabled|describe)\b")
_ENTRY = re.compile(r"\n/\*mc:begin(\d+)\*/.*?/\*mc:end\*/\n# [^\n]*\n", re.DOTALL)
_MARK = re.compile(r"/\*__mc:k(\d+)\*/")
PER_TEMPLATE = 4  # instantiations of one template that are looked at closely; all are compiled


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    include_dirs: tuple[str, ...] = ()
    defines: Mapping[str, object] = field(default_factory=dict)
    math_mode: str = "fast"  # Metal's own default
    metal_version: tuple[int, int] = (3, 1)


@dataclass(frozen=True)
class Source:
    """What is linted: the text that the user wrote, and the text that is compiled where it is not the same."""

    path: str
    text: str
    compiled: str = ""
    include_dirs: tuple[str, ...] = ()


class ClangErrors(Exception):
    """clang refuses the text; `errors` is what it says, `text` is what it read."""

    def __init__(self, errors: str, text: str) -> None:
        super().__init__(errors)
        self.errors, self.text = errors, text


class Preprocessed:
    """The tokens of a source with macros expanded. Nothing is compiled yet."""

    def __init__(self, source: Source, options: Options) -> None:
        self.source, self.options = source, options
        folders = (*source.include_dirs, *options.include_dirs)
        prepared = preprocess(source.compiled or source.text, source.path, folders, options.defines, options.math_mode)
        self.text = prepared.text
        self.includes = prepared.includes
        self.sources = Sources(source.path, source.text, dict(prepared.includes))
        self.tokens = Tokens(self.text)
        self.structure = Structure(self.tokens)

    @cached_property
    def definitions(self) -> list[tuple[Tokens, Definition]]:
        """Every function that is a kernel, template or not; indices are those of `tokens`."""
        tokens = Tokens(self.text)
        structure = Structure(tokens)
        found = collect_kernels(tokens, structure, Attributes(tokens, self.sources), self.sources)
        return [(tokens, definition) for definition in found.definitions]


class Front:
    """A source that clang takes, with every kernel instantiated."""

    def __init__(self, prepared: Preprocessed, text: str) -> None:
        """Compile *text*, the preprocessed text after recovery; raises MetalcoreError or ClangErrors."""
        self.sources, self.options = prepared.sources, prepared.options
        rewritten = rewrite(text, self.sources)
        body = rewritten.text
        found: tuple[FunctionConstant, ...] = ()
        slots: tuple[ConstantSlot, ...] = ()
        if rewritten.constants:
            for record in rewritten.constants:
                mark = f"/*__mc:c{record.marker}*/"
                body = body.replace(mark, mark + constant_text(record.marker, record.name, record.index))
            ir, body = self._compile(constant_prologue(len(rewritten.constants), {}), body, emit=True)
            for record in rewritten.constants:
                body = body.replace(constant_text(record.marker, record.name, record.index), "")
            found, slots = constants.described(rewritten.constants, ir)
        self.kernels = tuple(rewritten.kernels)
        by_marker = {kernel.marker: kernel for kernel in self.kernels}
        body = _MARK.sub(lambda match: _placed(by_marker[int(match[1])]), body)
        self.unit = Unit(
            functions=tuple(kernel.host_name for kernel in self.kernels),
            constants=found,
            includes=prepared.includes,
            text=body,
            math_mode=self.options.math_mode,
            path=self.sources.main,
            source=self.sources.text,
            kernels=self.kernels,
            slots=slots,
        )
        # Every instantiation is checked here, whatever is looked at later.
        _, self._body = self._compile(self._prologue(self.choices[0]), body, emit=False)

    @cached_property
    def choices(self) -> list[dict[int | str, object]]:
        """Values of all function constants: every switch off, and, where there are switches, every switch on."""
        found: list[dict[int | str, object]] = []
        for switch in (False, True):
            values: dict[int | str, object] = {}
            for constant, slot in zip(self.unit.constants, self.unit.slots, strict=True):
                one: object = switch if slot.scalar == "bool" else 1
                values[constant.index] = one if slot.lanes == 1 else (one,) * slot.lanes
            if values not in found:
                found.append(values)
        return found

    def text_of(self, kernels: Sequence[Kernel], values: Mapping[int | str, object]) -> str:
        """The C++ text with the entry points of these kernels and no others."""
        wanted = {kernel.marker for kernel in kernels}
        body = _ENTRY.sub(lambda match: match[0] if int(match[1]) in wanted else "", self._body)
        return self._prologue(values) + body

    def ir_of(self, kernels: Sequence[Kernel], values: Mapping[int | str, object]) -> str:
        """Text of unoptimised IR; kernel i is `__mc_entry_i`."""
        ir, _ = self._compile("", self.text_of(kernels, values), emit=True)
        return ir

    def plain_unit(self) -> Unit:
        """The unit with markers instead of entry points, as `lower` wants it."""
        from dataclasses import replace

        return replace(self.unit, text=_ENTRY.sub(lambda match: f"/*__mc:k{match[1]}*/", self._body))

    def sample(self) -> list[Kernel]:
        """Every kernel that is no template, and a few instantiations of each template, of differing types."""
        groups: dict[str, list[Kernel]] = {}
        for kernel in self.kernels:
            groups.setdefault(template_of(kernel), []).append(kernel)
        chosen = [kernel for members in groups.values() for kernel in _differing(members)]
        return sorted(chosen, key=lambda kernel: kernel.marker)

    def _prologue(self, values: Mapping[int | str, object]) -> str:
        return constant_prologue(len(self.unit.slots), constants.initialisers(self.unit, values))

    def _compile(self, prologue: str, body: str, *, emit: bool) -> tuple[str, str]:
        """IR where *emit*, and the body with its patches. Floats that become bfloats are left to a rule."""
        flags = toolchain.language_flags(self.options.math_mode, optimised=True)
        text, failed = prologue + body, None
        while True:
            result = compiler.run(flags, text, emit, ("-w",))
            if result.code == 0:
                return result.output, text[len(prologue) :]
            errors = result.errors.count("error: ")
            if failed is not None and errors >= failed[0]:
                raise ClangErrors(failed[1], failed[2])
            again = patches.patch(text, result.errors, lambda t: compiler.run(flags, t, False, compiler.RANGES).errors)
            if again is None:
                raise ClangErrors(result.errors, text)
            failed = (errors, result.errors, text)
            text = again


def _differing(members: list[Kernel]) -> list[Kernel]:
    """The first instantiation, and then always the one with the most template arguments that none before it had."""
    arguments = {k.marker: set(enumerate(_arguments(k))) for k in members}
    picked, rest = [members[0]], members[1:]
    seen = set(arguments[members[0].marker])
    while rest and len(picked) < PER_TEMPLATE:
        best = max(rest, key=lambda k: len(arguments[k.marker] - seen))
        if not arguments[best.marker] - seen:
            break
        picked.append(best)
        rest.remove(best)
        seen |= arguments[best.marker]
    return picked


def _arguments(kernel: Kernel) -> list[str]:
    """Template arguments as written; a bfloat counts twice, because it is where types go wrong."""
    inside = kernel.expression.partition("<")[2].rpartition(">")[0]
    found = [piece.strip() for piece in inside.split(",")]
    return found + ["bfloat"] if "bfloat" in inside else found


def template_of(kernel: Kernel) -> str:
    """The same for all instantiations of a template, and for no other kernel."""
    name = kernel.expression.split("<", 1)[0].strip()
    return name if "<" in kernel.expression else f"{name}#{kernel.marker}"


def _placed(kernel: Kernel) -> str:
    """A kernel's entry point under names of its own, between marks, with the kernel's line."""
    file = kernel.file.replace("\\", "\\\\").replace('"', '\\"')
    own = _OWN.sub(lambda match: f"{match[0]}_{kernel.marker}", entry.entry_text(kernel))
    return f'\n/*mc:begin{kernel.marker}*/\n# {kernel.line} "{file}"\n{own}\n/*mc:end*/\n# {kernel.end_line} "{file}"\n'
