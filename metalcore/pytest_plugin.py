"""pytest plug-in: `pytest --metal-sanitize` runs every test in sanitize mode and fails those with findings;
`pytest --metal-isolate` compiles and runs every kernel in a sealed worker process; `pytest --metal-coverage` says which
lines of the kernels ran.

Loaded in every pytest run where metalcore is installed: nothing but pytest is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from metalcore.diagnostics import Diagnostic
    from metalcore.engine.checks.report import Report

TITLE = "metal sanitizer"
OPTIONS = ("schedule_seed", "also", "silence")
_report = pytest.StashKey["Report"]()
_isolation = pytest.StashKey[Any]()  # the metalcore.isolate of the run
_judged = pytest.StashKey[int]()  # how many findings an earlier phase of the test has answered for
_by_test = pytest.StashKey[bool]()  # the test takes the fixture and looks at the report itself


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("metal-sanitize", "sanitize mode for Metal kernels (metalcore)")
    group.addoption("--metal-sanitize", action="store_true", help="Run tests in sanitize mode; findings fail them.")
    group.addoption(
        "--metal-sanitize-seed", type=int, metavar="N", help="Random order of threads, repeated by the seed."
    )
    group.addoption(
        "--metal-sanitize-also", action="append", default=[], metavar="KIND", help="Look for this kind too."
    )
    group.addoption(
        "--metal-sanitize-silence", action="append", default=[], metavar="KIND", help="Leave out this kind."
    )
    group = parser.getgroup("metal-isolate", "a sealed worker process for Metal kernels (metalcore)")
    group.addoption(
        "--metal-isolate", action="store_true", help="Compile and run kernels in a worker that can do little else."
    )
    group.addoption(
        "--metal-isolate-timeout", type=float, metavar="SECONDS", help="Most that a launch may take. Default: 60."
    )
    group = parser.getgroup("metal-coverage", "lines of Metal kernels that ran (metalcore)")
    group.addoption("--metal-coverage", action="store_true", help="Show which lines of Metal kernels ran.")
    group.addoption("--metal-coverage-lcov", metavar="FILE", help="The same, also as a file of lcov's.")
    parser.addini("metal_isolate", type="bool", default=False, help="As --metal-isolate, for every run.")
    parser.addini("metal_sanitize", type="bool", default=False, help="As --metal-sanitize, for every run.")


def _asked_for(config: pytest.Config) -> bool:
    return bool(config.known_args_namespace.metal_sanitize or config.getini("metal_sanitize"))


def _isolated(config: pytest.Config) -> bool:
    return bool(config.known_args_namespace.metal_isolate or config.getini("metal_isolate"))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    if _isolated(early_config):
        # Threads and fixtures of every scope included: a block of each test would let some escape.
        import metalcore
        from metalcore.engine.isolate.block import isolate_process

        seconds = early_config.known_args_namespace.metal_isolate_timeout
        isolation = ExitStack()
        try:
            made = metalcore.isolate(**({} if seconds is None else {"timeout": seconds}))
            isolation.enter_context(isolate_process(made))
        except metalcore.errors.MetalcoreError as error:
            raise pytest.UsageError(f"--metal-isolate: {error}") from None
        early_config.stash[_isolation] = made
        early_config.add_cleanup(isolation.close)
    # conftest.py may ask already whether there is a GPU: programs for a Mac run as on one, from here to the end.
    if _asked_for(early_config):
        import metalcore

        emulation = ExitStack()
        emulation.enter_context(metalcore.emulate())
        early_config.add_cleanup(emulation.close)


def pytest_report_header(config: pytest.Config) -> str | None:
    made = config.stash.get(_isolation, None)
    if made is None:
        return None
    return "metal isolate: " + "; ".join(f"{name}: {how}" for name, how in made.means.items())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "metal_sanitize(schedule_seed=None, also=[], silence=[]): how --metal-sanitize runs this test",
    )
    config.addinivalue_line("markers", "no_metal_sanitize: --metal-sanitize leaves this test alone")
    if config.option.metal_coverage or config.option.metal_coverage_lcov:
        if _asked_for(config):
            raise pytest.UsageError("--metal-coverage: launches in sanitize mode are not counted; use one of the two")
        from metalcore.pytest_coverage import CoverageOfRun

        config.pluginmanager.register(CoverageOfRun(config, config.option.metal_coverage_lcov), "metal-coverage")
    if _asked_for(config):
        try:
            _new_report(config)
        except ValueError as error:
            raise pytest.UsageError(f"--metal-sanitize: {error}") from None
        config.pluginmanager.register(_Sanitizer(config), "metal-sanitizer")


def _new_report(config: pytest.Config, item: pytest.Item | None = None) -> Report:
    from metalcore.engine.checks.report import Report

    option = config.option
    options: dict[str, Any] = {
        "schedule_seed": option.metal_sanitize_seed,
        "also": _kinds(option.metal_sanitize_also),
        "silence": _kinds(option.metal_sanitize_silence),
    }
    for marker in item.iter_markers("metal_sanitize") if item is not None else ():
        unknown = sorted(set(marker.kwargs) - set(OPTIONS))
        if marker.args or unknown:
            raise ValueError(f"the marker metal_sanitize takes {', '.join(OPTIONS)}, not {marker.args or unknown}")
        for name, value in marker.kwargs.items():
            options[name] = value if name == "schedule_seed" else (*options[name], *value)
    return Report(**options)


def _kinds(given: list[str]) -> tuple[str, ...]:
    return tuple(kind for text in given for kind in text.split(",") if kind)


@contextmanager
def _sanitized(item: pytest.Item) -> Iterator[Report]:
    """All launches inside go to the report of this test."""
    from metalcore.engine.modes import sanitize_process

    known = item.stash.get(_report, None)
    if known is not None:
        yield known
        return
    item.stash[_report] = _new_report(item.config, item)
    try:
        with sanitize_process(item.stash[_report]) as report:
            yield report
    finally:
        del item.stash[_report]


@pytest.fixture
def metal_sanitizer(request: pytest.FixtureRequest) -> Iterator[Report]:
    """The report of this test, which runs in sanitize mode with or without --metal-sanitize.

    A test that takes it looks at `metal_sanitizer.findings` itself: findings do not fail it.
    """
    item: pytest.Item = request.node
    item.stash[_by_test] = True
    with _sanitized(item) as report:
        yield report


class _Sanitizer:
    """What happens to each test under --metal-sanitize."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests = self._launches = self._with_findings = 0
        self._found: list[Diagnostic] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            try:
                _new_report(item.config, item)
            except (ValueError, TypeError) as error:
                raise pytest.UsageError(f"{item.nodeid}: {error}") from None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if item.get_closest_marker("no_metal_sanitize"):
            return (yield)
        with _sanitized(item):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        self._judge(item)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        self._judge(item)
        return result

    def _judge(self, item: pytest.Item) -> None:
        """Fail the phase of the test that has just gone well, if something was found up to its end."""
        report = item.stash.get(_report, None)
        if report is None or item.stash.get(_by_test, False) or len(report) <= item.stash.get(_judged, 0):
            return
        item.stash[_judged] = len(report)
        if any(each.level != "note" for each in report.diagnostics):
            pytest.fail(self._text(report), pytrace=False)

    def _text(self, report: Report) -> str:
        from metalcore.diagnostics import render, summary

        colour = self._config.get_terminal_writer().hasmarkup
        found = report.diagnostics
        text = render(found, "text", colour=colour, tool=TITLE, root=str(self._config.rootpath))
        first = f"{TITLE}: {summary(found)} ({', '.join(sorted({d.rule for d in found}))})"
        return f"{first}\n\n{text[: text.rindex(TITLE)].rstrip()}\n"  # without the count, which is in the first line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        written = yield
        report = item.stash.get(_report, None)
        if report is None or item.stash.get(_by_test, False):
            return written
        if written.failed and len(report) and item.stash.get(_judged, 0) < len(report):
            # The test failed by itself; what was found may well be the reason.
            item.stash[_judged] = len(report)
            written.sections.append((TITLE, self._text(report)))
        if written.when == "teardown":
            # Plain data: with pytest-xdist the summary is written in another process.
            written.metal_sanitizer = _plain(report)  # type: ignore[attr-defined]
        return written

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        sent = getattr(report, "metal_sanitizer", None)
        if sent is not None:
            self._tests += 1
            self._launches += sent["launches"]
            self._with_findings += bool(sent["findings"])
            self._found += map(_diagnostic, sent["findings"])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        from metalcore import settings
        from metalcore.diagnostics import merge, render, summary

        found = merge(self._found)
        text = f"{TITLE}: {summary(found)} in {self._launches} launches of {self._tests} tests"
        if found:
            text += f"; tests with findings: {self._with_findings}"
        terminalreporter.write_line(text, red=bool(found), green=not found)
        if settings.github_actions():
            root = settings.github_workspace() or str(self._config.rootpath)
            terminalreporter.write(render(found, "github", tool=TITLE, root=root))


def _plain(report: Report) -> dict[str, Any]:
    from dataclasses import asdict

    from metalcore.diagnostics import placed

    return {"launches": report.launches, "findings": [asdict(each) for each in placed(report.diagnostics)]}


def _diagnostic(sent: dict[str, Any]) -> Diagnostic:
    from metalcore.diagnostics import Diagnostic, Related

    return Diagnostic(**{**sent, "related": tuple(Related(**related) for related in sent["related"])})
