"""Text of an optimised LLVM module -> `ir.Module`. Reads each line once."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from metalcore.errors import UnsupportedFeature

from .debug import DebugLines
from .ir import FLOAT, PTR, VOID, Block, Const, Function, Global, Instr, Location, Module, Type, Value, int_type

_TOKEN = re.compile(r'c?"(?:[^"])*"|%"[^"]*"|@"[^"]*"|!\d+|[()\[\]{}<>,=*]|[^\s()\[\]{}<>,=*]+')
_FLAGS = frozenset(
    [
        "nsw",
        "nuw",
        "exact",
        "disjoint",
        "nneg",
        "samesign",
        "nnan",
        "ninf",
        "nsz",
        "arcp",
        "contract",
        "afn",
        "reassoc",
        "fast",
        "inbounds",
        "nusw",
        "trunc",
    ]
)
_FAST = frozenset(["nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc", "fast"])
_PARAM_ATTRS = frozenset(
    [
        "noundef",
        "nonnull",
        "signext",
        "zeroext",
        "noalias",
        "readonly",
        "readnone",
        "writeonly",
        "nocapture",
        "returned",
        "immarg",
        "inreg",
        "nofree",
    ]
)
_SCALARS = {
    "float": FLOAT,
    "half": Type("half", "half", 16),
    "bfloat": Type("bfloat", "bfloat", 16),
    "double": Type("double", "double", 64),
    "ptr": PTR,
    "void": VOID,
}
_BINARY = frozenset(
    [
        "add",
        "sub",
        "mul",
        "udiv",
        "sdiv",
        "urem",
        "srem",
        "shl",
        "lshr",
        "ashr",
        "and",
        "or",
        "xor",
        "fadd",
        "fsub",
        "fmul",
        "fdiv",
        "frem",
    ]
)
_CASTS = frozenset(
    [
        "trunc",
        "zext",
        "sext",
        "fptrunc",
        "fpext",
        "fptoui",
        "fptosi",
        "uitofp",
        "sitofp",
        "ptrtoint",
        "inttoptr",
        "bitcast",
        "addrspacecast",
    ]
)
_ORDERINGS = frozenset(["unordered", "monotonic", "acquire", "release", "acq_rel", "seq_cst"])
_RMW = frozenset(
    [
        "xchg",
        "add",
        "sub",
        "and",
        "nand",
        "or",
        "xor",
        "max",
        "min",
        "umax",
        "umin",
        "fadd",
        "fsub",
        "fmax",
        "fmin",
        "uinc_wrap",
        "udec_wrap",
    ]
)


class _Line:
    """Tokens of one line with a cursor."""

    __slots__ = ("at", "tokens")

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.tokens[self.at]
        self.at += 1
        return str(token)

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        got = self.next()
        if got != token:
            raise ValueError(f"expected {token!r}, got {got!r} in {' '.join(self.tokens)}")


class _Parser:
    def __init__(self) -> None:
        self.types: dict[str, Type] = {}
        self.type_texts: dict[str, str] = {}
        self.globals: dict[str, Global] = {}
        self.values: dict[str, Value] = {}
        self.blocks: dict[str, Block] = {}
        self.pending: list[tuple[Instr, int, str, Type]] = []
        self.current: Block | None = None
        self.constant_exprs = 0

    # -- types ---------------------------------------------------------------------------------
    def type(self, line: _Line) -> Type:
        token = line.next()
        result = self._simple(token)
        if result is None:
            if token == "[":
                count = int(line.next())
                line.expect("x")
                item = self.type(line)
                line.expect("]")
                result = Type(f"[{count} x {item.text}]", "array", 0, (item,), count)
            elif token == "<" and line.peek() == "{":
                line.next()
                result = self._struct(line, packed=True)
                line.expect(">")
            elif token == "<":
                count = int(line.next())
                line.expect("x")
                item = self.type(line)
                line.expect(">")
                result = Type(f"<{count} x {item.text}>", "vector", item.bits * count, (item,), count)
            elif token == "{":
                result = self._struct(line, packed=False)
            elif token.startswith("%"):
                result = self._named(token)
            else:
                raise ValueError(f"unknown type {token!r} in {' '.join(line.tokens)}")
        if result is PTR and line.peek() == "addrspace":
            line.at += 4
        return result

    @staticmethod
    def _simple(token: str) -> Type | None:
        if token in _SCALARS:
            return _SCALARS[token]
        if token[0] == "i" and token[1:].isdigit():
            return int_type(int(token[1:]))
        return None

    def _struct(self, line: _Line, packed: bool) -> Type:
        items: list[Type] = []
        while not line.accept("}"):
            items.append(self.type(line))
            line.accept(",")
        body = "{ " + ", ".join(t.text for t in items) + " }" if items else "{}"
        return Type(f"<{body}>" if packed else body, "struct", 0, tuple(items), len(items), packed)

    def _named(self, name: str) -> Type:
        if name not in self.types:
            text = self.type_texts[name]
            self.types[name] = self.type(_Line(text)) if text != "opaque" else Type(name, "struct")
        return self.types[name]

    # -- operands ------------------------------------------------------------------------------
    def operand(self, line: _Line, ty: Type, user: Instr, index: int) -> None:
        """Read one operand of a known type into user.args[index]."""
        while len(user.args) <= index:
            user.args.append(Const(ty, "poison"))
        token = line.next()
        if token[0] == "%":
            value = self.values.get(token)
            if value is None:
                self.pending.append((user, index, token, ty))
            else:
                user.args[index] = value
        elif token[0] == "@":
            found = self.globals.get(token)
            if found is None:
                raise UnsupportedFeature(f"address of function {token[1:]} is taken at run time (function pointers)")
            user.args[index] = found
        elif token in ("getelementptr", "inttoptr", "ptrtoint", "bitcast", "addrspacecast", "trunc", "add", "sub"):
            user.args[index] = self.constant_expr(token, line)
        elif token in ("splat", "{", "[", "<"):
            depth, parts = 1 if token != "splat" else 0, [token]
            while True:
                part = line.next()
                parts.append(part)
                depth += part in "{[<("
                depth -= part in ")>]}"
                if depth == 0:
                    break
            user.args[index] = Const(ty, " ".join(parts))
        else:
            user.args[index] = Const(ty, token)

    def constant_expr(self, op: str, line: _Line) -> Value:
        """A constant expression becomes an instruction in front of the current block's code."""
        instr = Instr(op, PTR, [], name=f"%mc.cx{self.constant_exprs}")
        self.constant_exprs += 1
        while line.peek() in _FLAGS or line.peek().startswith("inrange"):
            if line.next().startswith("inrange"):
                while line.next() != ")":
                    pass
        line.expect("(")
        if op == "getelementptr":
            instr.extra["source"] = self.type(line)
            line.expect(",")
        index = 0
        while True:
            ty = self.type(line)
            self.operand(line, ty, instr, index)
            index += 1
            if line.accept("to"):
                instr.type = self.type(line)
            if not line.accept(","):
                break
        line.expect(")")
        if op in ("add", "sub"):
            instr.type = instr.args[0].type
        entry = self.entry
        instr.block = entry
        entry.instrs.insert(self.constant_exprs - 1, instr)
        return instr

    # -- instructions --------------------------------------------------------------------------
    def instruction(self, text: str) -> Instr:
        line = _Line(text)
        name = ""
        if len(line.tokens) > 1 and line.tokens[1] == "=":
            name = line.next()
            line.next()
        op = line.next()
        while op in ("tail", "musttail", "notail"):
            op = line.next()
        instr = Instr(op, VOID, [], name=name)
        flags: list[str] = []
        while line.peek() in _FLAGS:
            flags.append(line.next())
        if flags:
            instr.extra["flags"] = flags
            fast = [f for f in flags if f in _FAST]
            if fast:
                instr.extra["fast"] = " ".join(fast) + " "
        if op in _BINARY:
            self._same_type(line, instr, 2)
        elif op in ("fneg", "freeze"):
            self._same_type(line, instr, 1)
        elif op in ("icmp", "fcmp"):
            if op == "icmp" and line.peek() == "samesign":
                line.next()
            instr.extra["pred"] = line.next()
            self._same_type(line, instr, 2)
            instr.type = int_type(1)
        elif op in _CASTS:
            self.operand(line, self.type(line), instr, 0)
            line.expect("to")
            instr.type = self.type(line)
        else:
            getattr(self, "_" + op, self._unknown)(line, instr)
        match = re.search(r"!dbg !(\d+)", text)
        if match:
            instr.line = int(match.group(1))
        return instr

    def _unknown(self, line: _Line, instr: Instr) -> None:
        raise UnsupportedFeature(f"instruction {instr.op!r} in the optimised kernel")

    def _same_type(self, line: _Line, instr: Instr, count: int) -> None:
        ty = self.type(line)
        for i in range(count):
            self.operand(line, ty, instr, i)
            line.accept(",")
        instr.type = ty

    def _typed(self, line: _Line, instr: Instr, index: int) -> None:
        self.operand(line, self.type(line), instr, index)

    def _select(self, line: _Line, instr: Instr) -> None:
        for i in range(3):
            self._typed(line, instr, i)
            line.accept(",")
        instr.type = instr.args[1].type if isinstance(instr.args[1], Const) else instr.args[2].type
        if instr.type.kind == "void" or isinstance(instr.args[2], Const):
            instr.type = instr.args[2].type

    def _phi(self, line: _Line, instr: Instr) -> None:
        instr.type = self.type(line)
        index = 0
        while line.accept("["):
            self.operand(line, instr.type, instr, index)
            line.expect(",")
            instr.targets.append(self.block(line.next()))
            line.expect("]")
            line.accept(",")
            index += 1

    def _br(self, line: _Line, instr: Instr) -> None:
        if line.accept("label"):
            instr.targets = [self.block(line.next())]
            return
        self._typed(line, instr, 0)
        for _ in range(2):
            line.expect(",")
            line.expect("label")
            instr.targets.append(self.block(line.next()))

    def _switch(self, line: _Line, instr: Instr) -> None:
        self._typed(line, instr, 0)
        line.expect(",")
        line.expect("label")
        instr.targets = [self.block(line.next())]
        line.expect("[")
        cases: list[int] = []
        while not line.accept("]"):
            self.type(line)
            token = line.next()
            cases.append({"true": 1, "false": 0}[token] if token in ("true", "false") else int(token))
            line.expect(",")
            line.expect("label")
            instr.targets.append(self.block(line.next()))
        instr.extra["cases"] = cases

    def _ret(self, line: _Line, instr: Instr) -> None:
        pass

    def _unreachable(self, line: _Line, instr: Instr) -> None:
        pass

    def _alloca(self, line: _Line, instr: Instr) -> None:
        line.accept("inalloca")
        instr.extra["allocated"] = self.type(line)
        while line.accept(","):
            if line.accept("align"):
                instr.extra["align"] = int(line.next())
            elif line.peek().startswith("!"):
                break
            else:
                self._typed(line, instr, 0)
        instr.type = PTR

    def _memory_tail(self, line: _Line, instr: Instr) -> None:
        while line.at < len(line.tokens):
            token = line.next()
            if token == "align":
                instr.extra["align"] = int(line.next())
            elif token in _ORDERINGS:
                instr.extra["ordering"] = token

    def _load(self, line: _Line, instr: Instr) -> None:
        if line.accept("atomic"):
            instr.extra["atomic"] = True
        line.accept("volatile")
        instr.type = self.type(line)
        line.expect(",")
        self._typed(line, instr, 0)
        self._memory_tail(line, instr)

    def _store(self, line: _Line, instr: Instr) -> None:
        if line.accept("atomic"):
            instr.extra["atomic"] = True
        line.accept("volatile")
        instr.extra["stored"] = None
        ty = self.type(line)
        instr.extra["stored"] = ty
        self.operand(line, ty, instr, 0)
        line.expect(",")
        self._typed(line, instr, 1)
        self._memory_tail(line, instr)

    def _atomicrmw(self, line: _Line, instr: Instr) -> None:
        line.accept("volatile")
        instr.extra["rmw"] = line.next()
        self._typed(line, instr, 0)
        line.expect(",")
        ty = self.type(line)
        self.operand(line, ty, instr, 1)
        instr.type = ty
        self._memory_tail(line, instr)

    def _cmpxchg(self, line: _Line, instr: Instr) -> None:
        line.accept("weak")
        line.accept("volatile")
        self._typed(line, instr, 0)
        line.expect(",")
        ty = self.type(line)
        self.operand(line, ty, instr, 1)
        line.expect(",")
        self.type(line)
        self.operand(line, ty, instr, 2)
        instr.type = Type(f"{{ {ty.text}, i1 }}", "struct", 0, (ty, int_type(1)), 2)

    def _fence(self, line: _Line, instr: Instr) -> None:
        pass

    def _getelementptr(self, line: _Line, instr: Instr) -> None:
        instr.extra["source"] = self.type(line)
        index = 0
        while line.accept(","):
            if line.peek().startswith("!"):
                break
            self._typed(line, instr, index)
            index += 1
        instr.type = PTR

    def _extractvalue(self, line: _Line, instr: Instr) -> None:
        ty = self.type(line)
        self.operand(line, ty, instr, 0)
        path: list[int] = []
        while line.accept(","):
            if line.peek().startswith("!"):
                break
            path.append(int(line.next()))
            ty = ty.items[path[-1]] if ty.kind == "struct" else ty.items[0]
        instr.extra["path"] = path
        instr.type = ty

    def _insertvalue(self, line: _Line, instr: Instr) -> None:
        instr.type = self.type(line)
        self.operand(line, instr.type, instr, 0)
        line.expect(",")
        self._typed(line, instr, 1)
        path: list[int] = []
        while line.accept(","):
            if line.peek().startswith("!"):
                break
            path.append(int(line.next()))
        instr.extra["path"] = path

    def _call(self, line: _Line, instr: Instr) -> None:
        while line.peek() in _PARAM_ATTRS or line.peek() in ("fastcc", "ccc", "range", "align", "dereferenceable"):
            self._skip_attr(line)
        instr.type = self.type(line)
        callee = line.next()
        if callee[0] != "@":
            raise UnsupportedFeature("a call through a function pointer that is not known at compile time")
        instr.extra["callee"] = callee[1:].strip('"')
        line.expect("(")
        index = 0
        while not line.accept(")"):
            if line.peek() == "metadata":
                instr.extra["metadata"] = True
                return
            ty = self.type(line)
            while line.peek() in _PARAM_ATTRS or line.peek() in (
                "align",
                "dereferenceable",
                "dereferenceable_or_null",
                "captures",
                "range",
                "nofpclass",
                "initializes",
            ):
                self._skip_attr(line)
            self.operand(line, ty, instr, index)
            index += 1
            line.accept(",")

    @staticmethod
    def _skip_attr(line: _Line) -> None:
        token = line.next()
        if token == "align" and line.peek() != "(":
            line.next()
        elif line.peek() == "(":
            depth = 0
            while True:
                t = line.next()
                depth += t == "("
                depth -= t == ")"
                if depth == 0:
                    break

    # -- module --------------------------------------------------------------------------------
    def block(self, token: str) -> Block:
        name = token[1:].strip('"')
        if name not in self.blocks:
            self.blocks[name] = Block(name)
        return self.blocks[name]

    def function(self, lines: list[str], name: str) -> Function:
        order: list[Block] = []
        first = re.match(r'("[^"]*"|[-\w.$]+):', lines[0])
        self.current = self.entry = self.block("%" + (first.group(1) if first else "0"))
        order.append(self.entry)
        for text in lines:
            if not text or text[0] == ";":
                continue
            label = re.match(r'("[^"]*"|[-\w.$]+):', text)
            if label and text[0] != " ":
                block = self.block("%" + label.group(1))
                if block is not self.entry:
                    order.append(block)
                self.current = block
                continue
            if text.lstrip().startswith("#dbg_"):
                continue
            instr = self.instruction(text)
            if instr.extra.get("metadata"):
                continue
            instr.block = self.current
            self.current.instrs.append(instr)
            if instr.name:
                self.values[instr.name] = instr
        for user, index, token, _ty in self.pending:
            user.args[index] = self.values[token]
        for block in order:
            for instr in block.instrs:
                if instr.op == "select":
                    instr.type = instr.args[1].type
        function = Function(name, order)
        function.link()
        return function


def parse(text: str, name: str = "__mc_entry") -> Module:
    """Parse a module's text; `name` is the one function whose body is read."""
    parser = _Parser()
    lines = _join_continued(text.split("\n"))
    body: list[str] | None = None
    bodies: list[str] = []
    metadata: dict[int, str] = {}
    global_lines: list[str] = []
    for line in lines:
        if body is not None:
            if line == "}":
                body = None
            else:
                body.append(line)
        elif line.startswith("define "):
            body = [] if f"@{name}(" not in line else bodies
        elif line.startswith("%"):
            left, right = line.split(" = type ", 1)
            parser.type_texts[left] = right
        elif line.startswith("@"):
            global_lines.append(line)
        elif line.startswith("!") and line[1:2].isdigit():
            left, right = line.split(" = ", 1)
            metadata[int(left[1:])] = right
    for line in global_lines:
        _read_global(parser, line)
    return Module(parser.function(bodies, name), parser.globals, parser.types, _locations(metadata))


def type_reader(text: str) -> Callable[[str], Type]:
    """Reads types as a module's text spells them, with the structs that it names."""
    parser = _Parser()
    parser.type_texts = dict(re.findall(r'^(%\S+|%"[^"]*") = type (.*)$', text, re.MULTILINE))
    return functools.cache(lambda spelled: parser.type(_Line(spelled)))


def gep_of(source: Type, indices: str) -> list[tuple[int, int | tuple[str, str]]]:
    """The indices of a getelementptr as byte offsets: (scale, number) or (scale, (type, name)).

    Example: `gep_of(i32, "i64 %j")` is `[(4, ("i64", "%j"))]`.
    """
    terms: list[tuple[int, int | tuple[str, str]]] = []
    ty = source
    for position, index in enumerate(indices.split(", ")):
        kind, name = index.split(" ", 1)
        number = int(name) if name.lstrip("-").isdigit() else None
        if position and ty.kind == "struct":
            assert number is not None
            terms.append((1, ty.offset(number)))
            ty = ty.items[number]
            continue
        if position:
            ty = ty.items[0]
        terms.append((ty.size, number if number is not None else (kind, name)))
    return terms


def _join_continued(lines: list[str]) -> list[str]:
    """A switch spreads over several lines; make each instruction one line."""
    out: list[str] = []
    open_switch = False
    for line in lines:
        if open_switch:
            out[-1] += " " + line.strip()
            open_switch = not line.strip().startswith("]")
        else:
            out.append(line)
            open_switch = line.lstrip().startswith("switch ") and line.rstrip().endswith("[")
    return out


_GLOBAL = re.compile(r'(@"[^"]*"|@[-\w.$]+) = (.*?)\b(global|constant) (.*)')


def _read_global(parser: _Parser, line: str) -> None:
    match = _GLOBAL.match(line)
    if not match or match.group(1).startswith("@llvm."):
        return
    if re.search(r"\b(?:external|extern_weak|thread_local)\b", match.group(2)):
        raise UnsupportedFeature(f"the variable {match.group(1)[1:]}, which is defined elsewhere")
    rest = _Line(match.group(4))
    ty = parser.type(rest)
    align = re.search(r", align (\d+)", line)
    name = match.group(1)
    parser.globals[name] = Global(
        name, ty, match.group(3) == "constant", line, int(align.group(1)) if align else ty.align
    )


def _locations(metadata: dict[int, str]) -> dict[int, Location]:
    """Debug locations -> user's file, line, column: the innermost frame that is not in our own headers."""
    lines = DebugLines(metadata)
    found: dict[int, Location] = {}
    for number, text in metadata.items():
        frames = list(lines.frames(number)) if "DILocation(" in text else []
        if frames:
            found[number] = next((frame for frame in frames if not _is_own_header(frame.file)), frames[-1])
    return found


def _is_own_header(file: str) -> bool:
    return "metalcore/engine/include" in file or file.startswith("<mc")
