"""Whether the lockstep pass still writes the same code: capture scalar kernels, write their code's hashes, compare.

    python benchmarks/tools/lockstep_text.py capture FOLDER tests/engine/language ...   # what those tests compile
    python benchmarks/tools/lockstep_text.py hash FOLDER before.json                    # and the CPU seconds it took
    python benchmarks/tools/lockstep_text.py compare before.json after.json

A refactoring is checked by hashing one folder with the code before and after it (PYTHONPATH chooses). `compare` also
says where only local names differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

_EMPTY = """define void @mc_run(ptr %L, ptr %W, i32 %a, i32 %b, i32 %c, i32 %d, i32 %e, i32 %f, i32 %g) {
  ret void
}"""
_LOCAL = re.compile(r'%"[^"]*"|%[-\w.$]+')
_LABEL = re.compile(r'^("[^"]*"|[-\w.$]+):')


def capture(folder: Path, arguments: list[str]) -> None:
    """Run tests with kernels that do nothing: they fail, but what they compile is kept."""
    import pytest

    import metalcore.engine.lockstep as lockstep
    from metalcore.engine.ir import print_module
    from metalcore.engine.optimiser import child, llvm

    real, emit = lockstep.vectorise, llvm.emit_object
    empty: list[bytes] = []
    folder.mkdir(parents=True, exist_ok=True)

    def kept(scalar: Any, **options: Any) -> Any:
        ir = scalar if isinstance(scalar, str) else print_module(scalar)
        text = json.dumps([ir, options], sort_keys=True)
        (folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json").write_text(text)
        return real(ir, **options)

    def no_code(ir: str, dump: Any = None, *, quick: bool = False) -> bytes:
        if not empty:
            empty.append(emit(_EMPTY, None))
        return empty[0]

    lockstep.vectorise = kept  # type: ignore[assignment]
    llvm.emit_object = child.emit_object = no_code  # type: ignore[assignment]
    pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", *arguments])
    print(len(list(folder.glob("*.json"))), "kernels")


def renamed(text: str) -> str:
    """Local names by their order, function by function."""
    out = []
    names: dict[str, str] = {}
    for line in filter(None, text.split("\n")):
        if line.startswith((";", " ;")):
            continue
        if line.startswith("define "):
            names = {}
        label = _LABEL.match(line)
        if label:
            out.append(names.setdefault("%" + label[1], f"%{len(names)}") + ":")
        else:
            out.append(_LOCAL.sub(lambda m: names.setdefault(m[0], f"%{len(names)}"), line))  # noqa: B023
    return "\n".join(out)


def hashes(folder: Path, widths: list[int], texts: Path | None) -> dict[str, Any]:
    from metalcore.engine.lockstep import vectorise

    found: dict[str, Any] = {}
    spent = 0.0
    for path in sorted(folder.glob("*.json")):
        scalar, options = json.loads(path.read_text())
        options["value_sizes"] = {int(k): v for k, v in (options.get("value_sizes") or {}).items()}
        for width in widths:
            start = time.process_time()
            try:
                module = vectorise(scalar, **{**options, "width": width})
            except Exception as error:
                found[f"{path.stem}.{width}"] = [type(error).__name__ + str(error)] * 3
                continue
            spent += time.process_time() - start
            rest = {k: v for k, v in vars(module).items() if k != "ir"}
            if texts:
                (texts / f"{path.stem}.{width}.ll").write_text(module.ir)
            found[f"{path.stem}.{width}"] = [_hash(module.ir), _hash(renamed(module.ir)), _hash(repr(rest))]
    return {"seconds": spent, "code": found}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """0 where all is the same but for local names."""
    old, new = before["code"], after["code"]
    same = sum(old[k] == new.get(k) for k in old)
    only_names = [k for k in old if k in new and old[k] != new[k] and old[k][1:] == new[k][1:]]
    different = [k for k in old if k not in new or old[k][1:] != new[k][1:]]
    print(
        f"{same} the same, {len(only_names)} but for names, {len(different)} different; "
        f"{before['seconds']:.2f} s before, {after['seconds']:.2f} s after"
    )
    for k in different[:20]:
        print(k, old[k], new.get(k))
    return 1 if different else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["capture", "hash", "compare"])
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--widths", default="4,8,16")
    parser.add_argument("--texts", type=Path, help="folder to write the code itself to")
    given, rest = parser.parse_known_args()
    if given.what == "capture":
        capture(Path(given.paths[0]), [*given.paths[1:], *rest])
        return 0
    if given.what == "compare":
        return compare(*(json.loads(Path(p).read_text()) for p in given.paths))
    if given.texts:
        given.texts.mkdir(parents=True, exist_ok=True)
    widths = [int(w) for w in given.widths.split(",")]
    Path(given.paths[1]).write_text(json.dumps(hashes(Path(given.paths[0]), widths, given.texts)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
