"""Private variables that are read before they have a value.

Every variable has a twin of the same layout whose bytes are not zero where it has no value yet, and every value a
boolean that is true where it was made from such bytes. Copying what has no value is no mistake (structs are copied
whole); it is reported where it decides a branch, is part of an address or goes to memory that others see. LLVM promotes
the twins as it does the variables, and most booleans fold to false.

A variable whose address goes where it cannot be followed (a choice of two pointers, a pointer in memory) counts as set,
and so do bit-fields.
"""

from __future__ import annotations

import re

from metalcore.engine.checks.program import LIFETIME, LOAD, NAME, STORE, Line, Program

CHECK = "uninitialised-variable"
_ALLOCA = re.compile(r"^alloca (.+?), align (\d+)")
_GEP = re.compile(rf"^getelementptr (.*?), ptr ({NAME})(.*)$")
_COPY = re.compile(rf"^call void @llvm\.mem(?:cpy|move)\.\S+\(ptr [^,]*?({NAME}), ptr [^,]*?({NAME}), (i\d+ \S+), i1")
_FILL = re.compile(rf"^call void @llvm\.memset\.\S+\(ptr [^,]*?({NAME}), i8 (\S+), (i\d+ \S+), i1")
_SIMD = re.compile(r"^(?:tail )?call [^@]*@__mc_simd_(\w+)\((.*?)\)(?: #\d+)?(?:, !|$)")
_BITS = {"float": 32, "half": 16, "bfloat": 16, "double": 64, "ptr": 64, "i1": 8}


def add(program: Program) -> None:
    _Uninitialised(program).run()


class _Uninitialised:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.sizes: dict[str, str] = {}  # variable -> its type
        self.origin: dict[str, str] = {}  # pointer -> the variable that it points into
        self.twins: dict[str, str] = {}  # pointer -> the same place in the twin
        self.flags: dict[str, str] = {}  # value -> its boolean
        self.masks: dict[str, str] = {}  # value that was loaded -> the bytes of it that have no value
        self.escaped: set[str] = set()  # pointers into variables that count as set
        self.forwarded = program.forwarded

    # -- pointers ----------------------------------------------------------------------------------
    def _follow(self) -> None:
        """Which variable each pointer points into; variables whose address escapes are dropped."""
        for line in self.program.lines:
            variable = _ALLOCA.match(line.body)
            if variable:
                self.sizes[line.result], self.origin[line.result] = variable[1], line.result
        changed = True
        while changed:
            changed = False
            for line in self.program.lines:
                base = self.forwarded.get(line.result)
                gep = _GEP.match(line.body) if line.op == "getelementptr" else None
                base = gep[2] if gep else base
                if base in self.origin and line.result not in self.origin:
                    self.origin[line.result] = self.origin[base]
                    changed = True
        lost = {self.origin[name] for line in self.program.lines for name in self._escaping(line)}
        self.escaped = {name for name, variable in self.origin.items() if variable in lost}
        self.origin = {name: variable for name, variable in self.origin.items() if variable not in lost}

    def _escaping(self, line: Line) -> list[str]:
        body = line.body
        if line.op in ("alloca", "getelementptr", "load") or LIFETIME.match(body) or _COPY.match(body):
            return []
        if _FILL.match(body):
            return []
        stored = STORE.match(body)
        if stored:
            kept = stored[2] in self.origin and not any(v == stored[2] for v in self.forwarded.values())
            return [stored[2]] if kept else []
        return [name for name in line.operands() if name in self.origin]

    # -- booleans ----------------------------------------------------------------------------------
    def flag(self, name: str) -> str:
        return self.flags.get(name, "false")

    def _any(self, names: list[str], line: Line, to: list[str]) -> str:
        flags = [f for f in dict.fromkeys(self.flag(n) for n in names) if f != "false"]
        result = flags[0] if flags else "false"
        for other in flags[1:]:
            both = self.program.temp()
            to.append(f"  {both} = or i1 {result}, {other}{line.debug}")
            result = both
        return result

    def _report(self, line: Line, flag: str) -> None:
        if flag != "false":
            number = self.program.place(CHECK, line)
            line.before.append(f"  call void @__mc_report_unset(i1 {flag}, i32 {number}){line.debug}")

    def run(self) -> None:
        self._follow()
        lines = self.program.lines
        marked = {m[2] for line in lines if (m := LIFETIME.match(line.body))}
        for line in lines:  # a phi may read what is made further down
            if line.op == "phi" and not line.body.startswith("phi ptr"):
                self.flags[line.result] = self.program.temp()
        for line in lines:
            if line.op == "alloca":
                self._variable(line, line.result in marked)
            elif line.op == "getelementptr" or line.result in self.forwarded:
                self._pointer(line)
            elif line.op == "load":
                self._load(line)
            elif line.op == "store":
                self._store(line)
            elif line.op == "phi":
                self._phi(line)
            elif line.op in ("br", "switch"):
                self._report(line, self._any(line.operands()[:1], line, line.before))
            elif line.op == "call":
                self._call(line)
            elif line.result:
                self.flags[line.result] = self._any(line.operands(), line, line.after)

    def _variable(self, line: Line, has_lifetime: bool) -> None:
        if line.result not in self.origin:
            return
        twin = self.twins[line.result] = self.program.temp()
        line.after.append(f"  {twin} = {line.body}")
        if not has_lifetime:
            self._forget(twin, line.result, line)

    def _forget(self, twin: str, variable: str, line: Line) -> None:
        """No byte of a variable has a value; LLVM counts them from its type."""
        end, size = self.program.temp(), self.program.temp()
        line.after += [
            f"  {end} = getelementptr {self.sizes[variable]}, ptr null, i64 1",
            f"  {size} = ptrtoint ptr {end} to i64",
            _memset(twin, -1, f"i64 {size}"),
        ]

    def _pointer(self, line: Line) -> None:
        gep = _GEP.match(line.body) if line.op == "getelementptr" else None
        base = gep[2] if gep else self.forwarded.get(line.result, "")  # none: a threadgroup variable
        if line.result in self.origin and base in self.twins:
            if gep:
                twin = self.twins[line.result] = self.program.temp()
                line.after.append(f"  {twin} = getelementptr {gep[1]}, ptr {self.twins[base]}{gep[3]}")
            else:
                self.twins[line.result] = self.twins[base]
        if line.op == "getelementptr":
            self.flags[line.result] = self._any(line.operands(), line, line.after)

    def _load(self, line: Line) -> None:
        loaded = LOAD.match(line.body)
        if loaded is None:
            return
        self._report(line, self.flag(loaded[2]))
        twin, bits = self.twins.get(loaded[2]), _bits(loaded[1])
        if twin is None and bits is not None and loaded[1] != "ptr" and loaded[2] not in self.escaped:
            flag = self.flags[line.result] = self.program.temp()
            line.before.append(f"  {flag} = call i1 @__mc_has_no_value(ptr {loaded[2]}, i32 {bits // 8}){line.debug}")
            return
        if twin is None or bits is None or line.result.startswith("%bf.load"):
            return  # the first bit-field of a word is set by reading the whole word
        # A small struct is passed as a larger number, of which only some bytes mean anything.
        is_whole = self.sizes.get(loaded[2], " ")[0] in "%{["  # a struct with its padding
        test = "eq" if is_whole or "coerce" in loaded[2] else "ne"
        raw, flag = self.program.temp(), self.program.temp()
        line.after += [
            f"  {raw} = load i{bits}, ptr {twin}, align 1{line.debug}",
            f"  {flag} = icmp {test} i{bits} {raw}, {-1 if test == 'eq' else 0}{line.debug}",
        ]
        self.flags[line.result], self.masks[line.result] = flag, raw

    def _store(self, line: Line) -> None:
        stored = STORE.match(line.body)
        if stored is None:
            return
        self._report(line, self.flag(stored[3]))
        twin, bits, flag = self.twins.get(stored[3]), _bits(stored[1]), self.flag(stored[2])
        if twin is None:
            if stored[3] not in self.escaped and flag != "false" and bits is not None:  # memory that others see
                to = f"ptr {stored[3]}, i32 {bits // 8}, i1 {flag}, i32 {self.program.place(CHECK, line)}"
                line.after.append(f"  call void @__mc_store_unset({to}){line.debug}")
        elif bits is not None:
            wide = self.masks.get(stored[2])  # copied as it is
            if wide is None:
                wide = self.program.temp()
                line.before.append(f"  {wide} = sext i1 {flag} to i{bits}{line.debug}")
            line.after.append(f"  store i{bits} {wide}, ptr {twin}, align 1{line.debug}")

    def _phi(self, line: Line) -> None:
        if line.result not in self.flags:
            return
        pairs = re.findall(rf"\[ ([^,]+), ({NAME}) \]", line.body)
        incoming = ", ".join(f"[ {self.flag(value)}, {block} ]" for value, block in pairs)
        line.after.append(f"  {self.flags[line.result]} = phi i1 {incoming}")

    def _call(self, line: Line) -> None:
        scope, copy, fill = LIFETIME.match(line.body), _COPY.match(line.body), _FILL.match(line.body)
        if scope:
            if scope[1] == "start" and scope[2] in self.twins:
                self._forget(self.twins[scope[2]], scope[2], line)
        elif copy:
            to, source = self.twins.get(copy[1]), self.twins.get(copy[2])
            if to and source:
                arguments = f"ptr {to}, ptr {source}, {copy[3]}, i1 false"
                line.after.append(f"  call void @llvm.memmove.p0.p0.i64({arguments}){line.debug}")
            elif to:
                line.after.append(_memset(to, 0, copy[3]))
        elif fill:
            if fill[1] in self.twins:
                line.after.append(_memset(self.twins[fill[1]], 0, fill[3]))
        elif line.result:
            flag = self._any(line.operands(), line, line.after)
            simd = _SIMD.match(line.body) if flag != "false" else None
            self.flags[line.result] = self._across_lanes(line, flag, *simd.groups()) if simd else flag

    def _as_number(self, flag: str, line: Line) -> str:
        if flag == "false":
            return "0"
        number = self.program.temp()
        line.after.append(f"  {number} = zext i1 {flag} to i32{line.debug}")
        return number

    def _across_lanes(self, line: Line, flag: str, name: str, operands: str) -> str:
        """Flags move between lanes as the values do."""
        moved, result = self.program.temp(), self.program.temp()
        first, *rest = operands.split(", ")
        is_moved = name.startswith(("shuffle", "take", "broadcast", "fill_"))
        number = self._as_number(self.flag(first.split()[-1]) if is_moved else flag, line)
        if name.startswith("prefix_"):
            call = f"@__mc_simd_{name[:16]}_sum_i32(i32 {number})"
        elif name.startswith(("shuffle", "take", "broadcast")):
            call = f"@__mc_simd_{name}({', '.join([f'i32 {number}', *rest])})"
        elif name.startswith("fill_"):
            fill = self._as_number(self.flag(rest[0].split()[-1]), line)
            call = f"@__mc_simd_{name}({', '.join([f'i32 {number}', f'i32 {fill}', *rest[1:]])})"
        else:
            call = f"@__mc_simd_sum_i32(i32 {number})"
        self.program.need_simd(call)
        line.after += [
            f"  {moved} = call i32 {call}{line.debug}",
            f"  {result} = icmp ne i32 {moved}, 0{line.debug}",
        ]
        return result


def _memset(pointer: str, byte: int, size: str) -> str:
    return f"  call void @llvm.memset.p0.i64(ptr {pointer}, i8 {byte}, {size}, i1 false)"


def _bits(type_text: str) -> int | None:
    if type_text in _BITS:
        return _BITS[type_text]
    return int(type_text[1:]) if re.fullmatch(r"i\d+", type_text) and int(type_text[1:]) % 8 == 0 else None
