"""mLSTM: its forms against each other, states that are carried on, corners, errors. The error rule is in test_ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.health.cases.base.mlstm import recurrent
from metalcore.health.verify import verify
from metalcore.ops import find

FORMS = (metalcore.mlstm_chunkwise, metalcore.mlstm_recurrent)
LARGE = (1, 4, 300, 64, 97)  # more than float32 takes row by row


def inputs(
    batch: int, heads: int, length: int, depth: int, width: int, dtype: torch.dtype = torch.float32, seed: int = 0
) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    rows = (batch, heads, length)
    shapes = ((*rows, depth), (*rows, depth), (*rows, width), rows, rows)
    q, k, v, i, f = (torch.randn(s, generator=random) for s in shapes)
    return [x.to(dtype) for x in (q, k, v, 3 * i, 2 * f + 2)]


def states(q: torch.Tensor, v: torch.Tensor, seed: int = 1) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    leading, depth = q.shape[:2], q.shape[-1]
    return [torch.randn(s, generator=random) for s in ((*leading, depth, v.shape[-1]), (*leading, depth), leading)]


def error(found: torch.Tensor, truth: torch.Tensor) -> float:
    return float((found.double() - truth).abs().max() / truth.abs().max())


def test_two_rows_by_hand() -> None:
    """Gates of 0: F = sigmoid(0) = 1/2, m stays 0 and I = 1."""
    q, k, v = (torch.tensor(x).reshape(1, 1, 2, 1) for x in ([1.0, 2.0], [4.0, 4.0], [3.0, 5.0]))
    zero = torch.zeros(1, 1, 2)
    h, (c, n, m) = metalcore.mlstm_chunkwise(q, k, v, zero, zero, return_last_states=True, eps=0.0)
    assert h.flatten().tolist() == [3.0, np.float32(26 / 6)]  # C = 12, then 6 + 20; n = 4, then 6
    assert (c.item(), n.item(), m.item()) == (26.0, 6.0, 0.0)


@pytest.mark.parametrize("shape", [(2, 3, 70, 16, 33), LARGE], ids=str)
def test_all_forms_agree(shape: tuple[int, ...]) -> None:
    given = inputs(*shape)
    truth, _ = recurrent(*(x.double() for x in given), None, None, None, 1e-6)
    found = [metalcore.mlstm_chunkwise(*given, chunk_size=size) for size in (16, 32, 64, 128, 256)]
    found += [metalcore.mlstm_recurrent(*given), metalcore.mlstm_parallel(*given)]
    plain = error(recurrent(*given, None, None, None, 1e-6)[0], truth)
    for h in found:
        assert error(h, truth) <= 2 * plain


@pytest.mark.sweep
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(1, 2, 70, 16, 33), LARGE], ids=str)
def test_a_sequence_in_parts_is_the_whole(form: Any, shape: tuple[int, ...]) -> None:
    given = [x.double() if shape != LARGE else x for x in inputs(*shape)]
    whole, last = form(*given, return_last_states=True)
    parts, kept, begin = [], (None, None, None), 0
    for length in (1, 31, 2, shape[2] - 34):
        h, kept = form(*(x[:, :, begin : begin + length] for x in given), *kept, return_last_states=True)
        parts.append(h)
        begin += length
    tolerance = 1e-12 if shape != LARGE else 2e-5
    torch.testing.assert_close(torch.cat(parts, 2), whole, rtol=tolerance, atol=tolerance)
    for a, b in zip(kept, last, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_steps_are_the_sequence() -> None:
    given = inputs(2, 3, 9, 16, 33)
    whole, last = metalcore.mlstm_chunkwise(*given, return_last_states=True)
    c, n, m = torch.zeros(2, 3, 16, 33), torch.zeros(2, 3, 16), torch.zeros(2, 3, 1)
    for t in range(9):
        q, k, v, i, f = (x[:, :, t] for x in given)
        h, (c, n, m) = metalcore.mlstm_step(q, k, v, i[..., None], f[..., None], c, n, m)
        torch.testing.assert_close(h, whole[:, :, t], rtol=1e-5, atol=1e-5)
    assert m.shape == (2, 3, 1)
    torch.testing.assert_close(c, last[0], rtol=1e-5, atol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["mlstm_chunkwise", "mlstm_recurrent", "mlstm_parallel", "mlstm_siging_chunkwise"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("gate", [-15.0, 0.0, 30.0, -1e30])
def test_extreme_gates_stay_finite(name: str, dtype: torch.dtype, gate: float) -> None:
    if gate == -1e30 and dtype == torch.float16:
        pytest.skip("float16 has no such number")
    given = inputs(1, 1, 70, 8, 8, dtype)
    given[3] = torch.full_like(given[3], gate)
    for forget in (-15.0, 0.0, 30.0):
        given[4] = torch.full_like(given[4], forget)
        tensors = [x.clone().requires_grad_() for x in given]
        h = getattr(metalcore, name)(*tensors)
        gradients = torch.autograd.grad(1e-3 * h.float().sum(), tensors)  # float16 ends at 65504
        assert h.isfinite().all()
        assert all(g.isfinite().all() for g in gradients)


def test_a_closed_forget_gate_begins_anew() -> None:
    given = inputs(1, 1, 40, 8, 8)
    given[4][..., 20] = -torch.inf
    whole = metalcore.mlstm_chunkwise(*given)
    again = metalcore.mlstm_chunkwise(*(x[:, :, 20:] for x in given))
    assert whole.isfinite().all()
    torch.testing.assert_close(whole[:, :, 20:], again, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 2, 33, 8, 8), pytest.param(LARGE, marks=pytest.mark.sweep)], ids=str)
def test_ten_runs_have_the_same_bits(shape: tuple[int, ...]) -> None:
    given = [x.requires_grad_() for x in inputs(*shape)]

    def run() -> list[torch.Tensor]:
        h = metalcore.mlstm_chunkwise(*given)
        return [h, *torch.autograd.grad(h.square().sum(), given)]

    first = run()
    for _ in range(9):
        assert all(torch.equal(a, b) for a, b in zip(first, run(), strict=True))


@pytest.mark.sweep
def test_the_normaliser_has_its_gradient() -> None:
    """Where |r| is the denominator, h does not change with the size of q: q dq is 0. Without it, it would be h dh."""
    given = inputs(1, 1, 20, 4, 4, torch.float64)
    given[3] = given[3] + 10
    q = given[0].requires_grad_()
    h = metalcore.mlstm_chunkwise(q, *given[1:], eps=0.0)
    (dq,) = torch.autograd.grad(h.sum(), q)
    assert (q * dq).sum(-1).abs().max() < 1e-9
    assert dq.abs().max() > 0.1


@pytest.mark.parametrize("form", [*FORMS, metalcore.mlstm_parallel])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_the_input_gate_of_one_row(form: Any, dtype: torch.dtype) -> None:
    """Of one row h is q k v / max(|q k|, exp(-i)): it feels i where exp(-i) is larger, and only there."""
    small, large = 0.125, 2.0
    q = torch.tensor([small, large]).reshape(1, 2, 1, 1).to(dtype)
    k, v = torch.ones_like(q), torch.full_like(q, 3.0)
    i, f = torch.full((1, 2, 1), 1.0, dtype=dtype).requires_grad_(), torch.full((1, 2, 1), -4.0, dtype=dtype)
    (di,) = torch.autograd.grad(form(q, k, v, i, f, eps=0.0).sum(), i)
    expected = torch.tensor([small * 3 * math.e, 0.0]).reshape(1, 2, 1)
    torch.testing.assert_close(di, expected.to(dtype), rtol=2e-3 if dtype == torch.float16 else 1e-6, atol=0)


@pytest.mark.parametrize("index", [32, 117])
def test_gradients_of_states_before_many_rows(index: int) -> None:
    """dm is what two large sums leave; rows near the state count most in them."""
    outcome = verify(find("mlstm_recurrent"), "float32", index)
    assert outcome.passed, outcome.explain()


@pytest.mark.parametrize("name", ["mlstm_chunkwise", "mlstm_recurrent", "mlstm_siging_chunkwise"])
def test_no_rows_hand_the_states_on(name: str) -> None:
    q, k, v, i, f = inputs(2, 3, 0, 4, 5)
    c, n, m = states(q, v)
    h, (c_last, n_last, m_last) = getattr(metalcore, name)(q, k, v, i, f, c, n, m, return_last_states=True)
    assert h.shape == (2, 3, 0, 5)
    assert torch.equal(c_last, c) and torch.equal(n_last, n)
    assert torch.equal(m_last, torch.zeros(2, 3) if "siging" in name else m)


@pytest.mark.sweep
def test_rows_of_512() -> None:
    given = inputs(1, 1, 70, 256, 512)
    truth, _ = recurrent(*(x.double() for x in given), None, None, None, 1e-6)
    plain, _ = recurrent(*given, None, None, None, 1e-6)
    assert error(metalcore.mlstm_chunkwise(*given), truth) <= 2 * error(plain, truth)


def test_numpy_and_mlx_give_what_torch_gives() -> None:
    mx = pytest.importorskip("mlx.core")
    given = inputs(1, 2, 70, 8, 16)
    expected = metalcore.mlstm_chunkwise(*given).numpy()
    assert np.array_equal(metalcore.mlstm_chunkwise(*(x.numpy() for x in given)), expected)
    found = metalcore.mlx.mlstm_chunkwise(*(mx.array(x.numpy()) for x in given))
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-6, atol=1e-6)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "q": ({"q": torch.zeros(2, 3, 4)}, r"q must be of shape \(batch, heads, length, depth\)"),
    "k": ({"k": torch.zeros(1, 2, 9, 5)}, r"k must be of shape \(1, 2, 9, 4\), not of shape \(1, 2, 9, 5\)"),
    "v": ({"v": torch.zeros(1, 2, 8, 6)}, r"v must be of shape \(1, 2, 9, width\)"),
    "rank of i": ({"i": torch.zeros(1, 2, 9, 1)}, r"i must be of shape \(1, 2, 9\)"),
    "f": ({"f": torch.zeros(1, 2, 8)}, r"f must be of shape \(1, 2, 9\)"),
    "dtype": ({"v": torch.zeros(1, 2, 9, 6).half()}, "v must be of q's dtype float32, not float16"),
    "integers": ({"i": torch.zeros(1, 2, 9, dtype=torch.int64)}, "i must be float32, float16, bfloat16 or float64"),
    "batch of states": (
        {"c_initial": torch.zeros(2, 2, 4, 6), "n_initial": torch.zeros(1, 2, 4), "m_initial": torch.zeros(1, 2)},
        r"c_initial must be of shape \(1, 2, 4, 6\)",
    ),
    "one state": ({"c_initial": torch.zeros(1, 2, 4, 6)}, "n_initial must be given together with the other states"),
    "three": ({"chunk_size": 48}, "chunk_size must be a power of two, not 48"),
    "none": ({"chunk_size": 0}, "chunk_size must be a power of two, not 0"),
    "large": ({"chunk_size": 512}, "chunk_size must be at most 256, not 512"),
    "eps": ({"eps": -1.0}, "eps must be a number that is not negative"),
    "depth": ({"v": torch.zeros(1, 2, 9, 600)}, "v must be of 1 to 512 elements a row, not of 600"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_named(case: str) -> None:
    changed, message = BAD[case]
    given: dict[str, Any] = dict(zip("qkvif", inputs(1, 2, 9, 4, 6), strict=True)) | changed
    with pytest.raises(ArgumentError, match="mlstm_chunkwise: " + message):
        metalcore.mlstm_chunkwise(**given)


def test_bad_steps_are_named() -> None:
    q, v, gate = torch.zeros(1, 2, 4), torch.zeros(1, 2, 6), torch.zeros(1, 2)
    c, n = torch.zeros(1, 2, 4, 6), torch.zeros(1, 2, 4)
    for changed, message in (
        ({"i": torch.zeros(2, 2)}, r"i must be of shape \(1, 2\)"),
        ({"m": torch.zeros(1, 3)}, r"m must be of shape \(1, 2\)"),
        ({"c": None}, "c must be an array, not None"),
    ):
        given = {"q": q, "k": q, "v": v, "i": gate, "f": gate, "c": c, "n": n, "m": gate} | changed
        with pytest.raises(ArgumentError, match="mlstm_step: " + message):
            metalcore.mlstm_step(**given)
