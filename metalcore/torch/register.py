"""Every op under torch.ops.metalcore, from the import of this module on; a call registers its own op alone."""

from __future__ import annotations

from typing import Any

from metalcore.ops import PARTS, nouns
from metalcore.torch.dispatch import overload

OPS: dict[str, Any] = {noun: overload(noun) for part in ("", *PARTS) for noun in nouns(part)}
"""torch.ops.metalcore.<noun>.default of every op."""
