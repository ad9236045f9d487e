"""The text of a module -> `Module`. Bodies of functions are read later, when somebody asks for them."""

from __future__ import annotations

from metalcore.engine.ir.function import Function, Module
from metalcore.engine.ir.instructions import BodyReader
from metalcore.engine.ir.metadata import Metadata
from metalcore.engine.ir.operands import RETURN_ATTRIBUTES, Operands
from metalcore.engine.ir.tokens import Line, attributes, global_parts, type_and_value
from metalcore.engine.ir.types import VOID
from metalcore.engine.ir.values import Global, Parameter

LINKAGE = frozenset(
    (
        *("private", "internal", "available_externally", "linkonce", "weak", "common", "appending", "extern_weak"),
        *("linkonce_odr", "weak_odr", "external"),
    )
)
_WORDS = frozenset(
    (
        *("dso_local", "dso_preemptable", "default", "hidden", "protected", "unnamed_addr", "local_unnamed_addr"),
        *("ccc", "fastcc", "coldcc", "preserve_mostcc", "preserve_allcc", "spir_func", "spir_kernel"),
    )
)


def parse(text: str, entry: str = "__mc_entry") -> Module:
    """A module of LLVM's text.

    >>> module = parse("define void @f(i32 %x) {\\n  %y = add nsw i32 %x, 1\\n  ret void\\n}\\n", "f")
    >>> [(instr.op, instr.name) for instr in module.function.instructions()]
    [('add', '%y'), ('ret', '')]
    """
    module = Module(entry)
    module.text = text
    variables: list[str] = []
    functions: list[tuple[str, str | None]] = []
    at, length = 0, len(text)
    while at < length:
        end = text.find("\n", at)
        end = length if end < 0 else end
        first = text[at : at + 1]
        if first == "d":
            line = text[at:end]
            if line.startswith("define "):
                close = text.find("\n}", end)
                if close < 0:
                    raise ValueError(f"a function does not end: {line}")
                functions.append((line, text[end + 1 : close + 1]))
                end = close + 2
            else:
                functions.append((line, None))
        elif first == "!":
            module.notes = Metadata(text[at:])
            if module.notes.mentions("\ndefine ", "\ndeclare ", "\n@"):
                raise ValueError("functions and variables stand in front of the metadata")
            break
        elif first == "%":
            name, _, spelled = text[at:end].partition(" = type ")
            module.structs[name] = spelled
        elif first == "@":
            variables.append(text[at:end])
        elif first == "a":
            number, _, body = text[at:end].partition(" = ")
            module.attributes[int(number.rpartition("#")[2])] = attributes(body.strip("{} "))
        elif first == "$":
            module.comdats.append(text[at:end])
        elif first not in ("", "\n", ";"):
            module.header.append(text[at:end])
        at = end + 1
    operands = Operands(module)
    for line in variables:
        _add_global(module, operands, line)
    for header, code in functions:
        function = _function(operands, header, code)
        module.functions[function.name] = function
    return module


def _add_global(module: Module, operands: Operands, line: str) -> None:
    parts = global_parts(line)
    if parts is None:
        raise ValueError(f"this is no variable: {line[:200]}")
    name, words, kind, definition, suffix = parts
    if kind in ("alias", "ifunc"):
        module.globals[name] = Global(name, VOID, False, definition, words, suffix, kind)
        return
    spelled, value = type_and_value(definition)
    ty = operands.type(Line(spelled))
    module.globals[name] = Global(name, ty, kind == "constant", value, words, suffix)


def _function(operands: Operands, header: str, body: str | None) -> Function:
    line = Line(header)
    line.next()
    debug: list[str] = []
    while line.peek().startswith("!"):  # of a declaration
        debug.append(f"{line.next()} {line.next()}")
    linkage, words = "", []
    while line.peek() in LINKAGE or line.peek() in _WORDS:
        if line.peek() in LINKAGE:
            linkage = line.next()
        else:
            words.append(line.next())
    returned_attributes = operands.attributes(line, RETURN_ATTRIBUTES)
    returned = operands.type(line)
    symbol = line.next()
    line.expect("(")
    parameters: list[Parameter] = []
    is_variadic = False
    while not line.accept(")"):
        if line.accept("..."):
            is_variadic = True
            continue
        ty = operands.type(line)
        found = operands.attributes(line)
        name = line.next() if line.peek().startswith("%") else ""
        parameters.append(Parameter(ty, name, found))
        line.accept(",")
    suffix: list[str] = []
    while line.peek() not in ("", "{"):
        word = line.next()
        if word.startswith("!") or word in ("align", "section", "gc", "prefix", "personality"):
            word += " " + line.next()
        elif line.peek() == "(":
            word += line.bracketed()
        suffix.append(word)
    return Function(
        symbol,
        returned,
        parameters,
        linkage=linkage,
        words=words + debug if body is None else words,
        returned_attributes=returned_attributes,
        is_variadic=is_variadic,
        suffix=suffix,
        text=body,
        reader=BodyReader(operands) if body is not None else None,
    )
