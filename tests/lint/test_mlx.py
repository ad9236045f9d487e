"""MLX's own headers: a small part here, all of them with `python -m tests.lint.mlx`."""

from __future__ import annotations

from pathlib import Path

from rich.progress import Progress

from tests.foreign.corpus import sources
from tests.lint.mlx import findings


def test_softmax_and_logsumexp() -> None:
    files = [file for file in sources("mlx") if file.stem in ("softmax", "logsumexp")]
    found, wrong = findings(files, Progress(disable=True))
    assert len(files) == 2 and wrong == []
    # Its accumulator has the type of the data, which MLX knows: it calls the instantiation for float "precise".
    assert [(d.rule, Path(d.file).name, d.line) for d in found] == [
        ("half-accumulator", "softmax.h", 141),
        ("integer-division", "utils.h", 311),
    ]
