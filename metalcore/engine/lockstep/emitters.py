"""The parts that write a simdgroup's function, and what they share."""

from __future__ import annotations

from metalcore.engine.ir import Module

from .addresses import Addresses
from .agreement import Agreement
from .asking import Asking
from .barriers import Barriers
from .body import Body
from .cfg import Graph
from .chunked import Chunked
from .code import Code
from .cuts import Cuts
from .fetching import Fetching
from .flow import Flow
from .gathers import Gathers
from .guards import Guards
from .ids import Ids
from .inside import Inside
from .interleave import Interleave
from .lanes import Lanes
from .loop_copies import LoopCopies
from .masks import Masks
from .matrix import Matrix
from .memory import Memory
from .ops import Ops
from .outlined import Outlined
from .partial import Partial
from .phis import Phis
from .plan import Plan
from .polls import Polls
from .products import Products
from .proofs import Proofs
from .regions import Regions
from .roots import Roots
from .segments import Segments
from .shapes import Shapes
from .simd import Simd
from .slow import Slow
from .streaming import Streaming
from .tiles import Tiles
from .together import Together
from .turns import Turns
from .values import Values
from .watch import Watch


class Emitters:
    """One of each kind; each finds the others here. `code` is what they write to."""

    def __init__(self, module: Module, graph: Graph, shapes: Shapes, roots: Roots, width: int, plan: Plan) -> None:
        self.module, self.graph, self.shapes, self.roots, self.plan = module, graph, shapes, roots, plan
        self.code = Code(width, short=plan.sanitized or plan.is_large)
        self.values = Values(self)
        self.ops = Ops(self)
        self.guards = Guards(self)
        self.chunked = Chunked(self)
        self.gathers = Gathers(self)
        self.streaming = Streaming(self)
        self.addresses = Addresses(self)
        self.inside = Inside(self)
        self.slow = Slow(self)
        self.memory = Memory(self)
        self.fetching = Fetching(self)
        self.asking = Asking(self)
        self.proofs = Proofs(self)
        self.outlined = Outlined(self)
        self.together = Together(self)
        self.lanes = Lanes(self)
        self.watch = Watch(self)
        self.simd = Simd(self)
        self.matrix = Matrix(self)
        self.products = Products(self)
        self.interleave = Interleave(self)
        self.tiles = Tiles(self)
        self.segments = Segments(self)
        self.body = Body(self)
        self.ids = Ids(self)
        self.turns = Turns(self)
        self.cuts = Cuts(self)
        self.barriers = Barriers(self)
        self.masks = Masks(self)
        self.phis = Phis(self)
        self.agreement = Agreement(self)
        self.regions = Regions(self)
        self.partial = Partial(self)
        self.flow = Flow(self)
        self.polls = Polls(self)
        self.loop_copies = LoopCopies(self)
