"""int32-index: products of sizes that are computed in 32 bits and then index memory."""

from __future__ import annotations

import re

from metalcore.engine.ir import Const, Instr, Value
from metalcore.lint.context import Context
from metalcore.lint.places import Place
from metalcore.lint.program import Program, attribute, constant

# A product of two sizes passes 2^31; without a sign it takes three to be likely.
_SIGNED, _UNSIGNED = 2, 3
_LARGE = re.compile(r"thread_position_in_grid|threadgroup_position_in_grid|threads_per_grid|threadgroups_per_grid")
_SAME = ("sext", "zext", "freeze", "shl", "lshr", "ashr", "bitcast")


def check(context: Context) -> None:
    """Indices of device memory that are widened to 64 bits only after they were multiplied."""
    wide: set[Place | None] = set()  # products that another instantiation of the same line makes in 64 bits
    found: dict[Place, tuple[str, str]] = {}
    for program in context.programs:
        degrees = _Degrees(program)
        for instr in program.instructions():
            if instr.op == "mul" and instr.type.bits == 64:
                wide.add(program.place(instr))
            if instr.op != "getelementptr" or not any(r.kind == "buffer" for r in program.roots.get(instr.args[0])):
                continue
            for index in instr.args[1:]:
                product = _product(index, degrees, set())
                place = program.place(product) if product is not None else None
                if product is not None and place is not None and not place.own:
                    kind = "int" if "nsw" in _flags(product) else "uint"
                    found.setdefault(place, (kind, program.kernel.host_name))
    for place, (kind, kernel) in found.items():
        if place not in wide:
            text = f"this index is a product of sizes in 32 bits ({kind}), which passes {_limit(kind)} on large arrays"
            context.findings.add("int32-index", place, text, kernel)


def _limit(kind: str) -> str:
    return "2^31" if kind == "int" else "2^32"


def _flags(instr: Instr) -> list[str]:
    flags = instr.extra.get("flags")
    return flags if isinstance(flags, list) else []


def _product(value: Value, degrees: _Degrees, seen: set[Instr]) -> Instr | None:
    """A 32-bit product of too many sizes that the index is made of by sums."""
    if not isinstance(value, Instr) or value in seen:
        return None
    seen.add(value)
    if value.op == "mul" and value.type.bits == 32:
        enough = _SIGNED if "nsw" in _flags(value) else _UNSIGNED
        if degrees.of(value) >= enough:
            return value
    if value.op in ("add", "sub", "or", "mul", "sext", "zext", "phi", "select", "freeze"):
        for arg in value.args:
            found = _product(arg, degrees, seen)
            if found is not None:
                return found
    return None


class _Degrees:
    """How many sizes a number is the product of: 0 for what is small, 1 for a length or a position in the grid."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[Instr, int] = {}

    def of(self, value: Value) -> int:
        if not isinstance(value, Instr) or value.type.bits < 32:
            return 0
        if value not in self._known:
            self._known[value] = 0  # while it is being computed
            self._known[value] = self._compute(value)
        return self._known[value]

    def _compute(self, value: Instr) -> int:
        op, args = value.op, value.args
        if op == "load":
            roots = self._program.roots.get(args[0])
            return 1 if value.type.bits == 32 and any(r.kind == "buffer" for r in roots) else 0
        if op == "call":
            return 1 if _LARGE.fullmatch(attribute(value)) else 0
        if op == "mul":
            return self.of(args[0]) + self.of(args[1])
        if op in ("udiv", "sdiv"):
            return max(self.of(args[0]) - self.of(args[1]), 0)
        if op in ("urem", "srem"):
            return self.of(args[1])
        if op == "and":
            return 0 if any(isinstance(a, Const) for a in args) else max(map(self.of, args))
        if op == "phi":
            return self._phi(value)
        if op in ("add", "sub", "or", "select", *_SAME):
            return max((self.of(a) for a in args), default=0)
        if op == "trunc":
            return self.of(args[0]) if value.type.bits == 32 else 0
        return 0

    def _phi(self, phi: Instr) -> int:
        """A counter is as large as what it is compared with."""
        found = max((self.of(a) for a in phi.args), default=0)
        for user in self._program.users.get(phi, []):
            if user.op == "icmp":
                other = user.args[1] if user.args[0] is phi else user.args[0]
                if constant(other) is None:
                    found = max(found, min(self.of(other), 1))
        return found
