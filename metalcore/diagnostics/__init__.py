"""Findings of the sanitizer and of the linter in one form, and how they are printed."""

from metalcore.diagnostics.model import Diagnostic, Related

__all__ = ["Diagnostic", "Related"]
