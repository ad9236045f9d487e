"""What the extension carries of the library: the text of each kernel file, and a metallib where there is xcrun."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metalcore.runtimes.kernel import FOLDER, read
from metalcore.runtimes.native_torch import source_hash

_PIECE = 8000  # characters of a literal: compilers take 65,536 at least


def kernel_files() -> list[str]:
    """Every file of kernels/ that is launched from."""
    return sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.metal"))


def embedded(files: Iterable[str], metallib: bytes = b"") -> str:
    """The C++ file of `metalcore_sources` and `metalcore_metallib`."""
    return written({file: read(file) for file in files}, metallib)


def written(texts: Mapping[str, str], metallib: bytes) -> str:
    rows = [f'    {{"{file}", {source_hash(text)}ull, {_literal(text)}}},' for file, text in texts.items()]
    numbers = ",".join(map(str, metallib)) or "0"
    return (
        '#include "pipelines.h"\n'
        "namespace metalcore {\n"
        'extern "C" {\n'
        "const EmbeddedSource metalcore_sources[] = {\n" + "\n".join(rows) + '\n    {"", 0, ""}};\n'
        f"const uint64_t metalcore_source_count = {len(rows)};\n"
        f"const unsigned char metalcore_metallib[] = {{{numbers}}};\n"
        f"const uint64_t metalcore_metallib_size = {len(metallib)};\n"
        "}\n}\n"
    )


def _literal(text: str) -> str:
    escaped = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "?": "\\?"}
    pieces = [text[i : i + _PIECE] for i in range(0, len(text), _PIECE)]
    return "\n".join('"' + "".join(escaped.get(c, c) for c in piece) + '"' for piece in pieces) or '""'
