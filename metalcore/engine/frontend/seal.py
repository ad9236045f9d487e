"""Which files of the host a source may see: those below its own folder and the declared ones, and no other.

clang gets a file system of its own (`-ivfsoverlay`, redirect-only) that holds copies of the files found here and of the
engine's headers. What is not in it does not exist for `#include`, `#embed`, `__has_include`, modules and pragmas,
however the name is spelled or computed. Names are looked for in the text before clang runs, more of them than it will
ask for; every place that was looked at, found or not, is in `includes` and `probes`, so that a cached result is known
to be good while all of them are as they were.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from metalcore.engine.files import LARGE, LINK, MISSING, SPECIAL, UNREADABLE, is_inside, state_of
from metalcore.errors import CompileError

OUTSIDE = "outside"
MOST_PLACES = 20_000  # where a file is looked for
MOST_FILES = 2_000

_SPLICE = re.compile(r"\\[ \t\v\f]*\r?\n")
# Bounded, and without two ways to read the same text, so that a hostile one is read in linear time.
_GAP = r"(?:[ \t\v\f]|/\*[^*]{0,200}(?:\*(?!/)[^*]{0,200}){0,3}\*/){0,200}"
_NAME = r'(?:"(?P<quoted>[^"\n]{1,1024})"|<(?P<angled>[^<>#"\n]{1,1024})>|(?P<computed>[^\s"<]))'
_DIRECTIVE = re.compile(rf"(?:#|%:){_GAP}(?P<word>include(?:_next)?|import|embed)\b{_GAP}{_NAME}")
_PROBE = re.compile(rf"\b__has_(?P<word>include(?:_next)?|embed)\b{_GAP}\(?{_GAP}{_NAME}")
_ANY_NAME = re.compile(r'"(?P<quoted>[\w./+-]{1,400})"|<(?P<angled>[\w./+-]{1,400})>')


class Place(NamedTuple):
    """A folder that is searched, and the folder that what is found must lie in."""

    folder: str
    within: str


class Name(NamedTuple):
    """A file's name as the text has it."""

    text: str
    quoted: bool  # the folder of the including file is searched first


def names_in(text: str) -> tuple[set[Name], bool, bool]:
    """The files that a text may ask for, whether it computes such names, and whether it asks for the next of a name."""
    text = _SPLICE.sub("", text)
    names: set[Name] = set()
    computed = following = False
    for pattern in (_DIRECTIVE, _PROBE):
        for match in pattern.finditer(text):
            following |= match["word"].endswith("_next")
            if match["computed"]:
                computed = True
            else:
                names.add(Name(match["quoted"] or match["angled"], match["quoted"] is not None))
    if "##" in text and ("__has" in text or "_next" in text):
        computed = True  # a probe may be put together from pieces
    return names, computed, following


class Seal:
    """The files that one source may see."""

    def __init__(
        self,
        source: str,
        places: Sequence[Place],
        own: Iterable[str],
        defines: Iterable[str],
        limit: int,
        optional: str = "",
    ) -> None:
        """*own* are the engine's headers, which are not looked into; *defines* may name files too. *optional* is the
        last place, which not every machine has (torch's headers): `exhausted` is whether a search went so far."""
        self.places = tuple(places)
        self.includes: dict[str, str] = {}  # path -> digest, of every file that clang is given
        self.probes: dict[str, str] = {}  # path -> why it is not given
        self.real: dict[str, str] = {}  # path -> the same without links; two names of one file are one to #pragma once
        self.contents: dict[str, bytes] = {}  # by the real path
        self.exhausted = False
        self._own, self._optional = frozenset(own), optional
        self._limit = limit
        declared = dict.fromkeys(place.within for place in self.places)
        self._lexical = tuple(dict.fromkeys([*declared, *(os.path.realpath(folder) for folder in declared)]))
        self.roots = tuple(dict.fromkeys(os.path.realpath(folder) for folder in declared))
        self._texts: list[tuple[str, str]] = [("", source), ("", "\n".join(defines))]
        self._asked: set[tuple[str, Name]] = set()
        self._loose = self._following = False
        self._bytes = 0
        self._close()

    def add(self, name: str) -> bool:
        """Look for a name that clang asked for and that no text spells out; whether a file was found for it."""
        before = len(self.includes)
        folders = {"", *(os.path.dirname(path) for path in self.includes)}
        for folder in folders:
            self._ask(folder, Name(name, quoted=True))
        self._close()
        return len(self.includes) > before

    def explain(self, name: str) -> str:
        """Why there is no file of this name for the source."""
        folders = {"", *(os.path.dirname(path) for path in self.includes)}
        states = {self._look(path) for folder in folders for path in self._paths(folder, Name(name, True))}
        text = f"'{name}' file not found"
        if LINK in states:
            return f"{text}: it is a symbolic link that leads out of the source's folder and of include_dirs" + _REMEDY
        if SPECIAL in states:
            return f"{text}: what has that name is a folder, a pipe or a device, not a file"
        if LARGE in states:
            limit = self._limit // 1_000_000
            return f"{text}: it is larger than {limit} MB; METALCORE_SOURCE_SIZE raises the limit"
        if UNREADABLE in states:
            return f"{text}: what has that name may not be read"
        if states == {OUTSIDE}:
            return f"{text}: it lies outside of the source's folder and of include_dirs" + _REMEDY
        return text

    def _close(self) -> None:
        """Ask for every name in every text, until nothing new is found."""
        names: list[tuple[str, set[Name]]] = []
        scanned = 0
        while True:
            for folder, text in self._texts[scanned:]:
                found, computed, following = names_in(text)
                if (computed and not self._loose) or (following and not self._following):
                    self._loose, self._following = self._loose or computed, self._following or following
                    self._asked.clear()
                names.append((folder, found))
            scanned = len(self._texts)
            for folder, found in list(names):
                for name in found:
                    self._ask(folder, name)
            if self._loose:
                for folder, text in self._texts[:scanned]:
                    for match in _ANY_NAME.finditer(_SPLICE.sub("", text)):
                        self._ask(folder, Name(match["quoted"] or match["angled"], match["quoted"] is not None))
            if len(self._texts) == scanned:
                return

    def _ask(self, folder: str, name: Name) -> None:
        if (folder, name) in self._asked:
            return
        self._asked.add((folder, name))
        for path in self._paths(folder, name):
            if path in self._own or self._look(path) not in _NOT_THERE:
                self.exhausted |= bool(self._optional) and is_inside(path, self._optional)
                if not self._following:
                    return  # the search ends with the first
        self.exhausted = True

    def _paths(self, folder: str, name: Name) -> Iterator[str]:
        """Where clang looks for a name, in order; `..` is taken as written, whatever links there are."""
        if os.path.isabs(name.text):
            yield os.path.normpath(name.text)
            return
        if name.quoted and folder:
            yield os.path.normpath(os.path.join(folder, name.text))
        for place in self.places:
            path = os.path.normpath(os.path.join(place.folder, name.text))
            # A folder of which only a part is declared holds nothing else.
            if place.folder == place.within or is_inside(path, place.within):
                yield path

    def _look(self, path: str) -> str:
        known = self.includes.get(path) or self.probes.get(path)
        if known is not None:
            return known
        if path.startswith("//"):
            path = path[1:]
        if not any(is_inside(path, folder) for folder in self._lexical):
            return OUTSIDE  # the host is not asked, so no answer can depend on it
        if len(self.includes) + len(self.probes) > MOST_PLACES or len(self.includes) > MOST_FILES:
            raise CompileError(f"the source includes more than {MOST_FILES} files, or looks in {MOST_PLACES} places")
        state, real, data = state_of(path, self.roots, self._limit)
        if state in _NOT_THERE:
            self.probes[path] = state
            return state
        self._bytes += len(data)
        if self._bytes > 8 * self._limit:
            raise CompileError(
                f"the files that the source includes have more than {8 * self._limit // 1_000_000} MB together; "
                "METALCORE_SOURCE_SIZE raises the limit"
            )
        self.includes[path] = state
        self.real[path] = real
        self.contents[real] = data
        if b"\0" not in data:  # a header, or another file that #embed brings
            self._texts.append((os.path.dirname(path), data.decode("utf-8", "replace")))
        return state


_NOT_THERE = frozenset((MISSING, OUTSIDE, LINK, SPECIAL, LARGE, UNREADABLE))
_REMEDY = "; to use it, name the folder that it is in in include_dirs"
