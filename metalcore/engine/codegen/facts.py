"""What launch validation wants to know of a kernel's code: features of GPU families that it uses, and whether it
counts its simdgroups as if all were full."""

from __future__ import annotations

import re

from metalcore.engine.lockstep.debug import DebugLines, metadata_of

_FEATURES = (
    ("simd-reduction", re.compile(r"@__mc_simd_(?:sum|product|min|max|prefix_\w+|and|or|xor)_[fiu](?:32|64)\(")),
    ("simd-permute", re.compile(r"@__mc_simd_(?:shuffle\w*|broadcast\w*|ballot|any|all|is_first)\(")),
    ("simd-shift-and-fill", re.compile(r"@__mc_simd_fill_(?:up|down)\(")),
    ("simdgroup-matrix", re.compile(r"@__mc_simdgroup_mma_")),
    ("float-atomics", re.compile(r"= atomicrmw (?:volatile )?f(?:add|sub|min|max) ")),
    ("64-bit-atomics", re.compile(r"= (?:atomicrmw|cmpxchg) [^\n]*\bi64 ")),
    ("bfloat", re.compile(r"\bbfloat\b")),
)
_DEFINITION = re.compile(r"^  (%[\w.]+) = ([^\n]*)$", re.MULTILINE)
_REDUCTION = re.compile(r"@__mc_simd_(?:sum|product|min|max|and|or|xor)_[fiu](?:32|64)\(")
_STORE = re.compile(r"^  store (?:volatile )?\S+ (%[\w.]+), ptr (?:addrspace\(\d+\) )?([%@][\w.$]+)", re.MULTILINE)
_PASSES_ON = re.compile(r"(?:fptrunc|fpext|bitcast|trunc|zext|sext|freeze)\b[^%]*(%[\w.]+)")
_ADDRESS = re.compile(r"(?:getelementptr|addrspacecast)\b[^%@]*(?:ptr (?:addrspace\(\d+\) )?)([%@][\w.$]+)")
_GROUP_SIZE = re.compile(r"call (?:noundef )?i32 @__mc_threads_per_threadgroup\(")
_PRODUCT = re.compile(r"mul (?:nuw |nsw )*i32 (%[\w.]+), (%[\w.]+)")
_FLOOR = re.compile(r"(?:lshr (?:exact )?i32 (%[\w.]+), 5|udiv (?:exact )?i32 (%[\w.]+), 32)\b.*?(?:!dbg !(\d+))?$")


def features(ir: str) -> tuple[str, ...]:
    """Rows of the family table that the optimised scalar IR needs."""
    body = "\n".join(line for line in ir.splitlines() if line.startswith("  "))
    return tuple(name for name, pattern in _FEATURES if pattern.search(body))


def whole_simdgroups(ir: str) -> str:
    """Where the kernel takes threads / 32 for its number of simdgroups in a reduction of two stages; "" if it does not.

    Three things must come together: the result of a simdgroup's reduction is stored in threadgroup memory, a barrier
    is there, and the size of the threadgroup is divided by 32, rounded down, with nothing added before.
    """
    if "@__mc_simd_" not in ir or "@__mc_threadgroup_barrier(" not in ir or "_threads_per_threadgroup(" not in ir:
        return ""
    defined = dict(_DEFINITION.findall(ir))
    if not any(
        _comes_from_reduction(value, defined) and _in_threadgroup_memory(address, defined)
        for value, address in _STORE.findall(ir)
    ):
        return ""
    for text in defined.values():
        floor = _FLOOR.match(text)
        if floor and _is_group_size(floor[1] or floor[2], defined):
            return _place(ir, floor[3]) or "its place is not known"
    return ""


def _comes_from_reduction(name: str, defined: dict[str, str]) -> bool:
    text = defined.get(name, "")
    for _ in range(8):
        if _REDUCTION.search(text):
            return True
        step = _PASSES_ON.match(text)
        if step is None:
            return False
        text = defined.get(step[1], "")
    return False


def _in_threadgroup_memory(name: str, defined: dict[str, str]) -> bool:
    for _ in range(16):
        if name.startswith("@"):
            return True  # constants are never stored to
        text = defined.get(name, "")
        if "@__mc_threadgroup_arg(" in text:
            return True
        step = _ADDRESS.match(text)
        if step is None:
            return False
        name = step[1]
    return False


def _is_group_size(name: str, defined: dict[str, str]) -> bool:
    """The number of threads, or the product of its dimensions."""
    text = defined.get(name, "")
    if _GROUP_SIZE.search(text):
        return True
    product = _PRODUCT.match(text)
    return product is not None and all(_is_group_size(factor, defined) for factor in product.groups())


def _place(ir: str, location: str | None) -> str:
    """File and line of a debug location."""
    frame = next(DebugLines(metadata_of(ir)).frames(int(location)), None) if location else None
    if frame is None:
        return ""
    return f"{frame.file}:{frame.line}" if frame.file else f"line {frame.line}"
