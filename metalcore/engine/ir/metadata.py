"""The lines at the end of a module: numbered nodes, and names for lists of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from metalcore.engine.ir.tokens import fields, nodes


class Metadata:
    """Nodes are looked at when somebody asks for them; what nobody changed is written as it was read."""

    def __init__(self, text: str = "") -> None:
        self._read = text
        self._nodes: dict[int, str] | None = None
        self._changed: set[int] = set()

    @property
    def nodes(self) -> Mapping[int, str]:
        """By number."""
        if self._nodes is None:
            self._nodes = nodes(self._read)
        return self._nodes

    @property
    def text(self) -> str:
        if not self._changed:
            return self._read
        lines = self._read.split("\n")
        for at, line in enumerate(lines):
            number = line[1 : line.find(" ")]
            if number.isdigit() and int(number) in self._changed:
                lines[at] = f"!{number} = {self.nodes[int(number)]}"
        return "\n".join(lines)

    def mentions(self, *words: str) -> bool:
        """Whether one of these words stood in it."""
        return any(word in self._read for word in words)

    def locations(self) -> Iterator[int]:
        """The number of each debug location."""
        for number, node in self.nodes.items():
            if "DILocation(" in node:
                yield number

    def set_column(self, number: int, column: int) -> None:
        """Give a debug location another column."""
        kind, _, _ = self.nodes[number].partition("(")
        said = {**fields(self.nodes[number]), "column": str(column)}
        self._set(number, f"{kind}({', '.join([f'{name}: {value}' for name, value in said.items()])})")

    def rename(self, names: Mapping[str, str]) -> None:
        """Give texts that are the first word of a list another word: pragmas of loops are such lists."""
        for number, node in list(self.nodes.items()):
            start, quote, rest = node.partition('"')
            word, _, behind = rest.partition('"')
            if quote and start.endswith("!{!") and word in names:
                self._set(number, f'{start}"{names[word]}"{behind}')

    def _set(self, number: int, node: str) -> None:
        assert self._nodes is not None
        self._nodes[number] = node
        self._changed.add(number)
