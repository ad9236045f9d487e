"""The kinds of findings of sanitize mode: id, whether it is asked for by name, what it means, what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    id: str
    title: str
    remedy: str
    level: str = "error"
    on_request: bool = False


KINDS: dict[str, Kind] = {
    kind.id: kind
    for kind in (
        Kind("out-of-bounds", "access out of bounds", "test the index against the length before the access"),
        Kind(
            "index-overflow",
            "a 32-bit index overflowed",
            "compute the index in 64 bits: `size_t(row) * width + column`",
        ),
        Kind(
            "race",
            "two threads of a threadgroup access the same memory, at least one writes, and no barrier lies between",
            "put threadgroup_barrier(mem_flags::mem_threadgroup) (or mem_device) between the two accesses",
        ),
        Kind(
            "race-between-threadgroups",
            "two threadgroups access the same memory and at least one writes",
            "let each threadgroup write a part of its own, use atomics, or split the work into two launches",
        ),
        Kind(
            "same-value-race",
            "several threads write the same value to the same memory",
            "let one thread write",
            level="warning",
        ),
        Kind(
            "simdgroup-race",
            "two threads of a simdgroup share memory without a simdgroup_barrier between",
            "put simdgroup_barrier(mem_flags::mem_threadgroup) between the two accesses",
        ),
        Kind(
            "wrong-fence",
            "a barrier lies between the two accesses, but its flags do not cover that memory",
            "name the memory in the barrier: mem_flags::mem_threadgroup, mem_flags::mem_device, or both",
        ),
        Kind(
            "barrier-divergence",
            "not all threads of the threadgroup reach this barrier",
            "move the barrier out of the branch or loop, so that every thread reaches it",
        ),
        Kind(
            "uninitialised-variable",
            "a private variable is used before it has a value",
            "give the variable a value where it is declared",
        ),
        Kind(
            "uninitialised-threadgroup-memory",
            "threadgroup memory is read before this threadgroup has written it",
            "write every element that is read, then put a barrier before the reads",
        ),
        Kind(
            "uninitialised-output",
            "an output buffer is read before it was written",
            "write the element first, or pass the buffer as an input",
        ),
        Kind(
            "unwritten-output",
            "elements of an output buffer are never written",
            "launch enough threads for the whole output, or fill it before",
            level="warning",
            on_request=True,
        ),
        Kind("misaligned", "an access is not aligned to its type", "align the offset, or use the packed type"),
        Kind("division-by-zero", "an integer is divided by zero", "test the divisor before the division"),
        Kind(
            "shift-past-width",
            "a shift by the width of the type or more: it takes the low bits of the count",
            "mask the count, or shift a wider type",
            level="note",
        ),
        Kind(
            "not-finite",
            "a NaN or an infinity is made from finite values",
            "guard the operation: subtract the maximum before exp, add an epsilon before a division",
            level="warning",
            on_request=True,
        ),
        Kind(
            "inactive-lane",
            "a lane's value is read by others while that lane is not active",
            "call the simd function where all lanes of the simdgroup are active",
        ),
        Kind("assertion-failed", "an assertion of the kernel does not hold", "find out why; fast mode does not look"),
    )
}
