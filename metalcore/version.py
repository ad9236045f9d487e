"""The version of the package. pyproject.toml and the wheels take it from here."""

VERSION = "0.1.0"
