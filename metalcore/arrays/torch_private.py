"""All that is not torch's public interface and that the package uses: a new torch is looked at here."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, partial
from operator import attrgetter
from typing import Any, TypeVar

import torch
import torch._compile
import torch._functorch.utils
from torch.autograd import forward_ad
from torch.utils import _device, _pytree

_C: Any = torch._C
_functorch: Any = _C._functorch

# Tensors and storages
storage_key = attrgetter("_cdata")
tree_leaves = _pytree.tree_leaves
add_to_each = torch._foreach_add_

# Who listens to calls of torch, or changes what they mean: the first two count
function_modes = _C._len_torch_function_stack
dispatch_modes = _C._len_torch_dispatch_stack
without_function_modes = _C.DisableTorchFunction
has_transforms = _C._are_functorch_transforms_active
is_profiled = _C._autograd._profiler_enabled
parse_to = _C._nn._parse_to  # reads the arguments of Tensor.to

# Below a key of the dispatcher
below_autograd = _C._AutoDispatchBelowAutograd
below_views = _C._AutoDispatchBelowADInplaceOrView
keys_below_views = _C._after_ADInplaceOrView_keyset

# Gradients
forward_gradients = forward_ad._set_fwd_grad_enabled
SingleLevelFunction = torch.autograd.function._SingleLevelFunction
single_level = torch._functorch.utils.enable_single_level_autograd_function
is_batched_gradient = _functorch.is_legacy_batchedtensor  # by torch.autograd.grad(is_grads_batched=True)

without_compiling = torch._compile._disable_dynamo  # torch.compile leaves such a function as it is


_Function = TypeVar("_Function", bound=Callable[..., None])


def while_tracing(function: _Function) -> _Function:
    """torch.compile calls such a function while it traces, and not in what it makes.
    torch.compiler.assume_constant_result does this too, but imports the compiler, which takes seconds."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def is_fake(tensor: Any) -> bool:
    """Whether it is torch's FakeTensor: it says that it is on the CPU, and nothing is there."""
    return type(tensor).__module__ == "torch._subclasses.fake_tensor"


def is_traced() -> bool:
    """By torch.jit."""
    return _C._get_tracing_state() is not None


def is_transformed() -> bool:
    """Inside a transform of torch.func."""
    return _functorch.peek_interpreter_stack() is not None


def is_forward_mode() -> bool:
    """Whether tangents may be asked for."""
    return forward_ad._current_level >= 0


def is_backward() -> bool:
    """Whether gradients are being computed, in this thread."""
    return bool(_C._current_graph_task_id() != -1)


def unwrapped(tensor: Any) -> Any:
    """What a transform of torch.func has wrapped; None inside vmap, where there are several."""
    while _functorch.is_functorch_wrapped_tensor(tensor):
        if _functorch.is_batchedtensor(tensor):
            return None
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def without_key(key: str) -> Callable[[], AbstractContextManager[Any]]:
    """Contexts in which the dispatcher passes by this key."""
    return partial(_C._ExcludeDispatchKeyGuard, _C.DispatchKeySet(getattr(_C.DispatchKey, key)))


def default_device() -> Any:
    """That of torch.set_default_device, or None."""
    return _device.CURRENT_DEVICE


@cache
def makers() -> frozenset[Any]:
    """Functions that make a tensor on the default device."""
    constructors: Any = _device._device_constructors
    return frozenset(constructors())


def exchange_api() -> int | None:
    """Where DLPack's exchange of tensors in C is, if this torch has it."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    read = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    address: int | None = read(capsule, b"dlpack_exchange_api")
    return address
