"""What a kernel grows to, looked at before LLVM is given it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from metalcore import settings
from metalcore.engine.ir import Module
from metalcore.errors import CompileError

LARGEST_TABLES = 256_000_000  # bytes


def check_inlined(module: Module, calls: Mapping[str, Mapping[str, int]]) -> None:
    """Refuse a kernel that is too large once every call is inlined, as it will be."""
    _check(inlined_size(module, calls), "when all its calls are inlined")


def check_text(ir: str, what: str) -> None:
    """Refuse IR that has grown too large for the next stage."""
    _check(ir.count("\n"), what)


def check_tables(module: Module) -> None:
    """Refuse tables that would make an object file of gigabytes."""
    size = sum(variable.value_type.size for variable in module.globals.values())
    if size > LARGEST_TABLES:
        raise CompileError(
            f"the constant tables and threadgroup variables of the kernel have {size / 1e6:.0f} MB, more than "
            f"{LARGEST_TABLES // 1_000_000} MB: bind the data as a buffer"
        )


def _check(size: int, what: str) -> None:
    limit = settings.kernel_size()
    if size > limit:
        shown = f"{size:,}" if size < 10_000_000 else f"{size:.1e}"
        raise CompileError(
            f"the kernel has {shown} instructions {what}, more than {limit:,}; METALCORE_KERNEL_SIZE raises the limit"
        )


def call_counts(module: Module) -> dict[str, Counter[str]]:
    """How often each function names which of those that are defined beside it."""
    defined = {function.name: function for function in module.defined()}
    return {name: Counter(filter(defined.__contains__, each.symbols())) for name, each in defined.items()}


def inlined_size(module: Module, calls: Mapping[str, Mapping[str, int]] | None = None) -> int:
    """Lines of the largest function of some IR with those of all that it calls, as often as it does.

    A ladder of functions that each call the one below twice doubles with every rung: it is counted, not built.
    """
    sizes = {function.name: function.length for function in module.defined()}
    return max(inlined_sizes(sizes, call_counts(module) if calls is None else calls).values(), default=0)


def inlined_sizes(own: Mapping[str, int], calls: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The same for each function, of its own size and how often it calls which; a ring of calls counts once.

    >>> inlined_sizes({"f": 1, "g": 2, "h": 2}, {"f": {}, "g": {"f": 2}, "h": {"g": 2}})["h"]
    10
    """
    sizes: dict[str, int] = {}
    for root in own:
        stack = [(root, iter(calls[root]))] if root not in sizes else []
        sizes.setdefault(root, 0)
        while stack:
            name, callees = stack[-1]
            callee = next(callees, None)
            if callee is None:
                sizes[name] = own[name] + sum(count * sizes[each] for each, count in calls[name].items())
                stack.pop()
            elif callee not in sizes:
                sizes[callee] = 0
                stack.append((callee, iter(calls[callee])))
    return sizes
