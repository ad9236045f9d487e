"""Launches a defect, or its corrected twin, in sanitize mode, and compares the findings with what the comments say."""

from __future__ import annotations

import ast
import functools
import re
from typing import Any

import numpy as np

import metalcore
from metalcore.engine.checks.report import Finding
from tests.sanitizer.defects import RACES, Defect, Expected

_ITEM = re.compile(r"(\S+?)=(\([^)]*\)|\S+)")
_ARRAY = re.compile(r"([a-z]+\d+)(?:\[([\d,]+)\])?(?::(.*))?$")
_LAUNCH = ("threads", "threadgroups", "group_size", "threadgroup_memory", "grid", "threadgroup", "init_value")


def value_of(text: str) -> Any:
    """A number, a tuple, or an array such as `float32[64]`, `int32[8]:0` and `int32:4,0,2`."""
    array = _ARRAY.match(text)
    if array is None:
        return ast.literal_eval(text)
    dtype, shape, content = array.groups()
    if shape is None:
        return np.array([float(number) for number in content.split(",")]).astype(dtype)
    sizes = tuple(int(size) for size in shape.split(","))
    if content is not None:
        return np.full(sizes, float(content)).astype(dtype)
    return (np.arange(np.prod(sizes)) + 1).reshape(sizes).astype(dtype)


@functools.cache
def _library(path: str) -> metalcore.Library:
    return metalcore.Library(path)


def run(defect: Defect, fixed: bool) -> metalcore.Report:
    """What sanitize mode finds in one launch."""
    launch = defect.fixed_launch if fixed and defect.fixed_launch else defect.launch
    inputs, _, outputs = launch.partition(" -> ")
    given = {name: value_of(text) for name, text in _ITEM.findall(inputs)}
    options = {name: given.pop(name) for name in _LAUNCH if name in given}
    if isinstance(options.get("threadgroup_memory"), int):
        options["threadgroup_memory"] = {0: options["threadgroup_memory"]}
    with metalcore.mode("sanitize", also=defect.also) as report:
        if defect.is_body:
            made = {name: value_of(text) for name, text in _ITEM.findall(outputs)}
            _run_body(defect, fixed, given, made, options)
        else:
            library = _library(str(defect.path))
            function = library.function(defect.name, constants={"fixed": fixed} if library.constants else {})
            if any(argument.name == "fixed" for argument in function.arguments):
                given["fixed"] = fixed
            function(**given, **options)
    assert isinstance(report, metalcore.Report)
    return report


@functools.cache
def _kernel(name: str, source: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Any:
    return metalcore.metal_kernel(
        name=name,
        input_names=[*inputs, "fixed"],
        output_names=list(outputs),
        source=source,
        atomic_outputs="atomic" in source,
    )


def _run_body(
    defect: Defect, fixed: bool, inputs: dict[str, Any], outputs: dict[str, Any], options: dict[str, Any]
) -> None:
    kernel = _kernel(defect.name, defect.source, tuple(inputs), tuple(outputs))
    kernel(
        inputs=[*inputs.values(), np.array(fixed)],
        output_shapes=[array.shape for array in outputs.values()],
        output_dtypes=[array.dtype for array in outputs.values()],
        grid=(options.pop("grid"), 1, 1),
        threadgroup=(options.pop("threadgroup"), 1, 1),
        template=[("is_fixed", fixed)] if "is_fixed" in defect.source else None,
        **options,
    )


def _fits(finding: Finding, expected: Expected) -> bool:
    if finding.kind != expected.kind:
        return False
    if expected.lines and expected.kind in RACES and finding.other is not None:
        # Which of the two accesses comes second depends on the order of the threads.
        return any({finding.line, finding.other.line} == {line, expected.other} for line in expected.lines)
    return not expected.lines or finding.line in expected.lines


def complaints(defect: Defect, report: metalcore.Report) -> list[str]:
    """What is missing, and what is there and should not be."""
    wrong = []
    for expected in defect.expected:
        fitting = [finding for finding in report.findings if _fits(finding, expected)]
        if not fitting:
            wrong.append(f"not found: {expected}")
        elif expected.thread is not None and fitting[0].thread != (expected.thread, 0, 0):
            wrong.append(f"thread {fitting[0].thread} is named, not ({expected.thread}, 0, 0)")
    for finding in report.findings:
        if not any(_fits(finding, each) for each in (*defect.expected, *defect.allowed)):
            wrong.append(f"not expected: {finding}")
        wrong += _nonsense(finding)
    return wrong


def _nonsense(finding: Finding) -> list[str]:
    """What no finding may say, whatever the defect is."""
    if finding.kind not in RACES:
        return []
    other = finding.other
    if other is None:
        return [f"the other access is not named: {finding}"]
    wrong = []
    if finding.access == other.access == "read":
        wrong.append(f"two reads do not race: {finding}")
    if (finding.threadgroup, finding.thread) == (other.threadgroup, other.thread):
        wrong.append(f"a thread does not race with itself: {finding}")
    across = finding.threadgroup != other.threadgroup
    if across != (finding.kind == "race-between-threadgroups") and finding.kind != "same-value-race":
        wrong.append(f"the threadgroups do not fit the kind: {finding}")
    return wrong
