"""The rules of `metalcore check`: id, level, what is wrong, what to do instead. docs/rules has a page for each."""

from __future__ import annotations

from metalcore.diagnostics import Rule

LEVELS = ("note", "warning", "error")


def _rule(name: str, level: str, title: str, remedy: str) -> Rule:
    """An error is what Metal refuses or leaves undefined, a warning is likely wrong, a note costs time or is untidy."""
    return Rule(name, title, remedy, level)


RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in (
        _rule(
            "implicit-bfloat",
            "error",
            "a float or a float literal becomes a bfloat without a cast",
            "write the conversion: `T(0.0f)` or `bfloat(x)`",
        ),
        _rule(
            "half-literal",
            "warning",
            "a literal that half or bfloat cannot hold becomes zero or infinite",
            "keep the value in float, or take one that the type can hold",
        ),
        _rule(
            "bfloat-shuffle",
            "error",
            "simd_shuffle of a bfloat, which this Metal version does not have",
            "shuffle the bits: `as_type<bfloat>(simd_shuffle_down(as_type<ushort>(x), n))`, or shuffle a float",
        ),
        _rule(
            "used-before-defined",
            "error",
            "a function is used above its definition",
            "move the function up, or declare it before its first use",
        ),
        _rule(
            "double-type",
            "error",
            "Metal has no double",
            "use float, or a pair of floats where one is too short",
        ),
        _rule(
            "missing-address-space",
            "error",
            "a pointer or reference names no address space",
            "say where it points: device, constant, threadgroup or thread",
        ),
        _rule(
            "too-many-buffers",
            "error",
            "a buffer index above 30: Metal binds 31 buffers to a kernel",
            "put small values into one struct, or several arrays into one buffer with offsets",
        ),
        _rule(
            "buffer-bound-twice",
            "error",
            "two parameters of a kernel have the same buffer index",
            "give each parameter an index of its own",
        ),
        _rule(
            "threadgroup-memory-limit",
            "error",
            "a kernel declares more than 32 KiB of threadgroup memory",
            "make the tile smaller, or reuse one array for several steps with a barrier between them",
        ),
        _rule(
            "divergent-barrier",
            "error",
            "a barrier in a branch or loop that depends on the thread: not all threads reach it",
            "move the barrier out of the branch, and let every thread run the loop equally often",
        ),
        _rule(
            "threadgroup-initialiser",
            "warning",
            "a threadgroup variable that a loop changes has an initialiser, which sets it once for the threadgroup",
            "let one thread set it in each round, with a barrier before and one behind",
        ),
        _rule(
            "barrier-flags",
            "warning",
            "the flags of a barrier do not name the memory that is written before it and read behind it",
            "name that memory: mem_flags::mem_threadgroup, mem_flags::mem_device, or both",
        ),
        _rule(
            "uncombined-simd-reduction",
            "warning",
            "simd_sum or its like is taken for the whole threadgroup, which may have several simdgroups",
            "write one result for each simdgroup to threadgroup memory, barrier, and reduce those",
        ),
        _rule(
            "vector-without-tail",
            "warning",
            "a kernel on vectors of 4 leaves out, or reads past, the last elements of other lengths",
            "handle the last `n % 4` elements one by one",
        ),
        _rule(
            "int32-index",
            "warning",
            "an index is a product of sizes in 32 bits, which passes 2^31 on large arrays",
            "compute it in 64 bits: `size_t(row) * columns + column`",
        ),
        _rule(
            "half-accumulator",
            "warning",
            "a sum over a loop is kept in half or bfloat",
            "accumulate in float and convert the result",
        ),
        _rule(
            "float-float-fast-math",
            "warning",
            "the rounding error of a sum or product is computed under fast math, which may replace it by zero",
            "add `#pragma METAL fp math_mode(safe)`, or compile the library with the safe math mode",
        ),
        _rule(
            "dynamic-private-array",
            "note",
            "a private array is indexed by a value that is not known at compile time",
            "unroll the loop so that indices are constants, use select, or keep the array in threadgroup memory",
        ),
        _rule(
            "integer-division",
            "note",
            "an integer is divided by a value that is not known at compile time",
            "make the divisor a template parameter or function constant, or use a 2-D or 3-D grid",
        ),
        _rule(
            "unused-parameter",
            "note",
            "a parameter of a kernel is never used",
            "remove it, or mark it [[maybe_unused]]",
        ),
        _rule(
            "unknown-rule",
            "warning",
            "a comment silences a rule that does not exist",
            "`metalcore check --list-rules` lists the ids",
        ),
    )
}


def unknown(name: str) -> str:
    """The message for an id that is no rule's."""
    import difflib

    near = difflib.get_close_matches(name, RULES, n=2)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `metalcore check --list-rules` lists them"
    return f"there is no rule '{name}'{hint}"
