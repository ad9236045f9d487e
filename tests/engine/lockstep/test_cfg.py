"""Canonical control flow: switches, latches, dominators, the blocks that the same lanes pass."""

from __future__ import annotations

import pytest

from metalcore.engine.ir import Block, flat
from metalcore.engine.lockstep.cfg import Graph, canonicalise
from metalcore.errors import UnsupportedFeature


def graph_of(body: str) -> tuple[Graph, dict[str, Block]]:
    module = flat(f"define void @__mc_entry() {{\n{body}\n}}\n")
    canonicalise(module.function)
    graph = Graph(module.function)
    return graph, {b.name: b for b in module.function.blocks}


def test_a_switch_becomes_branches_and_keeps_its_phis() -> None:
    graph, blocks = graph_of("""entry:
  %x = freeze i32 3
  switch i32 %x, label %d [
    i32 1, label %j
    i32 2, label %j
    i32 9, label %d
  ]
d:
  br label %j
j:
  %v = phi i32 [ 7, %entry ], [ 7, %entry ], [ 8, %d ]
  ret void""")
    assert all(b.terminator.op != "switch" for b in graph.order)
    phi = blocks["j"].instrs[0]
    assert sorted(b.name for b in phi.targets) == ["d", "entry", "mc.switch.entry.0"]
    assert {b.name for b in blocks["j"].preds} == {"d", "entry", "mc.switch.entry.0"}


def test_two_back_edges_become_one_latch() -> None:
    graph, blocks = graph_of("""entry:
  %c = freeze i1 true
  br label %h
h:
  %k = phi i32 [ 0, %entry ], [ 1, %a ], [ 2, %b ]
  br i1 %c, label %a, label %b
a:
  br i1 %c, label %h, label %b
b:
  br i1 %c, label %h, label %out
out:
  ret void""")
    (loop,) = graph.loops
    assert loop.header is blocks["h"]
    assert loop.latch.name == "mc.latch.h"
    assert [len(p.args) for p in blocks["h"].phis()] == [2]
    assert [len(p.args) for p in loop.latch.phis()] == [2]


def test_the_same_lanes_pass_a_branch_and_its_join() -> None:
    graph, blocks = graph_of("""entry:
  %c = freeze i1 true
  br i1 %c, label %a, label %b
a:
  br label %j
b:
  br label %j
j:
  ret void""")
    assert graph.leader(None, blocks["j"]) is blocks["entry"]
    assert graph.leader(None, blocks["a"]) is blocks["a"]
    assert graph.ipdom[blocks["entry"]] is blocks["j"]


def test_a_return_before_a_join_takes_lanes_away() -> None:
    graph, blocks = graph_of("""entry:
  %c = freeze i1 true
  br i1 %c, label %a, label %j
a:
  ret void
j:
  ret void""")
    assert graph.leader(None, blocks["j"]) is blocks["j"]


def test_a_continue_takes_lanes_away_for_one_round() -> None:
    graph, blocks = graph_of("""entry:
  %c = freeze i1 true
  br label %h
h:
  br i1 %c, label %latch, label %rest
rest:
  br i1 %c, label %out, label %latch
latch:
  br label %h
out:
  ret void""")
    (loop,) = graph.loops
    assert graph.leader(loop, blocks["rest"]) is blocks["rest"]
    assert graph.leader(None, blocks["out"]) is blocks["entry"]


def test_blocks_of_a_loop_stand_together() -> None:
    graph, blocks = graph_of("""entry:
  %c = freeze i1 true
  br i1 %c, label %h, label %x
h:
  br i1 %c, label %b1, label %b2
b1:
  br label %latch
b2:
  br label %latch
latch:
  br i1 %c, label %h, label %x
x:
  ret void""")
    names = [b.name for b in graph.order]
    at = sorted(names.index(n) for n in ("h", "b1", "b2", "latch"))
    assert at == list(range(at[0], at[0] + 4))
    assert names[0] == "entry" and names[-1] == "x"
    assert graph.loop_of[blocks["b1"]] is graph.loops[0]


def test_jumps_into_a_loop_are_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="irreducible"):
        graph_of("""entry:
  %c = freeze i1 true
  br i1 %c, label %a, label %b
a:
  br label %b
b:
  br i1 %c, label %a, label %x
x:
  ret void""")
