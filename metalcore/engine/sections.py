"""Its old place: see metalcore.engine.model."""

from metalcore.engine.model import INITIAL as INITIAL
