"""Reads `[[...]]` attributes: what C++ knows stays, what Metal alone knows is recorded and removed."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from metalcore.engine.frontend.closed import check_attribute, refused
from metalcore.engine.frontend.diagnostics import Sources
from metalcore.engine.frontend.tokens import Tokens

# Thread attributes and the external that answers each; the second is how many dimensions it has.
THREAD_ATTRIBUTES = {
    "thread_position_in_grid": 3,
    "threadgroup_position_in_grid": 3,
    "thread_position_in_threadgroup": 3,
    "threads_per_threadgroup": 3,
    "threads_per_grid": 3,
    "threadgroups_per_grid": 3,
    "dispatch_threads_per_threadgroup": 3,
    "thread_index_in_threadgroup": 1,
    "thread_index_in_simdgroup": 1,
    "simdgroup_index_in_threadgroup": 1,
    "simdgroups_per_threadgroup": 1,
    "dispatch_simdgroups_per_threadgroup": 1,
    "threads_per_simdgroup": 1,
    "quadgroup_index_in_threadgroup": 1,
    "thread_index_in_quadgroup": 1,
    "quadgroups_per_threadgroup": 1,
}
# Older or rarer names of the same values.
SAME_AS = {
    "thread_execution_width": "threads_per_simdgroup",
    "grid_size": "threads_per_grid",
    "dispatch_quadgroups_per_threadgroup": "quadgroups_per_threadgroup",
}
UNSUPPORTED = {
    "texture": "textures ([[texture(n)]])",
    "sampler": "samplers ([[sampler(n)]])",
    "vertex": "vertex functions",
    "fragment": "fragment functions",
    "object": "object functions",
    "mesh": "mesh functions",
    "visible": "visible functions",
    "intersection": "ray tracing (intersection functions)",
    "payload": "ray tracing payloads",
    "stage_in": "[[stage_in]] parameters",
    "imageblock_data": "imageblocks",
    "grid_origin": "stage-in grids ([[grid_origin]])",
}
_STANDARD = frozenset(
    ("noreturn", "deprecated", "maybe_unused", "nodiscard", "fallthrough", "likely", "unlikely", "no_unique_address")
)


@dataclass(frozen=True)
class Attribute:
    """One attribute: its name, the source text of its arguments, and where it stands."""

    name: str
    arguments: str
    pieces: tuple[str, ...]
    index: int


class Attributes:
    """Every Metal attribute of a file by the index of its first token; they are gone from the tokens afterwards."""

    def __init__(self, tokens: Tokens, sources: Sources) -> None:
        self._sources = sources
        self.found: list[Attribute] = []
        self.openers: set[int] = set()  # the first bracket of each
        for i, word in enumerate(tokens.text):
            # Pragmas and line markers may stand between the brackets.
            if word == "[" and tokens.at(inner := tokens.forward(i)) == "[":
                if tokens.match[i] < 0 or tokens.back(tokens.match[i]) != tokens.match[inner]:
                    raise refused(tokens, i, "an attribute that does not end with ']]'", sources)
                self.openers.add(i)
                self._read(tokens, i, inner)
        self._indices = [attribute.index for attribute in self.found]

    def _read(self, tokens: Tokens, i: int, inner: int) -> None:
        parts = tokens.split(inner + 1, tokens.match[inner])
        kept = []
        for start, stop in parts:
            words = tokens.words(start, stop)
            if (words and words[0] in _STANDARD) or "::" in words[:2]:
                if "::" in words[:2]:
                    check_attribute(tokens, start, stop, self._sources)
                kept.append("".join(words) if len(words) == 1 else " ".join(words))
            elif words:
                first = next(j for j in range(start, stop) if tokens.text[j] == words[0])
                self.found.append(Attribute(words[0], " ".join(words[2:-1]), tuple(words[2:-1]), first))
        if len(kept) == len(parts):
            return
        tokens.blank(i, tokens.match[i] + 1)
        if kept:
            tokens.text[i] = f"[[{', '.join(kept)}]]"

    def within(self, start: int, stop: int) -> list[Attribute]:
        """Attributes that stand in tokens start..stop-1."""
        first = bisect_left(self._indices, start)
        return self.found[first : bisect_left(self._indices, stop, first)]
