"""Types, operands and attributes, as they stand in an instruction's text."""

from __future__ import annotations

from collections.abc import Callable

from metalcore.engine.ir.function import Module
from metalcore.engine.ir.tokens import FLAGS, Line
from metalcore.engine.ir.types import PTR, SCALARS, Type, array, integer, named, opaque, struct, vector
from metalcore.engine.ir.values import Const, Instr, Value

RETURN_ATTRIBUTES = frozenset(("noundef", "nonnull", "signext", "zeroext", "noalias", "inreg", "align", "nofpclass"))
RETURN_ATTRIBUTES |= {"dereferenceable", "dereferenceable_or_null", "range", "noext"}
_ATTRIBUTES = RETURN_ATTRIBUTES | {
    *("readonly", "readnone", "writeonly", "nocapture", "returned", "immarg", "nofree", "nest", "swiftself"),
    *("captures", "initializes", "sret", "byval", "byref", "inalloca", "elementtype", "preallocated", "writable"),
    *("allocalign", "allocptr", "dead_on_unwind", "dead_on_return", "swifterror", "alignstack"),
}
_EXPRESSIONS = frozenset(
    (
        *("getelementptr", "inttoptr", "ptrtoint", "ptrtoaddr", "bitcast", "addrspacecast", "trunc"),
        *("add", "sub", "xor", "mul"),
    )
)


class Operands:
    """Reads what a module's text names: its structs and its variables."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[str, Type] = dict(SCALARS)

    # -- types ---------------------------------------------------------------------------------
    def scalar(self, word: str) -> Type:
        """The type that one word names."""
        return self._known.get(word) or self.type(Line(word))

    def type(self, line: Line) -> Type:
        token = line.tokens[line.at]
        known = self._known.get(token)
        if known is not None:
            line.at += 1
            return self._in_space(line) if line.tokens[line.at] == "addrspace" else known
        line.at += 1
        if token[:1] == "i" and token[1:].isdigit():
            known = self._known[token] = integer(int(token[1:]))
            return known
        if token[:1] == "%":
            known = self._known[token] = self._named(token)
            return known
        if token == "[":
            return self._counted(line, array, "]")
        if token == "{":
            return self._struct(line, packed=False)
        if token == "<" and line.accept("{"):
            result = self._struct(line, packed=True)
            line.expect(">")
            return result
        if token == "<":
            return self._counted(line, vector, ">")
        raise ValueError(f"unknown type {token!r} in {' '.join(line.tokens)}")

    def _counted(self, line: Line, make: Callable[[int, Type], Type], end: str) -> Type:
        """`4 x i32]` or `4 x i32>`."""
        count = int(line.next())
        line.expect("x")
        result = make(count, self.type(line))
        line.expect(end)
        return result

    @staticmethod
    def _in_space(line: Line) -> Type:
        line.next()
        return named(PTR, "ptr addrspace" + line.bracketed())

    def _struct(self, line: Line, packed: bool) -> Type:
        items: list[Type] = []
        while not line.accept("}"):
            items.append(self.type(line))
            line.accept(",")
        return struct(*items, packed=packed)

    def _named(self, name: str) -> Type:
        text = self._module.structs[name]
        ty = named(self.type(Line(text)), name) if text != "opaque" else opaque(name)
        self._module.types[name] = ty
        return ty

    # -- attributes ----------------------------------------------------------------------------
    @staticmethod
    def attributes(line: Line, known: frozenset[str] = _ATTRIBUTES) -> list[str]:
        found: list[str] = []
        while (token := line.tokens[line.at]) in known or token[:1] == '"':
            line.at += 1
            if line.peek() == "(":
                token += line.bracketed()
            elif token == "align":
                token += " " + line.next()
            elif token[0] == '"' and line.accept("="):
                token += "=" + line.next()
            found.append(token)
        return found

    # -- operands ------------------------------------------------------------------------------
    def operand(self, line: Line, ty: Type, names: dict[str, Instr]) -> Value:
        """An operand of a known type."""
        token = line.next()
        first = token[0]
        if first == "%":
            return names[token]
        if first == "@":
            return self._module.globals.get(token) or Const(ty, token)  # a function's address
        if token in _EXPRESSIONS:
            return self._expression(token, line, names)
        if first in "{[<":
            line.at -= 1
            return Const(ty, line.bracketed())
        if line.peek() == "(":  # splat, blockaddress, ...
            return Const(ty, token + line.bracketed())
        return Const(ty, token)

    def typed(self, line: Line, names: dict[str, Instr]) -> Value:
        return self.operand(line, self.type(line), names)

    def _expression(self, op: str, line: Line, names: dict[str, Instr]) -> Instr:
        """A constant expression: an instruction that stands nowhere."""
        instr = Instr(op, PTR, [])
        flags: list[str] = []
        while line.peek() in FLAGS or line.peek() == "inrange":
            flag = line.next()
            flags.append(flag + line.bracketed() if flag == "inrange" else flag)
        if flags:
            instr.extra["flags"] = flags
        line.expect("(")
        if op == "getelementptr":
            instr.extra["source"] = self.type(line)
            line.expect(",")
        while True:
            instr.args.append(self.typed(line, names))
            if line.accept("to"):
                instr.type = self.type(line)
            if not line.accept(","):
                break
        line.expect(")")
        if op in ("add", "sub", "xor", "mul"):
            instr.type = instr.args[0].type
        return instr
