"""Second copies of loops in F, for groups whose size shows that nothing is out of bounds (proofs.py).

A short loop that would ask for the flag of the proofs in each round is written twice, with its tests and without them.
Where it is entered the flag is looked at once.

Sanitize mode has a second copy of a loop whose reads are recorded in the first round for all of them (loop_reads.py):
without these hooks. Whether they are is known behind the first round, so there the flags are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import I1, Block, Instr, is_barrier, quoted

from .cfg import Loop
from .frame import ALL_INSIDE
from .operands import TRUE, Operand
from .proofs import KINDS
from .regions import cost

if TYPE_CHECKING:
    from .emitters import Emitters

MOST_COST = 64  # of a round that a test would be felt in


class LoopCopies:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.graph = at, at.code, at.graph
        self._written: Loop | None = None  # whose second copy is being written
        self._loops: dict[Block, Loop] = {}  # that may have one, by header
        if at.plan.checked:
            self._loops = {loop.header: loop for loop in self.graph.loops if self._is_short(loop)}
        if at.plan.sanitized:
            self._loops = {header: self._loops[header] for header in at.watch.loop_entries if header in self._loops}

    def _is_short(self, loop: Loop) -> bool:
        """Is it one without barriers that the flag may say something of?"""
        instrs = [instr for block in loop.blocks for instr in block.instrs]
        if loop.children or any(is_barrier(instr) for instr in instrs):
            return False
        pointers = [instr.args[instr.op == "store"] for instr in instrs if instr.op in ("load", "store")]
        kinds = {root.kind for pointer in pointers for root in self.at.roots.of_address(pointer)}
        return bool(kinds & set(KINDS)) and sum(cost(instr) for instr in instrs if not _is_hook(instr)) <= MOST_COST

    def prefix(self, block: Block) -> str:
        """Of the block's label in the copy that is being written."""
        return "S" if self._written is not None and block in self._written.blocks else "F"

    def entry(self, source: Block, target: Block) -> str | None:
        """The label of a loop's way in, where it is one; in sanitize mode, of the way from one copy to the other."""
        loop = self._loops.get(target)
        if loop is None:
            return None
        is_inside = source in loop.blocks
        is_gate = is_inside and self._written is not loop if self.at.plan.sanitized else not is_inside
        return self._gate(target) if is_gate else None

    def _gate(self, header: Block) -> str:
        return quoted(f"F.gate.{header.name}")

    def write(self, full: list[Block]) -> None:
        """Once the first copies of all blocks are written."""
        for header, loop in self._loops.items():
            asks = bool(self.at.proofs.asked & loop.blocks)
            self.code.place(self._gate(header))
            plain = quoted(self.at.flow.full_label(header))
            flag = self._recorded(header)
            if asks:
                flag = ALL_INSIDE if flag is TRUE else self.code.and_(flag, ALL_INSIDE)
            if flag is TRUE:
                self.code.jump(plain)
                continue
            self._written = loop
            self.code.cond_br(flag, quoted(self.at.flow.full_label(header)), plain, likely=True)
            self.at.proofs.is_shown, self.at.watch.is_recorded = asks, self.at.plan.sanitized
            for block in full:
                if block in loop.blocks:
                    self.at.flow.full_block(block)
            self.at.proofs.is_shown = self.at.watch.is_recorded = False
            self._written = None

    def _recorded(self, header: Block) -> Operand:
        """Are the reads of all rounds recorded?"""
        flag = TRUE
        for instr in self.at.watch.loop_entries.get(header, ()):
            known = self.code.load_slot((instr, "all rounds"), I1)
            flag = known if flag is TRUE else self.code.and_(flag, known)
        return flag


def _is_hook(instr: Instr) -> bool:
    return instr.callee.startswith(("__mc_report_", "__mc_has_no_value", "__mc_read"))
