"""Bodies of functions: blocks of instructions, and the operands of each."""

from __future__ import annotations

from collections.abc import Callable

from metalcore.engine.ir import accesses
from metalcore.engine.ir.function import Function
from metalcore.engine.ir.opcodes import BINARY, CASTS, FAST, TAILS, UNARY
from metalcore.engine.ir.operands import RETURN_ATTRIBUTES, Operands
from metalcore.engine.ir.tokens import PLAIN_LOAD, PLAIN_STORE, Line, plain, statements
from metalcore.engine.ir.types import I1, VOID, Type, vector
from metalcore.engine.ir.values import Block, Const, Instr, Value

_CONVENTIONS = frozenset(("fastcc", "ccc", "coldcc", "spir_func"))


class BodyReader:
    """Reads one function: first where its instructions are, later what each says."""

    def __init__(self, operands: Operands) -> None:
        self.operands = operands
        self.names: dict[str, Instr] = {}
        self.labels: dict[str, Block] = {}

    def blocks(self, function: Function) -> list[Block]:
        names = self.names = {p.name: p for p in function.parameters if p.name}
        numbered = sum(name[1:].isdigit() for name in names)
        order: list[Block] = []
        instrs: list[Instr] = []
        block: Block | None = None
        make = Instr.__new__
        for label, name, op, flags, rest in statements(function.text or ""):
            if label:
                block = Block(label.strip('"'))
                instrs = block.instrs
                order.append(block)
                continue
            if block is None:
                block = Block(str(numbered))
                instrs = block.instrs
                order.append(block)
            instr = make(Instr)
            instr.op, instr.name, instr.block = op, name, block
            instr.rest, instr.reader = flags + rest, self
            if op[-5:] == " call":
                instr.op, instr.rest = "call", f" {op[:-5]}{flags}{rest}"
            instrs.append(instr)
            if name:
                names[name] = instr
        self.labels = {block.name: block for block in order}
        return order

    def read(self, instr: Instr) -> None:
        """Set the members of an instruction that are not known yet."""
        op, text = instr.op, instr.rest or ""
        if op == "load" and (found := PLAIN_LOAD.match(text)):
            spelled, pointer, align, debug = found.groups()
            instr.type, instr.args = self.operands.scalar(spelled), [self.names[pointer]]
            instr.extra, instr.targets, instr.line = {"align": int(align)}, [], int(debug or 0)
            return
        if op == "store" and (found := PLAIN_STORE.match(text)):
            spelled, value, pointer, align, debug = found.groups()
            ty = self.operands.scalar(spelled)
            stored = self.names[value] if value[0] == "%" else Const(ty, value)
            instr.type, instr.args = VOID, [stored, self.names[pointer]]
            instr.extra, instr.targets, instr.line = {"stored": ty, "align": int(align)}, [], int(debug or 0)
            return
        instr.type, instr.args, instr.extra, instr.targets, instr.line = VOID, [], {}, [], 0
        if op[0] == "#":  # a debug record
            return
        line = Line(text)
        extra = instr.extra
        if line.tokens[0] in TAILS:
            extra["tail"] = line.next()
        flags: list[str] = []
        while line.tokens[line.at] in _FLAGS_OF.get(op, _ALL_FLAGS):
            flags.append(line.next())
        if flags:
            extra["flags"] = flags
            fast = [f for f in flags if f in FAST]
            if fast:
                extra["fast"] = " ".join(fast) + " "
        if op in BINARY:
            self._same_type(line, instr, 2)
        elif op in CASTS:
            instr.args.append(self.typed(line))
            line.expect("to")
            instr.type = self.operands.type(line)
        elif op in ("icmp", "fcmp"):
            extra["pred"] = line.next()
            self._same_type(line, instr, 2)
            ty = instr.type
            instr.type = vector(ty.length, I1) if ty.kind == "vector" else I1
        elif op in UNARY:
            self._same_type(line, instr, 1)
        else:
            handler = _HANDLERS.get(op)
            if handler is None:
                extra["unknown"] = True
                return
            handler(self, line, instr)
        self._tail(line, instr)

    # -- parts ---------------------------------------------------------------------------------
    def typed(self, line: Line) -> Value:
        return self.operands.operand(line, self.operands.type(line), self.names)

    def operand(self, line: Line, ty: Type) -> Value:
        return self.operands.operand(line, ty, self.names)

    def _same_type(self, line: Line, instr: Instr, count: int) -> None:
        instr.type = ty = self.operands.type(line)
        for i in range(count):
            if i:
                line.expect(",")
            instr.args.append(self.operand(line, ty))

    def _block(self, line: Line) -> Block:
        return self.labels[plain(line.next())]

    def _label(self, line: Line) -> Block:
        line.expect("label")
        return self._block(line)

    @staticmethod
    def _tail(line: Line, instr: Instr) -> None:
        """`, align 4, !tbaa !5, !dbg !7`"""
        attached: dict[str, str] = {}
        while line.accept(","):
            word = line.next()
            if word == "align":
                instr.extra["align"] = int(line.next())
            elif word == "!dbg":
                number = line.next()
                if number[1:].isdigit():
                    instr.line = int(number[1:])
                else:  # a location that is written out
                    attached[word] = number + line.bracketed()
            elif word[0] == "!":
                attached[word] = line.next()
                if line.peek() in ("(", "{"):
                    attached[word] += line.bracketed()
            else:
                raise ValueError(f"{word!r} was not expected in {' '.join(line.tokens)}")
        if attached:
            instr.extra["attached"] = attached
        if line.peek():
            raise ValueError(f"{line.peek()!r} was not expected in {' '.join(line.tokens)}")

    @staticmethod
    def _skip(line: Line, instr: Instr) -> None:
        """To the end of what is not read; only where it stands is known."""
        number = line.tokens[line.tokens.index("!dbg") + 1][1:] if "!dbg" in line.tokens else ""
        instr.line = int(number) if number.isdigit() else 0
        line.at = len(line.tokens) - 1

    # -- opcodes -------------------------------------------------------------------------------
    def _select(self, line: Line, instr: Instr) -> None:
        instr.args.append(self.typed(line))
        for _ in range(2):
            line.expect(",")
            instr.type = self.operands.type(line)
            instr.args.append(self.operand(line, instr.type))

    def _phi(self, line: Line, instr: Instr) -> None:
        instr.type = self.operands.type(line)
        while line.accept("["):
            instr.args.append(self.operand(line, instr.type))
            line.expect(",")
            instr.targets.append(self._block(line))
            line.expect("]")
            if line.tokens[line.at] != "," or line.tokens[line.at + 1] != "[":
                break
            line.at += 1

    def _br(self, line: Line, instr: Instr) -> None:
        if line.peek() == "label":
            instr.targets.append(self._label(line))
            return
        instr.args.append(self.typed(line))
        for _ in range(2):
            line.expect(",")
            instr.targets.append(self._label(line))

    def _switch(self, line: Line, instr: Instr) -> None:
        instr.args.append(self.typed(line))
        line.expect(",")
        instr.targets.append(self._label(line))
        line.expect("[")
        cases: list[int] = []
        while not line.accept("]"):
            self.operands.type(line)
            token = line.next()
            cases.append({"true": 1, "false": 0}[token] if token in ("true", "false") else int(token))
            line.expect(",")
            instr.targets.append(self._label(line))
        instr.extra["cases"] = cases

    def _ret(self, line: Line, instr: Instr) -> None:
        ty = self.operands.type(line)
        if ty is not VOID:
            instr.args.append(self.operand(line, ty))

    def _unreachable(self, line: Line, instr: Instr) -> None:
        pass

    @staticmethod
    def _path(line: Line) -> list[int]:
        path: list[int] = []
        while line.peek() == "," and line.tokens[line.at + 1].isdigit():
            line.at += 1
            path.append(int(line.next()))
        return path

    def _extractvalue(self, line: Line, instr: Instr) -> None:
        value = self.typed(line)
        instr.args.append(value)
        instr.extra["path"] = path = self._path(line)
        instr.type = value.type
        for index in path:
            instr.type = instr.type.inner(index)

    def _insertvalue(self, line: Line, instr: Instr) -> None:
        instr.type = self.operands.type(line)
        instr.args.append(self.operand(line, instr.type))
        line.expect(",")
        instr.args.append(self.typed(line))
        instr.extra["path"] = self._path(line)

    def _elements(self, line: Line, instr: Instr) -> None:
        """extractelement, insertelement, shufflevector: operands with their types."""
        instr.args.append(self.typed(line))
        while line.peek() == "," and line.tokens[line.at + 1][0] != "!":
            line.at += 1
            instr.args.append(self.typed(line))
        first = instr.args[0].type
        if instr.op == "shufflevector":
            instr.type = vector(instr.args[2].type.length, first.items[0])
        else:
            instr.type = first.items[0] if instr.op == "extractelement" else first

    def _call(self, line: Line, instr: Instr) -> None:
        extra = instr.extra
        while line.peek() in _CONVENTIONS:
            extra["convention"] = line.next()
        if found := self.operands.attributes(line, RETURN_ATTRIBUTES):
            extra["returned"] = found
        instr.type = self.operands.type(line)
        if line.peek() == "(":
            extra["signature"] = line.bracketed()
        callee = line.next()
        if callee[0] == "@":
            extra["callee"] = plain(callee)
        elif callee[0] == "%":
            extra["target"] = self.names[callee]
        else:  # assembly
            extra["unknown"] = True
            return self._skip(line, instr)
        line.expect("(")
        attributes: list[list[str]] = []
        while not line.accept(")"):
            if line.peek() == "metadata":
                extra["metadata"] = True
                return self._skip(line, instr)
            ty = self.operands.type(line)
            attributes.append(self.operands.attributes(line))
            instr.args.append(self.operand(line, ty))
            line.accept(",")
        if any(attributes):
            extra["attributes"] = attributes
        suffix: list[str] = []
        while line.peek() not in ("", ","):
            suffix.append(line.bracketed() if line.peek() == "[" else line.next())
        if suffix:
            extra["suffix"] = " ".join(suffix)


_ALL_FLAGS = FAST | {"nsw", "nuw", "exact", "disjoint", "nneg", "samesign", "inbounds", "nusw"}
_FLAGS_OF: dict[str, frozenset[str]] = {op: frozenset() for op in ("load", "store", "alloca", "br", "ret", "switch")}
_HANDLERS: dict[str, Callable[[BodyReader, Line, Instr], None]] = {
    "select": BodyReader._select,
    "phi": BodyReader._phi,
    "br": BodyReader._br,
    "switch": BodyReader._switch,
    "ret": BodyReader._ret,
    "unreachable": BodyReader._unreachable,
    "extractvalue": BodyReader._extractvalue,
    "insertvalue": BodyReader._insertvalue,
    **dict.fromkeys(("extractelement", "insertelement", "shufflevector"), BodyReader._elements),
    "call": BodyReader._call,
    "alloca": accesses.alloca,
    "load": accesses.load,
    "store": accesses.store,
    "atomicrmw": accesses.atomicrmw,
    "cmpxchg": accesses.cmpxchg,
    "fence": accesses.fence,
    "getelementptr": accesses.getelementptr,
}
