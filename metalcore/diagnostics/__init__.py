"""Findings of the sanitizer and of the linter in one form, and how they are printed."""

from metalcore.diagnostics.formats import FORMATS, merge, placed, render, summary
from metalcore.diagnostics.model import Diagnostic, Related, Rule

__all__ = ["FORMATS", "Diagnostic", "Related", "Rule", "merge", "placed", "render", "summary"]
