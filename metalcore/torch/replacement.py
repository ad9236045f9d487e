"""One function of torch and what stands in its place while its override is on."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any

import torch

from metalcore.arrays.torch_private import (
    dispatch_modes,
    function_modes,
    is_forward_mode,
    is_traced,
    is_transformed,
)
from metalcore.errors import ArgumentError, IndexRangeError
from metalcore.ops import function
from metalcore.ops.base.op import Op
from metalcore.runtimes.watch import because, left_to_torch, recorders

# Functions written in C++ have no signature to ask for: those of torch's documentation.
SIGNATURES: dict[str, tuple[str, dict[str, Any]]] = {
    "torch.nn.functional.gelu": ("input", {"approximate": "none"}),
    "torch.nn.functional.scaled_dot_product_attention": (
        "query key value attn_mask dropout_p is_causal",
        {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False},
    ),
    "torch.gather": ("input dim index", {"sparse_grad": False, "out": None}),
    "torch.index_select": ("input dim index", {"out": None}),
    "torch.scatter_add": ("input dim index src", {"out": None}),
    "torch.logsumexp": ("input dim keepdim", {"keepdim": False, "out": None}),
    "torch.softmax": ("input dim dtype", {"dtype": None, "out": None}),
    "torch.log_softmax": ("input dim dtype", {"dtype": None, "out": None}),
}
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_SIMPLE = (type(None), bool, int, float, str, tuple, list, torch.Size, torch.dtype)
_DEVICES = ("cpu", "mps")
_is_compiling = torch.compiler.is_compiling
_local = threading.local()


def resolve(dotted: str) -> tuple[Any, str]:
    """The module that holds a function, and the function's name in it."""
    module, _, name = dotted.rpartition(".")
    owner = import_module(module)
    if not callable(getattr(owner, name, None)):
        raise ArgumentError(f"this version of torch has no {dotted}")
    return owner, name


@contextmanager
def originals() -> Iterator[None]:
    """In the block, this thread's calls reach torch's own functions, whatever is on."""
    before, _local.inside = getattr(_local, "inside", False), True
    try:
        yield
    finally:
        _local.inside = before


class Replacement:
    """Decides for each call of one of torch's functions whether the op or torch's own runs."""

    def __init__(self, op: Op, owner: Any, name: str) -> None:
        self.op, self.owner, self.name = op, owner, name
        self.original = getattr(owner, name)
        self.least_elements = 0
        self.is_asked_for = True
        self.is_on = False
        self._run = function(op.noun)
        self._ours = frozenset(inspect.signature(self._run).parameters)
        is_linalg = op.noun.startswith("linalg_")
        # Those of linear algebra are written in C++ and have no signature to ask for: the library's is the same.
        self._positional, self._defaults = _signature(op.namesake, self._run if is_linalg else self.original)
        # torch has no linear algebra in half precision: its error stays.
        self._dtypes = frozenset(getattr(torch, d) for d in op.dtypes if d == "float32" or not is_linalg)
        # torch.linalg.pinv(input=A), torch.cholesky_solve(input=B, input2=L): torch's words for the first two.
        first = [n for n in ("input", "input2") if n not in self._ours] if is_linalg else []
        self._names = dict(zip(first, self._positional, strict=False)) if "input" in first else {}
        self._reason = f"the override of {op.namesake}"
        self.stand_in = self._make()

    def install(self) -> None:
        self.is_on = True
        setattr(self.owner, self.name, self.stand_in)

    def remove(self) -> None:
        """The identical function again. Where somebody else has wrapped ours since, theirs stays and ours passes on."""
        self.is_on = False
        if getattr(self.owner, self.name) is self.stand_in:
            setattr(self.owner, self.name, self.original)

    def _make(self) -> Any:
        original, run, own = self.original, self._run, _own(self.original, self.name)

        @wraps(original)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            # A compiled graph takes torch's own: the compiler knows it and fuses it.
            if _is_compiling():
                return original(*args, **kwargs)
            if not self.is_on or getattr(_local, "inside", False):
                return own(*args, **kwargs)
            named = self._bind(args, kwargs)
            reason = named if isinstance(named, str) else self._why_torch(named)
            if not reason:
                _local.inside = True
                try:
                    if recorders:
                        with because(self._reason):
                            return run(**named)
                    return run(**named)
                except (ArgumentError, IndexRangeError) as error:
                    reason = str(error)  # torch's own then gives the result, or its own error
                finally:
                    _local.inside = False
            if recorders:
                left_to_torch(self.op.noun, reason, (*args, *kwargs.values()))
            return own(*args, **kwargs)

        return stand_in

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments by the names that the op has, or why there is no such call of the op."""
        if len(args) > len(self._positional):
            return "more arguments than torch's function has by position"
        named = dict(zip(self._positional, args, strict=False))
        for given, value in kwargs.items():
            name = self._names.get(given, given)
            if name in named:
                return f"{name} is given twice"
            named[name] = value
        for name in ("inplace", "out"):  # memory of the caller's is written by torch alone
            given = named.pop(name, None)
            if given is not None and given is not False:
                return f"{name} is given"
        for name in [n for n in named if n not in self._ours]:
            value = named.pop(name)
            if name.startswith("_"):
                continue  # _stacklevel: where a warning of torch points to
            default = self._defaults.get(name, inspect.Parameter.empty)
            if value is not default and not (type(value) is type(default) and value == default):
                shown = type(value).__name__ if isinstance(value, torch.Tensor) else repr(value)
                return f"{name}={shown} is torch's alone"
        return named

    def _why_torch(self, named: dict[str, Any]) -> str:
        """Why torch's own must run, or "" where the op does the same."""
        first = dtype = device = None
        for name, value in named.items():
            kind = type(value)
            if kind in _PLAIN:
                if value.layout is not torch.strided:
                    return f"{name} has the layout {value.layout}"
                where = value.device.type
                if where not in _DEVICES or (device is not None and where != device):
                    return f"{name} is on {where}"
                device = where
                if value.is_floating_point() or value.is_complex():
                    if value.dtype not in self._dtypes:
                        return f"{name} is {str(value.dtype).removeprefix('torch.')}"
                    if dtype is not None and value.dtype != dtype:
                        return "the tensors have different dtypes"
                    dtype = value.dtype
                if first is None:
                    first = value
            elif kind not in _SIMPLE:
                return f"{name} is a {kind.__name__}"
        if first is None:
            return "there is no tensor"
        if first.numel() < self.least_elements:
            return f"fewer than {self.least_elements} elements"
        if self.op.backward is None and torch.is_grad_enabled() and any(_wants_gradient(v) for v in named.values()):
            return "a gradient is asked for, and the op has none"
        tests = (self.op.accepts, None if self.is_asked_for else self.op.slower)
        return _context(device) or next((why for test in tests if test and (why := test(**named))), "")


def _own(original: Any, name: str) -> Any:
    """torch's own function. Those in Python look their own name up to hand it to tensor subclasses and modes, which
    must be given the original, not what stands in its place: so here the name means the original."""
    if not isinstance(original, FunctionType) or name not in original.__code__.co_names:
        return original
    copy = FunctionType(
        original.__code__,
        {**original.__globals__, name: original},
        original.__name__,
        original.__defaults__,
        original.__closure__,
    )
    copy.__kwdefaults__ = original.__kwdefaults__
    return copy


def _wants_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _context(device: str | None) -> str:
    """What surrounds a call and changes what torch's function means."""
    if dispatch_modes() or function_modes():
        return "a mode of torch is active"
    if is_transformed():
        return "inside a transform of torch.func"
    if is_forward_mode():
        return "forward-mode gradients are on"
    if device is not None and torch.is_autocast_enabled(device):
        return "autocast is on"
    return "torch.jit is tracing" if is_traced() else ""


def _signature(dotted: str, original: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Names that may be given by position, and the defaults."""
    if dotted in SIGNATURES:
        positional, defaults = SIGNATURES[dotted]
        return tuple(positional.split()), defaults
    parameters = inspect.signature(original).parameters.values()
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return (
        tuple(p.name for p in parameters if p.kind in by_position),
        {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty},
    )
