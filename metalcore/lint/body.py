"""Sources of mx.fast.metal_kernel: the body of a kernel, without its signature, which is made up here.

What the body takes and gives is read from comments (`// metalcore: input x float16`, `output`, `template`), and what
they do not tell from clang: each name that it does not know is an input, an output or a template argument.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from metalcore.dropins import signature
from metalcore.dropins.metal_kernel import _prelude
from metalcore.engine.frontend.diagnostics import group, parse
from metalcore.engine.frontend.structure import Structure
from metalcore.engine.frontend.tokens import Tokens
from metalcore.errors import ArgumentError
from metalcore.lint.front import ClangErrors, Front, Options, Preprocessed, Source

ROUNDS = 6
_COMMENT = re.compile(r"//\s*metalcore:\s*(input|output|template)\s+([A-Za-z_]\w*)(?:\s+(\S+))?")
_UNKNOWN_NAME = re.compile(r"use of undeclared identifier '(\w+)'")
_UNKNOWN_TYPE = re.compile(r"unknown type name '(\w+)'|no type named '(\w+)'")
_STATEMENTS = frozenset(("if", "for", "while", "do", "return", "switch"))
_KERNELS = frozenset(("kernel", "host_name"))


@dataclass
class Names:
    """What the body takes: name -> dtype, where "?" is a number without dimensions, and template arguments."""

    inputs: dict[str, str] = field(default_factory=dict)
    scalars: set[str] = field(default_factory=set)
    outputs: dict[str, str] = field(default_factory=dict)
    template: dict[str, bool | int | str] = field(default_factory=dict)


def is_body(text: str) -> bool:
    """Whether a text is the body of a kernel: statements outside every function, and no kernel."""
    tokens = Tokens(_without_comments(text))
    if not _KERNELS.isdisjoint(tokens.text):
        return False
    covered = [(f.start, f.end) for f in Structure(tokens).all if f.body >= 0 and f.kind in ("function", "class")]
    for i, word in enumerate(tokens.text):
        if any(start <= i <= end for start, end in covered):
            continue
        if word in _STATEMENTS or word in signature.THREAD_ATTRIBUTES:
            return True
    return any(f.name in _STATEMENTS for f in Structure(tokens).functions)


def wrap(source: Source, options: Options, header: str = "") -> Source:
    """The body with a signature around it, behind its header; its lines keep their numbers."""
    names = _declared(source.text)
    given = set(names.inputs)
    for _ in range(ROUNDS):
        written = _write(source, names, header)
        errors = _errors(written, options)
        if not errors:
            return written
        if not _learn(errors, source.text, names):
            break
    # Arrays of indices are mostly integers.
    guessed = [name for name in names.inputs if name not in given]
    whole = replace(names, inputs={n: "int32" if n in guessed else d for n, d in names.inputs.items()})
    second = _write(source, whole, header)
    return written if not guessed or _errors(second, options) else second


def _errors(written: Source, options: Options) -> str:
    """clang's words where the wrapped body does not compile; other errors are left to the linter itself."""
    prepared = Preprocessed(written, options)
    try:
        Front(prepared, prepared.text)
    except ClangErrors as errors:
        return errors.errors
    return ""


def _declared(text: str) -> Names:
    names = Names()
    for number, line in enumerate(text.splitlines(), 1):
        for kind, name, value in _COMMENT.findall(line):
            if kind == "template":
                names.template[name] = _template_value(value, number)
                continue
            dtype = value or "float32"
            if dtype not in signature.MSL_TYPES:
                known = ", ".join(signature.MSL_TYPES)
                raise ArgumentError(f"line {number}: {kind} '{name}' has dtype '{dtype}'; the dtypes are {known}")
            (names.inputs if kind == "input" else names.outputs)[name] = dtype
    return names


def _template_value(value: str, number: int) -> bool | int | str:
    if value in ("true", "false"):
        return value == "true"
    if re.fullmatch(r"-?\d+", value):
        return int(value)
    if value in signature.MSL_TYPES:
        return value
    raise ArgumentError(f"line {number}: a template argument is a dtype, a whole number, true or false, not '{value}'")


def _write(source: Source, names: Names, header: str) -> Source:
    inputs = [
        (name, signature.Input(dtype, False, name in names.scalars), signature.mentioned_shapes(name, source.text))
        for name, dtype in names.inputs.items()
    ]
    outputs = list(names.outputs.items())
    atomic = bool(names.outputs) and "atomic_" in source.text
    written = signature.write("body", header, source.text, inputs, outputs, list(names.template.items()), atomic)
    prelude, folders = _prelude(header + source.text)
    path = source.path.replace("\\", "\\\\").replace('"', '\\"')
    marked = written.marked.replace('#line 1 "<body source>"', f'#line 1 "{path}"', 1)
    compiled = f'#line 1 "<metal_kernel prelude>"\n{prelude}{marked}'
    return Source(source.path, source.text, compiled, (*source.include_dirs, *folders))


def _learn(errors: str, text: str, names: Names) -> bool:
    """Take the names that clang does not know as what the body is given; answers whether there were any."""
    code = _without_comments(text)
    fresh = False
    for entry in group(parse(errors)):
        kind = _UNKNOWN_TYPE.search(entry[0].text)
        name = _UNKNOWN_NAME.search(entry[0].text)
        if kind:
            word = kind[1] or kind[2]
            if word not in names.template:
                names.template[word] = "float32"
                fresh = True
        elif name and name[1] not in (*names.inputs, *names.outputs, *names.template):
            fresh = True
            _place(name[1], code, names)
    return fresh


def _place(name: str, code: str, names: Names) -> None:
    """Decide what an unknown name is by how the body uses it."""
    for ending in ("_shape", "_strides", "_ndim"):
        if name.endswith(ending):
            names.inputs.setdefault(name[: -len(ending)], "float32")
            return
    used = rf"\b{re.escape(name)}\b"
    if re.search(rf"{used}\s*\[[^;]*?\]\s*(?:[-+*/|&^%]|<<|>>)?=(?!=)|atomic_\w+\(\s*&?\s*{used}", code):
        names.outputs[name] = "float32"
    elif re.search(rf"<[^;(]*{used}[^;(]*>|\[\s*{used}\s*\]\s*;", code) or name.isupper():
        names.template[name] = 32
    elif re.search(rf"{used}\s*\[|(?:\*|\bauto)\s*\w+\s*=[^;]*{used}|(?:device|constant)[^);]*\)\s*\(?{used}", code):
        names.inputs[name] = "float32"
    else:
        names.inputs[name] = "int32"
        names.scalars.add(name)


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: "\n" * m[0].count("\n") or " ", text, flags=re.DOTALL)
