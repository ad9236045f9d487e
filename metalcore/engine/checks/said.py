"""What threads say: os_log and assert, which the headers make calls of __mc_say (include/metal_logging.h).

`__mc_say(text, LINE, level)` begins a line, calls with a value's kind follow for each value in it; `FAILURE` is an
assertion that does not hold. Fast mode takes them out before anything is optimised. In other modes each becomes
`__mc_tell(place, value)` or `__mc_report_if(true, place)`, and its place says the rest.
"""

from __future__ import annotations

from metalcore.engine.checks.program import HOOKS
from metalcore.engine.ir import Const, Edits, Function, Global, Instr, Module, Names, Parameter, make
from metalcore.engine.ir.initial import bytes_of, initial_value
from metalcore.engine.ir.types import I1, I32, I64, VOID
from metalcore.engine.model import ASSERTION, LEVELS, LOG, VALUES, Place
from metalcore.engine.printf import Conversion, conversions
from metalcore.errors import CompileError, UnsupportedFeature

SAY, TELL, REPORT = "__mc_say", "__mc_tell", "__mc_report_if"
_LINE, _FAILURE = 0, 1


def refuse_hooks(raw: Module) -> None:
    """No source has them: their numbers would be taken for places of ours."""
    for name in (TELL, *HOOKS):
        if name in raw.functions:
            raise UnsupportedFeature(f"a call of '{name}' in a source")


def silence(raw: Module) -> None:
    """Threads say nothing."""
    for function in list(raw.defined()):
        edits = Edits(function, Names(""))
        for instr in function.naming(SAY):
            edits.remove(instr)
        if not edits.is_empty:
            edits.apply()


def place_sayings(module: Module, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """Give each saying of optimised code a number: the places known so far, and those."""
    calls = [instr for instr in module.function.instructions() if instr.op == "call" and instr.callee == SAY]
    if not calls:  # what is declared would keep a kernel from being cut at its barriers
        return places
    sayings = _Sayings(module, list(places))
    for call in calls:
        sayings.place(call)
    sayings.finish()
    return tuple(sayings.places)


class _Sayings:
    def __init__(self, module: Module, places: list[Place]) -> None:
        self.module, self.places = module, places
        self.edits = Edits(module.function, Names(module.unused_prefix("said")))
        self.line: Place | None = None  # the one that values go to
        self.missing: list[Conversion] = []  # its conversions that have no value yet

    def place(self, instr: Instr) -> None:
        kind = _number(instr.args[1])
        build = self.edits.before(instr)
        if kind == _FAILURE:
            place = self._place(ASSERTION, instr, _text(self.module, instr))
            build(make.call(VOID, REPORT, [make.number(I1, 1), place]))
        elif kind == _LINE:
            self._end()
            text = _text(self.module, instr)
            place = self._place(LOG + LEVELS[_number(instr.args[2])], instr, text)
            self.line = self.places[-1]
            self.missing = _conversions(text, self.line)
            build(make.call(VOID, TELL, [place, make.number(I64, 0)]))
        else:
            if self.line is None or not self.missing:
                raise _wrong(self.line, "has fewer conversions than values")
            if self.missing[0].take():
                self.missing.pop(0)
            place = self._place(VALUES[kind], instr, "")
            build(make.call(VOID, TELL, [place, instr.args[2]]))
        self.edits.remove(instr)

    def _end(self) -> None:
        if self.missing:
            raise _wrong(self.line, "has more conversions than values")
        self.line = None

    def _place(self, check: str, instr: Instr, detail: str) -> Const:
        found = self.module.locations.get(instr.line) if instr.line else None
        column = found.column if found and check != ASSERTION else 0  # a macro's is none of the source
        where = (found.file, found.line, column) if found else ("", 0, 0)
        self.places.append(Place(check, *where, detail))
        return make.number(I32, len(self.places) - 1)

    def finish(self) -> None:
        self._end()
        self.edits.apply()
        declare_reports(self.module)


def declare_reports(module: Module) -> None:
    """Two calls stay two: each names its place."""
    group = module.attribute_group(["nomerge", "nounwind", "memory(inaccessiblemem: readwrite)"])
    for name, types in ((TELL, (I32, I64)), (REPORT, (I1, I32))):
        parameters = [Parameter(ty, "", []) for ty in types]
        module.declare(Function(f"@{name}", VOID, parameters, suffix=[group]))


def _number(value: object) -> int:
    assert isinstance(value, Const) and value.value is not None  # metal_logging.h writes numbers
    return value.value


def _text(module: Module, instr: Instr) -> str:
    """The literal that a saying names."""
    literal = instr.args[0]
    if not isinstance(literal, Global) or not literal.constant:
        raise UnsupportedFeature("os_log with a format that is not one string literal")
    return bytes_of(initial_value(module, literal)).rstrip(b"\0").decode(errors="replace")


def _conversions(text: str, line: Place) -> list[Conversion]:
    try:
        return conversions(text)
    except ValueError as error:
        raise _wrong(line, str(error)) from None


def _wrong(line: Place | None, what: str) -> CompileError:
    where = f"{line.file}:{line.line}:{line.column}: " if line else ""
    text = line.detail if line else ""
    return CompileError(f"{where}error: the format of os_log, {text!r}, {what}")
