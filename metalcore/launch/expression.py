"""The expressions of `// metalcore: requires(...)`: arithmetic and comparisons over names, and nothing else.

They are written as in C (`n % 4 == 0 && n > 0`), `and`, `or` and `not` are understood too. Division of whole numbers
cuts off, as in C. A name may have parts: `group_size.x`, `weights.length`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Value = Any  # int, float, bool, or a tuple of them
LONGEST = 400
DEEPEST = 40
_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+\.\d*|\.\d+|\d+)[uUlLfFhH]*"
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<operator>&&|\|\||==|!=|<=|>=|<<|>>|[-+*/%<>!~&|^(),]))"
)
_WORDS = {"and": "&&", "or": "||", "not": "!"}
# From the loosest to the tightest, as C has them.
_LEVELS: tuple[tuple[str, ...], ...] = (
    *(("||",), ("&&",), ("|",), ("^",), ("&",)),
    *(("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%")),
)
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


class ExpressionError(ValueError):
    """The text is no expression, or it has no value."""


class Expression:
    """A parsed expression: its text, the names in it, and its value once the names have values.

    >>> Expression("n % 4 == 0 && group_size == (16, 16)").evaluate({"n": 8, "group_size": (16, 16, 1)}.__getitem__)
    True
    """

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())
        self.names: tuple[str, ...] = ()
        self._tokens = _tokens(self.text)
        self._at = 0
        self._names: dict[str, None] = {}
        self._tree = self._binary(0, 0)
        if self._at < len(self._tokens):
            raise ExpressionError(f"'{self._tokens[self._at][1]}' is not expected in '{self.text}'")
        self.names = tuple(self._names)

    def evaluate(self, lookup: Callable[[str], Value]) -> Value:
        """The value, where `lookup` gives that of each name."""
        return _evaluate(self._tree, lookup)

    def _peek(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")
        return text if kind == "operator" else ""

    def _binary(self, level: int, depth: int) -> Any:
        if level == len(_LEVELS):
            return self._unary(depth)
        left = self._binary(level + 1, depth)
        compared = False
        while (operator := self._peek()) in _LEVELS[level]:
            if operator in _COMPARISONS and compared:
                raise ExpressionError(f"'{self.text}' compares more than two values at once: write a < b && b < c")
            compared = True
            self._at += 1
            left = (operator, left, self._binary(level + 1, depth))
        return left

    def _unary(self, depth: int) -> Any:
        if depth > DEEPEST:
            raise ExpressionError(f"'{self.text}' is nested too deeply")
        operator = self._peek()
        if operator in ("-", "!", "~", "+"):
            self._at += 1
            return (operator, self._unary(depth + 1))
        return self._primary(depth + 1)

    def _primary(self, depth: int) -> Any:
        if self._at >= len(self._tokens):
            raise ExpressionError(f"'{self.text}' ends too early" if self.text else "the expression is empty")
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            return ("value", _number(text))
        if kind == "name":
            if self._peek() == "(":
                if text not in _FUNCTIONS:
                    known = ", ".join(_FUNCTIONS)
                    raise ExpressionError(f"there is no function '{text}' in '{self.text}', only {known}")
                return ("call", text, self._list(depth))
            if text in ("true", "false"):
                return ("value", text == "true")
            self._names[text] = None
            return ("name", text)
        if text == "(":
            self._at -= 1
            items = self._list(depth)
            return items[0] if len(items) == 1 else ("tuple", items)
        raise ExpressionError(f"'{text}' is not expected in '{self.text}'")

    def _list(self, depth: int) -> list[Any]:
        """What stands between a bracket and its partner."""
        items = []
        while True:
            self._at += 1  # the bracket, or the comma
            items.append(self._binary(0, depth))
            if self._peek() == ")":
                self._at += 1
                return items
            if self._peek() != ",":
                raise ExpressionError(f"a ')' is missing in '{self.text}'")


def _tokens(text: str) -> list[tuple[str, str]]:
    if len(text) > LONGEST:
        raise ExpressionError(f"the expression is longer than {LONGEST} characters")
    found, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"'{text[at:].strip()[0]}' is not expected in '{text}'")
        at = match.end()
        kind = str(match.lastgroup)
        word = match[kind]
        if kind == "name" and word in _WORDS:
            kind, word = "operator", _WORDS[word]
        found.append((kind, word))
    return found


def _number(text: str) -> int | float:
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    return float(text) if "." in text else int(text)


def _evaluate(tree: Any, lookup: Callable[[str], Value]) -> Value:
    kind = tree[0]
    if kind == "value":
        return tree[1]
    if kind == "name":
        return lookup(tree[1])
    if kind == "tuple":
        return tuple(_evaluate(item, lookup) for item in tree[1])
    if kind == "call":
        return _FUNCTIONS[tree[1]](*(_scalar(_evaluate(item, lookup)) for item in tree[2]))
    left = _evaluate(tree[1], lookup)
    if len(tree) == 2:
        return _apply_unary(kind, _scalar(left))
    if kind in ("&&", "||"):  # the right side is not looked at where the left one decides
        decided = bool(_scalar(left))
        return decided if decided == (kind == "||") else bool(_scalar(_evaluate(tree[2], lookup)))
    right = _evaluate(tree[2], lookup)
    if kind in ("==", "!=") and (isinstance(left, tuple) or isinstance(right, tuple)):
        return (_three(left) == _three(right)) == (kind == "==")
    return _BINARY[kind](_scalar(left), _scalar(right))


def _scalar(value: Value) -> Value:
    if isinstance(value, tuple):
        raise ExpressionError("a value with several parts needs one of them here: .x, .y, .z or .total")
    return value


def _three(value: Value) -> tuple[Value, ...]:
    """16 and (16, 1) stand for (16, 1, 1)."""
    items = value if isinstance(value, tuple) else (value,)
    return items + (1,) * (3 - len(items))


def _apply_unary(operator: str, value: Value) -> Value:
    if operator == "!":
        return not value
    if operator == "~":
        return ~_whole(value)
    return -value if operator == "-" else value


def _whole(value: Value) -> int:
    if isinstance(value, float):
        raise ExpressionError(f"{value} is no whole number")
    return int(value)


def _divide(left: Value, right: Value) -> Value:
    if right == 0:
        raise ExpressionError("a division by zero")
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: Value, right: Value) -> int:
    return _whole(left) - _whole(right) * int(_divide(_whole(left), _whole(right)))


def _count(value: Value) -> int:
    if not 0 <= _whole(value) < 64:
        raise ExpressionError(f"a shift by {value}")
    return _whole(value)


_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "|": lambda a, b: _whole(a) | _whole(b),
    "^": lambda a, b: _whole(a) ^ _whole(b),
    "&": lambda a, b: _whole(a) & _whole(b),
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<<": lambda a, b: _whole(a) << _count(b),
    ">>": lambda a, b: _whole(a) >> _count(b),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": _remainder,
}
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "min": lambda *values: min(values),
    "max": lambda *values: max(values),
    "ceil_div": lambda a, b: _divide(_whole(a) + _whole(b) - 1, _whole(b)),
}
