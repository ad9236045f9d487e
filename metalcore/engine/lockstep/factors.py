"""Operands of 8x8 products that nobody takes apart, and products that are made together.

A matrix that is loaded for products of the same block alone is not spread over the lanes, be it by one call or, element
by element, by the lanes themselves (fragments.py). Where nothing is written in between the products read its rows where
they lie; else, and where its elements have 16 bits or it is transposed, its rows are copied. Two products with one left
side are one call, which reads it once for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from metalcore.engine.ir import Block, Const, Instr, Type, Value

from .cfg import Graph
from .fragments import Fragment, Fragments
from .homes import is_mma
from .roots import Roots
from .same import may_be_written
from .shapes import Shapes

_LOADS = ("__mc_simdgroup_load_b32", "__mc_simdgroup_load_b16")
_STEPS = frozenset(["extractvalue", "trunc", "bitcast", "fpext"])
Users = dict[Instr, list[Instr]]


@dataclass
class Factors:
    loads: dict[Value, Instr] = field(default_factory=dict)  # of the elements that products get
    kinds: dict[Instr, Type] = field(default_factory=dict)  # those loads, and what elements are in memory
    copied: set[Instr] = field(default_factory=set)  # those of them whose rows are not read where they lie
    unused: set[Instr] = field(default_factory=set)  # what would take such matrices apart
    fragments: dict[Instr, Fragment] = field(default_factory=dict)  # by the load of their first elements
    second: dict[Instr, Instr] = field(default_factory=dict)  # a product and the one that is made with it
    made: set[Instr] = field(default_factory=set)  # the latter


def find_factors(graph: Graph, shapes: Shapes, roots: Roots, users: Users, proves: Callable[[Instr], bool]) -> Factors:
    """*proves*: whether a load needs no test of bounds."""
    found, fragments = Factors(), Fragments(shapes, roots, users, proves)
    for block in graph.order:
        products = [instr for instr in block.instrs if is_mma(instr)]
        if products:
            at = {instr: number for number, instr in enumerate(block.instrs)}
            for load in block.instrs:
                if load.op == "call" and load.callee in _LOADS and _is_uniform(load, block, shapes, roots):
                    _look_at(load, block, at, users, found)
            for fragment in fragments.of(block):
                _take(fragment, block.instrs[at[fragment.loads[0]] : at[fragment.last]], found)
            _find_pairs(products, at, found)
    return found


def _is_uniform(load: Instr, block: Block, shapes: Shapes, roots: Roots) -> bool:
    pointer, stride, transpose = load.args
    is_private = any(root.kind == "private" for root in roots.of_address(pointer))
    is_one = shapes.at(pointer, block).uniform and shapes.at(stride, block).uniform
    return is_one and not is_private and isinstance(transpose, Const)


def _look_at(load: Instr, block: Block, at: dict[Instr, int], users: Users, found: Factors) -> None:
    """Do only products need it?"""
    steps, elements, last = [], set[Instr](), -1
    todo = [load]
    while todo:
        value = todo.pop()
        for user in users.get(value, []):
            if user not in at:
                return
            if is_mma(user) and _is_beside_other(value, user, load):
                elements.add(value)
                last = max(last, at[user])
            elif user.op in _STEPS:
                steps.append(user)
                todo.append(user)
            else:
                return
    kinds = {step.type.text: step.type for step in steps if step.op == "bitcast"}
    if not elements or len(kinds) != 1:
        return
    found.kinds[load] = next(iter(kinds.values()))
    found.loads |= dict.fromkeys(elements, load)
    found.unused |= set(steps)
    transpose, between = load.args[2], block.instrs[at[load] + 1 : last]
    is_plain = load.callee == _LOADS[0] and isinstance(transpose, Const) and transpose.value == 0
    if not is_plain or may_be_written(between):
        found.copied.add(load)


def _take(fragment: Fragment, between: list[Instr], found: Factors) -> None:
    first, second = fragment.loads
    found.fragments[first], found.kinds[first] = fragment, first.type
    found.loads |= dict.fromkeys(fragment.elements, first)
    found.unused |= {second, *fragment.steps}
    if first.type.kind != "float" or fragment.has_columns or may_be_written(between):
        found.copied.add(first)


def _is_beside_other(value: Value, product: Instr, load: Instr) -> bool:
    """Whether a product gets both elements as one side, each in its place."""
    e = _element(value, load)
    places = [i for i, arg in enumerate(product.args) if arg is value]
    return e is not None and all(i < 4 and i % 2 == e and _element(product.args[i ^ 1], load) == 1 - e for i in places)


def _element(value: Value, load: Instr) -> int | None:
    """Which element of the matrix a value is, 0 or 1."""
    while isinstance(value, Instr) and value.op in _STEPS:
        if value.op == "extractvalue":
            path = value.extra["path"]
            assert isinstance(path, list)
            return int(path[0]) if value.args[0] is load and value.args[0].type.kind == "struct" else None
        value = value.args[0]
    return None


def _find_pairs(products: list[Instr], at: dict[Instr, int], found: Factors) -> None:
    """The second one is made where the first stands, so that what it needs must be there."""
    for n, first in enumerate(products):
        if first in found.made:
            continue
        for other in products[n + 1 :]:
            is_same = other.args[0] is first.args[0] and other.args[1] is first.args[1]
            if not is_same or other in found.made:
                continue
            needed = [arg for arg in other.args if isinstance(arg, Instr)]
            if all(at.get(arg, -1) < at[first] for arg in needed):
                found.second[first] = other
                found.made.add(other)
                break
