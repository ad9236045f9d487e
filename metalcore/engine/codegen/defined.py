"""What C++ leaves undefined gets a value in a kernel's unoptimised IR, before LLVM may draw conclusions from it.

x / 0 is 0, x % 0 is x, INT_MIN / -1 wraps; a shift takes the low bits of its count; a number that does not fit an
integer becomes the nearest one, a NaN 0; a function without a return at its end returns zeros; a bool in memory is true
where it is not zero. LLVM folds what it can prove, so a divisor that is known costs nothing.
"""

from __future__ import annotations

import re

_LINE = re.compile(
    r"  (%\S+) = (?:(?P<divide>[us](?:div|rem)) (?:exact )?|(?P<shift>shl|lshr|ashr) (?:nuw |nsw |exact )*)"
    r"i(?P<bits>\d+) (?P<a>\S+), (?P<b>[^\s,]+)(?P<tail>.*)"
)
_TO_INT = re.compile(r"  (%\S+) = (fpto[us]i) (half|bfloat|float|double) (\S+) to i(\d+)(.*)")
_DEFINE = re.compile(r'define (.*?)@(?:"[^"]*"|[-\w.$]+)\(')
_NO_TYPE = re.compile(
    r"\b(?:dso_local|internal|linkonce_odr|weak_odr|hidden|protected|noundef|nonnull|signext|zeroext|noalias|inreg"
    r"|fastcc|ccc|align \d+|\w+\([^()]*(?:\([^()]*\))?\))(?=\s)"
)
_BOOL = re.compile(r"  (%\S+) = load i8, .*, !range !\d+")
_TO_BOOL = re.compile(r"(  %\S+ = )trunc (?:nuw )?(?:nsw )?i8 (%\S+?) to i1(.*)")
_RANGE = re.compile(r", !range !\d+|, !nonnull !\d+|(?<=[ (])nonnull (?=align|ptr|%|noundef|deref)")
_POISONED_AT = re.compile(r"(@llvm\.(?:ctlz|cttz|abs)\.i\d+\(i\d+ [^,]+, i1) true\)")
_SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


def without_promises(text: str) -> str:
    """IR that promises LLVM nothing about values: no ranges, no assumptions, no place that is never reached."""
    if "unreachable" not in text and "!range" not in text and "@llvm.assume(" not in text and "nonnull" not in text:
        return text
    out: list[str] = []
    bools: set[str] = set()
    returned = "void"
    for line in text.split("\n"):
        if line.startswith("define "):
            head = _DEFINE.match(line)
            returned = " ".join(_NO_TYPE.sub("", head[1]).split()) if head else "void"
            bools = set()
        elif line.startswith("  unreachable"):
            value = "" if returned == "void" else " zeroinitializer"
            line = f"  ret {returned}{value}{line[len('  unreachable') :]}"
        elif "@llvm.assume(" in line and not line.startswith("declare "):
            continue
        elif "!range" in line and (loaded := _BOOL.match(line)):
            bools.add(loaded[1])
        elif " trunc " in line and (test := _TO_BOOL.match(line)) and test[2] in bools:
            line = f"{test[1]}icmp ne i8 {test[2]}, 0{test[3]}"
        out.append(_RANGE.sub("", line) if "!range" in line or "nonnull" in line else line)
    return "\n".join(out)


def with_values(text: str) -> str:
    """IR in which every division, shift and conversion to an integer has a value, whatever its operands are, and an
    index of 64 bits may lead back in its array."""
    return "\n".join(_Values().run(text.replace("getelementptr inbounds nuw ", "getelementptr inbounds ").split("\n")))


class _Values:
    def __init__(self) -> None:
        self.out: list[str] = []
        self.declared: set[str] = set()
        self.count = 0

    def run(self, lines: list[str]) -> list[str]:
        for line in lines:
            found = _LINE.match(line)
            if found and found["divide"]:
                self._divide(line, found)
            elif found:
                self._shift(line, found)
            elif " = fpto" in line and (found := _TO_INT.match(line)):
                self._to_int(found)
            else:
                self.out.append(_POISONED_AT.sub(r"\1 false)", line) if " true)" in line else line)
        there = {line.split("(")[0] for line in lines if line.startswith("declare ")}
        return self.out + [d for d in sorted(self.declared) if d.split("(")[0] not in there]

    def _temp(self, text: str, tail: str) -> str:
        self.count += 1
        self.out.append(f"  %mc.def{self.count} = {text}{_debug(tail)}")
        return f"%mc.def{self.count}"

    def _divide(self, line: str, found: re.Match[str]) -> None:
        result, op, a, b, tail = found[1], found["divide"], found["a"], found["b"], found["tail"]
        ty, signed, quotient = f"i{found['bits']}", op[0] == "s", op.endswith("div")
        known = _number(b)
        if known is not None and known != 0 and not (signed and known == -1):
            self.out.append(line)
        elif known == 0:
            self.out.append(f"  {result} = or {ty} {'0' if quotient else a}, 0{_debug(tail)}")
        elif known == -1:
            self.out.append(f"  {result} = {f'sub {ty} 0, {a}' if quotient else f'or {ty} 0, 0'}{_debug(tail)}")
        elif not signed:
            zero = self._temp(f"icmp eq {ty} {b}, 0", tail)
            safe = self._temp(f"select i1 {zero}, {ty} 1, {ty} {b}", tail)
            part = self._temp(f"{op} {ty} {a}, {safe}", tail)
            self.out.append(f"  {result} = select i1 {zero}, {ty} {'0' if quotient else a}, {ty} {part}{_debug(tail)}")
        else:
            # Of 0 and -1 at once: a * 0 is 0 and a * -1 is -a; a & ~0 is a and a & ~-1 is 0.
            next_to = self._temp(f"add {ty} {b}, 1", tail)
            special = self._temp(f"icmp ult {ty} {next_to}, 2", tail)
            safe = self._temp(f"select i1 {special}, {ty} 1, {ty} {b}", tail)
            part = self._temp(f"{op} {ty} {a}, {safe}", tail)
            if quotient:
                other = self._temp(f"mul {ty} {a}, {b}", tail)
            else:
                other = self._temp(f"and {ty} {a}, {self._temp(f'xor {ty} {b}, -1', tail)}", tail)
            self.out.append(f"  {result} = select i1 {special}, {ty} {other}, {ty} {part}{_debug(tail)}")

    def _shift(self, line: str, found: re.Match[str]) -> None:
        bits, known = int(found["bits"]), _number(found["b"])
        if bits & (bits - 1) or (known is not None and 0 <= known < bits):
            self.out.append(line)
            return
        count = str(known & (bits - 1)) if known is not None else ""
        count = count or self._temp(f"and i{bits} {found['b']}, {bits - 1}", found["tail"])
        self.out.append(f"  {found[1]} = {found['shift']} i{bits} {found['a']}, {count}{_debug(found['tail'])}")

    def _to_int(self, found: re.Match[str]) -> None:
        result, op, real, value, bits, tail = found[1], found[2], found[3], found[4], int(found[5]), found[6]
        wide = bits if bits >= 32 else 32  # a narrow one takes the low bits, as C++ does from int
        name = f"llvm.{op if bits >= 32 else 'fptosi'}.sat.i{wide}.{_SUFFIX[real]}"
        self.declared.add(f"declare i{wide} @{name}({real})")
        call = f"call i{wide} @{name}({real} {value})"
        if bits >= 32:
            self.out.append(f"  {result} = {call}{_debug(tail)}")
        else:
            self.out.append(f"  {result} = trunc i32 {self._temp(call, tail)} to i{bits}{_debug(tail)}")


def _number(text: str) -> int | None:
    return int(text) if text.lstrip("-").isdigit() else None


def _debug(tail: str) -> str:
    found = re.search(r", !dbg !\d+", tail)
    return found[0] if found else ""
