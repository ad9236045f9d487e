"""The torch part of native/torch, built for CPU tensors: ops through torch's dispatcher, plans noted and repeated.

`scripts/test-native-torch` runs these: the build takes a minute.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import metalcore
from metalcore.ops import find
from metalcore.runtimes import watch
from metalcore.runtimes.mps_native import NativeRuntime
from metalcore.runtimes.native_torch import Extension
from native.tools.linux import NAMESPACE, PLANS, build
from native.tools.schemas import schemas
from tests.conftest import ROOT
from tests.native.metal import Metal

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.sweep
OPS = ("rms_norm", "silu", "softmax", "reshape_and_cache_flash", "swap_blocks")


class Loaded:
    """The library, once in a process, on a Metal whose kernels the engine runs."""

    def __init__(self) -> None:
        from metalcore.torch.gradient import single
        from metalcore.torch.native_ops import planner

        path = str(build(ROOT / "build" / "native-torch", torch))
        torch.ops.load_library(path)
        library = ctypes.CDLL(path)
        self.metal = Metal(runs=True)
        library.metalcore_set_host(self.metal.table)
        self.extension = Extension(library)
        self.run = NativeRuntime(self.extension, "cpu")
        self.ops: Any = getattr(torch.ops, NAMESPACE)
        self.asked: list[str] = []
        self.plans = torch.library.Library(PLANS, "IMPL")
        watch.listeners.append(self.extension.watch)
        for noun in OPS:
            for name, stage in find(noun).stages.items():
                plan = planner(name, stage, lambda: self.run)
                self.plans.impl(name, single(stage, self._counted(name, plan)), "CPU")

    def _counted(self, name: str, plan: Any) -> Any:
        def run(*arguments: Any) -> Any:
            self.asked.append(name)
            return plan(*arguments)

        return run

    def asked_by(self, call: Any) -> int:
        """How often Python is asked for a plan while this is called."""
        before = len(self.asked)
        call()
        return len(self.asked) - before


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return Loaded()


@pytest.fixture(autouse=True)
def quick(loaded: Loaded) -> Iterator[None]:
    with metalcore.mode("fast"):
        yield
    assert loaded.metal.sent("problem") == []


def expected(x: Any, weight: Any = None) -> Any:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps=1e-5)


def test_schemas(loaded: Loaded) -> None:
    """Those of the Python ops, all of them, and with their tags."""
    found = {name: loaded.extension.schema(name) for name in schemas()}
    assert found == schemas() and len(found) > 100
    assert loaded.extension.schema("nothing") is None
    op = loaded.ops.rms_norm.default
    assert str(op._schema).startswith(f"{NAMESPACE}::rms_norm(Tensor x, Tensor? weight, int dims, float eps)")
    assert torch.Tag.pt2_compliant_tag in op.tags and torch.Tag.needs_fixed_stride_order in op.tags


def test_a_call_is_noted_and_repeated(loaded: Loaded) -> None:
    rms_norm = loaded.ops.rms_norm

    def call() -> None:
        storage = torch.randn(200)
        x, weight = storage[10:58].view(3, 16), storage[100:116]
        torch.testing.assert_close(rms_norm(x, weight, 1, 1e-5)[0], expected(x, weight))

    assert [loaded.asked_by(call) for _ in range(3)] == [1, 0, 0]
    encoded = [row[1:] for row in loaded.metal.sent("encoder")]
    each = len(encoded) // 3
    words = [[row[0] for row in encoded[i * each : (i + 1) * each]] for i in range(3)]
    assert words[0] == words[1] == words[2] and words[0][-1] == "dispatch"
    numbers = [[row for row in encoded[i * each : (i + 1) * each] if row[0] != "setBuffer"] for i in range(3)]
    assert numbers[0] == numbers[1] == numbers[2]  # sizes and numbers; buffers are other ones
    assert [row[2] for row in encoded if row[0] == "setBuffer"][:2] == [40, 400]  # offsets in bytes
    assert encoded[each][2:] != () and [row[2] for row in encoded[each:] if row[0] == "setBuffer"][:2] == [40, 400]


def test_what_tells_calls_apart(loaded: Loaded) -> None:
    x, weight = torch.randn(5, 24), torch.randn(24)

    def asked(*arguments: Any) -> int:
        return loaded.asked_by(lambda: loaded.ops.rms_norm(*arguments))

    assert asked(x, weight, 1, 1e-5) == 1 and asked(x.clone(), weight.clone(), 1, 1e-5) == 0
    assert asked(x, None, 1, 1e-5) == 1  # absent
    assert asked(x, weight, 1, 1e-6) == 1  # a number
    assert asked(x[:4], weight, 1, 1e-5) == 1  # a shape
    assert asked(x.bfloat16(), weight, 1, 1e-5) == 1  # a dtype
    assert asked(torch.randn(24, 5).T, weight, 1, 1e-5) == 1  # strides
    assert asked(x, weight, 1, 1e-5) == 0


def test_a_strided_argument_is_copied_each_time(loaded: Loaded) -> None:
    def call() -> None:
        x = torch.randn(16, 7).T
        torch.testing.assert_close(loaded.ops.rms_norm(x, None, 1, 1e-5)[0], expected(x))

    assert [loaded.asked_by(call) for _ in range(3)] == [1, 0, 0]


def test_several_launches_and_gradients_that_are_not_wanted(loaded: Loaded) -> None:
    def call() -> None:
        x, weight, g = torch.randn(6, 32, requires_grad=True), torch.randn(32, requires_grad=True), torch.randn(6, 32)
        _, *kept = loaded.ops.rms_norm(x.detach(), weight.detach(), 1, 1e-5)
        dx, dw = torch.autograd.grad(expected(x, weight), (x, weight), g)
        given = (g, x.detach(), weight.detach(), *kept, 1)
        names = find("rms_norm").backward.schema.names
        assert len(names) == len(given) + 1, names
        for wanted in ([True, True], [True, False]):
            found = loaded.ops.rms_norm_backward(*given, wanted)
            torch.testing.assert_close(found[0], dx, rtol=1e-4, atol=1e-5)
            if wanted[1]:
                torch.testing.assert_close(found[1], dw, rtol=1e-4, atol=1e-5)
            else:
                assert found[1].numel() == 0

    assert [loaded.asked_by(call) for _ in range(3)] == [3, 0, 0]


def test_written_in_place(loaded: Loaded) -> None:
    def call() -> None:
        cache = torch.zeros(4, 2, 1, 3)
        values = torch.zeros(4, 2, 1, 3)
        key, slots = torch.randn(2, 1, 3), torch.tensor([5, 0])
        loaded.ops.reshape_and_cache_flash(key, key + 1, cache, values, slots, "auto", 1.0, 1.0)
        assert torch.equal(cache[2, 1], key[0]) and torch.equal(values[0, 0], key[1] + 1)

    assert [loaded.asked_by(call) for _ in range(3)] == [1, 0, 0]


def test_one_tensor_given_twice(loaded: Loaded) -> None:
    """It cannot be noted which of the two is meant."""
    cache = torch.randn(4, 3)

    def call() -> None:
        loaded.ops.swap_blocks(cache, cache, torch.tensor([[1, 2]]), True)
        assert torch.equal(cache[2], cache[1])

    assert [loaded.asked_by(call) for _ in range(2)] == [1, 1]


def test_torch_script(loaded: Loaded) -> None:
    """Calls that do not come from Python find the kernels."""
    scripted = torch.jit.trace(lambda x: loaded.ops.silu(x), torch.randn(40), check_trace=False)
    x = torch.randn(40)
    assert loaded.asked_by(lambda: torch.testing.assert_close(scripted(x), torch.nn.functional.silu(x))) == 0
    assert f"{NAMESPACE}::silu" in str(scripted.graph)


def test_explain(loaded: Loaded) -> None:
    x = torch.randn(2, 8)
    loaded.ops.silu(x)
    with metalcore.explain() as log:
        assert loaded.asked_by(lambda: loaded.ops.silu(x)) == 1
    assert [(row.op, row.ran) for row in log] == [("silu", "silu_forward_float_4")]
    assert loaded.asked_by(lambda: loaded.ops.silu(x)) == 0


def test_errors_of_a_repeated_launch(loaded: Loaded) -> None:
    x = torch.randn(3, 8)
    loaded.ops.silu(x)
    loaded.metal.lengths[x.data_ptr()] = 95
    try:
        with pytest.raises(RuntimeError, match="argument 0 needs 96 bytes from offset 0 on, and its buffer holds 95"):
            loaded.ops.silu(x)
    finally:
        loaded.metal.lengths.clear()
    torch.testing.assert_close(loaded.ops.silu(x), torch.nn.functional.silu(x))


def test_a_plan_that_nobody_registered(loaded: Loaded) -> None:
    with pytest.raises(RuntimeError, match=r"its plan is Python's: import metalcore\.torch\.register in this process"):
        loaded.ops.gelu(torch.randn(4), False)


def test_words_that_make_no_sense(loaded: Loaded) -> None:
    for words in ([9], [3, 0, 1, 1, 1, 1, 1, 1, 0], [2, 99, 0], [4, 2, 0], [1, 0]):
        assert not loaded.extension.note(words)
    assert loaded.extension.note([2, 0, 1, 5, 4, 1, 0])


def test_threads(loaded: Loaded) -> None:
    """Each with a stream of its own; the plan is one."""
    x = torch.randn(8, 16)
    loaded.ops.rms_norm(x, None, 1, 1e-5)
    problems: list[Any] = []

    def work() -> None:
        try:
            for _ in range(10):
                torch.testing.assert_close(loaded.ops.rms_norm(x, None, 1, 1e-5)[0], expected(x))
        except Exception as error:
            problems.append(error)

    tasks = [threading.Thread(target=work) for _ in range(3)]
    before = len(loaded.metal.log)
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    assert problems == []
    streams = [row[3] for row in loaded.metal.log[before:] if row[1] == "setComputePipelineState"]
    assert len(set(streams)) == 3 and len(streams) == 30


BESIDE = """
import ctypes, sys, torch
from metalcore.runtimes import mps_route
from metalcore.runtimes.native_torch import Extension

torch.ops.load_library(sys.argv[1])
extension = Extension(ctypes.CDLL(sys.argv[1]))
mps_route._found = lambda: mps_route.Route(extension, "for this test")

import pytest
import metalcore
from metalcore.errors import MetalcoreError
from metalcore.ops import find
from metalcore.ops.base.op import Stage
from metalcore.torch.native_ops import is_registered
from metalcore.torch.register import OPS

has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
for noun in OPS:
    for name, stage in find(noun).stages.items():
        assert is_registered(name, stage), name
        for namespace, keys in (("metalcore", ("CPU", "MPS")), ("metalcore_plan", ("MPS",))):
            assert all(has_kernel(f"{namespace}::{name}", key) for key in keys), (namespace, name)
x, w = torch.randn(3, 8, requires_grad=True), torch.randn(8, requires_grad=True)
metalcore.rms_norm(x, (8,), w, eps=1e-5).square().sum().backward()
found = x.grad.clone(), w.grad.clone()
x.grad = w.grad = None
torch.nn.functional.rms_norm(x, (8,), w, eps=1e-5).square().sum().backward()
torch.testing.assert_close(found, (x.grad, w.grad), rtol=1e-4, atol=1e-5)
torch.library.opcheck(OPS["silu"], (torch.randn(8, requires_grad=True),))
assert "tensors on MPS run by the native torch extension: for this test" in repr(metalcore.explain())
with pytest.raises(MetalcoreError, match="was built from another version; run scripts/build-macos again"):
    is_registered("silu", Stage("(Tensor x, int more) -> Tensor y", find("silu").forward.plan))
print("all is well")
"""


def test_beside_the_ops_of_python() -> None:
    """Under its names on a Mac: it defines the ops, Python adds the rest (CPU, fake, autograd, autocast)."""
    path = build(ROOT / "build" / "native-torch-mps", torch, stands_in=False)
    words = [sys.executable, "-c", BESIDE, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout.endswith("all is well\n"), done.stderr
