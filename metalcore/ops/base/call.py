"""Which framework an op runs on: that of its arrays. The ops know no framework: theirs are found here by name."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from metalcore.errors import ArgumentError
from metalcore.runtimes.watch import recorders, watched

if TYPE_CHECKING:
    from metalcore.ops.base.op import Op

_modules = sys.modules
_FRAMEWORKS = (
    ("torch", "Tensor", "a torch tensor"),
    ("numpy", "ndarray", "a NumPy array"),
    ("mlx.core", "array", "an mlx array"),
)
_TORCH, _MLX = "metalcore.torch.dispatch", "metalcore.mlx.call"  # what runs ops on these frameworks
_torch: Any = None  # the module _TORCH, once torch is there
_has_torch = False  # a name of its own: torch.compile reads a name once


def call(op: Op, arguments: tuple[Any, ...]) -> Any:
    """The public outputs of an op, on the framework of its first array."""
    try:
        return _call(op, arguments)
    except ArgumentError:
        raise  # it says what is wrong
    except (AttributeError, TypeError, RuntimeError):
        _refuse_mixture(op, arguments)
        raise


def _call(op: Op, arguments: tuple[Any, ...]) -> Any:
    first = arguments[0]
    if "torch" in _modules and isinstance(first, _modules["torch"].Tensor):
        outputs = _torch_op(op.noun, arguments)(*arguments)
        if op.written:
            return None
        # torch gives one output as it is, several as a tuple
        return outputs if len(op.forward.schema.outputs) == 1 else _public(op, outputs)
    if isinstance(first, np.ndarray):
        from metalcore.runtimes.cpu import numpy_cpu

        if any(hasattr(type(a), "dtype") and not isinstance(a, np.ndarray) for a in arguments):
            _refuse_mixture(op, arguments)  # arrays of others would be taken, as they have memory too
        if recorders:
            outputs = watched(op.noun, op.forward.plan, numpy_cpu(), arguments)
        else:
            outputs = op.forward.plan(numpy_cpu(), *arguments)
        return None if op.written else _public(op, outputs)
    if "mlx.core" in _modules and isinstance(first, _modules["mlx.core"].array):
        return _public(op, import_module(_MLX).mlx_call(op, arguments))
    kind = type(first).__name__
    raise ArgumentError(f"{op.noun}: it takes torch tensors, NumPy arrays or mlx arrays, not {kind}")


def _refuse_mixture(op: Op, arguments: tuple[Any, ...]) -> None:
    """Asked where a call of torch's has failed, as every call would pay for it, and where NumPy would take anything."""
    given = {n: kind for n, a in zip(op.forward.schema.names, arguments, strict=False) if (kind := _framework(a))}
    if len(set(given.values())) > 1:
        found = ", ".join(f"{name} is {kind}" for name, kind in given.items())
        raise ArgumentError(f"{op.public_name}: arrays must be of one framework; {found}") from None


def _framework(value: Any) -> str:
    for module, name, words in _FRAMEWORKS:
        if module in _modules and isinstance(value, getattr(_modules[module], name)):
            return words
    return ""


def _torch_op(noun: str, arguments: tuple[Any, ...]) -> Any:
    if not _has_torch:
        _load_torch()
    return _torch.EAGER[noun] if _torch.is_eager(arguments) else _torch.overload(noun)


def _load_torch() -> None:
    global _torch, _has_torch
    _torch, _has_torch = import_module(_TORCH), True


# As `torch_private.while_tracing`, which imports torch: the first op may stand in what torch.compile traces.
vars(_load_torch)["_dynamo_marked_constant"] = True


def _public(op: Op, outputs: Any) -> Any:
    count = len(op.written) or op.public_outputs
    return outputs[0] if count == 1 else tuple(outputs[:count])
