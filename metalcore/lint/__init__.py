"""The linter for MSL: `metalcore check`."""

from metalcore.lint.front import Options, Source
from metalcore.lint.registry import LEVELS, RULES
from metalcore.lint.run import Outcome, lint

__all__ = ["LEVELS", "RULES", "Options", "Outcome", "Source", "lint"]
