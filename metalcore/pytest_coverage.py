"""`pytest --metal-coverage`: which lines of Metal source the tests ran. The plug-in brings it where it is asked for."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from metalcore.engine.coverage import Coverage
from metalcore.engine.modes import coverage

_SENT = "metal_coverage"


class CoverageOfRun:
    """All launches of the run, those of xdist's workers too."""

    def __init__(self, config: pytest.Config, lcov: str | None) -> None:
        self._config, self._lcov = config, lcov
        self._running = ExitStack()
        self._covered: Coverage = self._running.enter_context(coverage())
        config.add_cleanup(self._running.close)

    def pytest_sessionfinish(self) -> None:
        output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        if output is not None:  # a worker of xdist
            output[_SENT] = self._covered.files

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for file, lines in getattr(node, "workeroutput", {}).get(_SENT, {}).items():
            for line, count in lines.items():
                self._covered.add(file, line, count)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("metal coverage")
        terminalreporter.write_line(str(self._covered) if self._covered.files else "no kernel was launched")
        if self._lcov:
            Path(self._lcov).write_text(self._covered.lcov())
            terminalreporter.write_line(f"written to {self._lcov}")
