"""The worker that compiles one source: clang and the linker run under its seal. It runs no kernel."""

from __future__ import annotations

import dataclasses
import os
import socket
import tempfile
from typing import Any

from metalcore.engine.frontend import toolchain
from metalcore.engine.isolate import seal
from metalcore.engine.isolate.messages import WorkerGone, describe_error, receive_frame, send_frame
from metalcore.engine.model import Variant
from metalcore.engine.optimiser import child
from metalcore.engine.options import Source
from metalcore.engine.units import Constants, SourceUnit


def serve(link: socket.socket, request: dict[str, Any], facts: dict[str, Any]) -> None:
    private = request["private"]
    os.environ["METALCORE_CACHE"] = os.path.join(private, "cache")
    tempfile.tempdir = os.environ["TMPDIR"] = os.environ["HOME"] = os.path.join(private, "tmp")
    os.chdir(private)
    child.is_bounded = True
    toolchain.ready.update(request["headers"])
    seal.seal_compile(
        request["memory"],
        bool(facts["landlock"]),
        facts["namespaces"],
        private,
        [*request["folders"], *request["headers"].values()],
    )
    send_frame(link, {})
    worker = _Worker()
    while True:
        try:
            question, _ = receive_frame(link, None)
        except WorkerGone:
            return
        try:
            answer, blob = worker.answer(question)
        except Exception as error:
            answer, blob = describe_error(error), b""
        send_frame(link, answer, blob)


class _Worker:
    def __init__(self) -> None:
        self._unit: SourceUnit | None = None

    def answer(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        unit = self._unit
        if unit is None:
            unit = self._unit = SourceUnit(Source(*question["source"]))
        if question["op"] == "unit":
            constants = [dataclasses.asdict(c) for c in unit.constants]
            return {"functions": unit.functions, "templates": unit.templates, "constants": constants}, b""
        name, constants_given = question["name"], _constants(question["constants"])
        if question["op"] == "signature":
            arguments, most, requirements = unit.signature(name, constants_given)
            told = [dataclasses.asdict(a) for a in arguments]
            return {"arguments": told, "max_threads": most, "requirements": [list(r) for r in requirements]}, b""
        if question["op"] == "record":
            return {"record": unit.record(name, constants_given, question["parameter"]).to_json()}, b""
        native = unit.native(name, constants_given, Variant.from_json(question["variant"]))
        with open(native.path, "rb") as file:
            return {"native": native.to_json()}, file.read()


def _constants(given: list[Any]) -> Constants:
    return tuple((index, tuple(value) if isinstance(value, list) else value) for index, value in given)
