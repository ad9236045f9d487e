"""Small tables for notebooks. Everything that comes from a source is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """A titled table, as a notebook shows the value of a cell.

    >>> html_table("a < b", ["n"], [[1]])
    '<table><caption>a &lt; b</caption><tr><th>n</th></tr><tr><td>1</td></tr></table>'
    """
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<table><caption>{escape(title)}</caption><tr>{head}</tr>{body}</table>{below}"
