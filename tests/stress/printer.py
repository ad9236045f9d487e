"""A syntax tree as MSL text."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.stress import tree as t
from tests.stress.types import Array, Scalar, Struct, Type

ATTRIBUTES = {"float": "f", "half": "h"}


def literal(type_: Scalar, value: Any) -> str:
    if type_.kind == "bool":
        return "true" if value else "false"
    if type_.is_float:
        if not np.isfinite(value):
            bits = int(np.array(value, type_.dtype).view(f"uint{type_.bits}"))
            word = "uint" if type_.bits == 32 else "ushort"
            return f"as_type<{type_.name}>({word}({bits:#x}u))"
        # repr of the double is exact, so the literal is the very value
        text = repr(float(value))
        text = text if "." in text or "e" in text else text + ".0"
        text = text if "e" not in text or "." in text else text.replace("e", ".0e")
        text += ATTRIBUTES[type_.name]
        return f"({text})" if text.startswith("-") else text
    suffix = {"uint": "u", "long": "l", "ulong": "ul"}.get(type_.name, "")
    if value == type_.low and type_.bits >= 32 and value < 0:
        text = f"(-{-(value + 1)}{suffix} - 1)"
    else:
        text = f"({value}{suffix})" if value < 0 else f"{value}{suffix}"
    return f"{type_.name}({text})" if type_.bits < 32 else text


def expression(e: t.Expr) -> str:
    if isinstance(e, t.Lit):
        return literal(e.type, e.value)
    if isinstance(e, t.Var):
        return e.name
    if isinstance(e, t.Unary):
        return f"({e.op}{expression(e.a)})"
    if isinstance(e, t.Binary):
        return f"({expression(e.a)} {e.op} {expression(e.b)})"
    if isinstance(e, t.Ternary):
        return f"({expression(e.cond)} ? {expression(e.a)} : {expression(e.b)})"
    if isinstance(e, t.Cast):
        return f"{type_name(e.type)}({expression(e.a)})"
    if isinstance(e, t.AsType):
        return f"as_type<{type_name(e.type)}>({expression(e.a)})"
    if isinstance(e, t.Index):
        return f"{expression(e.base)}[{expression(e.index)}]"
    if isinstance(e, t.Member):
        return f"{expression(e.base)}.{e.field}"
    if isinstance(e, t.Swizzle):
        return f"{expression(e.base)}.{e.names}"
    args = ", ".join(expression(a) for a in e.args)
    if isinstance(e, t.Construct):
        if isinstance(e.type, Array):
            return f"{{{args}}}"
        return f"{e.type.name}{{{args}}}" if isinstance(e.type, Struct) else f"{e.type.name}({args})"
    if isinstance(e, t.Call):
        return f"{e.function}({args})"
    if e.function == "simd_ballot":
        return f"uint(simd_vote::vote_t(simd_ballot({args})))"
    if e.function == "atomic_load":
        return f"atomic_load_explicit(&{args}, memory_order_relaxed)"
    return f"{e.function}({args})"


def type_name(type_: Type) -> str:
    return type_.name


def statement(s: t.Stmt, depth: int) -> list[str]:
    pad = "    " * depth
    if isinstance(s, t.Decl):
        if isinstance(s.type, Array):
            return [f"{pad}{s.type.element.name} {s.name}[{s.type.size}] = {expression(s.init)};"]
        return [f"{pad}{type_name(s.type)} {s.name} = {expression(s.init)};"]
    if isinstance(s, t.Assign):
        return [f"{pad}{expression(s.target)} {s.op} {expression(s.value)};"]
    if isinstance(s, t.If):
        lines = [f"{pad}if ({expression(s.cond)}) {{", *body(s.then, depth + 1)]
        if s.other:
            lines += [f"{pad}}} else {{", *body(s.other, depth + 1)]
        return [*lines, f"{pad}}}"]
    if isinstance(s, t.For):
        step = f"++{s.name}" if s.step == 1 else f"{s.name} += {s.step}"
        head = f"{s.type.name} {s.name} = {expression(s.start)}; {expression(s.cond)}; {step}"
        return [f"{pad}for ({head}) {{", *body(s.body, depth + 1), f"{pad}}}"]
    if isinstance(s, t.While):
        return [f"{pad}while ({expression(s.cond)}) {{", *body(s.body, depth + 1), f"{pad}}}"]
    if isinstance(s, t.DoWhile):
        return [f"{pad}do {{", *body(s.body, depth + 1), f"{pad}}} while ({expression(s.cond)});"]
    if isinstance(s, t.Switch):
        lines = [f"{pad}switch ({expression(s.value)}) {{"]
        for case in s.cases:
            for label in case.labels:
                lines.append(f"{pad}default:" if label is None else f"{pad}case {label}:")
            lines += [f"{pad}{{", *body(case.body, depth + 1), f"{pad}}}"]
        return [*lines, f"{pad}}}"]
    if isinstance(s, t.Break):
        return [f"{pad}break;"]
    if isinstance(s, t.Continue):
        return [f"{pad}continue;"]
    if isinstance(s, t.Return):
        return [f"{pad}return;" if s.value is None else f"{pad}return {expression(s.value)};"]
    if isinstance(s, t.Barrier):
        return [f"{pad}threadgroup_barrier(mem_flags::mem_threadgroup);"]
    target = f"&{expression(s.buffer)}[{expression(s.index)}]"
    word = "store" if s.op == "store" else f"fetch_{s.op}"
    return [f"{pad}atomic_{word}_explicit({target}, {expression(s.value)}, memory_order_relaxed);"]


def body(statements: t.Body, depth: int) -> list[str]:
    return [line for s in statements for line in statement(s, depth)]


def parameter(buffer: t.Buffer, index: int) -> str:
    name = buffer.type.name
    word = {
        "input": f"const device {name}* {buffer.name}",
        "output": f"device {name}* {buffer.name}",
        "atomic": f"device atomic_{name}* {buffer.name}",
        "uniform": f"constant {name}& {buffer.name}",
    }[buffer.role]
    return f"{word} [[buffer({index})]]"


def msl(kernel: t.Kernel) -> str:
    """The whole file. The kernel is called `k`."""
    lines = ["#include <metal_stdlib>", "using namespace metal;", "#pragma METAL fp contract(off)", ""]
    for struct in kernel.structs:
        fields = " ".join(f"{type_name(ft)} {fn};" for fn, ft in struct.fields)
        lines.append(f"struct {struct.name} {{ {fields} }};")
    for table in kernel.tables:
        values = ", ".join(literal(table.type.element, v) for v in table.values)
        lines.append(f"constant {table.type.element.name} {table.name}[{table.type.size}] = {{{values}}};")
    for function in kernel.functions:
        parameters = ", ".join(f"{type_name(pt)} {pn}" for pn, pt in function.parameters)
        lines += [f"static {type_name(function.type)} {function.name}({parameters}) {{", *body(function.body, 1), "}"]
    entries = [parameter(b, i) for i, b in enumerate(kernel.buffers)]
    entries += [f"{a.type.name} {a.name} [[{a.attribute}]]" for a in kernel.attributes]
    lines.append("kernel void k(" + ",\n              ".join(entries) + ") {")
    for name, array, atomic in kernel.shared:
        prefix = "atomic_" if atomic else ""
        lines.append(f"    threadgroup {prefix}{array.element.name} {name}[{array.size}];")
    return "\n".join([*lines, *body(kernel.body, 1), "}", ""])


def launch_text(kernel: t.Kernel) -> str:
    return f"threads={kernel.threads}, group_size={kernel.group_size}"
