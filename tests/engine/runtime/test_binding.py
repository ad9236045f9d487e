"""What may be passed to a kernel and what may not, and what the errors say."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import mlx.core as mx
import numpy as np
import pytest
import torch
from hand_kernels import argument, function, value

import metalcore
from metalcore.engine.runtime.raw_binding import Binding
from metalcore.errors import ArgumentError

# Copies buffer 0, seen as bytes, to buffer 1; the size it was given goes to buffer 2.
ECHO = """KERNEL { uint64_t n = L->sizes[0]; *(uint64_t*)L->buffers[2] = n;
  for (uint64_t i = 0; i < n; i++) ((char*)L->buffers[1])[i] = ((char*)L->buffers[0])[i]; }"""


def _echo(folder: Path, first: Any) -> Any:
    """Calls a kernel with one argument of the given kind, returns the bytes that it saw."""
    arguments = (first, argument("out", 1, "uint8"), argument("n", 2, "uint64"))
    kernel = function(folder, "echo", ECHO, arguments, written=(1, 2))

    def call(given: Any) -> bytes:
        out, n = np.zeros(4096, np.uint8), np.zeros(1, np.uint64)
        kernel(given, out, n, threads=1, group_size=1)
        return out[: n[0]].tobytes()

    return call


DTYPES = ["float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_dtype_and_framework(tmp_path: Path, dtype: str) -> None:
    call = _echo(tmp_path, argument("x", 0, dtype))
    x = np.arange(6).astype(dtype)
    assert call(x) == x.tobytes()
    assert call(torch.from_numpy(x.copy())) == x.tobytes()
    assert call(mx.array(x)) == x.tobytes()
    assert call(memoryview(x)) == x.tobytes()
    x.flags.writeable = False
    assert call(x) == x.tobytes()


def test_bfloat16_of_every_framework(tmp_path: Path) -> None:
    call = _echo(tmp_path, argument("x", 0, "bfloat16"))
    expected = struct.pack("<4H", 0x3F80, 0x4000, 0xC040, 0x0000)
    assert call(torch.tensor([1.0, 2.0, -3.0, 0.0], dtype=torch.bfloat16)) == expected
    assert call(np.array([1.0, 2.0, -3.0, 0.0], ml_dtypes.bfloat16)) == expected
    assert call(mx.array([1.0, 2.0, -3.0, 0.0], dtype=mx.bfloat16)) == expected


def test_nothing_is_copied(tmp_path: Path) -> None:
    body = "KERNEL { EACH_THREAD { ((float*)L->buffers[0])[X] += 1; } }"
    add = function(tmp_path, "add", body, (argument("x", 0),))
    array, tensor = np.zeros(8, np.float32), torch.zeros(8)
    add(array, threads=8)
    add(tensor, threads=8)
    add(x=torch.nn.Parameter(tensor, requires_grad=False), threads=8)
    add(array[4:], threads=4)
    add(bytearray(32), threads=8)
    assert array.tolist() == [1, 1, 1, 1, 2, 2, 2, 2]
    assert tensor.tolist() == [2] * 8


def test_views_that_are_only_read_are_bound_raw(tmp_path: Path) -> None:
    call = _echo(tmp_path, argument("x", 0, "int32"))
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert call(x[1:]) == x[1:].tobytes()
    assert call(x.T) == x.tobytes()
    assert call(x[:, 1]) == x.reshape(-1)[1:10].tobytes()
    assert call(torch.from_numpy(x)[:, 1]) == x.reshape(-1)[1:10].tobytes()
    assert call(np.zeros((0, 4), np.int32)) == b""
    assert call(torch.zeros(0, dtype=torch.int32)) == b""


@pytest.mark.parametrize(
    ("scalar", "given", "expected"),
    [
        ("float32", 2, struct.pack("<f", 2)),
        ("float32", 0.1, struct.pack("<f", 0.1)),
        ("float32", float("inf"), struct.pack("<f", float("inf"))),
        ("float16", 0.5, struct.pack("<e", 0.5)),
        ("bfloat16", -1.5, b"\xc0\xbf"),
        ("bfloat16", 1.00390625, b"\x80\x3f"),  # a tie: to even
        ("bfloat16", 1.00390626, b"\x81\x3f"),  # just above it
        ("int32", -7, struct.pack("<i", -7)),
        ("int32", 3.0, struct.pack("<i", 3)),
        ("uint8", 255, b"\xff"),
        ("int64", 2**40, struct.pack("<q", 2**40)),
        ("uint64", 2**64 - 1, b"\xff" * 8),
        ("bool", True, b"\1"),
        ("bool", 0, b"\0"),
        ("int32", True, struct.pack("<i", 1)),
        ("int32", np.int32(5), struct.pack("<i", 5)),
        ("float32", np.int32(5), struct.pack("<i", 5)),  # its own bytes
        ("int32", np.array([9, 8], np.int32), struct.pack("<2i", 9, 8)),
        ("int32", [6], struct.pack("<i", 6)),
    ],
)
def test_numbers(tmp_path: Path, scalar: str, given: Any, expected: bytes) -> None:
    assert _echo(tmp_path, value("x", 0, scalar))(given) == expected


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int32), ("b", ctypes.c_float)]


PAIR = struct.pack("<if", 3, 0.5)
PAIR_DTYPE = np.dtype([("a", "<i4"), ("b", "<f4")])


@pytest.mark.parametrize("given", [PAIR, bytearray(PAIR), Pair(3, 0.5), np.array([(3, 0.5)], PAIR_DTYPE)[0]])
def test_structs(tmp_path: Path, given: Any) -> None:
    call = _echo(tmp_path, value("x", 0, "struct", type="Pair", element_size=8))
    assert call(given) == PAIR


def test_struct_arrays(tmp_path: Path) -> None:
    call = _echo(tmp_path, argument("x", 0, "struct", type="Pair", element_size=8))
    rows = np.array([(3, 0.5), (4, 1.5)], PAIR_DTYPE)
    assert call(rows) == rows.tobytes()
    assert call((Pair * 2)(Pair(3, 0.5), Pair(4, 1.5))) == rows.tobytes()


def test_vectors_and_sequences(tmp_path: Path) -> None:
    float3 = value("x", 0, "float32", type="float3", lanes=3, element_size=16)
    assert _echo(tmp_path, float3)((1, 2, 3)) == struct.pack("<4f", 1, 2, 3, 0)
    rows = argument("x", 0, "float32", type="float3", lanes=3, element_size=16, space="constant", writable=False)
    assert _echo(tmp_path, rows)([(1, 2, 3), (4, 5, 6)]) == struct.pack("<8f", 1, 2, 3, 0, 4, 5, 6, 0)
    float2 = argument("x", 0, "float32", type="float2", lanes=2, element_size=8)
    assert _echo(tmp_path, float2)(np.array([1 + 2j], np.complex64)) == struct.pack("<2f", 1, 2)
    assert _echo(tmp_path, value("x", 0, "float32", type="float2", lanes=2, element_size=8))(1 + 2j) == struct.pack(
        "<2f", 1, 2
    )
    ints = argument("x", 0, "int32", space="constant", writable=False)
    assert _echo(tmp_path, ints)([1, 2, 3]) == struct.pack("<3i", 1, 2, 3)


def test_bytes_buffers_take_any_dtype(tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.float32)
    for scalar in ("uint8", "int8"):
        assert _echo(tmp_path, argument("x", 0, scalar))(x) == x.tobytes()
    assert _echo(tmp_path, argument("x", 0, "struct", type="void", element_size=1))(x) == x.tobytes()


def test_values_keep_their_place_among_arrays(tmp_path: Path) -> None:
    body = """KERNEL { float* o = L->buffers[0]; o[0] = *(float*)L->buffers[1]; o[1] = *(int*)L->buffers[2];
      o[2] = *(unsigned char*)L->buffers[3]; o[3] = (uint64_t)L->buffers[1] % 16 + (uint64_t)L->buffers[2] % 16; }"""
    arguments = (argument("o", 0), value("a", 1), value("b", 2, "int32"), value("c", 3, "uint8"))
    mixed = function(tmp_path, "mixed", body, arguments)
    out = np.zeros(4, np.float32)
    mixed(out, 1.5, -2, 200, threads=1)
    assert out.tolist() == [1.5, -2, 200, 0]
    mixed(c=3, o=out, b=4, a=5, threads=1)
    assert out.tolist() == [5, 4, 3, 0]
    mixed(out, 7, c=9, b=8, threads=1)
    assert out.tolist() == [7, 8, 9, 0]


def test_none_fills_slots(tmp_path: Path) -> None:
    body = "KERNEL { uint64_t* o = L->buffers[0]; o[0] = !L->buffers[1]; o[1] = !L->buffers[2]; o[2] = L->sizes[3]; }"
    arguments = (argument("o", 0, "uint64"), argument("off", 1, enabled=False), argument("z", 3))
    gaps = function(tmp_path, "gaps", body, arguments)
    out = np.zeros(3, np.uint64)
    gaps(out, None, None, np.zeros(2, np.float32), threads=1)
    assert out.tolist() == [1, 1, 8]
    gaps(out, np.zeros(3), None, z=np.zeros(3, np.float32), threads=1)  # what is disabled is not looked at
    assert out.tolist() == [1, 1, 12]
    gaps(out, z=None, threads=1)
    assert out.tolist() == [1, 1, 0]
    with pytest.raises(ArgumentError, match=re.escape("has no [[buffer(2)]]")):
        gaps(out, None, np.zeros(1), np.zeros(1), threads=1)


X = np.zeros(4, np.float32)
READ_ONLY = np.zeros(4, np.float32)
READ_ONLY.flags.writeable = False

BAD = {
    "too many": ((X, 1.0, X), {}, "takes 2 buffer arguments", "3 were given"),
    "too few": ((X,), {}, "misses 'a' ([[buffer(1)]])"),
    "unknown name": ((X,), {"b": 1}, "no argument named 'b'", "x, a"),
    "given twice": ((X, 1.0), {"x": X}, "'x' is given twice"),
    "wrong dtype": ((np.zeros(4), 1.0), {}, "argument 0 'x'", "an array of float32", "dtype float64"),
    "wrong torch dtype": ((torch.zeros(4, dtype=torch.float64), 1.0), {}, "'x'", "float64"),
    "wrong sign": ((np.zeros(4, np.uint32), 1.0), {}, "uint32"),
    "other byte order": ((np.zeros(4, ">f4"), 1.0), {}, "foreign byte order"),
    "objects": ((np.array([None]), 1.0), {}, "objects"),
    "wrong device": ((torch.zeros(4, device="meta"), 1.0), {}, "CPU memory", "meta"),
    "sparse": ((torch.zeros(2, 2).to_sparse(), 1.0), {}, "sparse_coo"),
    "read-only": ((READ_ONLY, 1.0), {}, "'x'", "read-only"),
    "read-only bytes": ((bytes(16), 1.0), {}, "'x'", "read-only"),
    "immutable": ((mx.zeros(4), 1.0), {}, "'x'", "mlx cannot be written"),
    "not contiguous": ((np.zeros(8, np.float32)[::2], 1.0), {}, "'x'", "not contiguous"),
    "not contiguous in torch": ((torch.zeros(4, 4).T, 1.0), {}, "'x'", "not contiguous"),
    "number for an array": ((1.0, 1.0), {}, "'x'", "must be an array", "float 1.0"),
    "list for a written array": (([1.0], 1.0), {}, "'x'", "must be an array"),
    "text": (("x", 1.0), {}, "'x'", "str"),
    "text for a number": ((X, "1"), {}, "'a'", "a number", "str"),
    "out of range": ((X, 1e39), {}, "'a'", "1e+39 is out of range of float"),
    "scalar of another size": ((X, np.float64(1)), {}, "'a'", "4 bytes", "has 8"),
    "too few bytes": ((X, b"ab"), {}, "'a'", "4 bytes", "has 2"),
    "too many bytes": ((X, bytes(8)), {}, "'a'", "exactly 4 bytes", "has 8"),
    "too many numbers": ((X, [1, 2]), {}, "'a'", "4 bytes", "makes 8"),
    "an object": ((X, object()), {}, "'a'", "object"),
    "list of arrays": ((X, [X, X]), {}, "'a'", "list of arrays"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments(tmp_path: Path, case: str) -> None:
    args, named, *parts = BAD[case]
    scale = function(tmp_path, "scale", "KERNEL { }", (argument("x", 0), value("a", 1)))
    with pytest.raises(ArgumentError) as caught:
        scale(*args, threads=4, **named)  # type: ignore[misc]
    message = str(caught.value)
    assert isinstance(caught.value, TypeError)
    for part in ("'scale'", *parts):
        assert part in message, (part, message)


@pytest.mark.parametrize(
    ("scalar", "bad"),
    [("int32", 2**31), ("uint32", -1), ("uint8", 256), ("int8", -129), ("uint64", 2**64), ("int32", 1.5)]
    + [("bool", 2), ("float16", 70000), ("bfloat16", 1e39), ("int32", float("nan")), ("uint32", float("inf"))],
)
def test_numbers_out_of_range(tmp_path: Path, scalar: str, bad: float) -> None:
    with pytest.raises(ArgumentError, match="argument 0 'x'"):
        _echo(tmp_path, value("x", 0, scalar))(bad)


def test_lazy_negation_is_refused(tmp_path: Path) -> None:
    lazy = torch.tensor([1 + 2j]).conj().imag
    assert lazy.is_neg()
    with pytest.raises(ArgumentError, match="resolve_neg"):
        _echo(tmp_path, argument("x", 0))(lazy)


def test_an_address_that_does_not_fit_the_type(tmp_path: Path) -> None:
    call = _echo(tmp_path, argument("x", 0, type="float4", lanes=4, element_size=16, element_align=16))
    memory = np.zeros(64, np.float32)
    start = -(memory.__array_interface__["data"][0] // 4) % 4  # the first element on a multiple of 16
    assert call(memory[start : start + 4]) == bytes(16)
    for bad in (memory[start + 1 : start + 5], torch.from_numpy(memory)[start + 1 : start + 5]):
        with pytest.raises(ArgumentError, match=r"argument 0 'x'.*multiple of 16 bytes, as float4 needs"):
            call(bad)


def test_lists_of_arrays(tmp_path: Path) -> None:
    call = _echo(tmp_path, argument("x", 0, "pointer", type="device float*"))
    a, b = np.zeros(3, np.float32), torch.zeros(2)
    assert call([a, b]) == struct.pack("<2Q", a.__array_interface__["data"][0], b.data_ptr())
    assert call([a, None]) == struct.pack("<2Q", a.__array_interface__["data"][0], 0)
    with pytest.raises(ArgumentError, match="item 1 of the list is read-only"):
        call([a, READ_ONLY])
    with pytest.raises(ArgumentError, match="item 1 of the list"):
        call([a, 3])


def test_dlpack_objects(tmp_path: Path) -> None:
    class Wrapped:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor

        def __dlpack__(self) -> Any:
            return self.tensor.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    call = _echo(tmp_path, argument("x", 0))
    assert call(Wrapped(x)) == x.numpy().tobytes()
    assert call(Wrapped(x[1])) == x[1].numpy().tobytes()
    with pytest.raises(ArgumentError, match="dtype int32"):
        call(Wrapped(x.int()))


def test_launch_raw_takes_memory_as_it_is(tmp_path: Path) -> None:
    body = "KERNEL { EACH_THREAD { ((float*)L->buffers[0])[X] = X; } }"
    fill = function(tmp_path, "fill", body, (argument("x", 0),))
    x = np.zeros(8, np.int32)
    bound = Binding(x.ctypes.data, x.nbytes, x)
    fill.launch_raw([bound], grid=(8, 1, 1), group=(4, 1, 1))
    assert x.view(np.float32).tolist() == list(range(8))
    with pytest.raises(ArgumentError, match="read-only"):
        fill.launch_raw([bound._replace(writable=False)], grid=(8, 1, 1), group=(4, 1, 1))


def test_binding_reports_through_the_public_name() -> None:
    assert metalcore.errors.ArgumentError is ArgumentError


def test_a_call_lets_go_of_its_arrays(tmp_path: Path) -> None:
    """Bound through the buffer protocol: an array that is still exported could not be resized."""
    x, out, n = np.ones(16, np.uint8), np.zeros(16, np.uint8), np.zeros(1, np.uint64)
    arguments = (argument("x", 0, "uint8"), argument("out", 1, "uint8"), argument("n", 2, "uint64"))
    kernel = function(tmp_path, "echo", ECHO, arguments, written=(1, 2))
    for _ in range(3):
        kernel(x, out, n, threads=1, group_size=1)
    with pytest.raises(ArgumentError):
        kernel(x, out, None, 1, threads=1, group_size=1)
    x.resize(8)
    kernel(x, out, n, threads=1, group_size=1)
    assert n[0] == 8
