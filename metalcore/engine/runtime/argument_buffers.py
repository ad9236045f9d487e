"""Structs that hold pointers and values, filled from Python member by member: Metal's argument buffers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from metalcore.arrays.find import RAW, memory_of
from metalcore.arrays.memory import Memory, NoMemory
from metalcore.engine.runtime.values import ValueProblem, sequence_bytes
from metalcore.errors import ArgumentError

if TYPE_CHECKING:
    from metalcore.engine.frontend.records import Field, Type
    from metalcore.engine.runtime.binding import Binder

_ALIGN = 16
_SPELLINGS = (
    *(("__global_device ", "constant "), ("__global ", "device "), ("const constant", "constant")),
    *(("_Float16", "half"), ("__bf16", "bfloat"), ("_Bool", "bool"), ("struct metal::", ""), ("struct ", "")),
)
_ANY_TYPE = ("int8", "uint8", "")  # pointers to raw memory: arrays of any dtype


class ArgumentBuffer:
    """The bytes of one struct, or of several in a row, and the arrays that its pointers lead to, which it keeps alive.

    `buffer["n"] = 6` sets a member, `buffer["n"]` reads it from memory, so that what a kernel wrote is seen.
    """

    def __init__(self, type: Type, values: Sequence[Any], where: str, any_sign: bool = False) -> None:
        self.type, self._where, self.count = type, where, len(values)
        self._any_sign = any_sign  # int32 arrays for pointers to uint: torch has few unsigned dtypes
        room = np.zeros(type.size * len(values) + _ALIGN, np.uint8)
        start = -room.__array_interface__["data"][0] % _ALIGN
        self.data: np.ndarray[Any, np.dtype[np.uint8]] = room[start : start + type.size * len(values)]
        """The struct's bytes; a kernel that writes it writes here."""
        self._targets: dict[int, list[_Target]] = {}  # by offset
        for i, value in enumerate(values):
            self._write(type, (), i * type.size, value, f"{where}[{i}]" if len(values) > 1 else where)

    @property
    def address(self) -> int:
        """Where it is in memory."""
        address: int = self.data.__array_interface__["data"][0]
        return address

    @property
    def size(self) -> int:
        return self.data.nbytes

    @property
    def regions(self) -> list[tuple[int, int, bool]]:
        """What its pointers lead to, and whether it may be written through them."""
        return [target.region for target in self._reached()]

    @property
    def cells(self) -> list[int]:
        """Where the addresses of those stand, those in memory that its pointers lead to included."""
        found: list[int] = []
        seen: set[int] = set()
        for owner in (self, *(target.owner for target in self._reached())):
            if isinstance(owner, ArgumentBuffer) and id(owner) not in seen:
                seen.add(id(owner))
                found += (owner.address + offset for offset in owner._targets)
            elif isinstance(owner, _Table):
                found += range(owner.address, owner.address + owner.values.nbytes, 8)
        return found

    @property
    def keep(self) -> object:
        """What must live as long as a kernel uses it."""
        return self, [target.owner for target in self._reached()]

    def _reached(self) -> list[_Target]:
        """All memory behind its pointers as they are now, that behind pointers in other argument buffers included."""
        found: list[_Target] = []
        todo, seen = [self], {id(self)}
        while todo:
            for target in [each for targets in todo.pop()._targets.values() for each in targets]:
                found.append(target)
                if isinstance(target.owner, ArgumentBuffer) and id(target.owner) not in seen:
                    seen.add(id(target.owner))
                    todo.append(target.owner)
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        field = self._field(name)
        self._write(field.type, field.counts, field.offset, value, f"{self._where}.{name}")

    def __getitem__(self, name: str) -> Any:
        field = self._field(name)
        if field.type.kind != "number" or field.type.scalar == "bfloat16":
            raise ArgumentError(f"{self._where}.{name}: only numbers are read back, not {field.type.text}")
        total = field.type.size * math.prod(field.counts)
        memory = self.data[field.offset : field.offset + total].view(field.type.scalar)
        columns = (field.type.columns,) if field.type.columns > 1 else ()
        shape = (*field.counts, *columns, *((-1,) if field.type.lanes > 1 else ()))
        found = memory.reshape(shape) if shape else memory[0]
        return found[..., : field.type.lanes] if field.type.lanes > 1 else found

    def _field(self, name: str) -> Field:
        if self.count != 1:
            raise ArgumentError(f"{self._where}: members are named for one struct, and this holds {self.count}")
        found = next((f for f in self.type.fields if f.name == name), None)
        if found is None:
            raise ArgumentError(_unknown(self._where, name, self.type))
        return found

    def __repr__(self) -> str:
        return f"<metalcore.ArgumentBuffer {self._where}: {self.size} bytes of {_spelled(self.type)}>"

    # -- writing -----------------------------------------------------------------------------------
    def _write(self, type: Type, counts: tuple[int, ...], at: int, value: Any, where: str) -> None:
        size = type.size * math.prod(counts)
        if isinstance(value, RAW) and type.kind != "pointer" and size:
            self._write_raw(at, size, value, where)
        elif counts and type.size:
            items = _items(value, counts[0], where)
            step = size // counts[0]
            for i in range(counts[0]):
                if i < len(items):
                    self._write(type, counts[1:], at + i * step, items[i], f"{where}[{i}]")
                else:
                    self._clear(at + i * step, step)
        elif type.kind == "number":
            self._write_number(type, at, value, where)
        elif type.kind == "pointer":
            self._write_pointer(type, at, value, where)
        elif type.kind == "record":
            self._write_record(type, at, value, where)
        elif type.kind == "enum" and not counts and isinstance(value, int):
            self._write_enum(at, value, where)
        else:
            raise ArgumentError(
                f"{where}: a member of type {_spelled(type)} is not set by name: pass the struct as bytes"
            )

    def _clear(self, at: int, size: int) -> None:
        self.data[at : at + size] = 0
        for offset in [offset for offset in self._targets if at <= offset < at + size]:
            del self._targets[offset]

    def _write_raw(self, at: int, size: int, value: Any, where: str) -> None:
        data = bytes(memoryview(value).cast("B"))
        if len(data) != size:
            raise ArgumentError(f"{where}: it needs exactly {size} bytes, {_given(value)} has {len(data)}")
        self._clear(at, size)
        self.data[at : at + size] = np.frombuffer(data, np.uint8)

    def _write_number(self, type: Type, at: int, value: Any, where: str) -> None:
        if hasattr(value, "tolist"):
            value = value.tolist()
        if value is None or isinstance(value, (str, Mapping)):
            raise ArgumentError(f"{where}: it must be {_spelled(type)}, not {_given(value)}")
        try:
            data = sequence_bytes(value, type.scalar, type.lanes, type.size // type.columns)
        except ValueProblem as problem:
            raise ArgumentError(f"{where} ({_spelled(type)}): {problem}") from None
        if len(data) != type.size:
            parts = type.lanes * type.columns
            raise ArgumentError(
                f"{where}: {_spelled(type)} takes {parts} number{'s' * (parts > 1)}, not {_given(value)}"
            )
        self.data[at : at + len(data)] = np.frombuffer(data, np.uint8)

    def _write_enum(self, at: int, value: int, where: str) -> None:
        """Its size is not in the layout, but the room up to the next member is nobody else's."""
        starts = [offset for offset in _starts(self.type) if offset > at % self.type.size]
        room = min(8, (min(starts, default=self.type.size)) - at % self.type.size)
        try:
            data = value.to_bytes(room, "little", signed=value < 0)
        except OverflowError:
            raise ArgumentError(f"{where}: {value} does not fit {room} bytes") from None
        self.data[at : at + room] = np.frombuffer(data, np.uint8)

    def _write_record(self, type: Type, at: int, value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise ArgumentError(
                f"{where}: a struct is a dict of its members, bytes or ctypes.Structure, not {_given(value)}"
            )
        names = [field.name for field in type.fields]
        for name in value:
            if name not in names:
                raise ArgumentError(_unknown(where, name, type))
        missing = [name for name in names if name not in value]
        if missing:
            raise ArgumentError(
                f"{where} misses {', '.join(missing)}: None is a null pointer, bytes set a struct as a whole"
            )
        for field in type.fields:
            self._write(field.type, field.counts, at + field.offset, value[field.name], f"{where}.{field.name}")

    # -- pointers ----------------------------------------------------------------------------------
    def _write_pointer(self, type: Type, at: int, value: Any, where: str) -> None:
        self._clear(at, 8)
        if value is None:
            return
        targets = self._pointed_to(type, value, where)
        self._targets[at] = targets
        self.data[at : at + 8] = np.frombuffer(targets[0].region[0].to_bytes(8, "little"), np.uint8)

    def _pointed_to(self, type: Type, value: Any, where: str) -> list[_Target]:
        """The memory that a pointer gets, first; then what pointers in that lead to."""
        inner = type.target
        if isinstance(value, ArgumentBuffer):
            if inner is not None and inner.size != value.type.size:
                raise ArgumentError(f"{where}: it points to {_spelled(inner)}, {value!r} holds {_spelled(value.type)}")
            return [_Target((value.address, value.address + value.size, not type.is_const), value)]
        if inner is not None and inner.kind == "pointer" and isinstance(value, (list, tuple)):
            lists = [
                [] if item is None else self._pointed_to(inner, item, f"{where}[{i}]") for i, item in enumerate(value)
            ]
            table = _Table([targets[0].region[0] if targets else 0 for targets in lists])
            end = table.address + table.values.nbytes
            return [_Target((table.address, end, False), table), *(t for targets in lists for t in targets)]
        try:
            memory = memory_of(value)
        except NoMemory as problem:
            raise ArgumentError(f"{where}: it {problem}") from None
        if memory is None:
            raise ArgumentError(f"{where}: a pointer takes an array, an argument buffer or None, not {_given(value)}")
        self._check_memory(type, memory, value, where)
        region = memory.address, memory.address + memory.size, memory.changeable and not type.is_const
        return [_Target(region, memory.owner)]

    def _check_memory(self, type: Type, memory: Memory, value: Any, where: str) -> None:
        inner = type.target
        if inner is not None and inner.kind == "number" and not _fits(inner, memory.dtype, self._any_sign):
            raise ArgumentError(
                f"{where}: it must be an array of {inner.scalar}, {_given(value)} has dtype {memory.dtype}"
            )
        if inner is not None and inner.kind == "number" and memory.address % min(_ALIGN, _alignment(inner)):
            align = min(_ALIGN, _alignment(inner))
            raise ArgumentError(f"{where}: its address must be a multiple of {align} bytes: pass a copy")
        if not type.is_const and (memory.immutable or not memory.writable):
            problem = f"{_given(value)} is read-only, and the kernel may write through its pointer"
            raise ArgumentError(f"{where}: {problem}: declare it as a pointer to const, or pass a copy")


class _Table:
    """Addresses in a row, for a pointer to pointers."""

    def __init__(self, addresses: Sequence[int]) -> None:
        self.values = np.array(addresses, np.uint64)
        self.address: int = self.values.__array_interface__["data"][0]


class _Target:
    """Memory that a pointer leads to."""

    __slots__ = ("owner", "region")

    def __init__(self, region: tuple[int, int, bool], owner: object) -> None:
        self.region, self.owner = region, owner


def argument_buffer(
    function: Any,
    argument: str | int,
    values: Mapping[str, Any] | Sequence[Any] | None = None,
    **members: Any,
) -> ArgumentBuffer:
    """The struct that an argument of a kernel takes, filled member by member and ready to be bound, again and again.

    `argument` is its name in the MSL or its [[buffer(n)]]. Members are given as keywords or as a dict, and a list of
    dicts makes several structs in a row. A pointer takes an array, which stays alive as long as the buffer does;
    a nested struct takes a dict, an array a list (what is left out is zero).

    >>> import numpy as np, metalcore
    >>> library = metalcore.Library('''
    ... struct Args { device const float* x; device float* y; float scale; };
    ... kernel void scaled(constant Args& args, uint i [[thread_position_in_grid]]) {
    ...   args.y[i] = args.scale * args.x[i];
    ... }
    ... ''')
    >>> f, y = library.function("scaled"), np.zeros(3, np.float32)
    >>> f(metalcore.argument_buffer(f, "args", x=np.arange(3, dtype=np.float32), y=y, scale=2.0), threads=3)
    >>> y.tolist()
    [0.0, 2.0, 4.0]
    """
    of_shader = hasattr(function, "_function")  # a kernel of compile_shader
    return filled(getattr(function, "_function", function), argument, values, members, any_sign=of_shader)


def filled(
    function: Any, argument: str | int, values: Any, members: Mapping[str, Any], *, any_sign: bool
) -> ArgumentBuffer:
    """As argument_buffer; *any_sign*: a pointer to unsigned integers takes signed ones, and the reverse."""
    binder: Binder | None = getattr(function, "_binder", None)
    if binder is None:
        raise ArgumentError(f"argument_buffer takes a kernel, library.function(name), not {type(function).__name__}")
    found = binder.by_name.get(argument) if isinstance(argument, str) else _at(binder.by_slot, argument)
    if found is None:
        known = ", ".join(binder.by_name) or "none"
        raise ArgumentError(f"kernel '{function.name}' has no argument {argument!r}; it has: {known}")
    if isinstance(values, (list, tuple)) and not members:
        return binder.argument_buffer(found, values, any_sign)
    if values is not None and not isinstance(values, Mapping):
        raise ArgumentError(f"argument_buffer takes members as a dict or as keywords, not {_given(values)}")
    return binder.argument_buffer(found, [{**(values or {}), **members}], any_sign)


def _at(by_slot: Sequence[Any], slot: object) -> Any:
    is_slot = isinstance(slot, int) and not isinstance(slot, bool) and 0 <= slot < len(by_slot)
    return by_slot[slot] if is_slot else None  # type: ignore[call-overload]


def _items(value: Any, count: int, where: str) -> Sequence[Any]:
    if hasattr(value, "tolist") and not isinstance(value, (list, tuple)):
        value = list(value) if getattr(value, "ndim", 1) else [value]
    if not isinstance(value, (list, tuple, range)):
        raise ArgumentError(f"{where}: it is an array of {count}, given as a list, not as {_given(value)}")
    if len(value) > count:
        raise ArgumentError(f"{where}: it is an array of {count}, and {len(value)} are given")
    return value


def _starts(type: Type, base: int = 0) -> Iterator[int]:
    for field in type.fields:
        for i in range(math.prod(field.counts)):
            yield base + field.offset + i * field.type.size
            yield from _starts(field.type, base + field.offset + i * field.type.size)


def _fits(inner: Type, dtype: str, any_sign: bool) -> bool:
    if any_sign and inner.scalar.removeprefix("u").startswith("int"):
        dtype = inner.scalar if dtype.removeprefix("u") == inner.scalar.removeprefix("u") else dtype
    if dtype in (inner.scalar, "bytes") or inner.scalar in _ANY_TYPE:
        return True
    return inner.lanes == 2 and dtype == {"float32": "complex64", "float64": "complex128"}.get(inner.scalar)


def _alignment(inner: Type) -> int:
    return inner.size // (inner.lanes if "packed_vec" in inner.text else inner.columns)


def _spelled(type: Type) -> str:
    """A type as MSL writes it, nearly."""
    text = type.text
    for clang, msl in _SPELLINGS:
        text = text.replace(clang, msl)
    return text


def _given(value: object) -> str:
    from metalcore.engine.runtime.binding import said

    return said(value)


def _unknown(where: str, name: object, type: Type) -> str:
    return f"{where} has no member {name!r}; {_spelled(type)} has: {', '.join(f.name for f in type.fields)}"


def const_pointers(type: Type) -> list[bool]:
    """Of a struct of pointers alone, whether each is to const; empty where there is something else in it."""
    found: list[bool] = []
    for field in type.fields:
        inner = [field.type.is_const] if field.type.kind == "pointer" else const_pointers(field.type)
        if not inner:
            return []
        found += inner * math.prod(field.counts)
    return found if len(found) * 8 == type.size else []
