"""The benchmark of attention verifies before it times, has every row and target, and counts right."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import attention  # noqa: E402
from harness import attention_report, attention_rows, attention_worker, report  # noqa: E402
from harness.attention_report import Line, Memory  # noqa: E402

sys.path.remove(str(BENCHMARKS))  # benchmarks/xlstm.py is not the package that transformers looks for

MAKERS = {
    "dense": partial(attention_rows._dense, 4, 4, 40, 40, 16, True),
    "grouped": partial(attention_rows._dense, 4, 2, 33, 33, 16, False),
    "bool mask": partial(attention_rows._masked, True, 40),
    "float mask": partial(attention_rows._masked, False, 40),
    "softcap": partial(attention_rows._capped, 30.0, 40),
    "window": partial(attention_rows._windowed, 9, 40),
    "packed": partial(attention_rows._packed, [5, 40, 17], True),
}
TIMES = {"ours": 2e-3, "flash": 1e-3, "torch": 8e-3}


def line(**changes: object) -> Line:
    found = Line(
        "prefill", "1x8x512x64", "float32", "forward", {"flash": 0.7, "torch": 2.5}, TIMES, ("kernel[a=true]",)
    )
    return replace(found, **changes)


@pytest.mark.parametrize("kind", ["forward", "backward"])
@pytest.mark.parametrize("name", MAKERS)
def test_small_rows_keep_the_error_rule(name: str, kind: str) -> None:
    errors = attention_worker.verify(MAKERS[name](torch.float32), "float32", kind)
    assert list(errors) == (["result"] if kind == "forward" else ["dq", "dk", "dv"])
    assert max(errors.values()) < 1e-6


@pytest.mark.parametrize("dtype", attention_rows.DTYPES)
def test_a_small_paged_cache_keeps_the_error_rule(dtype: str) -> None:
    setup = attention_rows._paged([5, 40, 17], 4, 2, getattr(torch, dtype))
    assert attention_worker.verify(setup, dtype, "forward")["result"] < 0.02


def test_a_wrong_result_is_not_timed() -> None:
    setup = MAKERS["dense"](torch.float32)
    setup.ours.run = lambda q, k, v: attention_rows.torch_attention(q, k, v)  # not causal
    with pytest.raises(AssertionError, match="result is off by"):
        attention_worker.verify(setup, "float32", "forward")
    with pytest.raises(AssertionError, match="dq is off by"):
        attention_worker.verify(setup, "float32", "backward")


def test_a_row_is_timed_with_its_peers_and_names_its_kernels() -> None:
    row = attention_rows.Row("small", "4x40", "float32", "backward", MAKERS["dense"], {}, True)
    found = attention_worker.measure(row, budget=0.01)
    assert set(found["seconds"]) == {"ours", "flash", "torch"} and min(found["seconds"].values()) > 0
    assert any(name.startswith("attention_key_gradient_float") for name in found["variants"])


def test_products_alone_are_those_of_attention() -> None:
    setup = MAKERS["grouped"](torch.float32)
    products, leaves = setup.peers["products"], [x.detach().requires_grad_() for x in setup.ours.inputs]
    q, (k, v) = leaves[0], (x.repeat_interleave(2, 1) for x in leaves[1:])
    out = q @ k.mT @ v
    assert torch.equal(products.forward(), out)
    found = [products.backward()()[0], *(x.unflatten(1, (2, 2)).sum(2) for x in products.backward()()[1:])]
    for ours, theirs in zip(found, torch.autograd.grad(out, leaves, setup.ours.grad), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_every_target_of_the_table_is_there() -> None:
    table = {row.key: row.targets for row in attention_rows.rows()}
    assert len(table) == len(list(attention_rows.rows()))
    assert table["prefill, causal 1x8x2048x64 float32 forward"] == {"flash": 0.7, "torch": 2.5}
    assert table["prefill 1x32x1024x128, 8 key heads float16 forward"] == {"flash": 1.0, "torch": 2.5}
    assert table["prefill 1x8x1000x80 bfloat16 backward"] == {"flash": 0.6, "torch": 1.0}
    assert table["bool mask 1x8x1024x64 bfloat16 forward"] == {"torch": 2.0}
    assert table["decode 1x32x1x128, 4096 keys, 8 key heads bfloat16 forward"] == {"flash": 2.5}
    assert table["paged 8 sequences of 100 to 4000, 32 heads, 8 key heads float32 forward"] == {"torch": 1.5}
    assert table["varlen 16 sequences of 17 to 1000, 8 heads of 64 float16 forward"] == {"torch": 1.5}


def test_lengths_have_both_ends() -> None:
    found = attention_rows.lengths(16, 17, 1000)
    assert (
        len(found) == 16 and min(found) == 17 and max(found) == 1000 and found == attention_rows.lengths(16, 17, 1000)
    )


def test_what_falls_short_is_said() -> None:
    assert line().missed == "0.50 of flash's speed, not 0.7"
    assert line().cells[4:] == ["2.00 ms", "**0.50**", "0.7", "4.00", "2.5", "-", "**no**"]
    assert line(seconds=TIMES | {"products": 1e-3}).cells[-2] == "0.50"
    assert line(targets={"torch": 4.0}).cells[-1] == "yes" and line(targets={}).cells[-1] == "shown"
    broken = line(seconds={}, error="AssertionError: dq is off by 1")
    assert broken.cells[4:] == ["-", "-", "0.7", "-", "2.5", "-", "**no**"] and broken.missed.endswith("off by 1")
    assert Memory("s", "float32", 1.31).cells == ["s", "float32", "1.31 x", "at most 1.3 x", "**no**"]


def test_the_page_has_the_table_the_kernels_and_the_plot(tmp_path: Path) -> None:
    lines, memory = [line(), line(dtype="bfloat16", targets={})], [Memory("1x8x64x8", "float32", 1.1)]
    page = tmp_path / "performance.md"
    page.write_text(f"above\n{attention.BEGIN}\nold\n{report.END}\nbelow\n")
    report.write_document(page, attention_report.markdown(lines, memory), attention.BEGIN)
    text = page.read_text()
    assert text.startswith("above\n") and text.endswith("below\n") and "old" not in text
    assert "| prefill | 1x8x512x64 | bfloat16 | forward | 2.00 ms | 0.50 | - | 4.00 | - | - | shown |" in text
    assert "| prefill, forward | `kernel[a=true]` |" in text and "| 1x8x64x8 | float32 | 1.10 x |" in text
    assert text.count("0.50 of flash's speed, not 0.7") == 1
    drawn = attention_report.plot(lines)
    assert drawn.count("<circle") == 4 and drawn.count('fill="none"') == 2 and ">prefill 1x8x512x64<" in drawn


@pytest.mark.sweep
def test_peak_memory_counts_the_arrays() -> None:
    found = attention_worker.peak("float32", 1, 1024, 8)
    assert found["arrays"] == 8 * 1024 * 8 * 4
