"""A stand-in for Metal under native/torch: the calls of Objective-C, libdispatch and torch's stream that its table has.

Every message is noted as (what got it, its selector, arguments). Kernels can be run, by the engine, from the very text,
constants, buffers, offsets and sizes that Metal would be given.
"""

from __future__ import annotations

import ctypes
import platform
import threading
from collections.abc import Callable
from typing import Any

import metalcore
from metalcore.engine.runtime import layout

_WORDS = 10  # of a message, behind the object and the selector: more than any call here has
# x86-64 passes 4 words in registers and structs behind them; aarch64 passes 6, and the address of a large struct.
_IN_REGISTERS = 4 if platform.machine().lower() in ("x86_64", "amd64") else 6
_MESSAGE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_uint64] * _WORDS)
_NAME = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
_WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_SYNC = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_DATA = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
_NONE = ctypes.CFUNCTYPE(ctypes.c_void_p)
_ONE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
ENDLESS = 1 << 40


class Thing:
    """An object of Metal's: `kind` is what the notes call it."""

    def __init__(self, kind: str, **known: Any) -> None:
        self.kind = kind
        self.__dict__.update(known)

    def __repr__(self) -> str:
        return self.kind


class Metal:
    """The whole of it: `log` has what happened. `runs`: kernels are run when they are dispatched."""

    def __init__(self, runs: bool = False) -> None:
        self.runs, self.log = runs, []  # type: tuple[bool, list[Any]]
        self.lengths: dict[int, int] = {}  # of buffers, by their ids; others are endless
        self.max_threads, self.width = 1024, 32
        self.fails: dict[str, str] = {}  # selector -> what the NSError says
        self.has_encoder, self.pools = True, 0
        self._things: dict[int, Thing] = {}
        self._names: dict[int, str] = {}
        self._by_name: dict[str, int] = {}
        self._texts: list[Any] = []
        self._lock = threading.RLock()
        self._local = threading.local()
        self.device = self.add(Thing("device"))
        self._streams: dict[int, dict[str, int]] = {}
        self._functions = [
            *(_MESSAGE(self._send), _NAME(self._selector), _NAME(self._class), _NONE(self._push), _WORK(self._pop)),
            *(_SYNC(self._sync), _DATA(self._data)),
            *(_NONE(self._stream), _ONE(lambda s: s), _ONE(lambda s: self.device), _ONE(self._encoder)),
            *(_ONE(self._command_buffer), _ONE(self._end_coalescing)),
        ]
        self.table = (ctypes.c_void_p * len(self._functions))(
            *[ctypes.cast(function, ctypes.c_void_p).value for function in self._functions]
        )

    # What the tests read

    def sent(self, *kinds: str) -> list[Any]:
        """The messages to objects of these kinds."""
        return [(kind, *rest) for kind, *rest in self.log if kind in kinds]

    def thing(self, number: int) -> Any:
        return self._things[number]

    def add(self, thing: Thing) -> int:
        with self._lock:
            number = 0x1000 + 16 * len(self._things)  # no address of memory
            self._things[number] = thing
            return number

    # The table

    def _selector(self, name: bytes) -> int:
        text = name.decode()
        if text not in self._by_name:
            self._by_name[text] = 1 + len(self._by_name)
            self._names[self._by_name[text]] = text
        return self._by_name[text]

    def _class(self, name: bytes) -> int:
        return self.add(Thing(name.decode()))

    def _push(self) -> int:
        """Pools are a thread's own."""
        self._local.pools = getattr(self._local, "pools", 0) + 1
        with self._lock:
            self.pools += 1
        return int(self._local.pools)

    def _pop(self, pool: int) -> None:
        with self._lock:
            self.pools -= 1
            if pool != self._local.pools:
                self.log.append(("problem", "pools are not ended in order"))
        self._local.pools -= 1

    def _sync(self, queue: int, context: int, work: int) -> None:
        with self._lock:  # a serial queue
            self.log.append(("queue", "begin", self.thing(queue).number))
            _WORK(work)(context)
            self.log.append(("queue", "end", self.thing(queue).number))

    def _data(self, address: int, size: int) -> int:
        return self.add(Thing("data", bytes=ctypes.string_at(address, size)))

    def _stream(self) -> int:
        """One for each thread, so that two can be told apart."""
        if not hasattr(self._local, "stream"):
            with self._lock:
                number = len(self._streams)
                self._local.stream = self.add(Thing("stream", number=number, encoder=0))
                self._streams[self._local.stream] = {}
        return int(self._local.stream)

    def _encoder(self, stream: int) -> int:
        of = self.thing(stream)
        if not self.has_encoder:
            return 0
        if not of.encoder:
            of.encoder = self.add(Thing("encoder", stream=of.number, pipeline=None, bound={}))
        return int(of.encoder)

    def _command_buffer(self, stream: int) -> int:
        return self.add(Thing("command buffer", stream=self.thing(stream).number)) if self.has_encoder else 0

    def _end_coalescing(self, stream: int) -> None:
        self.log.append(("stream", "endKernelCoalescing", self.thing(stream).number))
        self.thing(stream).encoder = 0

    def _send(self, to: int, selector: int, *words: int) -> int:
        name = self._names[selector]
        thing = self._things.get(to) or Thing("buffer", address=to)
        try:
            method: Callable[..., int | None] = getattr(self, "on_" + name.rstrip(":").replace(":", "_"))
            return method(thing, *words) or 0
        except Exception as error:  # a callback of ctypes cannot raise
            self.log.append(("problem", name, repr(error)))
            return 0

    # Messages, by their selectors

    def _note(self, thing: Thing, name: str, *values: Any) -> None:
        self.log.append((thing.kind, name, *values))

    def on_new(self, thing: Thing, *_: int) -> int:
        return self.add(Thing(thing.kind, values={}))

    def on_release(self, thing: Thing, *_: int) -> None:
        self._note(thing, "release")

    def on_setLanguageVersion(self, options: Thing, version: int, *_: int) -> None:
        self._note(options, "setLanguageVersion", version)

    def on_setFastMathEnabled(self, options: Thing, is_fast: int, *_: int) -> None:
        self._note(options, "setFastMathEnabled", is_fast & 255)

    def on_stringWithUTF8String(self, _: Thing, text: int, *__: int) -> int:
        return self.add(Thing("string", text=ctypes.string_at(text).decode()))

    def on_localizedDescription(self, error: Thing, *_: int) -> int:
        return self.add(Thing("string", text=error.text))

    def on_UTF8String(self, string: Thing, *_: int) -> int:
        self._texts.append(ctypes.create_string_buffer(string.text.encode()))
        return ctypes.addressof(self._texts[-1])

    def _failed(self, name: str, error: int) -> bool:
        if name not in self.fails:
            return False
        where = ctypes.c_void_p.from_address(error)
        where.value = self.add(Thing("error", text=self.fails[name])) if self.fails[name] else None
        return True

    def on_newLibraryWithSource_options_error(self, _: Thing, text: int, options: int, error: int, *__: int) -> int:
        source = self.thing(text).text
        self._note(self.thing(self.device), "newLibraryWithSource", source)
        return 0 if self._failed("newLibraryWithSource", error) else self.add(Thing("library", source=source))

    def on_newLibraryWithData_error(self, _: Thing, data: int, error: int, *__: int) -> int:
        self._note(self.thing(self.device), "newLibraryWithData", self.thing(data).bytes)
        return 0 if self._failed("newLibraryWithData", error) else self.add(Thing("metallib", source=""))

    def on_setConstantValue_type_atIndex(self, values: Thing, address: int, kind: int, index: int, *_: int) -> None:
        size = {53: 1, 29: 4, 33: 4, 3: 4, 81: 8}[kind]
        value = int.from_bytes(ctypes.string_at(address, size), "little")
        self._note(values, "setConstantValue", value, kind, index)
        values.values[index] = bool(value) if kind == 53 else value

    def on_newFunctionWithName_constantValues_error(
        self, library: Thing, name: int, values: int, error: int, *_: int
    ) -> int:
        text, constants = self.thing(name).text, dict(self.thing(values).values)
        self._note(library, "newFunctionWithName", text, constants)
        if self._failed(f"newFunctionWithName of {library.kind}", error):
            return 0
        return self.add(Thing("function", name=text, constants=constants, source=library.source))

    def on_newComputePipelineStateWithFunction_error(self, _: Thing, function: int, error: int, *__: int) -> int:
        of = self.thing(function)
        self._note(self.thing(self.device), "newComputePipelineState", of.name)
        if self._failed("newComputePipelineState", error):
            return 0
        known: dict[int | str, object] = dict(of.constants)
        run = metalcore.Library(of.source).function(of.name, known) if self.runs else None
        return self.add(Thing("pipeline", name=of.name, run=run, constants=of.constants))

    def on_maxTotalThreadsPerThreadgroup(self, *_: Any) -> int:
        return self.max_threads

    def on_threadExecutionWidth(self, *_: Any) -> int:
        return self.width

    def on_length(self, buffer: Thing, *_: int) -> int:
        return self.lengths.get(buffer.address, ENDLESS)

    def on_gpuAddress(self, buffer: Thing, *_: int) -> int:
        return int(buffer.address)

    def on_useResource_usage(self, encoder: Thing, buffer: int, usage: int, *_: int) -> None:
        self._note(encoder, "useResource", buffer, usage)

    def on_setComputePipelineState(self, encoder: Thing, pipeline: int, *_: int) -> None:
        encoder.pipeline, encoder.bound = self.thing(pipeline), {}
        self._note(encoder, "setComputePipelineState", encoder.pipeline.name, encoder.stream)

    def on_setBuffer_offset_atIndex(self, encoder: Thing, buffer: int, offset: int, index: int, *_: int) -> None:
        encoder.bound[index] = (buffer + offset, ENDLESS)
        self._note(encoder, "setBuffer", buffer, offset, index)

    def on_setBytes_length_atIndex(self, encoder: Thing, address: int, length: int, index: int, *_: int) -> None:
        encoder.bound[index] = ctypes.string_at(address, length)
        self._note(encoder, "setBytes", encoder.bound[index], index)

    def on_dispatchThreadgroups_threadsPerThreadgroup(self, encoder: Thing, *words: int) -> None:
        if _IN_REGISTERS == 4:
            groups, group = words[4:7], words[7:10]
        else:
            groups, group = (tuple((ctypes.c_uint64 * 3).from_address(word)) for word in words[:2])
        self._note(encoder, "dispatch", groups, group)
        if self.runs:
            run_on_engine(encoder.pipeline.run, encoder.bound, groups, group)

    def on_blitCommandEncoder(self, buffer: Thing, *_: int) -> int:
        self._note(buffer, "blitCommandEncoder", buffer.stream)
        return self.add(Thing("blit encoder"))

    def on_copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(self, encoder: Thing, *words: int) -> None:
        source, source_offset, target, target_offset, size = words[:5]
        self._note(encoder, "copy", source, source_offset, target, target_offset, size)
        if self.runs:
            ctypes.memmove(target + target_offset, source + source_offset, size)

    def on_endEncoding(self, encoder: Thing, *_: int) -> None:
        self._note(encoder, "endEncoding")


def run_on_engine(function: Any, bound: dict[int, Any], groups: tuple[int, ...], group: tuple[int, ...]) -> None:
    """A launch as runtimes/cpu.py packs it: addresses and sizes, then the numbers."""
    pairs: list[int] = []
    numbers = b""
    for _, value in sorted(bound.items()):
        if isinstance(value, bytes):
            pairs += (16 * len(bound) + len(numbers), len(value) | layout.INLINE)
            numbers += value.ljust(16, b"\0")
        else:
            pairs += value
    packed = b"".join(word.to_bytes(8, "little") for word in pairs) + numbers
    function.launch_packed(packed, (), groups, group)
