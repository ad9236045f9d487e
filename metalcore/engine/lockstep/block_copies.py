"""Long block copies become loops: as loads and stores, one for each element, they would take minutes to compile."""

from __future__ import annotations

from metalcore.engine.ir import I1, VOID, Block, Const, Function, Instr, Value, integer

from .roots import copy_unit, memset_value

LONGEST_UNROLLED = 2048  # bytes; shorter ones become plain loads and stores (`expand_block_copies`)
LONGEST_SANITIZED = 512  # there every private array has a twin that is set whole when it comes into being
_WORD = integer(64)


def loop_long_copies(function: Function, longest: int = LONGEST_UNROLLED) -> None:
    """llvm.memset and llvm.memcpy of more bytes than that, or of a length that only the launch knows."""
    work = list(function.blocks)
    while work:
        block = work.pop()
        for at, instr in enumerate(block.instrs):
            name = instr.callee if instr.op == "call" else ""
            plain = name.startswith(("llvm.memcpy", "llvm.memset"))
            if (plain or (name.startswith("llvm.memmove") and _apart(instr))) and _is_long(instr, longest):
                work.append(_split(function, block, at))
                break


def _is_long(copy: Instr, longest: int) -> bool:
    length = copy.args[2]
    return not isinstance(length, Const) or length.value is None or length.value > longest


def _apart(move: Instr) -> bool:
    """The memory moved is certainly not that which is written: one of the two is a private array, not both the same."""
    to, source = (_base(pointer) for pointer in move.args[:2])
    return to is not source and any(isinstance(b, Instr) and b.op == "alloca" for b in (to, source))


def _base(pointer: Value) -> Value:
    while isinstance(pointer, Instr) and pointer.op == "getelementptr":
        pointer = pointer.args[0]
    return pointer


def _split(function: Function, block: Block, at: int) -> Block:
    """Puts a loop in the place of instruction `at`; returns the block with what stood behind it."""
    copy = block.instrs[at]
    label = f"{block.name}.{at}"
    loop, rest = Block(f"mc.copy.{label}"), Block(f"mc.copied.{label}")
    place = function.blocks.index(block) + 1
    function.blocks[place:place] = [loop, rest]
    rest.instrs = block.instrs[at + 1 :]
    for instr in rest.instrs:
        instr.block = rest
    for after in rest.succs:
        for phi in after.phis():
            phi.targets = [rest if source is block else source for source in phi.targets]
    del block.instrs[at:]

    def add(where: Block, instr: Instr) -> Instr:
        instr.line, instr.block = copy.line, where
        where.instrs.append(instr)
        return instr

    length = copy.args[2]
    if isinstance(length, Const):
        length = Const(_WORD, str(length.value))
    elif length.type.bits < 64:
        length = add(block, Instr("zext", _WORD, [length], f"%mc.length.{label}"))
    unit = copy_unit(copy, _multiple(copy.args[2]))
    if isinstance(length, Const):
        add(block, Instr("br", VOID, [], targets=[loop]))
    else:
        some = add(block, Instr("icmp", I1, [length, Const(_WORD, "0")], f"%mc.some.{label}", {"pred": "ne"}))
        add(block, Instr("br", VOID, [some], targets=[loop, rest]))
    start: Value = Const(_WORD, "0")
    index = add(loop, Instr("phi", _WORD, [start], f"%mc.at.{label}", targets=[block, loop]))

    def element(pointer: Value, name: str) -> Instr:
        where = {"source": integer(8)}
        return add(loop, Instr("getelementptr", pointer.type, [pointer, index], f"%mc.{name}.{label}", dict(where)))

    ty = integer(unit * 8)
    if copy.callee.startswith("llvm.memset"):
        made: list[Instr] = []
        value = memset_value(made, copy, ty, f"%mc.set.{label}")
        for instr in made:
            add(loop, instr)
    else:
        value = add(loop, Instr("load", ty, [element(copy.args[1], "src")], f"%mc.cpy.{label}", {"align": 1}))
    target = element(copy.args[0], "dst")
    add(loop, Instr("store", VOID, [value, target], "", {"align": 1, "stored": ty}))
    following = add(loop, Instr("add", _WORD, [index, Const(_WORD, str(unit))], f"%mc.next.{label}"))
    index.args.append(following)
    again = add(loop, Instr("icmp", I1, [following, length], f"%mc.again.{label}", {"pred": "ult"}))
    add(loop, Instr("br", VOID, [again], targets=[loop, rest]))
    return rest


def _multiple(length: Value) -> int:
    """A number that divides the length, as far as the code shows it."""
    if isinstance(length, Const):
        return int(length.value or 0)
    if isinstance(length, Instr) and length.op in ("shl", "mul") and isinstance(length.args[1], Const):
        number = int(length.args[1].value or 0)
        return 1 << min(number, 4) if length.op == "shl" else number
    return 1
