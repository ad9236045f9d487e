"""Structs that are copied whole: llvm.memcpy, memmove and memset as loads and stores with hooks of their own.

A copy may read what has no value (padding between members), so its reads only take part in races.
"""

from __future__ import annotations

from collections.abc import Callable

from metalcore.engine.checks.program import Line, Program
from metalcore.engine.lockstep.ir import Const, Instr, Value
from metalcore.engine.lockstep.roots import LONGEST_COPY, copy_unit

_MOST_BYTES = 64  # of one hook
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)
_COPIES = ("llvm.memcpy", "llvm.memmove", "llvm.memset")


def expand(program: Program, line: Line, instr: Instr, is_watched: Callable[[Value], bool]) -> bool:
    """Replace a copy of a known length to or from memory that is watched; whether it was one."""
    length = instr.args[2].value if instr.callee.startswith(_COPIES) and isinstance(instr.args[2], Const) else None
    if not length or length > LONGEST_COPY:
        return False
    fills = instr.callee.startswith("llvm.memset")
    reads, writes = not fills and is_watched(instr.args[1]), is_watched(instr.args[0])
    if not reads and not writes:
        return False
    to, source = (_spelled(pointer) for pointer in instr.args[:2])
    unit = copy_unit(instr, length)
    if reads:
        for at in range(0, length, _MOST_BYTES):
            place = _at(program, line, source, at)
            line.before.append(f"  call void @__mc_copy(ptr {place}, i32 {min(_MOST_BYTES, length - at)}){line.debug}")
    values = []
    for at in range(0, length, unit):
        if fills:
            values.append(_filled(program, line, instr.args[1], unit))
            continue
        place, value = _at(program, line, source, at), program.temp()
        line.before.append(f"  {value} = load i{8 * unit}, ptr {place}, align {unit}{line.debug}")
        values.append(value)
    for at in range(0, length, _MOST_BYTES) if writes else ():
        part = values[at // unit : (at + _MOST_BYTES) // unit]
        place, size = _at(program, line, to, at), min(_MOST_BYTES, length - at)
        digest = _digest(program, line, part, unit)
        line.before.append(f"  call void @__mc_write(ptr {place}, i32 {size}, i64 {digest}){line.debug}")
    for at, value in zip(range(0, length, unit), values, strict=True):
        line.before.append(f"  store i{8 * unit} {value}, ptr {_at(program, line, to, at)}, align {unit}{line.debug}")
    line.text = ""
    return True


def _spelled(value: Value) -> str:
    return value.text if isinstance(value, Const) else value.name


def _at(program: Program, line: Line, pointer: str, offset: int) -> str:
    if not offset:
        return pointer
    place = program.temp()
    line.before.append(f"  {place} = getelementptr i8, ptr {pointer}, i64 {offset}{line.debug}")
    return place


def _filled(program: Program, line: Line, byte: Value, unit: int) -> str:
    """A number whose every byte is *byte*."""
    if isinstance(byte, Const) and byte.value is not None:
        return str(int.from_bytes(bytes([byte.value & 255]) * unit, "little", signed=True))
    if unit == 1:
        return _spelled(byte)
    wide, value = program.temp(), program.temp()
    ones = int.from_bytes(b"\x01" * unit, "little")
    line.before += [
        f"  {wide} = zext i8 {_spelled(byte)} to i{8 * unit}{line.debug}",
        f"  {value} = mul i{8 * unit} {wide}, {ones}{line.debug}",
    ]
    return value


def _digest(program: Program, line: Line, values: list[str], unit: int) -> str:
    """All that is stored as one number: lanes that store to one place are compared."""
    total = ""
    for value in values:
        wide = value
        if unit < 8 and not value.lstrip("-").isdigit():
            wide = program.temp()
            line.before.append(f"  {wide} = zext i{8 * unit} {value} to i64{line.debug}")
        if total:
            spread, mixed = program.temp(), program.temp()
            line.before += [
                f"  {spread} = mul i64 {total}, {_ODD}{line.debug}",
                f"  {mixed} = add i64 {spread}, {wide}{line.debug}",
            ]
            wide = mixed
        total = wide
    return total
