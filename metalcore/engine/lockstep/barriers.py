"""Barriers as suspensions of a coroutine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import I1, I8, I32, PTR, Instr

from .cfg import reach
from .frame import ALONE
from .operands import FALSE, NO_TOKEN
from .turns import ends_with_barrier
from .values import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters


class Barriers:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.shapes, self.plan = at, at.code, at.values, at.shapes, at.plan

    def barrier(self, instr: Instr, kind: str) -> None:
        if self.plan.sanitized:
            self.at.watch.watch_barrier(instr, kind)
        if kind == "threadgroup_barrier" and self.plan.is_cut:
            self.at.segments.flush()
            self.at.cuts.cut(instr)
        elif kind == "threadgroup_barrier" and self.plan.coroutine:
            # One simdgroup alone has nobody to wait for. The second way in also keeps LLVM from moving work behind
            # the barrier.
            self.at.segments.flush()
            self.settle(instr)
            resume, wait = self.code.new_label("resume"), self.code.new_label("wait")
            self.code.cond_br(ALONE, resume, wait)
            self.code.place(wait)
            state = self.code.call("llvm.coro.suspend", I8, NO_TOKEN, FALSE)
            self.code.switch(state, "suspend", {0: resume, 1: "cleanup"})
            self.code.place(resume)
        elif kind != "fence":
            self.code.fence()

    def settle(self, barrier: Instr) -> None:
        """Finish what lives across a barrier in front of it: LLVM saves a value where it is made, be it in a loop.

        What was made before the last barrier is saved.
        """
        assert barrier.block is not None
        since = reach([barrier.block], lambda block: [p for p in block.preds if not ends_with_barrier(p)])
        for value in self.plan.live.across(barrier):
            if value.block not in since:
                continue
            if not self.shapes.get(value).varying or value.type.is_aggregate or value not in self.values.crossing:
                continue
            if value in self.plan.homes:
                continue
            ty = scalar_type(value.type)
            if ty is I1 and self.code.has_masks:
                continue
            kept = self.code.vec(I32 if ty is I1 else ty)
            if ty is PTR or kept.length * kept.bits % 32:
                continue
            for c in range(self.code.count):
                old = self.code.load_slot((value, c), kept)
                self.code.keep((value, c), self.code.fenced(old))
                self.values.vectors.pop((value, c), None)
