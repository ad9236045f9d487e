"""Functions that every emitted module carries: the way to the runtime's slow path."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from metalcore.engine.abi import LANES, Access, Stop, offset
from metalcore.engine.ir import I1, I8, I32, I64, PTR, VOID, Type, array

from .builder import Builder
from .frame import LAUNCH, WORKER, of_launch, of_worker, parameters
from .operands import Operand, constant

# The address of mc.attend is taken so that its argument stays in a register of its own.
VARIABLES = """@mc.zero = internal constant [16 x i8] zeroinitializer, align 16
@mc.sink = internal global [16 x i8] zeroinitializer, align 64
@llvm.compiler.used = appending global [1 x ptr] [ptr @mc.attend], section "llvm.metadata\""""
_ZERO = constant(I64, 0)
# What is seldom called, from loops that keep their registers: #2 of module.py.
COLD, KEEPS = "noinline cold nounwind #2", "preserve_allcc "


def function(code: Builder, name: str, to: Type, given: str, attributes: str, how: str = "") -> str:
    """The text of a function of the module."""
    return "\n".join([f"define internal {how}{to} @{name}({given}) {attributes} {{", *code.text(), "}"])


@lru_cache(maxsize=1)
def support() -> tuple[str, ...]:
    return VARIABLES, _attend(), _spread(), _slow()


def _attend() -> str:
    """Something is to be looked at: true where the kernel is to leave. Whoever asks, in a loop, keeps its registers."""
    code, stop = Builder(), Operand("%stop", PTR)
    code.place("entry")
    attend = code.load(PTR, code.gep(stop, offset(Stop, "attend")))
    code.ret(code.icmp("ne", code.call_pointer(attend, I32, stop), 0))
    return function(code, "mc.attend", I1, "ptr nest %stop", COLD, KEEPS)


def _spread() -> str:
    """The address of each lane from one and a table of offsets."""
    code = Builder()
    base, offsets, out = (Operand(name, PTR) for name in ("%base", "%offsets", "%out"))
    code.place("entry")
    code.jump("loop")
    code.place("loop")
    lane = code.phi((_ZERO, "entry"))
    address = code.gep(base, code.load(I64, code.gep(offsets, lane, I64)))
    code.store(address, code.gep(out, lane, PTR))
    _again(code, lane, "loop", "loop", "done")
    code.place("done")
    code.ret()
    return function(code, "mc.spread", VOID, parameters(base, offsets, out), COLD, KEEPS)


def _again(code: Builder, counter: Operand, label: str, start: str, done: str, end: Operand | int = LANES) -> None:
    following = code.add(counter, 1)
    code.edge(counter, following, label)
    code.cond_br(code.icmp("ult", following, end), start, done)


def _slow() -> str:
    """Fill an mc_access: for each lane the bounds of the piece of memory that holds it, or of the first one."""
    code = Builder()
    site, size, kind, mask, first = (Operand(f"%{name}", I32) for name in ("site", "size", "kind", "mask", "first"))
    addresses, count = Operand("%addresses", PTR), Operand("%n", I64)
    bounds, data = Operand("%bounds", PTR), Operand("%data", PTR)  # bounds: begin, end and bytes from lane to lane
    code.place("entry")
    access = code.alloca(array(ctypes.sizeof(Access), I8), 16)

    def at(field: str, more: int = 0) -> Operand:
        where = offset(Access, field) + more
        return code.gep(access, where) if where else access

    fields = {"site": site, "mask": mask, "elem_size": size, "is_store": kind, "base_thread": first}
    for field, value in fields.items():
        code.store(value, at(field))
    for axis in range(3):
        position = code.load(I32, code.gep(WORKER, of_worker("group_pos") + 4 * axis))
        code.store(position, at("group", 4 * axis))
    code.store(data, at("data"))
    wide_size = code.zext(size, I64)
    code.jump("lane")
    code.place("lane")
    lane = code.phi((_ZERO, "entry"))
    address = code.load(I64, code.gep(addresses, lane, PTR))
    code.store(address, code.gep(at("addr"), lane, I64))
    code.cond_br(code.icmp("eq", count, 0), "unknown", "first.root")
    code.place("unknown")
    code.jump("lane.done")
    code.place("first.root")
    moved = code.mul(code.load(I64, code.gep(bounds, 2, I64)), lane)
    begin, end = code.load(I64, bounds), code.load(I64, code.gep(bounds, 1, I64))
    first_begin, first_end = code.add(begin, moved), code.add(end, moved)
    code.jump("root")
    code.place("root")
    root = code.phi((_ZERO, "first.root"))
    own = code.gep(bounds, root, array(3, I64))
    places = [own, code.gep(own, 1, I64), code.gep(own, 2, I64)]
    begin, end, step = (code.load(I64, place) for place in places)
    moved = code.mul(step, lane)
    begin, end = code.add(begin, moved), code.add(end, moved)
    above = code.icmp("uge", address, begin)
    below = code.icmp("ule", code.add(address, wide_size), end)
    code.cond_br(code.and_(above, below), "lane.done", "root.next")
    code.place("root.next")
    _again(code, root, "root.next", "root", "lane.none", count)
    code.place("lane.none")
    code.jump("lane.done")
    code.place("lane.done")
    low = code.phi((_ZERO, "unknown"), (begin, "root"), (first_begin, "lane.none"))
    high = code.phi((_ZERO, "unknown"), (end, "root"), (first_end, "lane.none"))
    code.store(low, code.gep(at("lo"), lane, I64))
    code.store(high, code.gep(at("hi"), lane, I64))
    _again(code, lane, "lane.done", "lane", "call")
    code.place("call")
    slow = code.load(PTR, code.gep(LAUNCH, of_launch("slow_access")))
    code.call_pointer(slow, VOID, LAUNCH, access)
    code.ret()
    given = parameters(LAUNCH, WORKER, site, size, kind, mask, first, addresses, count, bounds, data)
    return function(code, "mc.slow", VOID, given, COLD, KEEPS)
