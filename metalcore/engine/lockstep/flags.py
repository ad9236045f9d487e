"""Booleans of sanitize mode that say which lanes read what has no value, as one number with a bit for each lane.

A lane looks at its own bit alone, so that the number is mostly the same for all lanes: it costs a register instead of
four vectors, and an `or` instead of four.
"""

from __future__ import annotations

from metalcore.engine.ir import I1, I32, Block, Const, Function, Instr, Value

_SILENT = {"__mc_report_if": 0, "__mc_report_unset": 0, "__mc_lose_value": 2}  # hooks, and where their condition is
_TAKES_LANES = ("__mc_report_unset", "__mc_lose_value")
_ASKS = "__mc_has_no_value"


def drop_silent_hooks(function: Function) -> None:
    """Hooks whose condition is known never to hold."""
    for block in function.blocks:
        block.instrs = [i for i in block.instrs if not _is_silent(i)]


def _is_silent(instr: Instr) -> bool:
    position = _SILENT.get(instr.callee)
    condition = instr.args[position] if position is not None else None
    return isinstance(condition, Const) and not condition.value


def number_lanes(function: Function) -> None:
    """What comes of `__mc_has_no_value` becomes 32 bits wide."""
    instrs = [i for block in function.blocks for i in block.instrs]
    users: dict[Instr, list[Instr]] = {}
    for instr in instrs:
        for arg in instr.args:
            if isinstance(arg, Instr):
                users.setdefault(arg, []).append(instr)
    flags = {i for i in instrs if i.callee == _ASKS}
    work = list(flags)
    while work:
        flag = work.pop()
        for user in users.get(flag, []):
            if user not in flags and _keeps_lanes(user, flag):
                flags.add(user)
                work.append(user)
    if flags:
        _Numbers(function, flags).run()


def _keeps_lanes(user: Instr, flag: Instr) -> bool:
    """Whether an operation treats each lane's bit alike."""
    if user.type is not I1 and (user.type.kind != "int" or user.type.bits != 1):
        return False
    if user.op == "select":
        return flag in user.args[1:] or _as_bits(user) != ""
    return user.op in ("or", "and", "xor", "phi", "freeze")


def _as_bits(select: Instr) -> str:
    """`or` and `and` are often written as a choice."""
    if isinstance(select.args[1], Const) and select.args[1].value:
        return "or"
    if isinstance(select.args[2], Const) and not select.args[2].value:
        return "and"
    return ""


class _Numbers:
    def __init__(self, function: Function, flags: set[Instr]) -> None:
        self.function, self.flags = function, flags
        self.names = 0

    def run(self) -> None:
        for block in self.function.blocks:
            out: list[Instr] = []
            for instr in block.instrs:
                if instr in self.flags:
                    self._widen(instr, block, out)
                elif instr.callee not in _TAKES_LANES:
                    for i, arg in enumerate(instr.args):
                        if arg in self.flags:
                            instr.args[i] = self._own_bit(arg, instr, block, out)
                out.append(instr)
            block.instrs = out
        for block in self.function.blocks:
            for phi in block.phis():
                if phi in self.flags:
                    phi.args = [
                        self._number(a, phi, source, None) for a, source in zip(phi.args, phi.targets, strict=True)
                    ]

    def _widen(self, instr: Instr, block: Block, out: list[Instr]) -> None:
        if instr.op == "select":
            op = _as_bits(instr)
            if op:
                instr.op, instr.args = op, [instr.args[0], instr.args[2 if op == "or" else 1]]
        instr.type = I32
        instr.extra.pop("flags", None)
        if instr.op == "select":
            if instr.args[0] in self.flags:
                instr.args[0] = self._own_bit(instr.args[0], instr, block, out)
            instr.args[1:] = [self._number(a, instr, block, out) for a in instr.args[1:]]
        elif instr.op in ("or", "and", "xor", "freeze"):
            instr.args = [self._number(a, instr, block, out) for a in instr.args]

    def _number(self, value: Value, near: Instr, block: Block, out: list[Instr] | None) -> Value:
        """A boolean operand as a number; what does not come from a hook is all bits or none, lane by lane."""
        if value in self.flags:
            return value
        if isinstance(value, Const):
            return Const(I32, "-1" if value.value else "0")
        return self._add("sext", [value], near, block, out)

    def _own_bit(self, value: Value, near: Instr, block: Block, out: list[Instr]) -> Value:
        lane = self._add("call", [Const(I32, "0")], near, block, out)
        lane.extra["callee"] = "__mc_thread_index_in_simdgroup"
        own = self._add("lshr", [value, lane], near, block, out)
        bit = self._add("trunc", [own], near, block, out)
        bit.type = I1
        return bit

    def _add(self, op: str, args: list[Value], near: Instr, block: Block, out: list[Instr] | None) -> Instr:
        self.names += 1
        instr = Instr(op, I32, args, name=f"%mc.lanes.{self.names}", line=near.line, block=block)
        if out is None:
            block.instrs.insert(len(block.instrs) - 1, instr)
        else:
            out.append(instr)
        return instr
