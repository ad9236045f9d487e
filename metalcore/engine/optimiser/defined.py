"""What C++ leaves undefined gets a value in a kernel's unoptimised IR, before LLVM may draw conclusions from it.

x / 0 is 0, x % 0 is x, INT_MIN / -1 wraps; a shift takes the low bits of its count; a number that does not fit an
integer becomes the nearest one, a NaN 0; a function without a return at its end returns zeros; a bool in memory is true
where it is not zero. LLVM folds what it can prove, so a divisor that is known costs nothing.
"""

from __future__ import annotations

from metalcore.engine.ir import I1, I32, Const, Edits, Function, Instr, Module, Names, Parameter, Value, make

_DIVISIONS = frozenset(("udiv", "sdiv", "urem", "srem"))
_SHIFTS = frozenset(("shl", "lshr", "ashr"))
_CONVERSIONS = frozenset(("fptoui", "fptosi"))
_POISONED = ("llvm.ctlz.", "llvm.cttz.", "llvm.abs.")  # whose second operand says that some value is not defined
_PROMISES = ("unreachable", "!range", "@llvm.assume(", "nonnull")
_LOOKED_FOR = ("udiv ", "sdiv ", "urem ", "srem ", "shl ", "shr ", "fptoui ", "fptosi ", "inbounds nuw ", *_POISONED)
_FORWARD = frozenset(("nuw",))


def without_promises(module: Module) -> None:
    """Promise LLVM nothing about values: no ranges, no assumptions, no place that is never reached."""
    for function in module.functions.values():
        for attributes in (function.returned_attributes, *(p.attributes for p in function.parameters)):
            if "nonnull" in attributes:
                attributes.remove("nonnull")
        if function.mentions(*_PROMISES):
            _withdraw(function)


def _withdraw(function: Function) -> None:
    edits = Edits(function, Names(""))
    bools: set[Value] = set()
    for instr in function.instructions():
        if instr.op == "unreachable":
            nothing = function.returned.kind == "void"
            instr.become(make.ret(None if nothing else make.zero(function.returned)))
        elif instr.op == "trunc" and instr.type is I1 and instr.args[0] in bools:
            instr.become(make.compare("ne", instr.args[0], make.number(instr.args[0].type, 0)))
        elif instr.rest is not None and not any(word in instr.rest for word in _PROMISES):
            continue
        elif instr.callee == "llvm.assume":
            edits.remove(instr)
        else:
            attached = instr.extra.get("attached")
            if isinstance(attached, dict) and ("!range" in attached or "!nonnull" in attached):
                if instr.op == "load" and "!range" in attached and instr.type.text == "i8":
                    bools.add(instr)
                instr.changed().extra["attached"] = {
                    name: node for name, node in attached.items() if name not in ("!range", "!nonnull")
                }
            _drop_nonnull(instr)
    if not edits.is_empty:
        edits.apply()


def _drop_nonnull(call: Instr) -> None:
    for attributes in (call.extra.get("returned"), *_lists(call.extra.get("attributes"))):
        if isinstance(attributes, list) and "nonnull" in attributes:
            call.changed()
            attributes.remove("nonnull")


def _lists(found: object) -> list[object]:
    return found if isinstance(found, list) else []


def with_values(module: Module) -> None:
    """Give every division, shift and conversion to an integer a value, whatever its operands are, and let an index of
    64 bits lead back in its array."""
    values = _Values(module)
    for function in list(module.defined()):
        if function.mentions(*_LOOKED_FOR):
            values.run(function)
    for _, declared in sorted(values.declared.items()):
        module.declare(declared)


class _Values:
    def __init__(self, module: Module) -> None:
        self.names = Names("%mc.def" if "%mc.def" not in module.text else module.unused_prefix("mc.def"))
        self.declared: dict[str, Function] = {}

    def run(self, function: Function) -> None:
        self.edits = Edits(function, self.names)
        for instr in function.instructions():
            op, rest = instr.op, instr.rest
            if op in _DIVISIONS and instr.type.kind == "int":
                self._divide(instr)
            elif op in _SHIFTS and instr.type.kind == "int":
                self._shift(instr)
            elif op in _CONVERSIONS and instr.type.kind == "int":
                self._to_int(instr)
            elif op == "call" and (rest is None or " true)" in rest) and instr.callee.startswith(_POISONED):
                instr.set_arg(1, make.number(I1, 0))
            if rest is not None and "inbounds nuw " in rest:
                _let_back(instr)
        if not self.edits.is_empty:
            self.edits.apply()

    def _divide(self, instr: Instr) -> None:
        op, ty, (a, b) = instr.op, instr.type, instr.args
        signed, quotient = op[0] == "s", op.endswith("div")
        known = _number(b)
        none = make.number(ty, 0)
        if known is not None and known != 0 and not (signed and known == -1):
            return
        if known == 0:
            instr.become(make.binary("or", none if quotient else a, none))
        elif known == -1:
            instr.become(make.binary("sub", none, a) if quotient else make.binary("or", none, none))
        elif not signed:
            build = self.edits.before(instr)
            is_zero = build(make.compare("eq", b, none))
            safe = build(make.select(is_zero, make.number(ty, 1), b))
            part = build(make.binary(op, a, safe))
            instr.become(make.select(is_zero, none if quotient else a, part))
        else:
            # Of 0 and -1 at once: a * 0 is 0 and a * -1 is -a; a & ~0 is a and a & ~-1 is 0.
            build = self.edits.before(instr)
            next_to = build(make.binary("add", b, make.number(ty, 1)))
            special = build(make.compare("ult", next_to, make.number(ty, 2)))
            safe = build(make.select(special, make.number(ty, 1), b))
            part = build(make.binary(op, a, safe))
            if quotient:
                other = build(make.binary("mul", a, b))
            else:
                other = build(make.binary("and", a, build(make.binary("xor", b, make.number(ty, -1)))))
            instr.become(make.select(special, other, part))

    def _shift(self, instr: Instr) -> None:
        ty, known = instr.type, _number(instr.args[1])
        if ty.bits & (ty.bits - 1) or (known is not None and 0 <= known < ty.bits):
            return
        low = make.number(ty, ty.bits - 1)
        if known is not None:
            count: Value = make.number(ty, known & (ty.bits - 1))
        else:
            count = self.edits.before(instr)(make.binary("and", instr.args[1], low))
        instr.become(make.binary(instr.op, instr.args[0], count))

    def _to_int(self, instr: Instr) -> None:
        real, to = instr.args[0].type, instr.type
        wide = to if to.bits >= 32 else I32  # a narrow one takes the low bits, as C++ does from int
        name = f"llvm.{instr.op if to.bits >= 32 else 'fptosi'}.sat.{wide.text}.{real.suffix}"
        self.declared[name] = Function(f"@{name}", wide, [Parameter(real, "", [])])
        call = make.call(wide, name, [instr.args[0]])
        instr.become(call if to.bits >= 32 else make.cast("trunc", self.edits.before(instr)(call), to))


def _let_back(instr: Instr) -> None:
    """A getelementptr, also one in an operand, that may go back."""
    if instr.op == "getelementptr":
        instr.without_flags(_FORWARD)
    if instr.rest is not None and "inbounds nuw " not in instr.rest:
        return
    for arg in instr.args:
        if isinstance(arg, Instr) and not arg.name:
            instr.changed()
            arg.without_flags(_FORWARD)
            _let_back(arg)


def _number(value: Value) -> int | None:
    if not isinstance(value, Const) or not value.text.lstrip("-").isdigit():
        return None
    return int(value.text)
