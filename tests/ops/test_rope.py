"""rope: conventions, positions, errors. The error rule is in test_ops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError, IndexRangeError
from metalcore.health.cases.rope import reference
from tests.ops.contract import compiled_agrees, floats, gpu_launches_agree, opcheck


def heads(count: int = 2, tokens: int = 5, dim: int = 8) -> torch.Tensor:
    return torch.randn(2, count, tokens, dim)


def tables(rows: int = 5, width: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.rand(rows, width)
    return angles.cos(), angles.sin()


def test_as_transformers_writes_it() -> None:
    """cos and sin of (batch, tokens, dim), two equal halves; fewer heads in k."""
    q, k = heads(4), heads(2)
    cos, sin = (torch.cat((t, t), dim=-1).expand(2, 5, 8) for t in tables())

    def turned(x: torch.Tensor) -> torch.Tensor:
        half = torch.cat((-x[..., 4:], x[..., :4]), dim=-1)
        return x * cos.unsqueeze(1) + half * sin.unsqueeze(1)

    found = metalcore.rope(q, k, cos, sin)
    torch.testing.assert_close(found, (turned(q), turned(k)))
    narrow = metalcore.rope(q, k, cos[..., :4], sin[..., :4])
    assert torch.equal(found[0], narrow[0])
    assert torch.equal(found[1], narrow[1])


def test_tables_in_float32_beside_halves() -> None:
    q, k, (cos, sin) = heads().bfloat16(), heads().bfloat16(), tables()
    found = metalcore.rope(q, k, cos, sin, None, True)
    assert found[0].dtype == torch.bfloat16
    torch.testing.assert_close(found, reference(q, k, cos, sin, None, True), rtol=0, atol=0)


def test_a_part_of_the_head() -> None:
    q, (cos, sin) = heads(), tables(width=2)
    y, _ = metalcore.rope(q, q, cos, sin)
    assert torch.equal(y[..., 2:], q[..., 2:])
    wider, _ = metalcore.rope(q, q, cos, sin, rotary_dim=4)
    assert torch.equal(wider[..., 4:], q[..., 4:])
    torch.testing.assert_close(wider, reference(q, q, cos, sin, None, False, 4)[0])


def test_turning_back_is_the_gradient() -> None:
    q, k, (cos, sin) = heads().requires_grad_(), heads().requires_grad_(), tables()
    y = metalcore.rope(q, k, cos, sin)
    back = torch.autograd.grad(y, (q, k), [v.detach() for v in y])
    torch.testing.assert_close(back, (q, k))


@pytest.mark.parametrize(("ids", "place", "value"), [([0, 1, 7, 2, 3], 2, 7), ([0, 1, 2, 3, -1], 4, -1)])
def test_position_out_of_range(ids: list[int], place: int, value: int) -> None:
    message = f"rope: position_ids has {value} at place {place}, which is out of range: it must be in 0 to 6"
    with pytest.raises(IndexRangeError, match=message):
        metalcore.rope(heads(), heads(), *tables(7), torch.tensor(ids))


def test_torch_knows_the_op() -> None:
    q, k, (cos, sin) = heads().requires_grad_(), heads().requires_grad_(), tables()
    assert opcheck("rope", q, k, cos, sin, None, False, 8)
    assert compiled_agrees(lambda a, b: metalcore.rope(a, b, cos, sin), q, k)
    batched = torch.func.vmap(lambda a, b: metalcore.rope(a, b, cos, sin))(heads(), heads())
    assert batched[0].shape == (2, 2, 5, 8)


def test_launches_of_a_gpu() -> None:
    q, k, *angles = floats((2, 4, 9, 80), (2, 2, 9, 80), (9, 64), (9, 64))
    cos, sin = (replace(t, grad=False) for t in angles)
    assert gpu_launches_agree("rope", q, k, cos, sin)
    assert gpu_launches_agree("rope", q, k, cos, sin, None, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": torch.zeros(2, 2, 4, 8)}, "k must be as q"),
        ({"k": heads().half()}, "k must be of dtype float32"),
        ({"cos": torch.zeros(4, 4)}, "sin must be of shape"),
        ({"cos": torch.zeros(4, 4), "sin": torch.zeros(4, 4)}, r"cos must be of shape \(5, n\)"),
        ({"cos": torch.zeros(5, 4, dtype=torch.float16)}, "cos must be float32"),
        ({"cos": torch.zeros(5, 4, requires_grad=True)}, "cos must be without requires_grad"),
        ({"position_ids": torch.zeros(5)}, "position_ids must be int64, int32 or uint32"),
        ({"position_ids": torch.zeros(4, dtype=torch.int64)}, "position_ids must be of shape"),
        ({"cos": torch.zeros(5, 3), "sin": torch.zeros(5, 3)}, "rotary_dim must be even"),
        ({"rotary_dim": 6}, "rotary_dim must be even"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    cos, sin = tables()
    arguments = {"q": heads(), "k": heads(), "cos": cos, "sin": sin} | change
    with pytest.raises(ArgumentError, match=f"rope: {message}"):
        metalcore.rope(**arguments)
