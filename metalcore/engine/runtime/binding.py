"""Arguments of a call to addresses and sizes, with an error that names the argument where one does not fit."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from metalcore.arrays.dtypes import dtype_name, type_code
from metalcore.arrays.find import memory_of, tensor_type
from metalcore.arrays.find import module as arrays_of
from metalcore.arrays.memory import Memory, NoMemory
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.argument_buffers import ArgumentBuffer, const_pointers
from metalcore.engine.runtime.values import CONVERT, INTEGERS, SIZES, ValueProblem, sequence_bytes
from metalcore.errors import ArgumentError, LaunchError
from metalcore.launch import COMMON

if TYPE_CHECKING:
    from metalcore.engine.frontend.records import Type
    from metalcore.engine.model import Argument

_address = ctypes.addressof
_from_buffer = ctypes.c_char.from_buffer
_Array = np.ndarray
_LARGEST = (1 << 63) - 1  # what native/python.c reads of an int
# Declared types that stand for raw memory: any dtype may be bound to them.
_BYTE_TYPES = ("int8", "uint8", "struct", "pointer")
Region = tuple[int, int, bool]  # from, to, whether it may be written


class Packed:
    """Bound arguments, as mc_call takes them."""

    __slots__ = ("cells", "data", "fresh", "keep", "n_regions", "regions")

    def __init__(self, data: bytes, regions: Any, n_regions: int, keep: object) -> None:
        self.data, self.regions, self.n_regions, self.keep = data, regions, n_regions, keep
        self.fresh = 0
        """Bit i: nothing was ever written to [[buffer(i)]]."""
        self.cells: Sequence[int] = ()
        """Where addresses of `regions` stand: in memory, or in `data` (~offset). Another process has others there."""

    def address_of(self, slot: int) -> int:
        address: int = struct.unpack_from("=Q", self.data, 16 * slot)[0]
        return address


class _Addresses(bytes):
    """Bytes of which every eight are an address."""


class Binder:
    """Binds the arguments of one kernel."""

    def __init__(
        self, kernel: str, arguments: Sequence[Argument], record_of: Callable[[Argument], Type] | None = None
    ) -> None:
        self.kernel, self._record_of = kernel, record_of
        # Of two arguments with one slot the one that is turned on counts.
        buffers = sorted((a for a in arguments if a.kind in ("buffer", "value")), key=lambda a: a.enabled)
        self.slots = 1 + max((a.index for a in buffers), default=-1)
        self.by_slot: list[Argument | None] = [None] * self.slots
        for argument in buffers:
            self.by_slot[argument.index] = argument
        self.by_name = {a.name: a for a in buffers}
        self._pointers: dict[int, list[bool]] = {}
        self._pack = struct.Struct(f"={2 * self.slots}Q").pack
        self._fast = [_fast_rule(a) for a in self.by_slot]
        self._native = (layout.Rule * max(1, self.slots))(*(_native_rule(rule) for rule in self._fast))
        self.needs = [(0, True, False)] * self.slots
        """Of each slot: the bytes that must be bound, whether nothing will do, whether the kernel may write it."""
        for argument in buffers:
            rule, needs = self._native[argument.index], (*needed_bytes(argument), argument.writable)
            rule.needed, rule.is_optional, rule.is_writable = self.needs[argument.index] = needs
        self.rules = _address(self._native)

    def pack(self, args: tuple[Any, ...], named: Mapping[str, Any], written: frozenset[int]) -> Packed:
        """All arguments; the common cases, arrays of the declared dtype and numbers, are settled at once."""
        if named or len(args) != self.slots:
            args = self.in_slots(args, named)
        pairs: list[int] = []
        inline: list[bytes] = []
        regions: list[Region] = []
        keep: list[object] = []
        cells: list[int] = []
        end = 16 * self.slots
        tensor = tensor_type()
        for slot, (value, rule) in enumerate(zip(args, self._fast)):  # noqa: B905 (lengths are equal here)
            kind = type(value)
            if kind is _Array and value.dtype is rule.dtype:
                try:  # refuses what is read-only, not contiguous or empty
                    address = _address(_from_buffer(value))
                    if not address & rule.misaligned:
                        pairs += (address, value.nbytes)
                        continue
                except (TypeError, ValueError):
                    pass
            elif kind is tensor and dtype_name(value) == rule.scalar:
                found = arrays_of("torch").plain_memory(value)
                if found is not None and not found[0] & rule.misaligned:
                    pairs += found
                    continue
            data: bytes | None = None
            if rule.number is not None and (kind is int or kind is float) and slot not in written:
                try:
                    data = rule.number(value)
                except ValueProblem as problem:
                    raise self._error(self.by_slot[slot], value, str(problem)) from None
            else:
                bound = self._bind(slot, value, written, regions, keep, cells)
                if isinstance(bound, bytes):
                    data = bound
                    if type(bound) is _Addresses:
                        cells += (~at for at in range(end, end + len(data), 8))
                else:
                    pairs += bound
                    continue
            pairs += (end, len(data) | layout.INLINE)
            data += b"\0" * (-len(data) % 16)
            inline.append(data)
            end += len(data)
        if not inline and not regions:
            return Packed(self._pack(*pairs), None, 0, keep)
        packed = self.packed(pairs, regions, keep, b"".join(inline))
        packed.cells = cells
        return packed

    def packed(self, pairs: Sequence[int], regions: list[Region], keep: object, inline: bytes = b"") -> Packed:
        """Addresses and sizes in slot order, what pointers lead to, and the bytes of values."""
        data = self._pack(*pairs) + inline
        return Packed(data, _region_array(regions) if regions else None, len(regions), keep)

    def in_slots(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Positional i goes to [[buffer(i)]], a keyword to the argument of that MSL name."""
        if len(args) > self.slots:
            raise ArgumentError(
                f"kernel '{self.kernel}' takes {self.slots} buffer argument{'s' * (self.slots != 1)} "
                f"({self._signature()}), {len(args)} were given"
            )
        values: dict[int, Any] = dict(enumerate(args))
        for name, value in named.items():
            argument = self.by_name.get(name)
            if argument is None:
                known = ", ".join(self.by_name) or "none"
                raise ArgumentError(f"kernel '{self.kernel}' has no argument named '{name}'; it has: {known}")
            if argument.index in values:
                raise ArgumentError(
                    f"kernel '{self.kernel}': argument '{name}' is given twice, "
                    f"by name and as positional argument {argument.index}"
                )
            values[argument.index] = value
        missing = [a for a in self.by_slot if a is not None and a.enabled and a.index not in values]
        if missing:
            names = ", ".join(f"'{a.name}' ([[buffer({a.index})]])" for a in missing)
            raise ArgumentError(
                f"kernel '{self.kernel}' misses {names}; it takes {self._signature()}, and {len(values)} were given"
            )
        return tuple(values.get(slot) for slot in range(self.slots))

    def const_items(self, argument: Argument) -> list[bool]:
        """Of a list of arrays, whether each goes to a pointer to const; the pattern repeats."""
        if argument.scalar == "struct" and argument.type != "void" and self._record_of is not None:
            found = self._pointers.get(argument.index)
            if found is None:
                found = self._pointers[argument.index] = const_pointers(self._record_of(argument)) or [False]
            return found
        return [leads_to_const(argument)]

    def check_written(self, written: frozenset[int]) -> None:
        """A const argument is never written, however the kernel casts it."""
        for argument in self.by_slot:
            if argument is not None and argument.index in written and not argument.writable:
                said = "constant memory" if argument.space == "constant" else "const"
                mark = "*" if argument.kind == "buffer" else "&"
                problem = f"the kernel writes it, and declares it {said}: declare it as `device {argument.type}{mark}`"
                raise LaunchError(str(self._error(argument, None, problem)))

    def _signature(self) -> str:
        return ", ".join("-" if a is None else f"{a.type} {a.name}" for a in self.by_slot) or "no buffers"

    def _error(self, argument: Argument | None, value: object, problem: str) -> ArgumentError:
        assert argument is not None
        return ArgumentError(
            f"kernel '{self.kernel}', argument {argument.index} '{argument.name}' ({_declared(argument)}): {problem}"
        )

    def _bind(
        self,
        slot: int,
        value: Any,
        written: frozenset[int],
        regions: list[Region],
        keep: list[object],
        cells: list[int],
    ) -> bytes | tuple[int, int]:
        """Address and size of an array, or the bytes of a value."""
        argument = self.by_slot[slot]
        if argument is None:
            if value is not None:
                raise ArgumentError(
                    f"kernel '{self.kernel}' has no [[buffer({slot})]]: pass None there; it takes {self._signature()}"
                )
            return 0, 0
        if value is None or not argument.enabled:
            # A number in constant memory is read when the kernel starts, even where its use is skipped.
            return bytes(argument.element_size) if argument.kind == "value" and argument.space == "constant" else (0, 0)
        if isinstance(value, ArgumentBuffer) or _is_struct(value):
            return self._bind_struct(argument, value, slot in written, regions, keep, cells)
        memory = self._memory(argument, value)
        if memory is not None:
            if memory.dtype == "bytes" and slot not in written and memory.address % needed_alignment(argument):
                self._check_memory(argument, value, memory._replace(address=0), False)
                return bytes(memoryview(value).cast("B"))
            self._check_memory(argument, value, memory, slot in written)
            keep.append(memory.owner)
            return memory.address, memory.size if memory.changeable else memory.size | layout.FIXED
        if slot in written:
            raise self._error(argument, value, f"the kernel writes it, so it must be an array, not {said(value)}")
        if isinstance(value, np.generic):
            return self._scalar_bytes(argument, value)
        if isinstance(value, (list, tuple)) and value and self._memory(argument, value[0], "item 0") is not None:
            return self._addresses(argument, value, regions, keep)
        return self._value_bytes(argument, value)

    def argument_buffer(self, argument: Argument, values: Sequence[Any], any_sign: bool = False) -> ArgumentBuffer:
        """Structs in a row, each from a dict of its members."""
        if argument.scalar != "struct" or self._record_of is None or argument.type == "void":
            raise self._error(argument, None, f"it must be {_wanted(argument)}, not a struct filled by names")
        return ArgumentBuffer(self._record_of(argument), values, f"kernel '{self.kernel}', {argument.name}", any_sign)

    def _bind_struct(
        self,
        argument: Argument,
        value: Any,
        written: bool,
        regions: list[Region],
        keep: list[object],
        cells: list[int],
    ) -> tuple[int, int]:
        if not isinstance(value, ArgumentBuffer):
            value = self.argument_buffer(argument, [value] if isinstance(value, Mapping) else value)
            if written:
                problem = "the kernel writes it: pass metalcore.argument_buffer(...), which can be looked at afterwards"
                raise self._error(argument, value, problem)
        wanted = argument.element_size
        if value.size != wanted if argument.kind == "value" else value.type.size != wanted:
            raise self._error(argument, value, f"it takes structs of {wanted} bytes, not {value!r}")
        regions += value.regions
        cells += value.cells
        keep.append(value.keep)
        return value.address, value.size

    def _memory(self, argument: Argument, value: Any, what: str = "it") -> Memory | None:
        """None where the value is not an array."""
        try:
            return memory_of(value)
        except NoMemory as problem:
            raise self._error(argument, value, f"{what} {problem}") from None

    def _check_memory(self, argument: Argument, value: Any, memory: Memory, written: bool) -> None:
        if not _dtype_fits(argument, memory.dtype):
            wanted = _wanted(argument)
            raise self._error(argument, value, f"it must be {wanted}, {said(value)} has dtype {memory.dtype}")
        self.check_alignment(argument, memory.address)
        if argument.kind == "value" and memory.size < argument.element_size:
            problem = f"it needs {argument.element_size} bytes, {said(value)} has {memory.size}"
            raise self._error(argument, value, problem)
        if memory.dtype == "bytes" and argument.kind == "value" and memory.size != argument.element_size:
            problem = f"it needs exactly {argument.element_size} bytes, {said(value)} has {memory.size}"
            raise self._error(argument, value, problem)
        if not written:
            return
        if memory.immutable:
            framework = type(value).__module__.partition(".")[0]
            problem = f"the kernel writes it, and arrays of {framework} cannot be written: pass a NumPy array"
            raise self._error(argument, value, problem)
        if not memory.writable:
            raise self._error(argument, value, f"the kernel writes it, and {said(value)} is read-only")
        if not memory.contiguous:
            problem = f"the kernel writes it, and {said(value)} is not contiguous: pass a contiguous copy"
            raise self._error(argument, value, problem)

    def check_alignment(self, argument: Argument, address: int) -> None:
        """Metal wants a buffer's address to fit its type, and compiled kernels rely on it."""
        align = needed_alignment(argument)
        if address % align:
            if address % max(argument.element_align, 1) == 0:
                raise LaunchError(
                    f"kernel '{self.kernel}', argument {argument.index} '{argument.name}': a buffer in constant memory "
                    f"starts at a multiple of {align} bytes, and {address:#x} is not: pass a copy"
                )
            what = f"its address must be a multiple of {align} bytes, as {argument.type} needs"
            raise self._error(argument, None, f"{what}, and {address:#x} is not: pass a copy")

    def _scalar_bytes(self, argument: Argument, value: np.generic) -> bytes:
        """A NumPy scalar binds its own bytes."""
        data = value.tobytes()
        size = argument.element_size
        if len(data) != size and not (argument.kind == "buffer" and len(data) % max(size, 1) == 0):
            problem = f"it needs {size} bytes, {said(value)} has {len(data)}: convert it first"
            raise self._error(argument, value, problem)
        return data

    def _value_bytes(self, argument: Argument, value: Any) -> bytes:
        is_sequence = isinstance(value, (list, tuple, range))
        if not is_sequence and (not isinstance(value, (int, float, complex)) or _needs_array(argument)):
            raise self._error(argument, value, f"it must be {_wanted(argument)}, not {said(value)}")
        try:
            data = sequence_bytes(value, argument.scalar, argument.lanes, argument.element_size)
        except ValueProblem as error:
            raise self._error(argument, value, str(error)) from None
        if argument.kind == "value" and len(data) != argument.element_size:
            problem = f"it needs {argument.element_size} bytes, {said(value)} makes {len(data)}"
            raise self._error(argument, value, problem)
        return data

    def _addresses(self, argument: Argument, values: Sequence[Any], regions: list[Region], keep: list[object]) -> bytes:
        """A list of arrays as an array of their addresses; what they point to joins the known regions."""
        if argument.scalar not in ("pointer", "struct", "uint64"):
            raise self._error(argument, values, f"it must be {_wanted(argument)}, not a list of arrays")
        addresses = []
        const = self.const_items(argument)
        for i, value in enumerate(values):
            memory = None if value is None else self._memory(argument, value, f"item {i}")
            if memory is None and value is not None:
                raise self._error(argument, values, f"item {i} of the list is {said(value)}, not an array")
            if memory is None:
                addresses.append(0)
                continue
            is_const = const[i % len(const)]
            if not is_const and (memory.immutable or not memory.writable):
                problem = f"item {i} of the list is read-only, and the kernel may write through its pointer"
                raise self._error(argument, values, problem)
            addresses.append(memory.address)
            regions.append((memory.address, memory.address + memory.size, memory.changeable and not is_const))
            keep.append(memory.owner)
        data = _Addresses(struct.pack(f"={len(addresses)}Q", *addresses))
        if argument.kind == "value" and len(data) != argument.element_size:
            problem = f"it holds {argument.element_size // 8} pointers, the list has {len(addresses)} arrays"
            raise self._error(argument, values, problem)
        return data


class _FastRule:
    """What the common cases are compared with."""

    __slots__ = ("dtype", "misaligned", "number", "number_type", "scalar")

    def __init__(self) -> None:
        self.misaligned = 0  # address bits that must be 0
        self.dtype: Any = None
        self.scalar = ""
        self.number: Any = None
        self.number_type = ""


def needed_alignment(argument: Argument) -> int:
    """Allocators give 16 bytes, which is all that the machine code counts on (ulong4 would be 32)."""
    metal = COMMON.constant_offset_alignment if argument.space == "constant" else 1
    return min(16, max(argument.element_align, metal))


def needed_bytes(argument: Argument) -> tuple[int, bool]:
    """Bytes that must be bound, and whether nothing at all will do. Compiled code reads a reference to constant memory
    without a test of its own, and numbers when the kernel starts, even where a function constant turns them off."""
    if argument.kind != "value":
        return 0, True
    return argument.element_size, argument.space != "constant"


def leads_to_const(argument: Argument) -> bool:
    """Whether the argument holds pointers to const, as in `device const float* constant* x`."""
    return argument.scalar == "pointer" and re.search(r"\bconst\b", argument.type) is not None


def _fast_rule(argument: Argument | None) -> _FastRule:
    rule = _FastRule()
    if argument is None or not argument.enabled or argument.scalar not in SIZES:
        return rule
    if argument.kind == "value":
        if not argument.writable and argument.lanes == 1 and argument.element_size == SIZES[argument.scalar]:
            rule.number, rule.number_type = CONVERT[argument.scalar], argument.scalar
        return rule
    rule.scalar = argument.scalar
    rule.misaligned = needed_alignment(argument) - 1
    if argument.scalar != "bfloat16":
        rule.dtype = np.dtype(argument.scalar)
    return rule


def _native_rule(rule: _FastRule) -> layout.Rule:
    """The same for native/python.c, which binds NumPy arrays, floats and integers."""
    if rule.scalar:
        shape = 0 if rule.dtype is None else ord(rule.dtype.char)
        size = type_code(rule.scalar, SIZES[rule.scalar])
        return layout.Rule(layout.RULE_ARRAY, shape, rule.misaligned, size)
    kind = rule.number_type
    if kind == "float32":
        return layout.Rule(layout.RULE_FLOAT, size=4)
    if kind in INTEGERS:
        bounds = np.iinfo(kind)
        return layout.Rule(layout.RULE_INTEGER, size=SIZES[kind], low=bounds.min, high=min(bounds.max, _LARGEST))
    return layout.Rule()


def _dtype_fits(argument: Argument, dtype: str) -> bool:
    if dtype in (argument.scalar, "bytes") or argument.scalar in _BYTE_TYPES or argument.type == "void":
        return True
    complex_type = {"float32": "complex64", "float64": "complex128"}.get(argument.scalar)
    return dtype == complex_type and argument.lanes == 2


def _needs_array(argument: Argument) -> bool:
    return argument.kind == "buffer" and argument.space != "constant"


def _is_struct(value: Any) -> bool:
    """Whether a value is a struct by its members' names, or a list of such."""
    return isinstance(value, Mapping) or (
        isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Mapping)
    )


def _wanted(argument: Argument) -> str:
    kind = argument.scalar if argument.scalar in SIZES else argument.type
    if argument.scalar == "pointer":
        return "a list of arrays"
    if argument.kind == "buffer":
        return f"an array of {kind}"
    if argument.scalar == "struct":
        size = argument.element_size
        return f"a dict of the members of {argument.type}, or its {size} bytes (bytes, ctypes.Structure, NumPy record)"
    return f"a number or an array of {kind}" if argument.lanes == 1 else f"{argument.lanes} numbers of {kind}"


def _declared(argument: Argument) -> str:
    """The argument's type as MSL writes it."""
    const = "const " if argument.space == "device" and not argument.writable else ""
    return f"{argument.space or 'device'} {const}{argument.type}{'*' if argument.kind == 'buffer' else '&'}"


def said(value: object) -> str:
    """A short description of what was given."""
    kind = type(value)
    if isinstance(value, np.ndarray):
        return f"the NumPy array of {value.dtype} {value.shape}"
    if isinstance(value, np.generic):
        return f"the NumPy scalar {value!r}"
    if isinstance(value, (bool, int, float, complex)):
        return f"the {kind.__name__} {value!r}"
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return f"the given {name}" if name else repr(value)


def _region_array(regions: list[Region]) -> Any:
    """Sorted regions, with the room behind them that mc_call needs."""
    flat = [number for region in sorted(regions) for number in region]
    return (ctypes.c_uint64 * (len(flat) + 3 * layout.BUFFERS))(*flat)
