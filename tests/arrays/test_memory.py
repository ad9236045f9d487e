"""Where the memory of an array is, how far it reaches, and what is said of an array that has none."""

from __future__ import annotations

import array
import ctypes
from typing import Any

import numpy as np
import pytest

from metalcore.arrays.find import is_array, memory_of
from metalcore.arrays.memory import Memory, NoMemory

torch = pytest.importorskip("torch")
mx = pytest.importorskip("mlx.core")
ml_dtypes = pytest.importorskip("ml_dtypes")
BASE = np.arange(24, dtype=np.float32)
MAKE: dict[str, Any] = {"numpy": lambda x: x, "torch": torch.from_numpy, "mlx": mx.array}


class Foreign:
    """An array that shows itself through DLPack alone."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self) -> Any:
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


def found(value: Any, whole: bool = False) -> Memory:
    memory = memory_of(value, whole=whole)
    assert memory is not None
    return memory


@pytest.mark.parametrize("make", [*MAKE.values(), lambda x: Foreign(torch.from_numpy(x))], ids=[*MAKE, "dlpack"])
def test_an_array_of_any_framework(make: Any) -> None:
    whole = make(BASE)
    memory = found(whole)
    assert (memory.size, memory.dtype, memory.contiguous, memory.has_holes) == (96, "float32", True, False)
    assert ctypes.string_at(memory.address, 96) == BASE.tobytes()
    assert memory.changeable is (make is not mx.array)


@pytest.mark.parametrize("kind", MAKE)
def test_views(kind: str) -> None:
    """To the end of the last element; bytes between elements are others'."""
    base = MAKE[kind](BASE).reshape(4, 6)
    start = found(base).address
    for view, offset, size, is_compact in ((base[1:3], 24, 48, True), (base[:, 1:3], 4, 80, False)):
        memory = found(view)
        assert (memory.address - start, memory.size, memory.contiguous) == (offset, size, is_compact)
        assert memory.has_holes is (not is_compact) and not (memory.has_holes and memory.changeable)
        if kind != "mlx":  # which does not say what an array is a view of
            assert found(view, whole=True).size == 96 - offset
    assert found(base[2:2]).size == 0 and found(base[2:2], whole=True).size == 0


def test_names_of_dtypes() -> None:
    for name in ("float32", "float16", "bfloat16", "int64", "uint8", "bool"):
        plain = np.zeros(4, getattr(ml_dtypes, name, name))
        for value in (
            plain,
            torch.zeros(4, dtype=getattr(torch, name)),
            mx.zeros(4, getattr(mx, name.replace("bool", "bool_"))),
        ):
            assert found(value).dtype == name
        assert found(Foreign(torch.zeros(4, dtype=getattr(torch, name)))).dtype == name
    assert found(np.zeros(2, [("a", "f4")])).dtype == found(np.zeros(2, "V4")).dtype == "struct"


def test_objects_that_are_bytes() -> None:
    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int32), ("b", ctypes.c_float)]

    for value, size, writable in ((b"abc", 3, False), (bytearray(5), 5, True), (Pair(1, 2), 8, True), (b"", 0, True)):
        assert found(value)[1:3] == (size, "bytes") and found(value).writable is writable
    assert found(array.array("f", [1, 2])).dtype == "float32"


def test_what_is_no_array() -> None:
    for value in (1, 2.5, "text", None, [1, 2], np.float32(1), torch.zeros(2).untyped_storage(), torch.float32):
        assert memory_of(value) is None and not is_array(value)


def test_writes() -> None:
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    assert not found(fixed).writable and not found(fixed).changeable
    assert found(mx.zeros(3)).immutable and not found(mx.zeros(3)).changeable


def short() -> Any:
    x = torch.ones(8)
    x.untyped_storage().resize_(4)
    return x


def fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(2)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: np.array([None]), "must be an array of numbers, not of Python objects"),
        (
            lambda: np.zeros(2, ">f4"),
            "must have the byte order of this machine, not the foreign byte order of dtype '>f4'",
        ),
        (lambda: torch.ones(2, device="meta"), "must be in CPU memory, and is on meta"),
        (lambda: torch.eye(2).to_sparse(), "must be one block of memory, not a tensor of torch.sparse_coo layout"),
        (
            lambda: torch.ones(2, dtype=torch.complex64).conj(),
            "must be one block of memory, not a lazy negative or conj",
        ),
        (
            lambda: torch.nested.nested_tensor([torch.ones(2)]),
            "must be one block of memory, not a nested tensor: pass a l",
        ),
        (fake, "must be one block of memory, not a fake tensor, which has no memory"),
        (
            short,
            "must be one block of memory, not a tensor of shape (8,), 32 bytes, whose storage was resized and holds 4",
        ),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_what_has_no_memory(make: Any, words: str, whole: bool) -> None:
    with pytest.raises(NoMemory) as caught:
        memory_of(make(), whole=whole)
    assert str(caught.value).startswith(words)
