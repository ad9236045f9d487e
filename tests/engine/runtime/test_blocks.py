"""Blocks of mode, target and isolate as objects: entered in several tasks and threads, left without being entered."""

from __future__ import annotations

import asyncio
import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.engine.isolate.current import current as current_sandbox
from metalcore.engine.modes import current_mode, timeout_around
from metalcore.errors import ArgumentError, MetalcoreError
from metalcore.launch import chosen_target

SOURCE = "kernel void f(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 1; }"
BLOCKS = {
    "mode": (lambda: metalcore.mode("fast", timeout=7), lambda: (current_mode(), timeout_around()) == ("fast", 7)),
    "target": (lambda: metalcore.target("M1"), lambda: chosen_target() is not None),
    "isolate": (lambda: metalcore.isolate(), lambda: current_sandbox() is not None),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_one_object_in_two_tasks(kind: str) -> None:
    make, holds = BLOCKS[kind]
    block = make()

    async def use(first: float, second: float) -> bool:
        await asyncio.sleep(first)
        with block:
            inside = holds()
            await asyncio.sleep(second)
            inside &= holds()
            with block:
                inside &= holds()
            inside &= holds()
        return bool(inside and not holds())

    async def both() -> list[bool]:
        return await asyncio.gather(use(0, 0.05), use(0.02, 0.1), use(0.03, 0.01))

    assert asyncio.run(both()) == [True] * 3
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: asyncio.run(use(0, 0.01)), range(4))) == [True] * 4
    assert not holds()


@pytest.mark.parametrize("kind", BLOCKS)
def test_left_without_being_entered(kind: str) -> None:
    with pytest.raises(MetalcoreError, match=f"metalcore.{kind}: a block is left that was not entered"):
        BLOCKS[kind][0]().__exit__(None, None, None)


@pytest.mark.parametrize("memory", [1 << 70, 1 << 47, 10**5000, 1, True, 2.5], ids=range(6))
def test_memory_of_a_worker(memory: Any) -> None:
    with pytest.raises(ArgumentError, match=r"memory=.* must be a number of bytes, 67108864"):
        metalcore.isolate(memory=memory)


def test_pickles_and_copies() -> None:
    library = metalcore.Library(SOURCE)
    shader = metalcore.compile_shader(SOURCE)
    kernel = metalcore.metal_kernel("k", [], ["y"], "y[0] = 1;")
    for made in (library, library.function("f"), metalcore.isolate(), shader, shader.f, kernel):
        with pytest.raises(ArgumentError, match=f"a metalcore {type(made).__name__} cannot be pickled"):
            pickle.dumps(made)
        assert copy.copy(made) is made and copy.deepcopy(made) is made
    x = np.zeros(4, np.float32)
    copy.deepcopy({"f": library.function("f")})["f"](x, threads=4)
    assert x.all()
