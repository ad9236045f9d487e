"""LLVM in a process of its own, for kernels so large that it may take minutes: held to the limits of the compiler.

Small ones are done in this process: their size bounds what they can take. LLVM's time grows with the square of a long
function's size, so size alone does not bound large ones.
"""

from __future__ import annotations

import sys

from metalcore.engine.frontend.process import run_limited, scratch_folder
from metalcore.errors import CompileError, MetalcoreError

LARGE = 30_000  # lines of IR; the corpus has few kernels beyond it, some 5 s each
is_bounded = False  # this process is itself held to limits, and may start no program but the compiler's
_REFUSED = 3  # exit code of a child that found the kernel at fault
_PROGRAM = """import sys
sys.path[:] = {path!r}
from metalcore.engine.codegen import llvm
from metalcore.errors import CompileError
text = sys.stdin.read()
try:
    out = llvm.{function}(text, **{options!r})
except CompileError as error:
    sys.stderr.write(str(error))
    sys.exit({refused})
sys.stdout.buffer.write(out if isinstance(out, bytes) else out.encode())
"""


def in_child(function: str, text: str, **options: bool) -> bytes:
    """What `llvm.<function>(text, **options)` gives, worked out in a child that may be stopped."""
    path = [folder for folder in sys.path if folder]
    program = _PROGRAM.format(path=path, function=function, options=options, refused=_REFUSED)
    with scratch_folder() as folder:
        done = run_limited(
            [sys.executable, "-I", "-c", program], text, folder, 1 << 30, "the kernel's machine code has more than 1 GB"
        )
    if done.code == _REFUSED:
        raise CompileError(done.errors)
    if done.code < 0:
        raise CompileError(f"the code generator failed on this kernel: {done.errors.strip()}")
    if done.code != 0:
        raise MetalcoreError(f"the code generator failed:\n{done.errors.strip()}")
    return done.output
