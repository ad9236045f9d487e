"""Private variables that are read before they have a value.

Every variable has a twin of the same layout whose bytes are not zero where it has no value yet, and every value a
boolean that is true where it was made from such bytes. Copying what has no value is no mistake (structs are copied
whole); it is reported where it decides a branch, is part of an address or goes to memory that others see. LLVM promotes
the twins as it does the variables, and most booleans fold to false.

A variable whose address goes where it cannot be followed (a choice of two pointers, a pointer in memory) counts as set,
and so do bit-fields.
"""

from __future__ import annotations

from metalcore.engine.checks.program import Program, hook, is_lifetime
from metalcore.engine.ir import I1, I8, I32, I64, PTR, VOID, Builder, Instr, Type, Value, integer, make, type_of

CHECK = "uninitialised-variable"
_COPIES, _FILL, _SIMD = ("llvm.memcpy.", "llvm.memmove."), "llvm.memset.", "__mc_simd_"
_MOVED = ("shuffle", "take", "broadcast")


def add(program: Program) -> None:
    _Uninitialised(program).run()


class _Uninitialised:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.origin: dict[Value, Instr] = {}  # pointer -> the variable that it points into
        self.twins: dict[Value, Instr] = {}  # pointer -> the same place in the twin
        self.flags: dict[Value, Value] = {}  # value -> its boolean; without one it surely has a value
        self.masks: dict[Value, Instr] = {}  # value that was loaded -> the bytes of it that have no value
        self.escaped: set[Value] = set()  # pointers into variables that count as set
        self.forwarded = program.forwarded

    # -- pointers ----------------------------------------------------------------------------------
    def _follow(self) -> None:
        """Which variable each pointer points into; variables whose address escapes are dropped."""
        instrs = self.program.instrs
        self.origin = {instr: instr for instr in instrs if instr.op == "alloca"}
        changed = True
        while changed:
            changed = False
            for instr in instrs:
                base = self._base(instr)
                if base in self.origin and instr not in self.origin:
                    self.origin[instr] = self.origin[base]
                    changed = True
        kept = set(self.forwarded.values())
        lost = {self.origin[pointer] for instr in instrs for pointer in self._escaping(instr, kept)}
        self.escaped = {pointer for pointer, variable in self.origin.items() if variable in lost}
        self.origin = {pointer: variable for pointer, variable in self.origin.items() if variable not in lost}

    def _base(self, instr: Instr) -> Value | None:
        """The pointer that another is computed from."""
        return instr.args[0] if instr.op == "getelementptr" else self.forwarded.get(instr)

    def _escaping(self, instr: Instr, kept: set[Value]) -> list[Value]:
        if instr.op in ("alloca", "getelementptr", "load") or is_lifetime(instr) or _is_copy(instr) or _is_fill(instr):
            return []
        if instr.op == "store" and _is_plain(instr):
            value = instr.args[0]
            return [value] if value in self.origin and value not in kept else []
        return [arg for arg in instr.args if arg in self.origin]

    # -- booleans ----------------------------------------------------------------------------------
    def _any(self, values: list[Value], build: Builder) -> Value | None:
        result: Value | None = None
        for flag in dict.fromkeys(self.flags[value] for value in values if value in self.flags):
            result = flag if result is None else build(make.binary("or", result, flag))
        return result

    def _set(self, instr: Instr, flag: Value | None) -> None:
        if flag is not None:
            self.flags[instr] = flag

    def _report(self, instr: Instr, flag: Value | None) -> None:
        if flag is not None:
            self.program.before(instr)(hook("__mc_report_unset", flag, self.program.place(CHECK, instr)))

    def run(self) -> None:
        self._follow()
        instrs = self.program.instrs
        marked = {arg for instr in instrs if is_lifetime(instr) for arg in instr.args}
        for instr in instrs:  # a phi may read what is made further down
            if instr.op == "phi" and instr.type.kind != "ptr":
                self.flags[instr] = Instr("phi", I1, [], self.program.fresh())
        for instr in instrs:
            if instr.op == "alloca":
                self._variable(instr, instr in marked)
            elif instr.op == "getelementptr" or instr in self.forwarded:
                self._pointer(instr)
            elif instr.op == "load":
                self._load(instr)
            elif instr.op == "store":
                self._store(instr)
            elif instr.op == "phi":
                self._phi(instr)
            elif instr.op in ("br", "switch"):
                self._report(instr, self._any(instr.args[:1], self.program.before(instr)))
            elif instr.op == "call":
                self._call(instr)
            elif instr.name:
                self._set(instr, self._any(instr.args, self.program.after(instr)))

    def _variable(self, instr: Instr, has_lifetime: bool) -> None:
        if instr not in self.origin:
            return
        twin = Instr("alloca", PTR, list(instr.args), extra=dict(instr.extra))
        self.twins[instr] = self.program.after(instr)(twin)
        if not has_lifetime:
            self._forget(instr, instr)

    def _forget(self, variable: Instr, at: Instr) -> None:
        """No byte of a variable has a value."""
        size = make.number(I64, type_of(variable, "allocated").size)
        self.program.after(at, placed=False)(_memset(self.twins[variable], -1, size))

    def _pointer(self, instr: Instr) -> None:
        base = self._base(instr)  # none that is known: a threadgroup variable
        if instr in self.origin and base in self.twins:
            twin = self.twins[base]
            if instr.op == "getelementptr":
                twin = self.program.after(instr)(make.address(type_of(instr, "source"), twin, instr.args[1:]))
            self.twins[instr] = twin
        if instr.op == "getelementptr":
            self._set(instr, self._any(instr.args, self.program.after(instr)))

    def _load(self, instr: Instr) -> None:
        pointer = instr.args[0]
        self._report(instr, self.flags.get(pointer))
        twin, bits = self.twins.get(pointer), _bits(instr, instr.type)
        if twin is None and bits is not None and instr.type.kind != "ptr" and pointer not in self.escaped:
            asked = hook("__mc_has_no_value", pointer, make.number(I32, bits // 8))
            self.flags[instr] = self.program.before(instr)(asked)
            return
        if twin is None or bits is None or instr.name.startswith("%bf.load"):
            return  # the first bit-field of a word is set by reading the whole word
        # A small struct is passed as a larger number, of which only some bytes mean anything.
        is_variable = isinstance(pointer, Instr) and pointer.op == "alloca"
        is_whole = is_variable and type_of(self.origin[pointer], "allocated").is_aggregate  # a struct with its padding
        is_whole = is_whole or (isinstance(pointer, Instr) and "coerce" in pointer.name)
        ty = integer(bits)
        build = self.program.after(instr)
        raw = self.masks[instr] = build(make.load(ty, twin, 1))
        self.flags[instr] = build(make.compare("eq" if is_whole else "ne", raw, make.number(ty, -1 if is_whole else 0)))

    def _store(self, instr: Instr) -> None:
        if not _is_plain(instr):
            return
        value, pointer = instr.args
        self._report(instr, self.flags.get(pointer))
        twin, bits, flag = self.twins.get(pointer), _bits(instr, value.type), self.flags.get(value)
        if bits is None:
            return
        if twin is None:
            if pointer not in self.escaped and flag is not None:  # memory that others see
                size, place = make.number(I32, bits // 8), self.program.place(CHECK, instr)
                self.program.after(instr)(hook("__mc_store_unset", pointer, size, flag, place))
            return
        mask: Value | None = self.masks.get(value)  # copied as it is
        if mask is None:
            flag = make.number(I1, 0) if flag is None else flag
            mask = self.program.before(instr)(make.cast("sext", flag, integer(bits)))
        self.program.after(instr)(make.store(mask, twin, 1))

    def _phi(self, instr: Instr) -> None:
        flag = self.flags.get(instr)
        if isinstance(flag, Instr):
            flag.args = [self.flags.get(value) or make.number(I1, 0) for value in instr.args]
            flag.targets = list(instr.targets)
            self.program.after(instr, placed=False)(flag, flag.name)

    def _call(self, instr: Instr) -> None:
        if is_lifetime(instr):
            variable = instr.args[-1]
            if is_lifetime(instr, "start") and variable in self.twins and isinstance(variable, Instr):
                self._forget(variable, instr)
        elif _is_copy(instr):
            to, source = self.twins.get(instr.args[0]), self.twins.get(instr.args[1])
            if to and source:
                args = [to, source, instr.args[2], make.number(I1, 0)]
                self.program.after(instr)(make.call(VOID, "llvm.memmove.p0.p0.i64", args))
            elif to:
                self.program.after(instr, placed=False)(_memset(to, 0, instr.args[2]))
        elif _is_fill(instr):
            if to := self.twins.get(instr.args[0]):
                self.program.after(instr, placed=False)(_memset(to, 0, instr.args[2]))
        elif instr.name:
            build = self.program.after(instr)
            flag = self._any(instr.args, build)
            if flag is not None and instr.callee.startswith(_SIMD):
                flag = self._across_lanes(instr, flag, build)
            self._set(instr, flag)

    def _across_lanes(self, instr: Instr, flag: Value, build: Builder) -> Value:
        """Flags move between lanes as the values do."""
        name = instr.callee.removeprefix(_SIMD)
        first, *rest = instr.args
        is_moved = name.startswith((*_MOVED, "fill_"))
        number = _as_number(self.flags.get(first) if is_moved else flag, build)
        if name.startswith("prefix_"):
            call = self.program.simd(f"{name[:16]}_sum_i32", [number])
        elif name.startswith(_MOVED):
            call = self.program.simd(name, [number, *rest])
        elif name.startswith("fill_"):
            call = self.program.simd(name, [number, _as_number(self.flags.get(rest[0]), build), *rest[1:]])
        else:
            call = self.program.simd("sum_i32", [number])
        return build(make.compare("ne", build(call), make.number(I32, 0)))


def _as_number(flag: Value | None, build: Builder) -> Value:
    return make.number(I32, 0) if flag is None else build(make.cast("zext", flag, I32))


def _memset(pointer: Value, byte: int, size: Value) -> Instr:
    return make.call(VOID, "llvm.memset.p0.i64", [pointer, make.number(I8, byte), size, make.number(I1, 0)])


def _is_copy(instr: Instr) -> bool:
    """Between two places that are no variables of the module."""
    return instr.callee.startswith(_COPIES) and all(isinstance(arg, Instr) and arg.name for arg in instr.args[:2])


def _is_fill(instr: Instr) -> bool:
    return instr.callee.startswith(_FILL) and isinstance(instr.args[0], Instr)


def _is_plain(store: Instr) -> bool:
    """Not atomic, and of a value that has a name or is one number."""
    return not store.extra.get("atomic") and " " not in type_of(store, "stored").spelled


def _bits(access: Instr, ty: Type) -> int | None:
    """Bits of memory that a value takes, where they can be followed."""
    if access.extra.get("atomic"):
        return None
    if ty.is_vector or not (ty.is_int or ty.is_float or ty.is_ptr):
        return None
    if not ty.is_int:
        return ty.bits
    return 8 if ty.bits == 1 else ty.bits if ty.bits % 8 == 0 else None
