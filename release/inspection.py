"""Reads wheels of any platform: names and tags, RECORD, the machine of each native file, sizes, what the stores hold.

python -m release.inspection dist/*.whl [--expect linux-x86_64] [--complete]
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import json
import re
import struct
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any

from release.platforms import WHEELS, Wheel
from release.version import version

LARGEST = 25_000_000  # bytes
# What a file says of its machine: ELF's e_machine, Mach-O's cputype.
ELF, MACHO = {"x86_64": 62, "aarch64": 183}, {"arm64": 0x0100000C, "x86_64": 0x01000007}
NEEDED = ("metalcore/py.typed", "metalcore/kernels/rms_norm.metal", "metalcore/examples/saxpy.metal")


class Inspection:
    """One file: `problems` are what is wrong with it, `missing` is what a complete one would have."""

    def __init__(self, path: Path) -> None:
        self.path, self.problems, self.missing = path, list[str](), list[str]()
        self.counts: dict[str, int] = {}
        self.wheel = _wheel_of(path)
        if self.wheel is None:
            self.problems.append(f"its name has none of the tags {', '.join(w.tag for w in WHEELS)}")
            return
        with zipfile.ZipFile(path) as self.zip:
            self.names = [name for name in self.zip.namelist() if not name.endswith("/")]
            self.info = f"metalcore_kernels-{version()}.dist-info"
            if f"{self.info}/METADATA" not in self.names:
                self.problems.append(f"there is no {self.info}: the version is {version()}")
                return
            self.problems += [*self._metadata(), *self._record(), *self._machines(self.wheel)]
            self._stores(self.wheel)
        self.problems += [f"{name} is missing" for name in NEEDED if name not in self.names]
        if path.stat().st_size > LARGEST:
            self.problems.append(f"it has {path.stat().st_size:,} bytes, and {LARGEST:,} are the limit")

    def _metadata(self) -> Iterator[str]:
        wheel = Parser().parsestr(self.zip.read(f"{self.info}/WHEEL").decode())
        tags = wheel.get_all("Tag") or []
        if tags != [f"py3-none-{self.path.stem.rpartition('-')[2]}"] or wheel["Root-Is-Purelib"] != "false":
            yield f"WHEEL has the tags {tags}, purelib {wheel['Root-Is-Purelib']}"
        said = Parser().parsestr(self.zip.read(f"{self.info}/METADATA").decode())
        wanted = {"Name": "metalcore-kernels", "Version": version(), "License-Expression": "MIT"}
        wanted |= {"License-File": "LICENSE", "Requires-Python": ">=3.10"}
        for name, value in wanted.items():
            if said[name] != value:
                yield f"METADATA: {name} is {said[name]!r}, not {value!r}"
        if f"{self.info}/licenses/LICENSE" not in self.names:
            yield "the licence is missing"

    def _record(self) -> Iterator[str]:
        """Each file has its hash in RECORD, and each hash its file."""
        rows = list(csv.reader(io.StringIO(self.zip.read(f"{self.info}/RECORD").decode())))
        listed = {name for name, _, _ in rows}
        if listed != set(self.names):
            yield f"RECORD and the files differ: {sorted(listed ^ set(self.names))[:3]}"
        for name, digest, size in rows:
            if name == f"{self.info}/RECORD" or name not in self.names:
                continue
            data = self.zip.read(name)
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            if (digest, size) != (f"sha256={found}", str(len(data))):
                yield f"RECORD has another hash or size of {name}"

    def _machines(self, wheel: Wheel) -> Iterator[str]:
        for name in self.names:
            if re.search(r"\.(so|dylib)$", name):
                found = machine_of(self.zip.read(name)[:32])
                if found != (wheel.system, wheel.machine):
                    yield f"{name} is for {found}"

    def _stores(self, wheel: Wheel) -> None:
        for processor in wheel.processors:
            folder = f"metalcore/prebuilt/{processor.name}/"
            inside = {name.removeprefix(folder) for name in self.names if name.startswith(folder)}
            if "store.json" not in inside:
                self.missing.append(f"{processor.name}: everything")
                continue
            facts = self._json(folder + "store.json")
            said = (facts["system"], facts["machine"], facts["rank"], facts["flags"])
            if said != (wheel.system, wheel.machine, processor.rank, list(processor.flags)):
                self.problems.append(f"{processor.name}: store.json says {said}")
            listed = {"store.json", *facts["libraries"].values()}
            units = {name for name in inside if name.endswith(".json")} - {"store.json"}
            for unit in units:
                listed |= {unit, *(kernel["file"] for kernel in self._json(folder + unit)["kernels"].values())}
            if listed != inside:
                self.problems.append(f"{processor.name}: lists and files differ: {sorted(listed ^ inside)[:3]}")
            self.counts[processor.name] = len(listed) - 1 - len(units) - len(facts["libraries"])
            self.missing += [f"{processor.name}: the kernels"] * (not units)
            absent = {"runtime.so", "sanitizer.so"} - inside
            self.missing += [f"{processor.name}: {part}" for part in sorted(absent)]

    def _json(self, name: str) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.zip.read(name))
        return data

    def __str__(self) -> str:
        kernels = ", ".join(f"{count} kernels for {name}" for name, count in self.counts.items())
        lines = [f"{self.path.name}: {self.path.stat().st_size / 1e6:.1f} MB, {kernels or 'no kernels'}"]
        lines += [f"  NOT PACKAGED: {what}" for what in self.missing]
        return "\n".join([*lines, *(f"  WRONG: {what}" for what in self.problems)])


def _wheel_of(path: Path) -> Wheel | None:
    return next((w for w in WHEELS if path.name.endswith(f"-py3-none-{w.tag}.whl")), None)


def machine_of(head: bytes) -> tuple[str, str]:
    """(system, machine) as Python's platform module calls them."""
    if head[:4] == b"\x7fELF":
        (found,) = struct.unpack_from("<H", head, 18)
        return "Linux", next((name for name, number in ELF.items() if number == found), str(found))
    magic, found = struct.unpack_from("<II", head)
    if magic == 0xFEEDFACF:
        return "Darwin", next((name for name, number in MACHO.items() if number == found), str(found))
    return "?", head[:4].hex()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--expect", action="append", default=[], metavar="NAME", help="a wheel that must be there")
    parser.add_argument("--complete", action="store_true", help="what is not packaged is an error")
    given = parser.parse_args()
    found = [Inspection(path) for path in given.wheels]
    for each in found:
        print(each)
    absent = set(given.expect) - {each.wheel.name for each in found if each.wheel}
    if absent:
        print(f"missing: {', '.join(sorted(absent))}")
    return int(bool(absent) or any(each.problems or (given.complete and each.missing) for each in found))


if __name__ == "__main__":
    raise SystemExit(main())
