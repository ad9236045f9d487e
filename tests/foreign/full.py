"""The whole corpus, sweeps over every operation and type included: `python -m tests.foreign.full [pytest options]`."""

from __future__ import annotations

import sys

import pytest

from tests.foreign.corpus import HERE

if __name__ == "__main__":
    sys.exit(pytest.main([str(HERE), "-m", "sweep or not sweep", *sys.argv[1:]]))
