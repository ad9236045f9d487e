"""Which values of the scalar program are still needed behind an instruction."""

from __future__ import annotations

from metalcore.engine.ir import Block, Const, Function, Instr


class Liveness:
    def __init__(self, function: Function) -> None:
        self.open = {i for b in function.blocks for i in b.instrs if i.op == "phi" and _is_open(i)}
        self.out: dict[Block, set[Instr]] = {b: set() for b in function.blocks}
        self.into: dict[Block, set[Instr]] = {b: set() for b in function.blocks}
        changed = True
        while changed:
            changed = False
            for block in reversed(function.blocks):
                out: set[Instr] = set()
                for succ in block.succs:
                    out |= self.into[succ]
                    for phi in succ.phis():
                        out |= {
                            a
                            for a, source in zip(phi.args, phi.targets, strict=True)
                            if source is block and isinstance(a, Instr)
                        }
                live = set(out)
                for instr in reversed(block.instrs):
                    live.discard(instr)
                    if instr.op != "phi":
                        live |= {a for a in instr.args if isinstance(a, Instr)}
                live |= self.open & set(block.phis())
                if out != self.out[block] or live != self.into[block]:
                    self.out[block], self.into[block] = out, live
                    changed = True

    def across(self, instr: Instr) -> list[Instr]:
        """Values made before an instruction and needed after it, in program order of their names."""
        block = instr.block
        assert block is not None
        live = set(self.out[block])
        for later in reversed(block.instrs):
            if later is instr:
                break
            live.discard(later)
            if later.op != "phi":
                live |= {a for a in later.args if isinstance(a, Instr)}
        return sorted(live, key=lambda v: v.name)


def _is_open(phi: Instr) -> bool:
    """Whether some edge gives it no value: it then has the one that it had."""
    return any(isinstance(arg, Const) and arg.text in ("undef", "poison") for arg in phi.args)
