"""Where a source that was given as a string is found again, and what its lines are."""

from __future__ import annotations

import textwrap

from metalcore.diagnostics.sources import KEPT, Lines, locate, remember

HERE = __file__
LITERAL = """
kernel void first_one(device int* x, uint i [[thread_position_in_grid]]) {
  x[i] = 1 / x[i];
}
"""
INDENTED = """
    kernel void second_one(device int* x) {
      x[0] = 2;
    }
"""
FIRST_LINE = "".join("""float third(float x) {
  return x + 3;
}""")
TWICE = "kernel void the_same_text_twice() {}"
ALSO = "kernel void the_same_text_twice() {}"


def line_of(text: str) -> int:
    with open(HERE, encoding="utf-8") as file:
        (number,) = [n for n, line in enumerate(file, 1) if line.lstrip().startswith(text)]
    return number


def test_a_literal_is_found_in_its_python_file() -> None:
    assert locate(remember(LITERAL), "<metal>", 3, 12) == (HERE, line_of("x[i] = 1 / "), 12)


def test_indentation_that_was_removed_counts_in_the_column() -> None:
    key = remember(textwrap.dedent(INDENTED))
    assert locate(key, "<metal>", 3, 3) == (HERE, line_of("x[0] = 2;"), 7)


def test_text_behind_the_quotes() -> None:
    key = remember(FIRST_LINE)
    file, line, column = locate(key, "<metal>", 1, 1)
    with open(HERE, encoding="utf-8") as read:
        assert file == HERE and read.readlines()[line - 1][column - 1 :].startswith("float third")
    assert locate(key, "<metal>", 2, 3) == (HERE, line + 1, 3)


def test_other_texts_are_named_after_what_they_hold() -> None:
    for text in (TWICE, "kernel void " + "put_together" + "() {}"):
        file, line, column = locate(remember(text), "<metal>", 1, 8)
        assert file.startswith("<metal ") and len(file) == len("<metal 1a2b3c4d>") and (line, column) == (1, 8)
        assert Lines().line(file, 1) == text
    assert TWICE == ALSO


def test_parts_of_a_text_by_line_marks() -> None:
    text = (
        '#include "x.h"\n#line 1 "<k header>"\n// h\n#line 1 "<k source>"\nint' + ' a;\n#line 9 "other.metal"\nint b;\n'
    )
    file, line, _ = locate(remember(text), "<k source>", 1, 5)
    assert file.startswith("<k source ") and Lines().line(file, line) == "int a;"
    assert locate(remember(text), "other.metal", 9, 1) == ("other.metal", 9, 1)


def test_a_file_is_quoted_as_it_was_compiled() -> None:
    assert remember("first\nsecond\n", "/gone/k.metal") == ""
    assert Lines().line("/gone/k.metal", 2) == "second"
    assert Lines().line("/gone/k.metal", 3) is None and Lines().line("/gone/other.metal", 1) is None


def test_memory_is_bounded() -> None:
    first = remember("int a" + "0;")
    for number in range(KEPT):
        remember(f"int a{number + 1};", f"/gone/{number}.metal")
        remember(f"int a{number + 1};")
    assert locate(first, "<metal>", 1, 1) == ("<metal>", 1, 1)  # forgotten


def test_columns_count_characters() -> None:
    lines = Lines({"<k>": "/* é */ x = 1;"})
    assert lines.column("<k>", 1, 10) == 9 and lines.column("<k>", 1, 1) == 1 and lines.column("<k>", 2, 5) == 5
