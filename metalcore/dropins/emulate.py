"""`metalcore.emulate()`: a program written for a Mac runs here unchanged.

Inside the block the calls of torch and mlx that need an Apple GPU are answered by the engine, and torch's device
"mps" means memory of the CPU. Everything that was replaced is put back when the outermost block ends.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

from metalcore.engine.locks import ForkLock

_MISSING = object()


class Patches:
    """Attributes that were replaced, and what they were."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute until `restore`."""
        self._undo.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def on_restore(self, action: Callable[[], None]) -> None:
        """Something to do at `restore`, in its turn."""
        self._undo.append((action, "", None))

    def restore(self) -> None:
        """Put everything back, last change first."""
        while self._undo:
            owner, name, old = self._undo.pop()
            if not name:
                owner()
            elif old is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, old)


class _Emulation:
    """The state of the process: how many blocks are open, and in which threads torch calls are translated."""

    def __init__(self) -> None:
        self.lock = ForkLock()
        self.depth = 0
        self.patches = Patches()
        self.local = threading.local()
        self.patched: set[str] = set()

    def enter(self) -> None:
        with self.lock:
            self.depth += 1
            if self.depth == 1:
                self._install()
        self.enter_thread()

    def leave(self) -> None:
        self.leave_thread()
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                self.patched.clear()
                self.patches.restore()

    def enter_thread(self) -> None:
        """Translate the torch calls of this thread."""
        self.local.depth = getattr(self.local, "depth", 0) + 1
        self.translate()

    def leave_thread(self) -> None:
        self.local.depth -= 1
        mode = getattr(self.local, "mode", None)
        if self.local.depth == 0 and mode is not None:
            self.local.mode = None
            mode.__exit__(None, None, None)

    def translate(self) -> None:
        """Start torch's function mode in this thread, once torch is there."""
        if getattr(self.local, "depth", 0) == 0 or getattr(self.local, "mode", None) is not None:
            return
        if "torch" in self.patched:
            from metalcore.dropins import emulate_torch

            mode: AbstractContextManager[Any] = emulate_torch.device_mode(lambda: self.depth > 0)
            mode.__enter__()
            self.local.mode = mode

    def patch(self, name: str) -> None:
        """Replace what needs a Mac in one module that has just been imported, or was before."""
        with self.lock:
            if self.depth == 0 or name in self.patched:
                return
            self.patched.add(name)
            if name == "torch":
                from metalcore.dropins import emulate_torch

                emulate_torch.patch(self.patches)
            else:
                from metalcore.dropins import emulate_mlx

                emulate_mlx.patch(self.patches)
        self.translate()

    def _install(self) -> None:
        try:
            finder = _Finder(self)
            sys.meta_path.insert(0, finder)
            self.patches.on_restore(lambda: sys.meta_path.remove(finder))
            self.patches.set(threading.Thread, "start", _starter(self, threading.Thread.start))
            for name in _Finder.WATCHED:
                if sys.modules.get(name) is not None:
                    self.patch(name)
        except BaseException:
            self.depth = 0
            self.patched.clear()
            self.patches.restore()
            raise


def _starter(state: _Emulation, start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """Thread.start for threads of an emulated program: what they run is emulated as well."""

    def start_emulated(thread: threading.Thread) -> None:
        run = thread.run

        def run_emulated() -> None:
            state.enter_thread()
            try:
                run()
            finally:
                state.leave_thread()
                vars(thread).pop("run", None)

        vars(thread)["run"] = run_emulated
        start(thread)

    return start_emulated


class _Finder(importlib.abc.MetaPathFinder):
    """Sees torch and mlx being imported inside a block."""

    WATCHED = ("torch", "mlx.core")

    def __init__(self, state: _Emulation) -> None:
        self._state = state

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.WATCHED:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, fullname, self._state)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Loads as the real loader does, then patches; afterwards the module has its real loader."""

    def __init__(self, loader: importlib.abc.Loader, name: str, state: _Emulation) -> None:
        self._loader = loader
        self._name = name
        self._state = state

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._state.patch(self._name)


_EMULATION = _Emulation()


@contextmanager
def emulate() -> Iterator[None]:
    """Run what is inside as on a Mac: torch.mps, device "mps", mx.metal and mx.fast.metal_kernel answer.

    >>> import metalcore
    >>> with metalcore.emulate():
    ...     import torch
    ...     x = torch.arange(4.0, device="mps")
    ...     torch.mps.compile_shader('''
    ...         kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }
    ...     ''').twice(x)
    ...     print(x.device, x.cpu().tolist())
    mps:0 [0.0, 2.0, 4.0, 6.0]
    """
    _EMULATION.enter()
    try:
        yield
    finally:
        _EMULATION.leave()
