"""The small language of `// metalcore: requires(...)`."""

from __future__ import annotations

import pytest

from metalcore.launch.expression import Expression, ExpressionError
from metalcore.launch.requirements import find

NAMES = {"n": 12, "m": 5, "s": 0.5, "on": True, "group_size": (16, 16, 1), "group_size.x": 16, "x.length": 48}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n % 4 == 0", True),
        ("n % 5", 2),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7 / -2 == -3", True),
        ("1.0 / 4", 0.25),
        ("n / 8 * 8 != n", True),
        ("n > 3 && m < 3 || on", True),
        ("n > 3 and not (m < 3)", True),
        ("!on", False),
        ("on || 1 / 0 == 1", True),
        ("!on && 1 / 0 == 1", False),
        ("(n & (n - 1)) == 0", False),
        ("1 << m == 32", True),
        ("n & 4 | 3", 7),
        ("~0 ^ n", -13),
        ("0x20u == 32", True),
        ("group_size == (16, 16)", True),
        ("group_size == (16, 16, 1)", True),
        ("group_size != 16", True),
        ("group_size.x * 3 == x.length", True),
        ("min(n, m, 9) + max(1, 2)", 7),
        ("ceil_div(n, m) == 3", True),
        ("s == 0.5f", True),
        ("true", True),
        ("+n - -n", 24),
    ],
)
def test_values(text: str, expected: object) -> None:
    found = Expression(text).evaluate(NAMES.__getitem__)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the expression is empty"),
        ("n %", "'n %' ends too early"),
        ("n n", "'n' is not expected in 'n n'"),
        ("(n", "a ')' is missing in '(n'"),
        ("n)", "')' is not expected in 'n)'"),
        ("1 < n < 3", "'1 < n < 3' compares more than two values at once: write a < b && b < c"),
        ("open(n)", "there is no function 'open' in 'open(n)', only min, max, ceil_div"),
        ("n['a']", "'[' is not expected in 'n['a']'"),
        ("n = 3", "'=' is not expected in 'n = 3'"),
        ("n ** 9", "'*' is not expected in 'n ** 9'"),
        ("(" * 60 + "n" + ")" * 60, "is nested too deeply"),
        ("1 + " * 200 + "1", "the expression is longer than 400 characters"),
    ],
)
def test_what_is_no_expression(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression(text)
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n / 0", "a division by zero"),
        ("n % (m - 5)", "a division by zero"),
        ("1 << 64", "a shift by 64"),
        ("1 >> -1", "a shift by -1"),
        ("s & 1", "0.5 is no whole number"),
        ("group_size % 32 == 0", "a value with several parts needs one of them here: .x, .y, .z or .total"),
    ],
)
def test_what_has_no_value(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression(text).evaluate(NAMES.__getitem__)
    assert str(caught.value) == message


def test_names_are_listed_once_in_order() -> None:
    assert Expression("m + n.x + m + true + min(k, 2)").names == ("m", "n.x", "k")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("// metalcore: requires(n == 1)", [("requires", "n == 1", "")]),
        ("/* metalcore:requires( f(1, (2)) ) */", [("requires", "f(1, (2))", "")]),
        ('// metalcore: requires(n, "why (really)")', [("requires", "n", "why (really)")]),
        ("// metalcore: requires(a), allows(c)", [("requires", "a", ""), ("allows", "c", "")]),
        ("// metalcore: requires(a) requires(b)", [("requires", "a", ""), ("requires", "b", "")]),
        ("// metalcore: silence(rule)", []),
        ("// nothing", []),
    ],
)
def test_comments(line: str, expected: object) -> None:
    assert list(find(line)) == expected
