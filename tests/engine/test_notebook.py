"""What a notebook shows of a library, a kernel and a report."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

import metalcore

SOURCE = """
constant bool flag [[function_constant(3)]];
template <typename T>
kernel void twice(device T* x [[buffer(1)]], constant uint& n [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  if (flag || i < 2) x[i] = x[i] / T(n);
}
template [[host_name("twice<int>")]] kernel void twice<int>(device int*, constant uint&, uint);
"""


class Cells(HTMLParser):
    """The texts of a table's cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def test_tables() -> None:
    library = metalcore.Library(SOURCE)
    shown = Cells(library._repr_html_()).found
    assert shown == ["a library", "kernel", "twice<int>", "function constants: flag (bool)"]
    function = library.function("twice<int>", {3: False})
    shown = Cells(function._repr_html_()).found
    assert shown[:6] == ["twice<int>", "buffer", "name", "type", "space or attribute", "written"]
    assert shown[6:11] == ["1", "x", "int", "device", "yes"] and "thread_position_in_grid" in shown
    with metalcore.mode("sanitize") as report:
        function(0, np.ones(4, np.int32), threads=4)
    shown = Cells(report._repr_html_()).found
    assert shown[0] == "sanitizer: 1 error"
    assert shown[8:13] == ["division-by-zero", "twice<int>", report.findings[0].file + ":5", "(0, 0, 0)", "2"]
    assert "test_notebook.py:" in shown[-1]
