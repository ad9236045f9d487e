"""docs/ops.md from the declarations.

python -m tests.ops.table            writes the page
python -m tests.ops.table --check    says whether it is up to date
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from metalcore.ops import find, function, nouns

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ops.md"
HEAD = """# The ops

`metalcore.<op>` takes torch tensors, NumPy arrays (forward) and mlx arrays; `metalcore.mlx.<op>` mlx arrays alone. One
Metal source in `metalcore/kernels/` serves all. On a CPU it runs through the engine. On Apple GPUs it goes through
`torch.mps.compile_shader` and `mx.fast.metal_kernel`: **not yet run on a device**, the text is tested through the
engine's drop-ins.

Memory holds float32, float16 or bfloat16, sums are in float32. float64 works on a CPU: the same source with `float`
read as double. This page is generated from the declarations in `metalcore/ops/`: `python -m tests.ops.table`.

| op | what it computes | gradients | replaces | on by default |
|---|---|---|---|---|
"""


def page() -> str:
    lines, details = [], []
    for noun in nouns():
        op = find(noun)
        gradients = ", ".join(f"`{g}`" for g in op.gradients) or "-"
        off = "no" if op.namesake else "-"
        default = off if op.override_from is None else f"from {op.override_from} elements"
        default += ", in some calls" if op.slower else ""
        replaces = f"`{op.namesake}`" if op.namesake else "-"
        summary = op.summary.replace("|", "\\|")
        lines.append(f"| [`{noun}`](#{noun}) | {summary} | {gradients} | {replaces} | {default} |")
        details.append(_detail(noun))
    return HEAD + "\n".join(lines) + "\n\n" + "\n".join(details)


def _detail(noun: str) -> str:
    op, run = find(noun), function(noun)
    parameters = [p.replace(annotation=p.empty) for p in inspect.signature(run).parameters.values()]
    signature = inspect.Signature(parameters)
    text = inspect.getdoc(run) or ""
    words, _, example = text.partition("\n>>>")
    parts = [f"## {noun}\n", f"```\nmetalcore.{noun}{signature}\n```\n", words.strip() + "\n"]
    if example:
        parts.append(f"```pycon\n>>>{example.rstrip()}\n```\n")
    if op.notes:
        parts.append(op.notes + "\n")
    parts.append(f"Dtypes: {', '.join(op.dtypes)}.\n")
    return "\n".join(parts)


def main() -> int:
    made = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(made)
        return 0
    if PAGE.read_text() == made:
        return 0
    print("docs/ops.md is out of date: python -m tests.ops.table")
    return 1


if __name__ == "__main__":
    sys.exit(main())
