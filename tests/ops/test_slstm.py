"""slstm and slstm_step: tiny cases by hand, carried states, range, errors. The error rule is in test_ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.health.cases.slstm import reference
from tests.ops.contract import compiled_agrees, floats, gpu_launches_agree, opcheck

Arrays = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def drawn(batch: int, steps: int, heads: int, depth: int, seed: int = 0, dtype: Any = torch.float32) -> Arrays:
    random = torch.Generator().manual_seed(seed)
    shapes = ((batch, steps, 4, heads, depth), (4, heads, depth, depth), (4, heads, depth))
    x, R, b = (torch.randn(s, generator=random) for s in shapes)
    return x.to(dtype), (R / max(1, depth) ** 0.5).to(dtype), b.to(dtype)


def states_of(batch: int, heads: int, depth: int, seed: int = 1) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    y, c, n, m = (torch.randn(batch, heads, depth, generator=random) for _ in range(4))
    return y, c, n.abs() + 0.5, m


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_two_steps_by_hand() -> None:
    """The first step has m = i and n = 1; in the second what was kept outweighs what comes."""
    x = torch.tensor([[[1.0, 0.5, 0.25, 2.0], [-3.0, 1.0, -1.0, 0.0]]]).reshape(1, 2, 4, 1, 1)
    R, b = torch.tensor([0.5, -0.5, 1.0, 0.25]).reshape(4, 1, 1, 1), torch.tensor([0.1, 0.2, 0.3, 0.4]).reshape(4, 1, 1)
    y, (last, c, n, m) = metalcore.slstm(x, R, b, return_last_states=True)
    first = sigmoid(2.4) * math.tanh(0.55)
    i, f, z, o = -3.0 + 0.5 * first + 0.1, 1.0 - 0.5 * first + 0.2, -1.0 + first + 0.3, 0.25 * first + 0.4
    kept = math.log(sigmoid(f)) + 1.1
    assert kept > i
    enters = math.exp(i - kept)
    expected_c, expected_n = math.tanh(0.55) + enters * math.tanh(z), 1 + enters
    second = sigmoid(o) * expected_c / expected_n
    assert y.flatten().tolist() == pytest.approx([first, second], rel=2e-7)
    assert [s.item() for s in (last, c, n, m)] == pytest.approx([second, expected_c, expected_n, kept], rel=2e-7)


def test_heads_and_gates_have_their_own_matrices() -> None:
    x, R, b = torch.zeros(1, 2, 4, 2, 3), torch.zeros(4, 2, 3, 3), torch.zeros(4, 2, 3)
    x[:, 0, 2], x[:, 0, 3] = 20.0, 20.0  # y of the first step is 1
    R[2, 1, 0, 2] = 0.75  # of head 1, from element 0 to element 2 of z
    _, (_, c, n, _) = metalcore.slstm(x, R, b, return_last_states=True)
    second = c - n + 1  # log sigmoid(0) is below 0: n is half of what was, plus 1
    assert n.flatten().tolist() == [1.5] * 6
    expected = torch.zeros(1, 2, 3)
    expected[0, 1, 2] = math.tanh(0.75)
    torch.testing.assert_close(second, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("batch", "steps", "heads", "depth"), [(3, 17, 2, 5), (2, 40, 1, 33), (9, 9, 3, 64), (1, 3, 1, 300)]
)
def test_a_plain_loop_in_float64(batch: int, steps: int, heads: int, depth: int) -> None:
    given = drawn(batch, steps, heads, depth)
    states = states_of(batch, heads, depth)
    y, last = metalcore.slstm(*given, states, True)
    truth, truths = reference(*(t.double() for t in given), tuple(s.double() for s in states), True)
    for a, b in zip((y, *last), (truth, *truths), strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a.double(), b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_split_sequence_is_the_whole(dtype: Any) -> None:
    """States are handed on in float32, so that not a bit is lost in half precision."""
    x, R, b = drawn(3, 30, 2, 40, dtype=dtype)
    whole, last = metalcore.slstm(x, R, b, None, True)
    states: Any = None
    parts = []
    for begin, end in ((0, 1), (1, 17), (17, 17), (17, 29)):
        y, states = metalcore.slstm(x[:, begin:end], R, b, states, True)
        parts.append(y)
    y, states = metalcore.slstm_step(x[:, 29], R, b, states)
    whole_of_parts = torch.cat([*parts, y[:, None]], 1)
    if dtype == torch.float32:  # pairs of floats in a launch, floats between two
        torch.testing.assert_close(whole_of_parts, whole, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(states, last, rtol=1e-6, atol=1e-6)
    else:
        assert torch.equal(whole_of_parts, whole)
        assert all(torch.equal(a, b) for a, b in zip(states, last, strict=True))


def test_gradients_go_through_carried_states() -> None:
    given = [t.double().requires_grad_() for t in drawn(2, 8, 2, 3)]
    whole = torch.autograd.grad(metalcore.slstm(*given).square().sum(), given)
    y, states = metalcore.slstm(given[0][:, :5], *given[1:], None, True)
    rest = metalcore.slstm(given[0][:, 5:], *given[1:], states)
    parts = torch.autograd.grad(y.square().sum() + rest.square().sum(), given)
    for a, b in zip(parts, whole, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("zeros", [False, True])
def test_gradients_of_all_states(zeros: bool) -> None:
    """Also of states that are zeros, where m is the input's and the forget gate is cut at 1, as the formula has it."""
    given = [t.double() for t in (*drawn(2, 5, 2, 3), *states_of(2, 2, 3))]
    if zeros:
        given[3:] = [given[3], given[4], torch.zeros_like(given[5]), given[6]]
    inputs = [t.requires_grad_() for t in given]
    results = []
    for run in (metalcore.slstm, reference):
        y, last = run(*inputs[:3], tuple(inputs[3:]), True)
        weights = [torch.linspace(-1, 2, o.numel(), dtype=o.dtype).reshape(o.shape) for o in (y, *last)]
        results.append(torch.autograd.grad([y, *last], inputs, weights))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-11)


def test_no_steps_hand_the_states_on() -> None:
    x, R, b = drawn(2, 0, 2, 5)
    states = tuple(s.requires_grad_() for s in states_of(2, 2, 5))
    y, last = metalcore.slstm(x, R.requires_grad_(), b, states, True)
    assert y.shape == (2, 0, 2, 5)
    assert all(torch.equal(a, b) for a, b in zip(last, states, strict=True))
    grads = torch.autograd.grad([s.sum() * k for k, s in enumerate(last)], [R, *states])
    assert [g.unique().tolist() for g in grads] == [[0.0], [0.0], [1.0], [2.0], [3.0]]


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [(2, 40, 2, 8), (8, 40, 4, 64)])
def test_large_gates_stay_finite(dtype: Any, size: tuple[int, int, int, int]) -> None:
    x, R, b = drawn(*size, dtype=dtype)
    x = torch.rand(x.shape, generator=torch.Generator().manual_seed(2)).mul(45.0).sub(15.0).to(dtype)
    given = [t.requires_grad_() for t in (x, R, b)]
    y, last = metalcore.slstm(*given, None, True)
    grads = torch.autograd.grad(y.float().sum() + sum(s.sum() for s in last), given)
    assert all(torch.isfinite(t).all() for t in (y, *last, *grads))
    truth = reference(*(t.detach().double() for t in given))
    assert (y.double() - truth).abs().max() < (1e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("size", [(2, 20, 2, 5), (9, 65, 3, 65)])
def test_an_input_that_is_shut_out(size: tuple[int, int, int, int]) -> None:
    """An input gate of -infinity leaves c, n and y's ratio as they were; NaN is not swallowed."""
    x, R, b = drawn(*size)
    x[:, 3, 0] = -torch.inf
    y, last = metalcore.slstm(x, R, b, None, True)
    torch.testing.assert_close(y, reference(x.double(), R.double(), b.double()).float(), rtol=1e-4, atol=1e-5)
    assert all(torch.isfinite(s).all() for s in last)
    for gate in range(4):
        broken = x.clone()
        broken[0, 0, gate, 0, 0] = torch.nan
        assert torch.isnan(metalcore.slstm(broken, R, b)[0, 0, 0, 0]), gate


@pytest.mark.sweep
def test_the_same_bits_in_every_run() -> None:
    for size in ((3, 20, 2, 33), (8, 64, 4, 64)):
        given = [t.requires_grad_() for t in drawn(*size)]
        runs = []
        for _ in range(10):
            y, last = metalcore.slstm(*given, None, True)
            runs.append((y, *last, *torch.autograd.grad(y.sum() + last[1].sum(), given)))
        assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(run, runs[0], strict=True))


@pytest.mark.sweep
def test_states_of_another_dtype() -> None:
    """float32 states beside half inputs; gradients come in the dtype of their input."""
    x, R, b = drawn(2, 6, 2, 8, dtype=torch.float16)
    states = tuple(s.requires_grad_() for s in states_of(2, 2, 8))
    y = metalcore.slstm(x, R.requires_grad_(), b, states)
    assert y.dtype == torch.float16
    grads = torch.autograd.grad(y.sum(), [R, *states])
    assert [g.dtype for g in grads] == [torch.float16] + [torch.float32] * 4
    exact = [s.detach().double().requires_grad_() for s in states]
    truths = torch.autograd.grad(reference(x.double(), R.double(), b.double(), exact).sum(), exact)
    for g, truth in zip(grads[1:], truths, strict=True):
        torch.testing.assert_close(g.double(), truth, rtol=1e-3, atol=1e-3)


def test_numpy_and_no_gradient() -> None:
    given = drawn(2, 5, 1, 7)
    y = metalcore.slstm(*(t.numpy() for t in given))
    assert isinstance(y, np.ndarray)
    assert np.array_equal(y, metalcore.slstm(*given).numpy())


def test_torch_knows_the_op() -> None:
    inputs = [t.requires_grad_() for t in (*drawn(2, 4, 2, 3), *states_of(2, 2, 3))]
    assert opcheck("slstm", *inputs, True)
    assert opcheck("slstm", *inputs, False)  # the gradient was not announced
    assert compiled_agrees(lambda x, R, b, *s: metalcore.slstm(x, R, b, s), *inputs)


@pytest.mark.sweep
def test_launches_of_a_gpu() -> None:
    shapes = ((9, 20, 4, 2, 70), (4, 2, 70, 70), (4, 2, 70))
    x, R, b = floats(*shapes)
    assert gpu_launches_agree("slstm", x, type(R)(R.values / 16), b, None, True)


GOOD = {"x": torch.zeros(2, 3, 4, 2, 5), "R": torch.zeros(4, 2, 5, 5), "b": torch.zeros(4, 2, 5)}
STATE = torch.zeros(2, 2, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(2, 4, 2, 5)}, r"x must be of shape \(batch, steps, 4, heads, depth\), not of shape"),
        ({"x": torch.zeros(2, 3, 3, 2, 5)}, r"x must be of shape \(batch, steps, 4, heads, depth\), not of shape"),
        ({"x": torch.zeros(2, 3, 4, 2, 5, dtype=torch.int32)}, "x must be float32"),
        ({"x": torch.zeros(1, 1, 4, 1, 513)}, "x must be of a depth up to 512, not 513"),
        ({"R": torch.zeros(4, 2, 5)}, r"R must be of shape \(4, 2, 5, 5\)"),
        ({"R": torch.zeros(4, 2, 5, 5).half()}, "R must be of dtype float32"),
        ({"b": torch.zeros(4, 5)}, r"b must be of shape \(4, 2, 5\)"),
        ({"b": torch.zeros(4, 2, 5).double()}, "b must be of dtype float32"),
        ({"states": STATE}, r"states must be a tuple \(y, c, n, m\), not of type Tensor"),
        ({"states": (STATE, STATE)}, r"states must be a tuple \(y, c, n, m\), not 2 of them"),
        ({"states": (STATE, STATE, STATE, torch.zeros(3, 2, 5))}, r"states\[3\] \(m\) must be of shape \(2, 2, 5\)"),
        ({"states": (STATE, STATE.half(), STATE, STATE)}, r"states\[1\] \(c\) must be of the dtype of the first"),
        ({"states": (STATE.half(),) * 4}, "states must be of dtype float32, as x is"),
        ({"states": (STATE, None, STATE, STATE)}, r"states\[1\] \(c\) must be a torch tensor"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"slstm: {message}"):
        metalcore.slstm(**(GOOD | change))


def test_bad_arguments_of_a_step() -> None:
    with pytest.raises(ArgumentError, match=r"slstm_step: x must be of shape \(batch, 4, heads, depth\)"):
        metalcore.slstm_step(GOOD["x"], GOOD["R"], GOOD["b"], None)
    with pytest.raises(ArgumentError, match=r"slstm_step: states\[0\] \(y\) must be of shape \(2, 2, 5\)"):
        metalcore.slstm_step(GOOD["x"][:, 0], GOOD["R"], GOOD["b"], (STATE[:1],) * 4)
