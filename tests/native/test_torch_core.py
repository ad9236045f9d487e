"""The dispatch of native/torch, with a stand-in for Metal: order of calls, offsets, sizes, constants, limits."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import metalcore
from metalcore.errors import ArgumentError, LaunchError
from metalcore.ops.rms_norm import FORWARD
from metalcore.ops.silu import FORWARD as SILU
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.mps_native import NativeRuntime
from tests.native.machine import Machine, norm

torch: Any = pytest.importorskip("torch")


def test_a_launch(machine: Machine) -> None:
    """Inside the queue, on the stream's own encoder: pipeline, buffers at their offsets, numbers, dispatch; no end."""
    storage = torch.zeros(64)
    x, weight = storage[8:24].view(2, 8), storage[40:48]
    y, power = norm(machine, x, weight)
    log = list(machine.metal.log)
    begin = log.index(("queue", "begin", 0))
    base = storage.data_ptr()
    assert log[begin:] == [
        ("queue", "begin", 0),
        ("encoder", "setComputePipelineState", "rms_norm_forward_float_float_1", 0),
        ("encoder", "setBuffer", base, 32, 0),
        ("encoder", "setBuffer", base, 160, 1),
        ("encoder", "setBuffer", y.data_ptr(), 0, 2),
        ("encoder", "setBuffer", power.data_ptr(), 0, 3),
        ("encoder", "setBytes", (2).to_bytes(8, "little"), 4),
        ("encoder", "setBytes", (8).to_bytes(8, "little"), 5),
        ("encoder", "setBytes", bytes.fromhex("0000003f"), 6),
        ("encoder", "dispatch", (2, 1, 1), (32, 1, 1)),
        ("queue", "end", 0),
    ]
    norm(machine, x, weight)
    assert len(machine.metal.log) == len(log) + len(log[begin:])  # the same again, with no pipeline made
    assert "endEncoding" not in str(machine.metal.log) and "commit" not in str(machine.metal.log)


def test_an_input_that_is_not_there_and_one_of_no_elements(machine: Machine) -> None:
    norm(machine, torch.zeros(2, 8))
    nothing = machine.run.tensors.nothing.data_ptr()
    assert ("encoder", "setBuffer", nothing, 0, 1) in machine.metal.log
    before = len(machine.metal.log)
    outputs = norm(machine, torch.zeros(2, 8), groups=(0,))
    assert [tuple(o.shape) for o in outputs] == [(2, 8), (2,)] and machine.metal.log[before:] == []


def test_pipelines_by_variant(machine: Machine) -> None:
    """A library for each instantiation, a pipeline for each value of the constants, each made once."""
    x = torch.zeros(2, 8)
    for weight in (None, x[0], None, x[1]):
        norm(machine, x, weight)
    log = machine.metal.sent("device", "library")
    assert [row[1] for row in log] == [
        *("newLibraryWithSource", "newFunctionWithName", "newComputePipelineState"),
        *("newFunctionWithName", "newComputePipelineState"),
    ]
    assert [row[2:] for row in log if row[1] == "newFunctionWithName"] == [
        ("rms_norm_forward_float_float_1", {0: False, 1: False, 2: False}),  # what it does not name is false
        ("rms_norm_forward_float_float_1", {0: True, 1: False, 2: False}),
    ]
    assert machine.metal.sent("MTLFunctionConstantValues")[0] == (
        "MTLFunctionConstantValues", "setConstantValue", 0, 53, 0,
    )  # fmt: skip
    source = log[0][2]
    assert source.startswith("#define METALCORE_DEVICE 1\n") and "[[function_constant(0)]];" in source
    assert source.endswith("decltype(rms_norm_forward<float, float, 1>) rms_norm_forward<float, float, 1>;\n")
    assert ("MTLCompileOptions", "setFastMathEnabled", 0) in machine.metal.log
    half = dict(x=x.half(), weight=None, y=Out((2, 8), "float16"), power=Out((2,), "float32"), rows=2, width=8, eps=0.5)
    machine.run.launch(FORWARD, ("float16", "float16", 1), (False,), half, (2,), (32,))
    sources = [row[2] for row in machine.metal.log if row[1] == "newLibraryWithSource"]
    assert len(sources) == 2 and sources[1].endswith("rms_norm_forward<half, half, 1>;\n")
    log = machine.metal.sent("device", "library")
    again = NativeRuntime(machine.run.extension, "cpu")  # another runtime of the process finds them
    before = len(log)
    again.launch(SILU, ("float32", 1), (), dict(x=x, y=Out((16,), "float32"), count=16), (1, 1), (32, 1))
    machine.run = again
    norm(machine, x)
    assert [row[1] for row in machine.metal.sent("device", "library")[before:]] == [
        *("newLibraryWithSource", "newFunctionWithName", "newComputePipelineState")
    ]


def test_what_an_old_pipeline_is_released_with(machine: Machine) -> None:
    """Functions, options and values of constants are let go, and every pool is ended."""
    norm(machine, torch.zeros(2, 8))
    released = [row[0] for row in machine.metal.log if row[1] == "release"]
    assert sorted(released) == ["MTLCompileOptions", "MTLFunctionConstantValues", "function"]


@pytest.mark.parametrize(("most", "group", "words"), [(256, 512, "512 x 1 x 1 threads; this pipeline takes 1 to 256")])
def test_limits_of_threads(machine: Machine, most: int, group: int, words: str) -> None:
    machine.metal.max_threads = most
    with pytest.raises(LaunchError, match=f"kernel 'rms_norm_forward_float_float_1.*{words}: launch smaller groups"):
        norm(machine, torch.zeros(2, 8), group=group)
    assert machine.metal.sent("queue", "encoder") == []
    norm(machine, torch.zeros(2, 8), group=most)
    assert machine.metal.sent("encoder")[-1] == ("encoder", "dispatch", (2, 1, 1), (most, 1, 1))


def test_a_width_that_the_kernels_are_not_written_for(machine: Machine) -> None:
    machine.metal.width = 64
    with pytest.raises(LaunchError, match="this GPU runs 64 threads in lockstep, and the kernels are written for 32"):
        norm(machine, torch.zeros(2, 8))
    assert machine.metal.sent("queue") == []


def test_ranges_of_buffers(machine: Machine) -> None:
    """What lies behind the end of a buffer is refused before anything is encoded."""
    storage = torch.zeros(64)
    machine.metal.lengths[storage.data_ptr()] = 95
    with pytest.raises(LaunchError, match="argument 0 needs 64 bytes from offset 32 on, and its buffer holds 95"):
        norm(machine, storage[8:24].view(2, 8))
    assert machine.metal.sent("queue") == []
    machine.metal.lengths[storage.data_ptr()] = 96
    norm(machine, storage[8:24].view(2, 8))


def test_raw_launches(machine: Machine) -> None:
    """What Python never passes is refused too."""
    extension = machine.run.extension
    pipeline = machine.run.native(SILU, ("float32", 1), ()).pipeline
    assert extension.most_threads(pipeline) == 1024
    for words, groups, group, said in [
        ([(2, 0, 0, 9)], (1, 1, 1), (1, 1, 1), "argument 0 is a number of 9 bytes; there are 1 to 8"),
        ([(3, 0, 0, 513)], (1, 1, 1), (1, 1, 1), "a list of 513 arrays; Metal takes 1 to 512 in one launch"),
        ([(7, 0, 0, 0)], (1, 1, 1), (1, 1, 1), "argument 0 is of the unknown kind 7"),
        ([(1, 0, 0, 4)], (1, 1, 1), (1, 1, 1), "argument 0 has no buffer"),
        ([(2, 0, 0, 8)] * 32, (1, 1, 1), (1, 1, 1), "32 arguments; Metal takes 31"),
        ([], (1, 1 << 31, 1), (1, 2, 1), r"2147483648 threadgroups of 2 threads on axis 1; .* fewer than 2\^32"),
        ([], (1, 0, 1), (1, 1, 1), "0 threadgroups of 1 threads on axis 1"),
        ([], (1, 1, 1), (0, 1, 1), "a threadgroup of 0 x 1 x 1 threads"),
    ]:
        with pytest.raises(LaunchError, match=said):
            extension.launch(pipeline, words, groups, group)
    assert machine.metal.sent("queue", "encoder") == []
    extension.launch(pipeline, [], (1, 2, 3), (4, 5, 6))
    assert machine.metal.sent("encoder")[-1] == ("encoder", "dispatch", (1, 2, 3), (4, 5, 6))


def test_lists_of_tensors(machine: Machine) -> None:
    """The kernel gets their addresses, and Metal hears of each buffer."""
    pointers = Kernel("lion", "lion")
    storage = torch.zeros(32)
    lists = [[storage[4:8], torch.zeros(4)] for _ in range(4)]
    given: dict[str, Any] = dict(zip(("params", "grads", "masters", "exp_avgs"), lists, strict=True))
    given |= dict(settings=torch.zeros(7), keys=torch.zeros(2, dtype=torch.uint32))
    machine.run.launch(pointers, ("float32",), (), given | dict(chunks=torch.zeros(2, dtype=torch.int64)), (1,), (32,))
    log = machine.metal.sent("encoder")
    first = log[1:4]
    other = lists[0][1].data_ptr()
    assert first[:2] == [("encoder", "useResource", storage.data_ptr(), 3), ("encoder", "useResource", other, 3)]
    addresses = (storage.data_ptr() + 16).to_bytes(8, "little") + other.to_bytes(8, "little")
    assert first[2] == ("encoder", "setBytes", addresses, 0)


def test_two_streams(machine: Machine) -> None:
    """Threads with streams of their own: each launch on its own thread's encoder, in its own queue; one pipeline."""
    x = torch.zeros(2, 8)
    norm(machine, x)
    tasks = [threading.Thread(target=lambda: [norm(machine, x) for _ in range(20)]) for _ in range(2)]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    queue, opened = None, []
    for kind, name, *rest in machine.metal.log:
        if kind == "queue":
            queue = rest[0] if name == "begin" else None
        elif kind == "encoder":
            assert queue is not None  # never outside
            if name == "setComputePipelineState":
                assert rest[1] == queue
                opened.append(queue)
    assert sorted(opened) == [0] + [1] * 20 + [2] * 20
    assert len([row for row in machine.metal.log if row[1] == "newComputePipelineState"]) == 1


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("newLibraryWithSource", "Metal cannot compile it: program_source:3: error"),
        ("newFunctionWithName of library", "it has no such function: program_source:3: error"),
        ("newComputePipelineState", "Metal makes no pipeline of it: program_source:3: error"),
    ],
)
def test_what_metal_says(machine: Machine, selector: str, words: str) -> None:
    machine.metal.fails[selector] = "program_source:3: error"
    with pytest.raises(LaunchError, match=f"kernel 'rms_norm_forward_float_float_1.*': {words}"):
        norm(machine, torch.zeros(2, 8))
    machine.metal.fails[selector] = ""
    with pytest.raises(LaunchError, match="Metal gave no reason"):
        norm(machine, torch.zeros(2, 8))
    del machine.metal.fails[selector]
    norm(machine, torch.zeros(2, 8))  # nothing of the failure is kept


def test_torch_without_an_encoder(machine: Machine) -> None:
    machine.metal.has_encoder = False
    with pytest.raises(LaunchError, match="torch's MPS stream gave no compute encoder"):
        norm(machine, torch.zeros(2, 8))
    with pytest.raises(LaunchError, match="torch's MPS stream gave no command buffer for a copy"):
        machine.run.extension.copy([(8, 0, 16, 0, 4)])


def test_tensors_are_checked(machine: Machine) -> None:
    with pytest.raises(ArgumentError, match="x holds float32, not float64"):
        norm(machine, torch.zeros(2, 8).double())
    with pytest.raises(ArgumentError, match="x is on meta, not cpu"):
        norm(machine, torch.zeros(2, 8, device="meta"))


def test_results(tmp_path: Path) -> None:
    """The engine runs what Metal is given: text, constants, buffers, offsets, numbers and sizes together are right."""
    machine = Machine(tmp_path, ("rms_norm",), runs=True)
    storage = torch.randn(64)
    x, weight = storage[8:24].view(2, 8), storage[40:48]
    with metalcore.mode("fast"):
        for w in (None, weight):
            y, power = norm(machine, x, w)
            torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (8,), w, eps=0.5))
            torch.testing.assert_close(power, torch.rsqrt(x.square().mean(1) + 0.5), check_stride=False, rtol=1, atol=9)
    assert machine.metal.sent("problem") == []
