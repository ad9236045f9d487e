"""Which line of the user's program launched a kernel."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep
_COMMAND = "metalcore"  # which launches a file's kernel itself: nobody's line
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def launch_line() -> str:
    """`program.py:12`, the innermost line that is neither ours nor an installed package's; "" where there is none."""
    frame: FrameType | None = sys._getframe(1)
    fallback = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_PACKAGE, "<frozen")) and os.path.basename(file) != _COMMAND:
            line = f"{_shown(file)}:{frame.f_lineno}"
            if not any(folder in file for folder in _INSTALLED):
                return line
            fallback = fallback or line
        frame = frame.f_back
    return fallback if os.path.basename((sys.argv or [""])[0]) != _COMMAND else ""


def _shown(file: str) -> str:
    """Relative to the current folder where it lies in it."""
    try:
        inside = file.startswith(os.getcwd() + os.sep)
    except OSError:  # the folder is gone
        inside = False
    return os.path.relpath(file) if inside else file
