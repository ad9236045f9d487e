"""How a loss is reduced: the argument `reduction`, with the two older arguments that torch still takes."""

from __future__ import annotations

from metalcore.ops.base.check import refuse


def check_reduction(
    op: str, reduction: str, size_average: bool | None, reduce: bool | None, known: tuple[str, ...]
) -> str:
    """The reduction's name; `size_average` and `reduce` come first where one is given, as in torch."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    if reduction not in known:
        refuse(op, "reduction", f"one of {', '.join(known)}", repr(reduction))
    return reduction
