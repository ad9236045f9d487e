"""emulate(): programs for a Mac see one, and afterwards nothing is left of it."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from metalcore.dropins.emulate import Patches, emulate

torch = pytest.importorskip("torch")
mx = pytest.importorskip("mlx.core")


def snapshot() -> dict[str, Any]:
    """Every attribute of every module and class that emulate() touches."""
    owners = {
        "torch": torch, "torch.mps": torch.mps, "profiler": torch.mps.profiler, "backend": torch.backends.mps,
        "accelerator": torch.accelerator, "autocast": torch.amp.autocast_mode.autocast, "mx": mx, "mx.fast": mx.fast,
        "mx.metal": mx.metal, "thread": threading.Thread, "backward": torch.autograd.function.BackwardCFunction,
        "library": torch.library.Library,
    }  # fmt: skip
    found = {f"{where}.{name}": value for where, owner in owners.items() for name, value in vars(owner).items()}
    return found | {"meta_path": list(sys.meta_path), "modes": torch._C._len_torch_function_stack()}


def same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    meta, modes = before.pop("meta_path") == after.pop("meta_path"), before.pop("modes") == after.pop("modes")
    return meta and modes and before.keys() == after.keys() and all(before[name] is after[name] for name in before)


@pytest.mark.feature("API", "emulate(): undone fully, after errors and when nested too")
def test_undone() -> None:
    before = snapshot()
    with emulate():
        assert torch.backends.mps.is_available() and mx.metal.is_available()
    assert same(before, snapshot())
    before = snapshot()
    with pytest.raises(ZeroDivisionError), emulate(), emulate():
        assert not same(before.copy(), snapshot())
        _ = 1 / 0
    assert same(before, snapshot())
    assert not torch.backends.mps.is_available() and not mx.metal.is_available()


def test_nested_blocks_end_with_the_outermost() -> None:
    with emulate():
        with emulate():
            pass
        assert torch.backends.mps.is_built()
        assert torch.ones(1, device="mps").is_mps
    assert not torch.ones(1).is_mps


def test_patches_restore_what_was_missing() -> None:
    class Owner:
        kept = 1

    patches = Patches()
    patches.set(Owner, "kept", 2)
    patches.set(Owner, "kept", 3)
    patches.set(Owner, "new", 4)
    assert (Owner.kept, vars(Owner)["new"]) == (3, 4)
    patches.restore()
    assert Owner.kept == 1 and not hasattr(Owner, "new")


@pytest.mark.feature("API", "emulate(): device 'mps' means CPU tensors that report mps:0")
class TestDevice:
    @pytest.fixture(autouse=True)
    def emulated(self) -> Any:
        with emulate():
            yield

    def test_factories(self) -> None:
        device = torch.device("mps")
        made = [
            torch.zeros(3, device="mps"), torch.tensor([1.0], device=device), torch.arange(4, device="mps:0"),
            torch.full((2,), 1.0, device=device), torch.randn(2, 2, device=device), torch.empty(0, device="mps"),
            torch.as_tensor([1, 2], device=device), torch.eye(2, device=device),
        ]  # fmt: skip
        for tensor in made:
            assert tensor.device == torch.device("mps:0") and tensor.device.type == "mps"
            assert tensor.is_mps and not tensor.is_cpu and tensor.get_device() == 0
        assert torch.zeros(3).device.type == "cpu" and not torch.zeros(3).is_mps

    def test_moves_are_copies(self) -> None:
        cpu = torch.ones(3)
        gpu = cpu.to("mps")
        gpu += 1
        assert cpu.tolist() == [1, 1, 1] and gpu.tolist() == [2, 2, 2]
        back = gpu.cpu()
        back += 1
        assert gpu.tolist() == [2, 2, 2] and back.device.type == "cpu"
        assert gpu.to("mps") is gpu
        assert cpu.to("cpu") is cpu
        assert torch.zeros(2).to(gpu).is_mps
        assert gpu.to(torch.float16).is_mps
        assert gpu.to(torch.device("cpu"), torch.float16).device.type == "cpu"

    def test_results_stay_where_their_inputs_are(self) -> None:
        x = torch.ones(2, 3, device="mps")
        cpu = torch.zeros(2, 3)
        for made in (x + 1, x[0], x.T, torch.cat([x, x]), torch.empty_like(x), x.new_zeros(2), x.detach(), x.data):
            assert made.is_mps
        for made in (*x.split(1), *torch.max(x, dim=0)):
            assert made.is_mps
        cpu.copy_(x)
        assert not cpu.is_mps and cpu.sum() == 6
        assert not cpu.view_as(x).is_mps
        assert not x.new_zeros(2, device="cpu").is_mps
        assert "device='mps:0'" in repr(x) and "device" not in repr(cpu)

    def test_modules_and_training(self) -> None:
        moved, made = torch.nn.Linear(3, 2).to("mps"), torch.nn.Linear(3, 2, device="mps")
        for module in (moved, made, copy.deepcopy(made)):
            assert next(module.parameters()).is_mps
            loss = module(torch.ones(4, 3, device="mps")).square().sum()
            loss.backward()
            assert loss.is_mps and module.weight.grad.is_mps
            before = module.weight.detach().clone()
            torch.optim.AdamW(module.parameters(), lr=0.1).step()
            assert not torch.equal(before, module.weight)

    def test_backward_functions_see_the_device(self) -> None:
        seen = []

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                (x,) = ctx.saved_tensors
                seen.extend([x.is_mps, grad.device.type, torch.ones(1, device="mps").is_mps])
                return 2 * x * grad

        x = torch.tensor([1.0, 3.0], device="mps", requires_grad=True)
        Square.apply(x * 1).sum().backward()
        assert seen == [True, "mps", True]
        assert x.grad.tolist() == [2, 6]

    def test_operators_registered_for_mps(self) -> None:
        double = torch.library.custom_op(
            "metalcore_test::double",
            lambda x: x * 2,
            mutates_args=(),
            device_types="mps",
            schema="(Tensor x) -> Tensor",
        )
        double.register_kernel("cpu", lambda x: x * 20)
        assert double(torch.ones(1, device="mps")).tolist() == [2] and double(torch.ones(1)).tolist() == [20]
        assert double(torch.ones(1, device="mps")).is_mps and not double(torch.ones(1)).is_mps
        library = torch.library.Library("metalcore_test2", "DEF")
        library.define("zeros_like_it(Tensor x) -> Tensor")
        library.impl("zeros_like_it", lambda x: torch.zeros(x.shape, device="mps"), "MPS")
        made = torch.ops.metalcore_test2.zeros_like_it(torch.ones(3, device="mps"))
        assert made.is_mps and made.tolist() == [0, 0, 0]
        with pytest.raises(NotImplementedError, match="only for MPS"):
            torch.ops.metalcore_test2.zeros_like_it(torch.ones(3))

    def test_default_devices(self) -> None:
        torch.set_default_device("mps")
        try:
            assert torch.zeros(2).is_mps and torch.nn.Linear(2, 2).weight.is_mps
        finally:
            torch.set_default_device(None)
        with torch.device("mps"):
            assert torch.ones(2).is_mps
        assert not torch.zeros(2).is_mps

    def test_threads(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            assert all(pool.map(lambda n: torch.ones(n, device="mps").is_mps, range(1, 9)))

    def test_float64_is_refused_as_on_a_mac(self) -> None:
        with pytest.raises(TypeError, match="float64"):
            torch.zeros(2, dtype=torch.float64, device="mps")
        with pytest.raises(TypeError, match="float64"):
            torch.zeros(2, dtype=torch.float64).to("mps")

    def test_torch_mps(self) -> None:
        assert torch.mps.device_count() == 1 and torch.mps.is_available()
        before = torch.mps.current_allocated_memory()
        x = torch.zeros(1000, device="mps")
        assert torch.mps.current_allocated_memory() - before == 4000
        del x
        assert torch.mps.current_allocated_memory() == before
        torch.mps.synchronize()
        torch.mps.empty_cache()
        torch.mps.set_per_process_memory_fraction(0.5)
        with pytest.raises(ValueError, match="fraction"):
            torch.mps.set_per_process_memory_fraction(3.0)
        torch.mps.manual_seed(7)
        first = torch.randn(3, device="mps")
        state = torch.mps.get_rng_state()
        torch.mps.manual_seed(7)
        assert torch.equal(first, torch.randn(3, device="mps"))
        assert torch.equal(state, torch.mps.get_rng_state())
        start, end = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
        start.record()
        end.record()
        assert end.query() and start.elapsed_time(end) >= 0
        with pytest.raises(NotImplementedError, match="metallib"):
            torch.mps.load_metallib(b"")
        with torch.mps.profiler.profile():
            pass
        assert torch.accelerator.current_accelerator() == torch.device("mps")

    def test_generators_autocast_and_load(self) -> None:
        generator = torch.Generator(device="mps").manual_seed(1)
        assert isinstance(generator, torch.Generator) and isinstance(torch.default_generator, torch.Generator)
        assert torch.rand(2, generator=generator, device="mps").is_mps
        with torch.autocast("mps", dtype=torch.bfloat16):
            assert torch.nn.Linear(2, 2, device="mps")(torch.ones(1, 2, device="mps")).dtype == torch.bfloat16
        file = io.BytesIO()
        torch.save({"w": torch.ones(2, device="mps")}, file)
        file.seek(0)
        assert torch.load(file, map_location="mps")["w"].is_mps


@pytest.mark.feature("API", "emulate(): mx.metal, mx.gpu and mx.compile")
def test_mlx() -> None:
    gpu = mx.gpu
    with emulate():
        assert mx.metal.is_available() and mx.metal.device_info()["memory_size"] > 0
        mx.set_default_device(mx.gpu)
        assert mx.default_device() == mx.gpu
        assert mx.add(mx.array(1), 2, stream=mx.gpu).item() == 3
        calls = []
        compiled = mx.compile(lambda x: (calls.append(1), x + 1)[1])
        assert [compiled(mx.array(i)).item() for i in range(3)] == [1, 2, 3]
        assert len(calls) == 3
    assert mx.gpu == gpu
    calls.clear()
    compiled = mx.compile(lambda x: (calls.append(1), x + 1)[1])
    assert [compiled(mx.array(i)).item() for i in range(3)] == [1, 2, 3]
    assert len(calls) == 1


@pytest.mark.feature("API", "emulate(): modules imported inside the block")
def test_later_imports() -> None:
    program = """
import sys
from metalcore.dropins.emulate import emulate
assert not {"torch", "mlx", "mlx.core"} & set(sys.modules)
with emulate():
    assert not {"torch", "mlx", "mlx.core"} & set(sys.modules)
    import torch
    import mlx.core as mx
    assert torch.backends.mps.is_available() and torch.ones(2, device="mps").is_mps
    assert mx.metal.is_available()
    loaders = torch.__spec__.loader, mx.__spec__.loader
assert not torch.backends.mps.is_available() and not mx.metal.is_available()
assert [type(loader).__module__ for loader in loaders] == ["_frozen_importlib_external"] * 2
assert torch._C._len_torch_function_stack() == 0
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_engine_itself_takes_tensors_on_mps() -> None:
    import metalcore

    twice = metalcore.Library("kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }")
    with emulate():
        x = torch.arange(4.0, device="mps")
        twice.function("twice")(x, threads=4)
        assert x.is_mps and x.tolist() == [0, 2, 4, 6]


def test_without_torch_and_mlx() -> None:
    program = """
import sys
sys.modules["torch"] = sys.modules["mlx"] = sys.modules["mlx.core"] = None
import numpy as np, metalcore
with metalcore.emulate():
    x = np.ones(4, np.float32)
    metalcore.compile_shader("kernel void f(device float* x, uint i [[thread_position_in_grid]]) { x[i] += i; }").f(x)
    assert x.tolist() == [1, 2, 3, 4]
    kernel = metalcore.metal_kernel("k", ["x"], ["y"], "y[thread_position_in_grid.x] = x[thread_position_in_grid.x];")
    (y,) = kernel(
        inputs=[x], output_shapes=[(4,)], output_dtypes=["float32"], grid=(4, 1, 1), threadgroup=(4, 1, 1)
    )
    assert y.tolist() == [1, 2, 3, 4]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
