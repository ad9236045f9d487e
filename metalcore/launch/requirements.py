"""What a kernel declares about its launches, in comments that Apple's compiler does not see.

// metalcore: requires(threads_per_threadgroup % 32 == 0)
// metalcore: requires(n % 4 == 0, "rows are read as float4")
// metalcore: allows(partial_simdgroups)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from metalcore.errors import LaunchError
from metalcore.launch.declaration import ALLOWS, PARTIAL_SIMDGROUPS, REQUIRES, Requirement
from metalcore.launch.expression import Expression, ExpressionError, Value

if TYPE_CHECKING:
    from metalcore.launch.shape import Shape

SHAPE_NAMES = (
    "group_size",
    "threads",
    "threadgroups",
    "threads_per_threadgroup",
    "simdgroups_per_threadgroup",
    "threadgroup_memory",
    "full_groups",
)
"""Names that every launch has; `group_size`, `threads` and `threadgroups` have .x, .y, .z and .total."""
PARTS = ("x", "y", "z")
_COMMENT = re.compile(r"metalcore:\s*(?P<word>[A-Za-z_]+)\s*\(")
_AGAIN = re.compile(r"\s*,?\s*(?P<word>[A-Za-z_]+)\s*\(")
_ALMOST = ("require", "required", "requirement", "assume", "assumes", "expects", "allow", "allowed")


def find(comment: str) -> Iterator[tuple[str, str, str]]:
    """Word, expression and note of each declaration in the text of a line; raises ExpressionError.

    >>> list(find("// metalcore: requires(n % 4 == 0, \\"float4 rows\\")"))
    [('requires', 'n % 4 == 0', 'float4 rows')]
    """
    match = _COMMENT.search(comment)
    while match is not None:
        word = match["word"]
        if word in _ALMOST:
            raise ExpressionError(f"'metalcore: {word}(...)' is not known: there are {REQUIRES}(...) and {ALLOWS}(...)")
        if word not in (REQUIRES, ALLOWS):
            return  # a comment for another part of metalcore
        inner, end = _bracketed(comment, match.end())
        yield word, *_split(inner)
        match = _AGAIN.match(comment, end)


def _bracketed(text: str, start: int) -> tuple[str, int]:
    """What stands up to the partner of the bracket before `start`, and the place behind it."""
    depth, quoted = 1, False
    for i in range(start, len(text)):
        if text[i] == '"':
            quoted = not quoted
        elif not quoted:
            depth += (text[i] == "(") - (text[i] == ")")
            if depth == 0:
                return text[start:i], i + 1
    raise ExpressionError(f"a ')' is missing behind 'metalcore: ...({text[start:].strip()}'")


def _split(inner: str) -> tuple[str, str]:
    match = re.fullmatch(r'(?P<expression>[^"]*?)(?:,\s*"(?P<note>[^"]*)"\s*)?', inner.strip())
    if match is None:
        raise ExpressionError(f"'{inner.strip()}' is not an expression and, where wanted, a comma and a text in quotes")
    return match["expression"].strip(), match["note"] or ""


@dataclass(frozen=True)
class Condition:
    """A requirement made ready to be looked at."""

    requirement: Requirement
    expression: Expression
    on_arguments: bool  # it names an argument, so it is looked at in each launch


@dataclass(frozen=True)
class Conditions:
    """All requirements of one kernel."""

    kernel: str
    constants: Mapping[str, Value] = field(default_factory=dict)
    of_shape: tuple[Condition, ...] = ()
    of_arguments: tuple[Condition, ...] = ()
    allowed: frozenset[str] = frozenset()

    def check_shape(self, shape: Shape, memory: int) -> None:
        """Raise LaunchError where a requirement on the launch alone does not hold."""
        names = shape_names(shape, memory) if self.of_shape else {}
        for condition in self.of_shape:
            self._check(condition, lambda name: _named(name, names, self.constants))

    def check_arguments(self, shape: Shape, memory: int, argument: Callable[[str], Value]) -> None:
        """Raise LaunchError where a requirement on arguments does not hold; `argument` gives a value by its name."""
        names = shape_names(shape, memory)

        def lookup(name: str) -> Value:
            known = _named(name, names, self.constants, None)
            return argument(name) if known is None else known

        for condition in self.of_arguments:
            self._check(condition, lookup)

    def _check(self, condition: Condition, lookup: Callable[[str], Value]) -> None:
        requirement, expression = condition.requirement, condition.expression
        says = f"kernel '{self.kernel}' requires {expression.text} ({requirement.place})"
        try:
            if expression.evaluate(lookup):
                return
        except ExpressionError as error:
            raise LaunchError(f"{says}, which has no value in this launch: {error}") from None
        here = ", ".join(f"{name} is {_shown(lookup(name))}" for name in expression.names)
        change = "the arguments or the launch" if condition.on_arguments else "the launch"
        here = f", and {here}" if here else ""
        raise LaunchError(f"{says}{here}: {requirement.note or f'change {change} so that this holds'}")


def conditions(
    kernel: str, requirements: Iterable[Requirement], arguments: Iterable[Any], constants: Mapping[str, Value]
) -> Conditions:
    """Parse the requirements of a kernel; raises ExpressionError for one that names what there is not."""
    fields: dict[str, bool] = {}  # what may be named of the arguments
    for argument in arguments:
        fields |= dict.fromkeys(argument_names(argument), True)
    of_shape: list[Condition] = []
    of_arguments: list[Condition] = []
    allowed = []
    for requirement in requirements:
        if requirement.word == ALLOWS:
            if requirement.expression != PARTIAL_SIMDGROUPS:
                raise ExpressionError(f"{ALLOWS}({requirement.expression}) is not known, only {PARTIAL_SIMDGROUPS}")
            allowed.append(requirement.expression)
            continue
        expression = Expression(requirement.expression)
        for name in expression.names:
            root, _, part = name.partition(".")
            is_shape = root in SHAPE_NAMES and (not part or (root in SHAPE_NAMES[:3] and part in (*PARTS, "total")))
            if not is_shape and name not in constants and name not in fields:
                raise ExpressionError(_unknown(name, fields, constants))
        on_arguments = any(name in fields and name not in constants for name in expression.names)
        (of_arguments if on_arguments else of_shape).append(Condition(requirement, expression, on_arguments))
    return Conditions(kernel, constants, tuple(of_shape), tuple(of_arguments), frozenset(allowed))


def argument_names(argument: Any) -> tuple[str, ...]:
    """What a requirement may say of an argument: the value of a number, the length of a buffer."""
    name, kind = argument.name, argument.kind
    if kind == "buffer":
        return (f"{name}.length", f"{name}.bytes")
    if kind != "value" or argument.scalar in ("struct", "pointer"):
        return ()
    return (name,) if argument.lanes == 1 else (name, *(f"{name}.{part}" for part in "xyzw"[: argument.lanes]))


def shape_names(shape: Shape, memory: int) -> dict[str, Value]:
    """The values that every launch has."""
    total = shape.group[0] * shape.group[1] * shape.group[2]
    names: dict[str, Value] = {
        "group_size": shape.group,
        "threads": shape.grid,
        "threadgroups": shape.groups,
        "threads_per_threadgroup": total,
        "simdgroups_per_threadgroup": -(-total // 32),
        "threadgroup_memory": memory,
        "full_groups": not shape.is_partial,
    }
    for name in SHAPE_NAMES[:3]:
        x, y, z = names[name]
        names |= {f"{name}.x": x, f"{name}.y": y, f"{name}.z": z, f"{name}.total": x * y * z}
    return names


def _named(name: str, names: Mapping[str, Value], constants: Mapping[str, Value], *default: Value) -> Value:
    if name in constants:
        value = constants[name]
        if value is None:
            raise ExpressionError(f"function constant '{name}' is not given")
        return value
    return names.get(name, *default) if default else names[name]


def _unknown(name: str, fields: Iterable[str], constants: Iterable[str]) -> str:
    import difflib

    known = [*fields, *constants, *SHAPE_NAMES]
    parts = [f"{n}.{p}" for n in SHAPE_NAMES[:3] for p in (*PARTS, "total")]
    near = difflib.get_close_matches(name, known + parts, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
    return f"'{name}' is not known here: {hint}"


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
