"""LLVM in a process of its own, held to the limits of the compiler.

Machine code of all but small kernels is made by the ziglang wheel's LLVM, which takes two thirds of the time of
llvmlite's for the same code. Scalar code is optimised in this process, where it is not so large that it may take
minutes: LLVM's time grows with the square of a long function's size, so size alone does not bound large ones.
"""

from __future__ import annotations

import os
import sys

from metalcore.engine.optimiser import llvm
from metalcore.engine.process import Raw, run_limited, scratch_folder
from metalcore.engine.target import Target
from metalcore.engine.toolchain import zig
from metalcore.errors import CompileError, MetalcoreError

SMALL = 500  # lines of lockstep IR, up to which starting a process takes longer than it saves
LARGE = 30_000  # lines of IR; the corpus has few kernels beyond it, some 5 s each
is_bounded = False  # this process is itself held to limits, and may start no program but the compiler's
_REFUSED = 3  # exit code of a child that found the kernel at fault
_MOST = (1 << 30, "the kernel's machine code has more than 1 GB")
_PROGRAM = """import sys
sys.path[:] = {path!r}
from metalcore.engine.optimiser import llvm
from metalcore.engine.target import Platform, Target
from metalcore.errors import CompileError
text = sys.stdin.read()
try:
    out = llvm.optimise_scalar(text, guarded={guarded!r}, target={target!r})
except CompileError as error:
    sys.stderr.write(str(error))
    sys.exit({refused})
sys.stdout.buffer.write(out.encode())
"""


def optimise_scalar(text: str, *, guarded: bool = False, target: Target | None = None) -> str:
    """What `llvm.optimise_scalar` gives, worked out by a Python that may be stopped."""
    path = [folder for folder in sys.path if folder]
    program = _PROGRAM.format(path=path, guarded=guarded, target=target, refused=_REFUSED)
    with scratch_folder() as folder:
        return _output(run_limited([sys.executable, "-I", "-c", program], text, folder, *_MOST)).decode()


def emit_object(text: str, *, quick: bool = False, target: Target | None = None) -> bytes:
    """What `llvm.emit_object` gives."""
    tool = [zig(), "clang", "-cc1", *llvm.clang_target(target), "-funroll-loops", "-x", "ir"]
    text = llvm.target_lines(target) + text
    # clang takes one number for the optimiser and the code generator, which llvmlite is given two for.
    optimiser, generator = "-O1" if quick else "-O2", "-O1" if text.count("\n") > llvm.LARGE else "-O2"
    with scratch_folder() as folder:
        if optimiser == generator:
            return _output(run_limited([*tool, optimiser, "-emit-obj", "-o", "-", "-"], text, folder, *_MOST))
        optimised = os.path.join(folder, "optimised.bc")
        _output(run_limited([*tool, optimiser, "-emit-llvm-bc", "-o", optimised, "-"], text, folder, *_MOST))
        emit = (generator, "-disable-llvm-passes", "-emit-obj", "-o", "-", optimised)
        return _output(run_limited([*tool, *emit], "", folder, *_MOST))


def _output(done: Raw) -> bytes:
    if done.code == _REFUSED:
        raise CompileError(done.errors)
    if done.code < 0:
        raise CompileError(f"the code generator failed on this kernel: {done.errors.strip()}")
    if done.code != 0:
        raise MetalcoreError(f"the code generator failed:\n{done.errors.strip()}")
    return done.output
