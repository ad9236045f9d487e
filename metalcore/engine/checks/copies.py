"""Structs that are copied whole: llvm.memcpy, memmove and memset as loads and stores with hooks of their own.

A copy may read what has no value (padding between members), so its reads only take part in races.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from metalcore.engine.checks.program import Program, hook
from metalcore.engine.ir import I32, I64, Builder, Const, Instr, Type, Value, integer, make
from metalcore.engine.lockstep.roots import LONGEST_COPY, copy_unit

_MOST_BYTES = 64  # of one hook
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)
_COPIES = ("llvm.memcpy", "llvm.memmove", "llvm.memset")


def expand(program: Program, instr: Instr, is_watched: Callable[[Value], bool]) -> bool:
    """Replace a copy of a known length to or from memory that is watched; whether it was one."""
    length = instr.args[2].value if instr.callee.startswith(_COPIES) and isinstance(instr.args[2], Const) else None
    if not length or length > LONGEST_COPY:
        return False
    fills = instr.callee.startswith("llvm.memset")
    to, source = instr.args[:2]
    reads, writes = not fills and is_watched(source), is_watched(to)
    if not reads and not writes:
        return False
    unit = copy_unit(instr, length)
    ty = integer(8 * unit)
    build = program.before(instr)
    for at in range(0, length, _MOST_BYTES) if reads else ():
        build(hook("__mc_copy", _at(build, source, at), make.number(I32, min(_MOST_BYTES, length - at))))
    values: list[Value] = []
    for at in range(0, length, unit):
        values.append(_filled(build, source, ty) if fills else build(make.load(ty, _at(build, source, at), unit)))
    for at in range(0, length, _MOST_BYTES) if writes else ():
        part = values[at // unit : (at + _MOST_BYTES) // unit]
        place, size = _at(build, to, at), make.number(I32, min(_MOST_BYTES, length - at))
        build(hook("__mc_write", place, size, digest(build, [_wide(build, value) for value in part])))
    for at, value in zip(range(0, length, unit), values, strict=True):
        build(make.store(value, _at(build, to, at), unit))
    program.remove(instr)
    return True


def _at(build: Builder, pointer: Value, offset: int) -> Value:
    return build(make.offset(pointer, offset)) if offset else pointer


def _filled(build: Builder, byte: Value, ty: Type) -> Value:
    """A number whose every byte is *byte*."""
    count = ty.bits // 8
    if isinstance(byte, Const) and byte.value is not None:
        return make.number(ty, int.from_bytes(bytes([byte.value & 255]) * count, "little", signed=True))
    if count == 1:
        return byte
    ones = make.number(ty, int.from_bytes(b"\x01" * count, "little"))
    return build(make.binary("mul", build(make.cast("zext", byte, ty)), ones))


def _wide(build: Builder, value: Value) -> Value:
    if isinstance(value, Const):
        return make.number(I64, value.value or 0)
    return build(make.cast("zext", value, I64)) if value.type.bits < 64 else value


def digest(build: Builder, values: Iterable[Value]) -> Value:
    """All that is stored as one number: lanes that store to one place are compared."""
    total: Value | None = None
    for value in values:
        if total is None:
            total = value
        else:
            spread = build(make.binary("mul", total, make.number(I64, _ODD)))
            total = build(make.binary("add", spread, value))
    assert total is not None
    return total
