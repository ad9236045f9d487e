"""Opcodes by the form of their operands, and the words in front of them."""

from __future__ import annotations

BINARY = frozenset(
    (
        *("add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor"),
        *("fadd", "fsub", "fmul", "fdiv", "frem"),
    )
)
UNARY = frozenset(("fneg", "freeze"))
CASTS = frozenset(
    (
        *("trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp"),
        *("ptrtoint", "inttoptr", "bitcast", "addrspacecast"),
    )
)
FAST = frozenset(("nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc", "fast"))
TAILS = frozenset(("tail", "musttail", "notail"))
