"""What clang's syntax tree says of conversions and of calls: the types of each instantiation, at the user's lines."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from metalcore.engine.frontend import toolchain

_SPELLING = {"_Float16": "half", "__bf16": "bfloat", "bfloat16_t": "bfloat", "float16_t": "half"}
_SMALL = ("half", "bfloat")
_SHUFFLE = re.compile(r"simd_shuffle\w*|quad_shuffle\w*")


@dataclass
class Cast:
    """A float that becomes a half or bfloat."""

    offset: int  # in the compiled text; -1 inside our own headers
    source: str
    target: str
    value: float | None  # of a literal
    explicit: bool
    excused: bool = False  # an element of a vector that is constructed


@dataclass(frozen=True)
class Call:
    """A call of a shuffle with a bfloat; `callee` is the id of the declaration."""

    offset: int
    name: str
    callee: str


@dataclass
class Tree:
    """What the rules ask of the syntax tree."""

    casts: list[Cast] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    user_functions: set[str] = field(default_factory=set)  # ids of functions that stand in the user's text


def read_tree(text: str, math_mode: str) -> Tree:
    """The syntax tree of a text that compiles."""
    flags = toolchain.language_flags(math_mode, optimised=True)
    result = toolchain.clang([*flags, "-w", "-ast-dump=json", *toolchain.standard_library(flags)], text)
    reader = _Reader()
    if result.code == 0:
        json.loads(result.output, object_hook=reader.visit)
    return reader.tree


class _Reader:
    """Sees every object of the JSON when it is complete, in the order of the text, and keeps next to nothing."""

    def __init__(self) -> None:
        self.tree = Tree()
        self._file = ""

    def visit(self, item: dict[str, Any]) -> Any:
        if "offset" in item:  # a location; the file is named only where it changes
            self._file = item.get("file", self._file)
            return item["offset"] if self._file == "<stdin>" else -1
        if "kind" not in item:
            if "qualType" in item:
                return item.get("desugaredQualType", item["qualType"])
            if "expansionLoc" in item:
                return item["expansionLoc"]
            return item
        handler = getattr(self, "_" + item["kind"], None)
        return handler(item) if handler else None

    @staticmethod
    def _start(item: dict[str, Any]) -> int:
        place = item.get("range", {}).get("begin", -1)
        return place if isinstance(place, int) else -1

    @staticmethod
    def _inner(item: dict[str, Any]) -> list[Any]:
        inner: list[Any] = item.get("inner", [])
        return inner

    def _FloatingLiteral(self, item: dict[str, Any]) -> Any:
        return ("literal", float(item["value"]), _plain(item))

    def _ParenExpr(self, item: dict[str, Any]) -> Any:
        return next(iter(self._inner(item)), None)

    def _ConstantExpr(self, item: dict[str, Any]) -> Any:
        return next(iter(self._inner(item)), None)

    def _UnaryOperator(self, item: dict[str, Any]) -> Any:
        child = next(iter(self._inner(item)), None)
        if item.get("opcode") == "-" and isinstance(child, tuple) and child[0] == "literal":
            return ("literal", -child[1], child[2])
        return None

    def _ImplicitCastExpr(self, item: dict[str, Any]) -> Any:
        child = next(iter(self._inner(item)), None)
        if item.get("castKind") != "FloatingCast":
            return child if item.get("castKind") in ("NoOp", "FunctionToPointerDecay") else None
        target = _plain(item)
        if target not in _SMALL:
            return None
        literal = child if isinstance(child, tuple) and child[0] == "literal" else None
        cast = Cast(
            self._start(item),
            literal[2] if literal else "float",
            target,
            literal[1] if literal else None,
            bool(item.get("isPartOfExplicitCast")),
        )
        self.tree.casts.append(cast)
        return cast

    def _vector(self, item: dict[str, Any]) -> Any:
        """Elements of a vector that is constructed are converted because the code says so."""
        if "vec<" in str(item.get("type", "")):
            for child in self._inner(item):
                if isinstance(child, Cast):
                    child.excused = True
        return None

    _CXXConstructExpr = _CXXTemporaryObjectExpr = _CXXUnresolvedConstructExpr = _InitListExpr = _vector

    def _DeclRefExpr(self, item: dict[str, Any]) -> Any:
        return item.get("referencedDecl")

    def _FunctionDecl(self, item: dict[str, Any]) -> Any:
        place = item.get("loc", -1)
        if place == -1 or isinstance(place, dict):
            place = self._start(item)
        if isinstance(place, int) and place >= 0 and "range" in item:
            self.tree.user_functions.add(item["id"])
        return ("function", item["id"], item.get("name", ""))

    def _CallExpr(self, item: dict[str, Any]) -> Any:
        callee = next(iter(self._inner(item)), None)
        if isinstance(callee, tuple) and callee[0] == "function" and _SHUFFLE.fullmatch(callee[2]):
            kind = str(item.get("type", ""))
            if _plain(item) == "bfloat" or re.search(r"vec<(?:bfloat|__bf16)", kind):
                self.tree.calls.append(Call(self._start(item), callee[2], callee[1]))
        return None


def _plain(item: dict[str, Any]) -> str:
    """A node's type without qualifiers, in Metal's words."""
    words = [w for w in str(item.get("type", "")).split() if w not in ("const", "volatile")]
    return " ".join(_SPELLING.get(w, w) for w in words)
