"""What goes between this process and its workers. Nothing that a worker says is believed: sizes and types are
checked, text loses its control characters, and nothing is unpickled."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import struct
import time
from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from metalcore import errors
from metalcore.errors import IsolationError, IsolationTimeout, MetalcoreError

PACKET = 60_000  # bytes of one message to or from the server and the launch worker
TEXT_LIMIT, BLOB_LIMIT = 64 << 20, 256 << 20  # of one answer of the compiler
INTEGER_LIMIT = 1 << 62
LOOK = 0.00005  # seconds that an answer is looked for before its reader sleeps
_ONE_DESCRIPTOR = socket.CMSG_LEN(array("i").itemsize)
_FRAME = struct.Struct("=QQ")
_CONTROL = {code: None for code in (*range(9), 11, 12, *range(14, 32), 127, *range(128, 160))}
T = TypeVar("T")


class WorkerGone(Exception):
    """The other end has closed its socket: the worker has died."""


class Nonsense(Exception):
    """The worker said what it cannot have meant."""


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=str).encode("utf-8", "surrogatepass")


def parse(data: bytes) -> dict[str, Any]:
    """An object in JSON from somebody who may lie."""
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"), parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise Nonsense(str(error)) from None
    if not isinstance(value, dict):
        raise Nonsense("no object")
    return value


def _integer(text: str) -> int:
    if len(text) > 20:
        raise ValueError("a number of too many digits")
    return int(text)


def text(value: Any, most: int = TEXT_LIMIT) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise Nonsense("no text where text belongs")
    return value


def integer(value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Nonsense(f"a number that is not from {low} to {high}")
    return value


def plain_text(value: Any) -> str:
    """Text that may be shown: no escape sequences for a terminal."""
    return text(value).translate(_CONTROL)


def items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Nonsense("no list where a list belongs")
    return value


_TYPES: dict[str, tuple[type, ...]] = {
    **{"str": (str,), "int": (int,), "bool": (bool,)},
    "int | str | None": (int, str, type(None)),
}


@cache
def _fields(kind: Any) -> dict[str, tuple[type, ...]]:
    return {field.name: _TYPES[str(field.type)] for field in dataclasses.fields(kind)}


def record(kind: type[T], value: Any) -> T:
    """A flat dataclass of texts and numbers."""
    fields: dict[str, tuple[type, ...]] = _fields(kind)  # type: ignore[arg-type]
    if not isinstance(value, dict) or value.keys() != fields.keys():
        raise Nonsense(f"no {kind.__name__}")
    for name, allowed in fields.items():
        given = value[name]
        if type(given) not in allowed or (type(given) is int and abs(given) > INTEGER_LIMIT):
            raise Nonsense(f"{kind.__name__}.{name}")
    return kind(**value)


def send_packet(link: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    try:
        if descriptors:
            socket.send_fds(link, [data], list(descriptors))
        else:
            link.send(data)
    except (BrokenPipeError, ConnectionError):
        raise WorkerGone from None


def receive_parts(link: socket.socket, flags: int = 0) -> tuple[bytes, list[int]]:
    """One message of a packet socket, and the descriptor that came with it, if any."""
    data, ancillary, _, _ = link.recvmsg(PACKET + 1, _ONE_DESCRIPTOR, flags)
    return data, [number for _, _, given in ancillary for number in array("i", given)]


def look_for_packet(link: socket.socket, seconds: float) -> tuple[bytes, list[int]] | None:
    """The same if it comes within so short a time. To sleep and to be woken takes some 60 us on a virtual machine, on
    each side; a thread that has work meanwhile gets the processor."""
    until = time.perf_counter() + seconds
    while True:
        try:
            return receive_parts(link, socket.MSG_DONTWAIT)
        except BlockingIOError:
            if time.perf_counter() >= until:
                return None
            os.sched_yield()


def receive_packet(link: socket.socket, seconds: float | None) -> bytes:
    """One message of a packet socket; TimeoutError where none comes in time."""
    link.settimeout(0)
    try:
        found = look_for_packet(link, LOOK)
        if found is None:
            link.settimeout(seconds)
        data = link.recv(PACKET + 1) if found is None else found[0]
    except ConnectionError:
        raise WorkerGone from None
    if not data:
        raise WorkerGone
    if len(data) > PACKET:
        raise Nonsense("a message that is too long")
    return data


def exchange(
    link: socket.socket, request: dict[str, Any], descriptors: Sequence[int], seconds: float | None
) -> dict[str, Any]:
    """A question and its answer over a packet socket."""
    send_packet(link, dump(request), descriptors)
    return parse(receive_packet(link, seconds))


def send_frame(link: socket.socket, head: dict[str, Any], blob: bytes = b"") -> None:
    data = dump(head)
    try:
        link.sendall(_FRAME.pack(len(data), len(blob)) + data + blob)
    except (BrokenPipeError, ConnectionError):
        raise WorkerGone from None


def receive_frame(link: socket.socket, deadline: float | None) -> tuple[dict[str, Any], bytes]:
    """One answer of the compiler; TimeoutError past the deadline, a time of the monotonic clock."""
    head_size, blob_size = _FRAME.unpack(_exactly(link, _FRAME.size, deadline))
    if head_size > TEXT_LIMIT or blob_size > BLOB_LIMIT:
        raise Nonsense("an answer that is too long")
    head = parse(_exactly(link, head_size, deadline))
    return head, _exactly(link, blob_size, deadline)


def _exactly(link: socket.socket, size: int, deadline: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        link.settimeout(left)
        try:
            data = link.recv(min(size - len(parts), 1 << 20))
        except ConnectionError:
            raise WorkerGone from None
        if not data:
            raise WorkerGone
        parts += data
    return bytes(parts)


_PLACE = ("filename", "lineno", "offset", "text")  # of a SyntaxError
_OTHERS: dict[str, type[Exception]] = {"MemoryError": MemoryError, "FileNotFoundError": FileNotFoundError}


def describe_error(error: BaseException) -> dict[str, Any]:
    """An error as data: its class by name, its words, and what they are about."""
    plain = {name: getattr(error, name, None) for name in _PLACE}
    known = next((c.__name__ for c in type(error).__mro__ if c.__name__ in _OTHERS or _of_ours(c.__name__)), "")
    words = error.msg if isinstance(error, SyntaxError) else str(error)  # a SyntaxError adds its line to the words
    return {"error": known, "kind": type(error).__name__, "words": words, "more": plain}


def _of_ours(name: str) -> type[MetalcoreError] | None:
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, MetalcoreError) else None


def rebuild_error(answer: dict[str, Any]) -> Exception:
    """The error that a worker met, as one of this process: the same class, the same words."""
    name, words = text(answer.get("error"), 100), plain_text(answer.get("words"))
    kind = _of_ours(name) or _OTHERS.get(name)
    if kind is None or kind in (IsolationError, IsolationTimeout):
        return IsolationError(f"the compiler in the worker failed: {plain_text(answer.get('kind'))[:100]}: {words}")
    error = kind(words)
    more = answer.get("more")
    for key in _PLACE if isinstance(more, dict) and isinstance(error, SyntaxError) else ():
        value = more.get(key)  # type: ignore[union-attr]
        if type(value) is (int if key in ("lineno", "offset") else str):
            setattr(error, key, plain_text(value) if isinstance(value, str) else value)
    return error
