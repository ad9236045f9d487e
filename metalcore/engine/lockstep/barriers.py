"""Barriers as suspensions of a coroutine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ir import Instr
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
            self.at.body.flush()
            self.at.cuts.cut(instr)
        elif kind == "threadgroup_barrier" and self.plan.coroutine:
            # One simdgroup alone has nobody to wait for. The second way in also keeps LLVM from moving work behind
            # the barrier.
            self.at.body.flush()
            self.settle(instr)
            resume, wait = self.code.new_label("resume"), self.code.new_label("wait")
            self.code.emit(f"br i1 %alone, label %{resume}, label %{wait}")
            self.code.place(wait)
            state = self.code.temp("call i8 @llvm.coro.suspend(token none, i1 false)")
            self.code.emit(f"switch i8 {state}, label %suspend [i8 0, label %{resume} i8 1, label %cleanup]")
            self.code.place(resume)
        elif kind != "fence":
            self.code.emit('fence syncscope("singlethread") seq_cst')

    def settle(self, barrier: Instr) -> None:
        """Finish what lives across a barrier in front of it: LLVM saves a value where it is made, be it in a loop."""
        for value in self.plan.live.across(barrier):
            if not self.shapes.get(value).varying or value.type.is_aggregate or value not in self.values.crossing:
                continue
            if value in self.plan.homes:
                continue
            ty = scalar_type(value.type)
            if ty == "i1" and self.code.has_masks:
                continue
            bits = 32 if ty == "i1" else value.type.bits
            if ty == "ptr" or self.code.width * bits % 32:
                continue
            for c in range(self.code.count):
                slot_type = "i32" if ty == "i1" else ty
                old = self.code.load_slot((value, c), self.code.vec(slot_type))
                self.code.store_slot((value, c), self.code.vec(slot_type), self.code.fenced(slot_type, bits, old))
                self.values.vectors.pop((value, c), None)
