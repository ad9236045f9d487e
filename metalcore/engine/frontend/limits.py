"""What a kernel grows to, looked at before LLVM, which runs inside this process, is given it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from metalcore import settings
from metalcore.errors import CompileError

_FUNCTION = re.compile(r'^define [^\n]*?(@"[^"]*"|@[\w.$]+)\([^\n]*\{\n(.*?)^}\n', re.MULTILINE | re.DOTALL)
_SYMBOL = re.compile(r'@"[^"]*"|@[\w.$]+')


def check_inlined(ir: str) -> None:
    """Refuse a kernel that is too large once every call is inlined, as it will be."""
    _check(inlined_size(ir), "when all its calls are inlined")


def check_text(ir: str, what: str) -> None:
    """Refuse IR that has grown too large for the next stage."""
    _check(ir.count("\n"), what)


def _check(size: int, what: str) -> None:
    limit = settings.kernel_size()
    if size > limit:
        shown = f"{size:,}" if size < 10_000_000 else f"{size:.1e}"
        raise CompileError(
            f"the kernel has {shown} instructions {what}, more than {limit:,}; METALCORE_KERNEL_SIZE raises the limit"
        )


def inlined_size(ir: str) -> int:
    """Lines of the largest function of some IR with those of all that it calls, as often as it does.

    A ladder of functions that each call the one below twice doubles with every rung: it is counted, not built.
    """
    bodies = {match[1]: match[2] for match in _FUNCTION.finditer(ir)}
    return max(inlined_sizes(bodies).values(), default=0)


def inlined_sizes(bodies: Mapping[str, str]) -> dict[str, int]:
    """The same for each function; a ring of calls counts once.

    >>> inlined_sizes({"@f": "a\\n", "@g": "call @f\\ncall @f\\n", "@h": "call @g\\ncall @g\\n"})["@h"]
    10
    """
    calls = {name: Counter(s for s in _SYMBOL.findall(body) if s in bodies) for name, body in bodies.items()}
    sizes: dict[str, int] = {}
    for root in bodies:
        stack = [(root, iter(calls[root]))] if root not in sizes else []
        sizes.setdefault(root, 0)
        while stack:
            name, callees = stack[-1]
            callee = next(callees, None)
            if callee is None:
                own = bodies[name].count("\n")
                sizes[name] = own + sum(count * sizes[each] for each, count in calls[name].items())
                stack.pop()
            elif callee not in sizes:
                sizes[callee] = 0
                stack.append((callee, iter(calls[callee])))
    return sizes
