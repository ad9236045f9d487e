"""Overrides: what they replace, what they leave to torch, and that nothing of them stays behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import metalcore  # noqa: E402
from metalcore.errors import ArgumentError  # noqa: E402
from metalcore.torch.overrides import active_overrides, overridable  # noqa: E402
from metalcore.torch.replacement import originals, resolve  # noqa: E402

F = torch.nn.functional
RMS_NORM = F.rms_norm


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    before = {name: getattr(*resolve(name)) for name in overridable().values()}
    yield
    metalcore.disable_pytorch_overrides()
    assert {name: getattr(*resolve(name)) for name in before} == before
    assert F.rms_norm is RMS_NORM


def what_ran(call: object) -> tuple[bool, str]:
    """Whether torch's own ran, and why."""
    with metalcore.explain() as log:
        call()  # type: ignore[operator]
    assert len(log) == 1
    return log[0].by_torch, log[0].reason


def test_every_override_is_undone_to_the_identical_function() -> None:
    before = {name: getattr(*resolve(name)) for name in overridable().values()}
    metalcore.enable_pytorch_overrides(all=True)
    assert set(active_overrides()) == set(overridable()) and "rms_norm" in overridable()
    assert all(getattr(*resolve(name)) is not function for name, function in before.items())
    metalcore.disable_pytorch_overrides()
    assert all(getattr(*resolve(name)) is function for name, function in before.items())
    assert active_overrides() == {}


def test_enable_without_names_takes_those_that_win() -> None:
    from metalcore.ops import find

    metalcore.enable_pytorch_overrides()
    faster = {n: find(n).override_from for n in overridable() if find(n).override_from is not None}
    assert {n: setting.least_elements for n, setting in active_overrides().items()} == faster
    metalcore.enable_pytorch_overrides(least_elements=5)
    assert {setting.least_elements for setting in active_overrides().values()} <= {5}


def test_names_exclusions_and_least_elements() -> None:
    metalcore.enable_pytorch_overrides("torch.nn.functional.rms_norm", least_elements=9)
    assert set(active_overrides()) == {"rms_norm"}
    assert what_ran(lambda: F.rms_norm(torch.ones(8), (8,))) == (True, "fewer than 9 elements")
    assert what_ran(lambda: F.rms_norm(torch.ones(2, 8), (8,)))[0] is False
    metalcore.disable_pytorch_overrides("rms_norm")
    assert F.rms_norm is RMS_NORM
    metalcore.enable_pytorch_overrides(all=True, exclude=("rms_norm",))
    assert F.rms_norm is RMS_NORM
    with pytest.raises(ArgumentError, match="no override named 'nonsense'"):
        metalcore.enable_pytorch_overrides("nonsense")
    with pytest.raises(ArgumentError, match="least_elements"):
        metalcore.enable_pytorch_overrides("rms_norm", least_elements=-1)


def test_blocks_nest_and_restore_the_outer_state() -> None:
    with metalcore.overrides("rms_norm"):
        outer = F.rms_norm
        assert outer is not RMS_NORM
        with metalcore.overrides(enabled=False):
            assert F.rms_norm is RMS_NORM
            metalcore.enable_pytorch_overrides("rms_norm")  # holds to the end of the block
            assert F.rms_norm is not RMS_NORM
        with metalcore.overrides("rms_norm", enabled=False):
            assert F.rms_norm is RMS_NORM
        with metalcore.overrides("rms_norm"):
            metalcore.disable_pytorch_overrides()
            assert F.rms_norm is RMS_NORM
        assert F.rms_norm is not RMS_NORM
    assert F.rms_norm is RMS_NORM
    with pytest.raises(ZeroDivisionError), metalcore.overrides("rms_norm"):
        raise ZeroDivisionError
    assert F.rms_norm is RMS_NORM


def test_blocks_of_threads_may_end_in_any_order() -> None:
    first, second = metalcore.overrides("rms_norm"), metalcore.overrides("rms_norm")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(active_overrides()) == {"rms_norm"}
    second.__exit__(None, None, None)
    assert F.rms_norm is RMS_NORM


def test_threads_turn_it_on_and_off_while_others_compute() -> None:
    x = torch.randn(3, 8)
    expected = RMS_NORM(x, (8,))
    wrong: list[object] = []

    def work() -> None:
        try:
            for _ in range(40):
                with metalcore.overrides("rms_norm"):
                    if not torch.allclose(F.rms_norm(x, (8,)), expected, atol=1e-6):
                        wrong.append("value")
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and F.rms_norm is RMS_NORM


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: torch.ones(2, 8, dtype=torch.float64), "input is float64"),
        (lambda: torch.ones(2, 8, device="meta"), "input is on meta"),
        (lambda: torch.nn.Buffer(torch.ones(2, 8)).as_subclass(_Sub), "input is a _Sub"),
    ],
)
def test_tensors_that_are_left_to_torch(make: object, why: str) -> None:
    with metalcore.overrides("rms_norm"):
        assert what_ran(lambda: F.rms_norm(make(), (8,))) == (True, why)  # type: ignore[operator]


class _Sub(torch.Tensor):
    pass


def test_modes_and_transforms_are_left_to_torch() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = torch.ones(2, 8)
    with metalcore.overrides("rms_norm"):
        with torch.autocast("cpu", torch.bfloat16):
            assert what_ran(lambda: F.rms_norm(x, (8,))) == (True, "autocast is on")
        assert what_ran(lambda: torch.func.vmap(lambda r: F.rms_norm(r, (8,)))(x))[1].startswith("inside a transform")
        assert what_ran(lambda: torch.func.jvp(lambda r: F.rms_norm(r, (8,)), (x,), (x,)))[0] is True
        with FakeTensorMode() as mode:
            fake = mode.from_tensor(x)
            assert what_ran(lambda: F.rms_norm(fake, (8,)))[0] is True
        with torch.device("cpu"):
            assert what_ran(lambda: F.rms_norm(x, (8,))) == (True, "a mode of torch is active")
        assert what_ran(lambda: F.rms_norm(x, (8,)))[0] is False


def test_errors_are_those_of_torch() -> None:
    x = torch.ones(2, 8)
    with metalcore.overrides("rms_norm"):
        with pytest.raises(RuntimeError, match="normalized_shape"):
            F.rms_norm(x, (7,))
        with pytest.raises(TypeError):
            F.rms_norm(x, (8,), nonsense=1)
        with pytest.raises(TypeError):
            F.rms_norm(x, (8,), None, None, None)


def test_modules_of_torch_run_the_op() -> None:
    module = torch.nn.RMSNorm(8)
    x = torch.randn(2, 8, requires_grad=True)
    with metalcore.overrides("rms_norm"), metalcore.explain() as log:
        module(x).sum().backward()
    assert [row.op for row in log] == ["rms_norm", "rms_norm_backward"]
    assert "rms_norm_forward_float" in log[0].ran and x.grad is not None


def test_no_recursion_and_originals_for_a_thread() -> None:
    x = torch.ones(2, 8)
    with metalcore.overrides("rms_norm"), metalcore.explain() as log:
        with originals():
            F.rms_norm(x, (8,))
        assert len(log) == 0
        F.rms_norm(x, (8,))
    assert len(log) == 1


def test_a_wrapper_of_somebody_else_stays() -> None:
    context = metalcore.overrides("rms_norm")
    context.__enter__()
    ours = F.rms_norm
    try:
        F.rms_norm = lambda *a: ours(*a)
        theirs = F.rms_norm
        context.__exit__(None, None, None)
        assert F.rms_norm is theirs
        with metalcore.explain() as log:
            assert torch.equal(F.rms_norm(torch.ones(2), (2,)), torch.ones(2))
        assert len(log) == 0  # ours passes on
    finally:
        F.rms_norm = RMS_NORM


def test_compiled_code_takes_torchs_own() -> None:
    x = torch.randn(2, 8)
    with metalcore.overrides("rms_norm"), metalcore.explain() as log:
        compiled = torch.compile(lambda t: F.rms_norm(t, (8,)) * 2, fullgraph=True, backend="eager")
        assert torch.equal(compiled(x), RMS_NORM(x, (8,)) * 2)
    assert len(log) == 0


def test_explain_tells_the_state_and_a_table() -> None:
    assert "rms_norm" in repr(metalcore.explain()) and " off " in repr(metalcore.explain())
    with metalcore.overrides("rms_norm", least_elements=5):
        assert "on, from 5 elements" in str(metalcore.explain())
    with metalcore.explain() as log:
        assert str(log) == "no op ran"
        metalcore.rms_norm(torch.ones(2, 8), (8,))
        with metalcore.explain() as inner:
            metalcore.rms_norm(torch.ones(3, 8).numpy(), (8,))
    assert (len(log), len(inner)) == (2, 1)
    assert "called as metalcore.rms_norm" in str(log) and "3x8" in str(inner)
    metalcore.rms_norm(torch.ones(2, 8), (8,))
    assert len(log) == 2


@pytest.mark.parametrize("name", [3, None, ("softmax",)])
def test_names_that_are_no_text(name: object) -> None:
    before = active_overrides()
    for change in (metalcore.enable_pytorch_overrides, metalcore.disable_pytorch_overrides):
        with pytest.raises(ArgumentError, match="an op is named by text, as in 'softmax', not by"):
            change(name)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="an op is named by text"), metalcore.overrides(name):  # type: ignore[arg-type]
        pass
    with pytest.raises(ArgumentError, match="exclude must be names of ops"), metalcore.overrides(exclude=3):  # type: ignore[arg-type]
        pass
    assert active_overrides() == before


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_ops_refuse_nested_tensors(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    for call in (metalcore.gelu, lambda x: metalcore.softmax(x, -1)):
        with pytest.raises(ArgumentError, match="input must be one block of memory, not a nested tensor"):
            call(nested)
