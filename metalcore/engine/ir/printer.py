"""`Module` -> LLVM's text. What nobody changed is written as it was read."""

from __future__ import annotations

from metalcore.engine.ir.function import Function, Module
from metalcore.engine.ir.opcodes import BINARY, CASTS, TAILS, UNARY
from metalcore.engine.ir.tokens import quoted
from metalcore.engine.ir.types import Type
from metalcore.engine.ir.values import Block, Global, Instr, Value, text_of


def print_module(module: Module) -> str:
    parts = [*module.header, *module.comdats]
    parts += [f"{name} = type {text}" for name, text in module.structs.items()]
    parts += [global_text(variable) for variable in module.globals.values()]
    parts += [function_text(function) for function in module.functions.values()]
    parts += [f"attributes #{number} = {{ {' '.join(words)} }}" for number, words in module.attributes.items()]
    return "\n".join([*parts, module.notes.text])


def global_text(variable: Global) -> str:
    kind = variable.kind or ("constant" if variable.constant else "global")
    words = f"{variable.words} " if variable.words else ""
    value = f" {variable.value}" if variable.value else ""
    ty = "" if variable.kind else variable.value_type.spelled
    return f"{variable.name} = {words}{kind} {ty}{value}{''.join(f', {part}' for part in variable.suffix)}"


def function_text(function: Function) -> str:
    is_declaration = function.is_declaration
    words = [w for w in (function.linkage, *function.words) if w]
    parameters = [" ".join([p.type.spelled, *p.attributes, *([p.name] if p.name else [])]) for p in function.parameters]
    if function.is_variadic:
        parameters.append("...")
    if is_declaration:  # a declaration has its debug place in front
        words.sort(key=lambda w: not w.startswith("!"))
    head = " ".join(
        [
            "declare" if is_declaration else "define",
            *words,
            *function.returned_attributes,
            function.returned.spelled,
            f"{function.symbol}({', '.join(parameters)})",
            *function.suffix,
        ]
    )
    if is_declaration:
        return head
    return f"{head} {{\n{body_text(function)}}}\n"


def body_text(function: Function) -> str:
    """The blocks of a function that is defined."""
    if not function.is_read:
        return function.text or ""
    body: list[str] = []
    for i, block in enumerate(function.blocks):
        if i or not block.name.isdigit():
            body.append(f"{quoted(block.name)}:")
        body += [statement(instr) for instr in block.instrs]
    return "\n".join([*body, ""])


def statement(instr: Instr) -> str:
    """One instruction on its line."""
    name = f"  {instr.name} = " if instr.name else "  "
    rest = instr.rest
    if rest is None:
        return f"{name}{_composed(instr)}"
    if instr.op == "call" and rest[1:].partition(" ")[0] in TAILS:
        tail, _, rest = rest[1:].partition(" ")
        return f"{name}{tail} call {rest}"
    return f"{name}{instr.op}{rest}"


def expression_text(instr: Instr) -> str:
    """A constant expression."""
    flags = "".join(f"{flag} " for flag in instr.flags)
    if instr.op == "getelementptr":
        source = instr.extra["source"]
        assert isinstance(source, Type)
        return f"getelementptr {flags}({source.spelled}, {_typed_list(instr.args)})"
    if instr.op in CASTS:
        return f"{instr.op} ({_typed(instr.args[0])} to {instr.type.spelled})"
    return f"{instr.op} {flags}({_typed_list(instr.args)})"


def _typed(value: Value) -> str:
    return f"{value.type.spelled} {text_of(value)}"


def _typed_list(values: list[Value]) -> str:
    return ", ".join([_typed(value) for value in values])


def _label(block: Block) -> str:
    return f"label %{quoted(block.name)}"


def _composed(instr: Instr) -> str:
    op, args, extra = instr.op, instr.args, instr.extra
    flags = "".join([f"{flag} " for flag in instr.flags])
    if op in BINARY or op in UNARY:
        text = f"{op} {flags}{instr.type.spelled} {', '.join([text_of(a) for a in args])}"
    elif op in CASTS:
        text = f"{op} {flags}{_typed(args[0])} to {instr.type.spelled}"
    elif op in ("icmp", "fcmp"):
        text = f"{op} {flags}{extra['pred']} {_typed(args[0])}, {text_of(args[1])}"
    elif op in ("load", "store", "atomicrmw", "cmpxchg", "fence", "alloca"):
        text = _memory(instr)
    elif op == "getelementptr":
        source = extra["source"]
        assert isinstance(source, Type)
        text = f"getelementptr {flags}{source.spelled}, {_typed_list(args)}"
    elif op == "call":
        text = _call(instr, flags)
    elif op == "phi":
        pairs = [f"[ {text_of(a)}, %{quoted(b.name)} ]" for a, b in zip(args, instr.targets, strict=True)]
        text = f"phi {flags}{instr.type.spelled} {', '.join(pairs)}"
    elif op == "br":
        text = f"br {', '.join([*([_typed(args[0])] if args else []), *map(_label, instr.targets)])}"
    elif op == "switch":
        text = _switch(instr)
    elif op == "ret":
        text = f"ret {_typed(args[0]) if args else 'void'}"
    elif op in ("extractvalue", "insertvalue"):
        path = extra["path"]
        assert isinstance(path, list)
        text = f"{op} {_typed_list(args)}, {', '.join(map(str, path))}"
    elif op in ("select", "extractelement", "insertelement", "shufflevector"):
        text = f"{op} {flags}{_typed_list(args)}"
    elif op == "unreachable":
        text = op
    else:
        raise ValueError(f"instruction {op!r} cannot be written anew")
    debug = f", !dbg !{instr.line}" if instr.line else ""
    attached = extra.get("attached")
    nodes = "".join([f", {k} {v}" for k, v in attached.items()]) if isinstance(attached, dict) else ""
    return f"{text}{nodes}{debug}"


def _memory(instr: Instr) -> str:
    op, args, extra = instr.op, instr.args, instr.extra
    words = "".join([f"{word} " for word in ("inalloca", "atomic", "weak", "volatile") if extra.get(word)])
    scope = f" syncscope{extra['scope']}" if "scope" in extra else ""
    ordering = f"{scope} {extra['ordering']}" if "ordering" in extra else scope
    align = f", align {extra['align']}" if "align" in extra else ""
    if op == "alloca":
        allocated = extra["allocated"]
        assert isinstance(allocated, Type)
        return f"alloca {words}{allocated.spelled}{''.join([f', {_typed(a)}' for a in args])}{align}"
    if op == "load":
        return f"load {words}{instr.type.spelled}, {_typed(args[0])}{ordering}{align}"
    if op == "store":
        return f"store {words}{_typed(args[0])}, {_typed(args[1])}{ordering}{align}"
    if op == "atomicrmw":
        return f"atomicrmw {words}{extra['rmw']} {_typed_list(args)}{ordering}{align}"
    if op == "cmpxchg":
        return f"cmpxchg {words}{_typed_list(args)}{ordering} {extra['failure']}{align}"
    return f"fence{ordering}"


def _call(instr: Instr, flags: str) -> str:
    extra = instr.extra
    if "metadata" in extra or "unknown" in extra:
        raise ValueError("a call with metadata or of assembly cannot be written anew")
    attributes = extra.get("attributes")
    arguments = []
    for i, arg in enumerate(instr.args):
        own = attributes[i] if isinstance(attributes, list) else []
        arguments.append(" ".join([arg.type.spelled, *own, text_of(arg)]))
    returned = extra.get("returned")
    target = extra.get("target")
    words = [
        *([str(extra["tail"])] if "tail" in extra else []),
        f"call {flags}".rstrip(),
        *([str(extra["convention"])] if "convention" in extra else []),
        *(returned if isinstance(returned, list) else []),
        instr.type.spelled,
        *([str(extra["signature"])] if "signature" in extra else []),
        f"{text_of(target) if isinstance(target, Instr) else '@' + quoted(instr.callee)}({', '.join(arguments)})",
        *([str(extra["suffix"])] if "suffix" in extra else []),
    ]
    return " ".join(words)


def _switch(instr: Instr) -> str:
    cases = instr.extra["cases"]
    assert isinstance(cases, list)
    ty = instr.args[0].type.spelled
    rows = [f"    {ty} {case}, {_label(block)}" for case, block in zip(cases, instr.targets[1:], strict=True)]
    return "\n".join([f"switch {_typed(instr.args[0])}, {_label(instr.targets[0])} [", *rows, "  ]"])
