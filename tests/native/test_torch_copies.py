"""Copies of blocks by a blit encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import metalcore
from metalcore.errors import IndexRangeError, LaunchError
from metalcore.health.routes import torch_ops_on
from metalcore.runtimes.host_copies import Blits, Pairs
from tests.native.machine import Machine, norm

torch: Any = pytest.importorskip("torch")


class OnHost(Blits):
    """Tensors of the stand-in are on the CPU, mappings too: here they are taken for those of another device."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.run.extension, "cpu")

    def pairs(self, mapping: Any) -> Pairs | None:
        return [(a, b) for a, b in mapping.tolist()]


@pytest.fixture
def blits(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path, runs=True)
    machine.run.host_copies = OnHost(machine)
    return machine


def test_copies(machine: Machine) -> None:
    """A blit encoder of its own, ended, behind torch's own end of its compute encoder; all in one visit."""
    x = torch.zeros(64)
    norm(machine, torch.zeros(2, 8))
    before = len(machine.metal.log)
    at = x.data_ptr()
    machine.run.extension.copy([(at, 0, at, 64, 32), (at, 32, at, 128, 4)])
    assert machine.metal.log[before:] == [
        ("queue", "begin", 0),
        ("stream", "endKernelCoalescing", 0),
        ("command buffer", "blitCommandEncoder", 0),
        ("blit encoder", "copy", at, 0, at, 64, 32),
        ("blit encoder", "copy", at, 32, at, 128, 4),
        ("blit encoder", "endEncoding"),
        ("queue", "end", 0),
    ]
    machine.metal.lengths[at] = 256
    before = len(machine.metal.log)
    for copy, words in [
        ((at, 0, at, 128, 132), "needs 132 bytes from offset 128 on of its target, which holds 256"),
        ((at, 160, at, 0, 100), "needs 100 bytes from offset 160 on of its source, which holds 256"),
        ((at, 2, at, 128, 4), "4 bytes from offset 2 to 128: macOS copies multiples of 4"),
        ((at, 0, at, 128, 0), "0 bytes from offset 0 to 128: macOS copies multiples of 4"),
        ((at, 0, at, 28, 32), "32 bytes from offset 0 to 28 of one buffer overlaps itself"),
        ((0, 0, at, 28, 32), "copy 1 has no buffer"),
    ]:
        with pytest.raises(LaunchError, match=words):
            machine.run.extension.copy([(at, 0, at, 64, 32), copy])
    assert machine.metal.log[before:] == []


def copies(machine: Machine) -> list[Any]:
    return [row[1:] for row in machine.metal.sent("blit encoder", "encoder")]


def test_blocks_of_caches(blits: Machine) -> None:
    """One blit encoder for each cache, blocks at the offset of the cache; no kernel runs."""
    storage = torch.randn(100)
    keys, values = storage[4:40].view(6, 2, 3), torch.randn(6, 5)
    before = keys.clone(), values.clone()
    with torch_ops_on(blits.run):
        metalcore.copy_blocks(keys, values, torch.tensor([[5, 0], [3, 3], [5, 2]]))
    for cache, old in zip((keys, values), before, strict=True):
        assert torch.equal(cache[[0, 2]], old[[5, 5]]) and torch.equal(cache[[1, 3, 4, 5]], old[[1, 3, 4, 5]])
    at, other = storage.data_ptr(), values.data_ptr()
    assert copies(blits) == [
        ("copy", at, 16 + 5 * 24, at, 16, 24),
        ("copy", at, 16 + 5 * 24, at, 16 + 2 * 24, 24),
        ("endEncoding",),
        ("copy", other, 100, other, 0, 20),
        ("copy", other, 100, other, 40, 20),
        ("endEncoding",),
    ]


def test_blocks_of_another_cache(blits: Machine) -> None:
    source, target = torch.randn(3, 4), torch.zeros(2, 4)
    with torch_ops_on(blits.run):
        metalcore.swap_blocks(source, target, torch.tensor([[2, 0], [1, 1]], dtype=torch.int32))
    assert torch.equal(target, source[[2, 1]])
    assert [row[0] for row in copies(blits)] == ["copy", "copy", "endEncoding"]


def test_bytes_that_no_blit_copies(blits: Machine) -> None:
    """Blocks of 6 bytes: torch copies them."""
    cache = torch.arange(12).to(torch.uint8).view(4, 3)
    with torch_ops_on(blits.run):
        metalcore.copy_blocks(cache, torch.zeros(4, 4), torch.tensor([[0, 3]]))
    assert cache[3].tolist() == [0, 1, 2] and [row[0] for row in copies(blits)] == ["copy", "endEncoding"]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[0, 1], [6, 2]], "the source 6 in pair 1, which is out of range: it must be in 0 to 5"),
        ([[0, 1], [2, -1]], "the target -1 in pair 1, which is out of range: it must be in 0 to 5"),
        ([[0, 1], [2, 3], [4, 1]], "writes block 1 in pair 2, which an earlier pair writes too: pairs must be indep"),
        ([[0, 1], [1, 3]], "writes block 1 in pair 0, which is the source of another pair: pairs must be independent"),
        ([[2, 2], [2, 3]], "writes block 2 in pair 0, which is the source of another pair: pairs must be independent"),
    ],
)
def test_wrong_pairs(blits: Machine, pairs: list[list[int]], message: str) -> None:
    """On the host they are errors as on the CPU, with the words of the kernel's own check."""
    given = torch.zeros(6, 4), torch.zeros(6, 4), torch.tensor(pairs)
    for run in (None, blits.run):
        with pytest.raises(IndexRangeError, match=message):
            if run is None:
                metalcore.copy_blocks(*given)
            else:
                with torch_ops_on(run):
                    metalcore.copy_blocks(*given)
    assert copies(blits) == []
