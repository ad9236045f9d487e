"""The report as text, JSON, SARIF and GitHub annotations: every byte of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from metalcore.diagnostics import FORMATS, Diagnostic, Related, Rule, merge, render, summary

SOURCE = "kernel void k(\n\tdevice int* x) {\n\tx[0] = y[1];\n  x[1] = 2;\n}\n"
RACE = Diagnostic(
    "race",
    "error",
    "<k>",
    3,
    2,
    "two threads meet: 100%, really",
    "k",
    "put a barrier there",
    (Related("<k>", 4, 3, "the other access: write by thread (1, 0, 0) of threadgroup (0, 0, 0)"),),
    {"thread": [3, 0, 0], "threadgroup": [0, 0, 0], "simdgroup": 0, "lane": 3, "count": 42, "buffer": "x", "index": 5},
)
SMALL = Diagnostic("unwritten-output", "warning", "<k>", 1, 0, "never written")


def shown(format: str, *diagnostics: Diagnostic, colour: bool = False) -> str:
    return render(diagnostics, format, colour=colour, sources={"<k>": SOURCE})


def test_text() -> None:
    assert shown("text", RACE, SMALL) == (
        "warning[unwritten-output]: never written\n"
        " --> <k>:1\n"
        "  |\n"
        "1 | kernel void k(\n"
        "2 | \tdevice int* x) {\n"
        "\n"
        "error[race]: two threads meet: 100%, really\n"
        " --> <k>:3:2\n"
        "  |\n"
        "2 | \tdevice int* x) {\n"
        "3 | \tx[0] = y[1];\n"
        "  | \t^\n"
        "4 |   x[1] = 2;\n"
        "  = kernel: k\n"
        "  = thread: (3, 0, 0) of the grid, threadgroup (0, 0, 0), simdgroup 0, lane 3\n"
        "  = buffer: 'x', index 5\n"
        "note: the other access: write by thread (1, 0, 0) of threadgroup (0, 0, 0)\n"
        " --> <k>:4:3\n"
        "  |\n"
        "3 | \tx[0] = y[1];\n"
        "4 |   x[1] = 2;\n"
        "  |   ^\n"
        "5 | }\n"
        "  = 41 more of the same\n"
        "  = help: put a barrier there\n"
        "\n"
        "metalcore sanitize: 1 error, 1 warning\n"
    )


def test_colour_only_adds_codes() -> None:
    coloured = shown("text", RACE, SMALL, colour=True)
    assert "\033[1;31merror[race]\033[0m" in coloured and "\033[1;33mwarning[unwritten-output]\033[0m" in coloured
    import re

    assert re.sub(r"\033\[[\d;]*m", "", coloured) == shown("text", RACE, SMALL)


def test_a_source_cannot_send_codes_to_the_terminal() -> None:
    text = render([SMALL], "text", sources={"<k>": "int \033[2J\007x;"})
    assert "\033" not in text and "\007" not in text and "[2J" in text


def test_wide_characters_before_the_caret() -> None:
    found = Diagnostic("race", "error", "<k>", 1, 12, "m")  # byte 12: behind two characters of three bytes each
    lines = render([found], "text", sources={"<k>": "/*世界*/ x"}).splitlines()
    assert lines[3:5] == ["1 | /*世界*/ x", "  |          ^"]


def test_nothing_found() -> None:
    assert shown("text") == "metalcore sanitize: nothing found\n"
    assert shown("github") == ""
    assert json.loads(shown("json"))["findings"] == []
    assert json.loads(shown("sarif"))["runs"][0]["results"] == []


def test_json() -> None:
    data = json.loads(shown("json", RACE, SMALL))
    assert list(data) == ["version", "tool", "summary", "findings"]
    assert (data["version"], data["tool"]) == (1, "metalcore sanitize")
    assert data["summary"] == {"error": 1, "warning": 1, "note": 0}
    assert data["findings"][1] == {
        "rule": "race",
        "level": "error",
        "file": "<k>",
        "line": 3,
        "column": 2,
        "text": "\tx[0] = y[1];",
        "message": "two threads meet: 100%, really",
        "kernel": "k",
        "remedy": "put a barrier there",
        "related": [
            {
                "file": "<k>",
                "line": 4,
                "column": 3,
                "text": "  x[1] = 2;",
                "message": "the other access: write by thread (1, 0, 0) of threadgroup (0, 0, 0)",
            }
        ],
        "properties": dict(RACE.properties),
    }


def test_github_escapes() -> None:
    nasty = Diagnostic("a,b:c", "note", "dir, with: 100%/k.metal", 3, 2, "first\r\nsecond 5%: a, b", "k<1, 2>")
    assert shown("github", nasty) == (
        "::notice file=dir%2C with%3A 100%25/k.metal,line=3,col=2,title=a%2Cb%3Ac in kernel k<1%2C 2>"
        "::first%0D%0Asecond 5%25: a, b%0Akernel: k<1, 2>\n"
    )
    line = shown("github", RACE)
    assert line.startswith("::error title=race in kernel k::two threads meet: 100%25, really%0Aat <k>:3:2%0A")
    assert line.count("\n") == 1 and "41 more of the same" in line and "the other access: write by thread" in line
    assert shown("github", SMALL).startswith("::warning ")


def test_sarif(tmp_path: Path) -> None:
    file = tmp_path / "a dir" / "k.metal"
    file.parent.mkdir()
    file.write_text(SOURCE)
    inside = Diagnostic("race", "error", str(file), 3, 2, "m", "k", "r", (Related(str(file), 4, 3, "there"),), {"n": 1})
    unknown = Diagnostic("my-rule", "note", "/else/where.metal", 0, 0, "m2")
    data = json.loads(render([inside, unknown, RACE], "sarif", root=str(tmp_path), sources={"<k>": SOURCE}))
    assert data["version"] == "2.1.0" and data["$schema"].endswith("sarif-2.1.0.json")
    (run,) = data["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert rules[-1]["id"] == "my-rule" and len(rules) == len({rule["id"] for rule in rules}) > 15
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note") and result["message"]["text"]
    by_uri = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]: r for r in run["results"]}
    assert set(by_uri) == {"a%20dir/k.metal", "file:///else/where.metal", "%3Ck%3E"}
    result = by_uri["a%20dir/k.metal"]
    place = result["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 3, "startColumn": 2, "snippet": {"text": "\tx[0] = y[1];"}}
    assert (place["contextRegion"]["startLine"], place["contextRegion"]["endLine"]) == (2, 4)
    assert result["locations"][0]["logicalLocations"] == [{"name": "k", "kind": "function"}]
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 4
    assert result["relatedLocations"][0]["message"] == {"text": "there"} and result["properties"] == {"n": 1}
    assert "region" not in by_uri["file:///else/where.metal"]["locations"][0]["physicalLocation"]
    assert run["artifacts"] == [{"location": {"uri": "%3Ck%3E"}, "contents": {"text": SOURCE}}]
    moved = Diagnostic("race", "error", str(file), 3, 5, "other words", "k")
    again = json.loads(render([moved], "sarif", root=str(tmp_path)))["runs"][0]["results"][0]
    assert again["partialFingerprints"] == result["partialFingerprints"]


def test_a_linter_has_rules_of_its_own() -> None:
    rules = [Rule("tail", "no tail", "write one", "warning", "https://example.org/tail")]
    found = [Diagnostic("tail", "warning", "<k>", 1, 1, "m")]
    driver = json.loads(render(found, "sarif", tool="metalcore check", rules=rules))["runs"][0]["tool"]["driver"]
    assert driver["name"] == "metalcore check" and driver["rules"] == [
        {
            "id": "tail",
            "shortDescription": {"text": "no tail"},
            "defaultConfiguration": {"level": "warning"},
            "help": {"text": "write one"},
            "helpUri": "https://example.org/tail",
        }
    ]
    assert render(found, "text", tool="metalcore check").endswith("metalcore check: 1 warning\n")


def test_paths_are_relative_where_that_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inside = Diagnostic("race", "error", str(tmp_path / "sub" / "k.metal"), 1, 1, "m")
    assert " --> sub/k.metal:1:1" in render([inside], "text")
    beside = Diagnostic("race", "error", str(tmp_path) + "2/k.metal", 1, 1, "m")
    assert f" --> {tmp_path}2/k.metal:1:1" in render([beside], "text")


def test_order_and_repetition_give_the_same_bytes() -> None:
    for format in FORMATS:
        assert shown(format, RACE, SMALL) == shown(format, SMALL, RACE) == shown(format, RACE, SMALL)


def test_wrong_format() -> None:
    with pytest.raises(ValueError, match="unknown format 'xml': the formats are text, json, sarif, github"):
        render([], "xml")


def test_merge_and_summary() -> None:
    (once,) = merge([RACE, RACE])
    assert once.properties["count"] == 84 and merge([RACE, SMALL]) == [RACE, SMALL]
    assert summary([RACE, RACE, SMALL]) == "2 errors, 1 warning"


PROGRAM = '''
import numpy as np, metalcore
SOURCE = """
kernel void k(device int* x, uint i [[thread_position_in_grid]]) {
  x[i] = 7 / x[i];
  x[i + 2] = 1 << x[i + 1];
}
"""
with metalcore.mode("sanitize") as report:
    for n in (4, 40):
        metalcore.compile_shader(SOURCE).k(np.zeros(n, np.int32))
        metalcore.compile_shader(SOURCE + "// other").k(np.full(n, 40, np.int32))
print(*map(report.render, ("text", "json", "sarif", "github")))
'''


def test_reports_of_two_processes_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py"]
    runs = [
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert "error[division-by-zero]" in runs[0] and " --> program.py:5:12" in runs[0] and " --> <metal " in runs[0]
    assert str(tmp_path) not in runs[0]
