"""torch's own operator samples, with overrides on against torch's own functions: values, gradients, errors.

The usual run takes some samples of each function; `pytest -m sweep tests/torch/test_opinfo.py` takes them all.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

import metalcore  # noqa: E402
from metalcore.torch.overrides import overridable  # noqa: E402
from metalcore.torch.replacement import resolve  # noqa: E402

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Factors are not unique and have no element-wise rule: tests/linalg has overrides of torch.linalg.
NOUNS = sorted(noun for noun in overridable() if not noun.startswith("linalg_"))
SOME = {torch.float32: 5, torch.float16: 2, torch.bfloat16: 2}


@cache
def infos(noun: str) -> list[Any]:
    """The entries of torch's operator table for the function that an op takes the place of."""
    from torch.testing._internal.common_methods_invocations import op_db

    name = overridable()[noun].removeprefix("torch.")
    return [i for i in op_db if name == i.name or name in {getattr(a, "name", a) for a in i.aliases}]


def call(noun: str, info: Any, input: Any, args: Any, kwargs: Any) -> Any:
    """Run the function by the name that an override replaces. Some entries do that themselves, in a lambda."""
    if getattr(info.op, "__name__", "") == "<lambda>":
        return info.op(input, *args, **kwargs)
    return getattr(*resolve(overridable()[noun]))(input, *args, **kwargs)


def outcome(noun: str, info: Any, sample: Any, exact: bool = False) -> tuple[list[Any], str]:
    """Result and gradients, or the error's type; `exact`: the same values in float64."""

    def made(value: Any) -> Any:
        if not _is_tensor(value) or not value.is_floating_point():
            return value
        copy = value.detach().to(torch.float64) if exact else value.detach()
        return copy.requires_grad_(value.requires_grad)

    fresh = sample.transform(made)
    if exact and "dtype" in fresh.kwargs:
        fresh.kwargs["dtype"] = torch.float64
    tensors = [t for t in (fresh.input, *fresh.args, *fresh.kwargs.values()) if _is_tensor(t) and t.requires_grad]
    try:
        found = call(noun, info, fresh.input, fresh.args, fresh.kwargs)
    except Exception as error:
        return [], type(error).__name__
    if not tensors or not found.requires_grad:
        return [found], ""
    cotangent = torch.randn(found.shape, generator=torch.Generator().manual_seed(5)).to(found.dtype)
    return [found, *torch.autograd.grad(found, tensors, cotangent, allow_unused=True)], ""


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def assert_near(found: Any, expected: Any, truth: Any) -> None:
    """Dtype and shape of torch's result, and no more than three times its distance from the truth, or its rounding."""
    assert (found is None) == (expected is None)
    if expected is None:
        return
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if not expected.is_floating_point() or not expected.numel():
        assert torch.equal(found, expected)
        return
    ours, theirs, truth = found.double(), expected.double(), truth.double()
    finite = theirs.isfinite() & truth.isfinite()
    torch.testing.assert_close(ours[~finite], theirs[~finite], rtol=0, atol=0, equal_nan=True)
    if finite.any():
        rounding = torch.finfo(expected.dtype).eps * truth[finite].abs().max().item()
        # Sums of numbers near 1 may cancel to almost nothing, in float32.
        allowed = 3 * max((theirs - truth)[finite].abs().max().item(), rounding, 2.0**-24)
        assert (ours - truth)[finite].abs().max().item() <= allowed


def check(noun: str, dtype: Any, most: int) -> None:
    before = getattr(*resolve(overridable()[noun]))
    taken = 0
    for info in infos(noun):
        if dtype not in info.dtypes:
            continue
        torch.manual_seed(3)
        samples = list(info.sample_inputs("cpu", dtype, requires_grad=info.supports_autograd))
        samples = [s for s in samples if not s.kwargs.get("dropout_p")]  # which weights are dropped is no agreement
        for sample in samples[:: max(1, len(samples) // most)]:
            expected, expected_error = outcome(noun, info, sample)
            truth, _ = outcome(noun, info, sample, exact=True)
            with metalcore.overrides(noun), metalcore.explain() as log:
                found, error = outcome(noun, info, sample)
            assert error == expected_error, sample
            for three in zip(found, expected, truth, strict=True):
                assert_near(*three)
            taken += any(not row.by_torch for row in log)
    assert taken > 0, "no sample ran a kernel"
    assert getattr(*resolve(overridable()[noun])) is before


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("noun", NOUNS)
def test_some_samples(noun: str, dtype: Any) -> None:
    check(noun, dtype, SOME[dtype])


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("noun", NOUNS)
def test_all_samples(noun: str, dtype: Any) -> None:
    check(noun, dtype, 1 << 30)


@pytest.mark.parametrize("noun", NOUNS)
def test_bad_inputs_raise_what_torch_raises(noun: str) -> None:
    for info in infos(noun):
        if info.error_inputs_func is None:
            continue
        for bad in info.error_inputs("cpu"):
            sample = bad.sample_input
            with metalcore.overrides(noun), pytest.raises(bad.error_type, match=bad.error_regex):
                call(noun, info, sample.input, sample.args, sample.kwargs)


def test_every_override_has_samples() -> None:
    assert all(infos(noun) for noun in NOUNS)
