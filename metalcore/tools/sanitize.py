"""`metalcore sanitize`: a Python program with every launch in sanitize mode, and the report at its end."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from metalcore import settings

if TYPE_CHECKING:
    from metalcore.engine.checks.report import Report

TOOL = "metalcore sanitize"
BAD_USE, STOPPED = 2, 130
_C = TypeVar("_C", bound=Callable[..., Any])


@dataclass(frozen=True)
class Options:
    """What the command line says about the report."""

    format: str = "text"
    output: str | None = None
    schedule_seed: int | None = None
    also: tuple[str, ...] = ()
    silence: tuple[str, ...] = ()
    fail_fast: bool = False
    exit_code: int = 1

    @staticmethod
    def take(given: dict[str, Any]) -> Options:
        """Take the options out of what click hands over; lists may be written with commas."""
        values = {name: given.pop(name) for name in asdict(Options())}
        for name in ("also", "silence"):
            values[name] = tuple(kind for text in values[name] for kind in text.split(",") if kind)
        return Options(**values)

    def new_report(self) -> Report:
        """An empty report; kinds that do not exist and a file that cannot be written show here."""
        from metalcore.engine.checks.report import Report

        if self.output not in (None, "-"):
            try:
                with open(str(self.output), "a", encoding="utf-8"):
                    pass
            except OSError as error:
                raise click.UsageError(f"cannot write {self.output}: {error.strerror}") from None
        try:
            return Report(
                schedule_seed=self.schedule_seed, also=self.also, silence=self.silence, fail_fast=self.fail_fast
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from None


def report_options(command: _C) -> _C:
    """The options that `sanitize` and `run --sanitize` share."""
    for option in (
        click.option(
            "--exit-code", type=click.IntRange(0, 255), default=1, metavar="N", help="Exit status of findings [1]."
        ),
        click.option("--fail-fast", is_flag=True, help="Stop after the first launch with a finding."),
        click.option("--silence", multiple=True, metavar="KIND", help="Leave out this kind of finding."),
        click.option("--also", multiple=True, metavar="KIND", help="Look for this kind too: not-finite, ..."),
        click.option("--schedule-seed", type=int, metavar="N", help="Random order of threads, repeated by the seed."),
        click.option("--output", "-o", metavar="FILE", help="Write the report there instead of to stderr."),
        click.option(
            "--format",
            type=click.Choice(["text", "json", "sarif", "github"]),
            default="text",
            help="Form of the report [text].",
        ),
    ):
        command = option(command)
    return command


class ProgramCommand(click.Command):
    """After `-m MODULE` all words are the module's own, as after the name of a file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = {name for option in self.params if getattr(option, "is_flag", False) for name in option.opts}
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] != "-m":
            at += 1 if args[at] in flags or "=" in args[at] else 2
        if args[at : at + 1] == ["-m"]:
            args = [*args[: at + 2], "--", *args[at + 2 :]]
        return super().parse_args(ctx, args)


def sanitize_program(words: Sequence[str], options: Options, *, module: str | None = None) -> int:
    """Run `python FILE ARG...` or `python -m MODULE ARG...` inside emulate(), all launches sanitized.

    The answer is the exit status: the program's own where that is not 0, else whether there are findings.
    """
    import metalcore
    from metalcore.engine.modes import sanitize_process

    if module is None:
        if not words:
            raise click.UsageError("name a Python program: metalcore sanitize PROGRAM.py [its arguments]")
        _require_python(words[0])
    elif not _exists(module):
        raise click.UsageError(f"there is no module named {module}")
    report = options.new_report()
    errors, folder = sys.stderr, os.getcwd()
    with metalcore.emulate(), sanitize_process(report):
        status = _run(words, module, errors)
    wanted = publish(report, options, errors, folder, failed=status != 0)
    return status or wanted


def publish(report: Report, options: Options, stream: TextIO, folder: str, *, failed: bool = False) -> int:
    """Print or write the report; the exit status that it asks for."""
    from metalcore.diagnostics import render, summary

    found = report.diagnostics
    status = options.exit_code if any(each.level != "note" for each in found) else 0
    to_file = options.output not in (None, "-")
    target = sys.stdout if options.output == "-" else stream
    colour = not to_file and settings.colour(target.isatty())
    text = render(found, options.format, colour=colour, tool=TOOL, root=folder)
    if to_file:
        try:
            Path(folder, str(options.output)).write_text(text, encoding="utf-8")
            stream.write(f"{TOOL}: {summary(found)}; the report is in {options.output}\n")
        except OSError as error:
            stream.write(f"{TOOL}: cannot write {options.output}: {error.strerror}\n")
            status = BAD_USE
    else:
        target.write(text)
    for note in report.notes:
        stream.write(f"{TOOL}: note: {note}\n")
    if not report.launches and not failed:
        stream.write(f"{TOOL}: no kernel was launched\n")
    if settings.github_actions() and (to_file or options.format != "github"):
        stream.write(render(found, "github", tool=TOOL, root=settings.github_workspace() or folder))
    return status


def _require_python(file: str) -> None:
    path = Path(file)
    if not path.is_file():
        raise click.UsageError(f"there is no file {file}")
    try:
        compile(path.read_bytes(), file, "exec", dont_inherit=True)
    except OSError as error:
        raise click.UsageError(f"cannot read {file}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        hint = ""
        if path.suffix in (".metal", ".msl"):
            hint = f"; for one kernel: metalcore run --sanitize {file} KERNEL ARG..."
        raise click.UsageError(f"{file} is not a Python program: {error}{hint}") from None


def _exists(module: str) -> bool:
    sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
    finally:
        sys.path.remove(os.getcwd())


def _run(words: Sequence[str], module: str | None, errors: TextIO) -> int:
    """Run the program as Python would, to its last thread; its exit status."""
    from metalcore.errors import SanitizerError

    argv, path = sys.argv, list(sys.path)
    status = 0
    try:
        if module is not None:
            sys.argv = [module, *words]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            file = os.path.abspath(words[0])
            sys.argv = list(words)
            sys.path.insert(0, os.path.dirname(os.path.realpath(file)))
            runpy.run_path(file, run_name="__main__")
    except SystemExit as leaving:
        status = _status(leaving.code, errors)
    except SanitizerError as error:  # --fail-fast: the report that follows says why
        _show(error)
    except KeyboardInterrupt as error:
        _show(error)
        status = STOPPED
    except BaseException as error:
        _show(error)
        status = 1
    finally:
        sys.argv, sys.path[:] = argv, path
    try:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    except KeyboardInterrupt:
        status = STOPPED
    sys.stdout.flush()
    return status


def _status(code: object, errors: TextIO) -> int:
    """What `sys.exit(code)` means."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    errors.write(f"{code}\n")
    return 1


def _show(error: BaseException) -> None:
    """Show a program's error as Python does, without the frames of this command above it."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _is_ours(file: str) -> bool:
    return file == __file__ or file == runpy.__file__ or file == "<frozen runpy>"
