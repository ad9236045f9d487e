"""One case of every op under the sanitizer; `python -m tests.ops.sanitized` runs more, and a GPU's launches too."""

from __future__ import annotations

import re

import pytest

from metalcore.ops import nouns
from metalcore.runtimes.kernel import FOLDER
from tests.ops.sanitized import examine


@pytest.mark.sweep
@pytest.mark.parametrize("noun", nouns())
def test_nothing_is_found(noun: str) -> None:
    found = examine(noun)
    assert found.findings == []
    assert found.launches


KERNELS = re.compile(r"\[\[kernel\]\] void (\w+)\(")
DENSE = (
    *("attention", "attention_decode", "attention_gradient", "attention_joint_gradient"),
    *("attention_matrix", "attention_matrix_gradient"),
)


@pytest.mark.sweep
def test_every_kernel_of_dense_attention_is_reached() -> None:
    names = {name for file in DENSE for name in KERNELS.findall((FOLDER / f"{file}.metal").read_text())}
    found = examine("scaled_dot_product_attention")
    assert found.findings == []
    assert names == {launch.split()[0] for launch in found.launches}
