"""The schemas of all ops, from their declarations, as native/torch/ops.cpp includes them."""

from __future__ import annotations

from metalcore.ops import PARTS, find, nouns


def schemas() -> dict[str, str]:
    """Of every torch op: its name and its schema."""
    ops = [find(noun) for part in ("", *PARTS) for noun in nouns(part)]
    return {name: stage.schema_text for op in ops for name, stage in op.stages.items()}


def included() -> str:
    """The text of schemas.inc."""
    rows = [f'  {{"{name}", "{schema}"}},' for name, schema in schemas().items()]
    return "#define METALCORE_OPS \\\n" + " \\\n".join(rows) + "\n"
