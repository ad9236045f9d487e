"""Finds the kernels of a file: definitions, and the three spellings of a host_name instantiation."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from metalcore.engine.frontend import attributes as attribute_names
from metalcore.engine.frontend.attributes import Attribute, Attributes
from metalcore.engine.frontend.diagnostics import Sources, at
from metalcore.engine.frontend.model import Kernel, Parameter
from metalcore.engine.frontend.structure import Declaration, Structure
from metalcore.engine.frontend.tokens import Tokens, literal
from metalcore.launch.declaration import Requirement

_WORD = re.compile(r"[A-Za-z_$]")
_PLAIN_TYPES = frozenset(("float", "half", "bfloat", "int", "uint", "bool", "char", "uchar", "short", "ushort", "long"))
_WIDTHS = {
    **{name: 1 for name in ("uint", "ushort", "unsigned", "uint32_t", "uint16_t")},
    **{f"{name}{n}": n for name in ("uint", "ushort") for n in (2, 3)},
}


@dataclass
class Definition:
    """A function that is a kernel, template or not."""

    name: str
    scope: tuple[str, ...]
    parameters: list[Parameter]
    template: bool
    header: list[list[str]]  # words of each template parameter
    expression: tuple[int, int]  # tokens of its name
    types: tuple[int, int]  # tokens of its parameters
    body: int
    head: int
    end: int
    host_name: str = ""
    max_threads: str = ""
    file: str = ""
    line: int = 0
    start: int = -1
    requirements: list[Requirement] = field(default_factory=list)  # shared with its kernels, filled in by declared.py


@dataclass
class Place:
    """Where a kernel's marker goes, and the tokens that its expression and parameter types are read from."""

    kernel: Kernel
    stop: int
    start: int = -1  # of an instantiation, which the marker replaces
    expression: tuple[int, int] = (-1, -1)
    types: tuple[int, int] = (-1, -1)


@dataclass
class Kernels:
    """All kernels of a file."""

    definitions: list[Definition] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    @property
    def found(self) -> list[Kernel]:
        """The entry points in file order."""
        return [place.kernel for place in self.places]

    def finish(self, tokens: Tokens) -> None:
        """Put the markers in, once every other edit is done."""
        for definition in self.definitions:
            if definition.max_threads:
                note = f'__attribute__((annotate("mc_max_threads", (unsigned)({definition.max_threads})))) '
                tokens.insert(definition.head, note)
        for place in self.places:
            kernel = place.kernel
            kernel.expression = tokens.source(*place.expression)
            if place.types[0] >= 0:
                kernel.types = tokens.source(*place.types) or "void"
            if place.start < 0:
                tokens.text[place.stop] += f" /*__mc:k{kernel.marker}*/"
                continue
            tokens.blank(place.start, place.stop + 1)
            tokens.text[place.stop] = f"/*__mc:k{kernel.marker}*/"


def collect_kernels(tokens: Tokens, structure: Structure, attributes: Attributes, sources: Sources) -> Kernels:
    """Read every kernel definition and instantiation."""
    kernels = Kernels()
    instantiations: list[tuple[Declaration, list[Attribute]]] = []
    for declaration in structure.all:
        if declaration.owner is not None:
            continue
        stop = declaration.open if declaration.open >= 0 else declaration.end + 1
        own = attributes.within(declaration.start, stop)
        if declaration.close >= 0:
            # Attributes may also stand behind the parameter list.
            own += attributes.within(declaration.close, max(declaration.body, declaration.close))
        is_kernel = any(a.name == "kernel" for a in own) or "kernel" in tokens.words(declaration.start, stop)
        if declaration.instantiation:
            if any(a.name == "host_name" for a in own):
                instantiations.append((declaration, own))
        elif is_kernel and declaration.kind == "function" and declaration.body >= 0:
            kernels.definitions.append(_definition(tokens, declaration, own, attributes, sources))
    # A template may get its `kernel` from the instantiation alone.
    known = {d.name for d in kernels.definitions}
    wanted = {d.name for d, _ in instantiations} - known
    for declaration in structure.functions:
        if declaration.name in wanted and declaration.body >= 0 and declaration.template >= 0:
            kernels.definitions.append(_definition(tokens, declaration, [], attributes, sources))
    for definition in kernels.definitions:
        if not definition.template:
            name = definition.host_name or "::".join((*definition.scope, definition.name))
            end = tokens.where(definition.end)[1]
            kernel = Kernel(name, "", definition.parameters, 0, definition.file, definition.line, end)
            kernel.requirements = definition.requirements
            # The types tell the kernel from other functions of its name.
            kernels.places.append(Place(kernel, definition.end, -1, definition.expression, definition.types))
    for declaration, own in instantiations:
        kernels.places.append(_instantiation(tokens, declaration, own, kernels.definitions, sources))
    _number(kernels, sources)
    return kernels


def _number(kernels: Kernels, sources: Sources) -> None:
    """Number the kernels in file order and refuse a name that is given twice."""
    kernels.places.sort(key=lambda place: place.stop)
    seen: dict[str, Kernel] = {}
    for number, kernel in enumerate(kernels.found):
        kernel.marker = number
        if kernel.host_name in seen:
            first = seen[kernel.host_name]
            text = f"kernel '{kernel.host_name}' is defined twice, first at {first.file}:{first.line}"
            raise at(kernel.file, kernel.line, text, sources)
        seen[kernel.host_name] = kernel


def _definition(
    tokens: Tokens, declaration: Declaration, own: list[Attribute], attributes: Attributes, sources: Sources
) -> Definition:
    file, line = tokens.where(declaration.name_start)
    parameters = []
    for start, stop in tokens.split(declaration.open + 1, declaration.close):
        if tokens.words(start, stop) != ["void"]:
            parameters.append(_parameter(tokens, start, stop, attributes))
    _check_widths(file, line, declaration.name, parameters, sources)
    header = _template_parameters(tokens, declaration)
    if {"void", "auto"}.isdisjoint(tokens.words(declaration.head, declaration.name_start)):
        raise at(file, line, f"a kernel returns void, and '{declaration.name}' does not", sources)
    by_name = {a.name: a for a in own}
    host = by_name.get("host_name")
    limit = by_name.get("max_total_threads_per_threadgroup")
    return Definition(
        name=declaration.name,
        scope=declaration.scope,
        parameters=parameters,
        template=bool(header),  # `template <>` is a function like any other
        header=header,
        expression=(declaration.name_start, declaration.open),
        types=(declaration.open + 1, declaration.close),
        body=declaration.body,
        head=declaration.head,
        end=declaration.end,
        host_name=literal(host.pieces) if host else "",
        max_threads=limit.arguments if limit else "",
        file=file,
        line=line,
        start=declaration.start,
    )


def _parameter(tokens: Tokens, start: int, stop: int, attributes: Attributes) -> Parameter:
    parameter = Parameter(_parameter_name(tokens, start, stop))
    for attribute in attributes.within(start, stop):
        name = attribute_names.SAME_AS.get(attribute.name, attribute.name)
        if name in ("buffer", "threadgroup"):
            parameter.binding, parameter.index = name, attribute.arguments
        elif name == "function_constant":
            parameter.enabled = attribute.arguments
        elif name in attribute_names.THREAD_ATTRIBUTES:
            parameter.builtin = name
            parameter.width = _width(tokens.words(start, stop))
    return parameter


def _width(words: list[str]) -> int:
    """The elements of a thread attribute's type; 0 where its name does not tell."""
    return next((n for word in words if (n := _WIDTHS.get(word, 0))), 0)


def _check_widths(file: str, line: int, name: str, parameters: list[Parameter], sources: Sources) -> None:
    """Metal's compiler refuses a kernel whose position attributes are scalars and vectors, or vectors of two widths."""
    positions = [p for p in parameters if attribute_names.THREAD_ATTRIBUTES.get(p.builtin, 1) > 1 and p.width]
    if len({p.width for p in positions}) < 2:
        return
    most = max(positions, key=lambda p: p.width)
    other = next(p for p in positions if p.width != most.width)
    raise at(
        file,
        line,
        f"kernel '{name}': expecting input declarations with either all scalar types or all vector types with the same "
        f"number of elements: '{other.name}' [[{other.builtin}]] has {other.width} and '{most.name}' "
        f"[[{most.builtin}]] has {most.width}. Declare both as uint{most.width}",
        sources,
    )


def _parameter_name(tokens: Tokens, start: int, stop: int) -> str:
    """The declared name: the last word before an array bound or a default value; in `(&x)[3]` the inner one."""
    name = ""
    i = start
    while i < stop:
        word = tokens.text[i]
        if word in ("[", "="):
            break
        if word == "<":
            i = max(tokens.close_angle(i, stop), i)
        elif word == "(" and tokens.at(tokens.forward(i)) in ("*", "&"):
            inner = tokens.words(i + 1, tokens.match[i])
            return next((w for w in reversed(inner) if _WORD.match(w)), "")
        elif word and _WORD.match(word):
            name = word
        i += 1
    return name


def _instantiation(
    tokens: Tokens, declaration: Declaration, own: list[Attribute], definitions: list[Definition], sources: Sources
) -> Place:
    host_name = literal(next(a.pieces for a in own if a.name == "host_name"))
    file, line = tokens.where(declaration.start)
    candidates = [d for d in definitions if d.name == declaration.name]
    count = -1
    if declaration.open >= 0:
        parts = tokens.split(declaration.open + 1, declaration.close)
        count = 0 if [tokens.words(*part) for part in parts] == [["void"]] else len(parts)
        candidates = [d for d in candidates if len(d.parameters) == count] or candidates
    if len(candidates) > 1:
        given = _template_arguments(tokens, declaration)
        candidates = [d for d in candidates if _fits(d.header, given)] or candidates
    if not candidates:
        text = f"host_name(\"{host_name}\") instantiates '{declaration.name}', which is no kernel of this source"
        raise at(file, line, text, sources)
    end = tokens.where(declaration.end)[1]
    kernel = Kernel(host_name, "", candidates[-1].parameters, 0, file, line, end)
    kernel.requirements = candidates[-1].requirements
    place = Place(kernel, declaration.end, declaration.start, (declaration.name_start, declaration.end))
    if declaration.open >= 0:
        place.expression = (declaration.name_start, declaration.open)
        place.types = (declaration.open + 1, declaration.close)
    return place


def _template_parameters(tokens: Tokens, declaration: Declaration) -> list[list[str]]:
    if declaration.template < 0:
        return []
    open_ = tokens.forward(declaration.template)
    return [tokens.words(*part) for part in tokens.split(open_ + 1, tokens.close_angle(open_))]


def _template_arguments(tokens: Tokens, declaration: Declaration) -> list[list[str]]:
    open_ = tokens.forward(declaration.name_start)
    while tokens.at(open_) not in ("<", "(", ";"):
        open_ = tokens.forward(open_)
    if tokens.at(open_) != "<":
        return []
    return [tokens.words(*part) for part in tokens.split(open_ + 1, tokens.close_angle(open_))]


def _fits(header: list[list[str]], given: list[list[str]]) -> bool:
    """Whether template arguments can belong to a template, judged by their number and by which are plainly numbers."""
    packed = any("..." in words for words in header)
    if (len(given) > len(header) and not packed) or any(
        "=" not in words for words in header[len(given) :] if not packed
    ):
        return False
    for parameter, argument in zip(header, given, strict=False):
        is_type = parameter[0] in ("typename", "class")
        is_number = argument[0][0].isdigit() or argument[0] in ("true", "false", "-")
        if is_number if is_type else argument[0] in _PLAIN_TYPES:
            return False
    return True
