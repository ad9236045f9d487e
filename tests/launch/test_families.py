"""The table of GPU families, and what `metalcore.target` and METALCORE_TARGET make of it."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from click.testing import CliRunner

import metalcore
from metalcore import launch
from metalcore.errors import LaunchError
from metalcore.launch.families import families, limits_of, table
from metalcore.tools.cli import cli

KERNEL = "kernel void f(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 1; }"


@pytest.fixture(scope="module")
def f() -> metalcore.Function:
    return metalcore.Library(KERNEL).function("f")


@pytest.mark.parametrize(
    ("name", "shown", "threads", "memory"),
    [
        ("A8", "A8 (Apple2)", 512, 16352),
        ("A10X", "A10X (Apple3)", 512, 16384),
        ("A11", "A11 (Apple4)", 1024, 32768),
        ("A14 Bionic", "A14 (Apple7)", 1024, 32768),
        ("M1", "M1 (Apple7)", 1024, 32768),
        ("Apple M2 Ultra", "M2 Ultra (Apple8)", 1024, 32768),
        ("m3max", "M3 Max (Apple9)", 1024, 32768),
        ("M4-Pro", "M4 Pro (Apple9)", 1024, 32768),
        ("m5", "M5 (Apple10)", 1024, 32768),
        ("apple7", "Apple7", 1024, 32768),
        ("MTLGPUFamilyMac2", "Mac2", 1024, 32768),
    ],
)
def test_names(name: str, shown: str, threads: int, memory: int) -> None:
    limits = limits_of(name)
    assert (limits.name, limits.max_threads, limits.threadgroup_memory) == (shown, threads, memory)


def test_every_chip_asked_for_is_there() -> None:
    chips = {chip for family in families() for chip in family.chips}
    assert {"A11", "A12", "A13", "A14", "A15", "A16", "A17 Pro", "A18", "A19"} <= chips
    assert {f"M{i}" for i in range(1, 6)} <= chips
    assert len({chip for family in families()[:9] for chip in family.chips}) == sum(
        len(family.chips) for family in families()[:9]
    )


def test_features_grow_and_the_common_limits_hold_for_all_since_apple4() -> None:
    apple = [family for family in families() if family.name.startswith("Apple")]
    for older, newer in itertools.pairwise(apple):
        assert older.features <= newer.features
    for family in apple[2:]:
        for name in table()["rows"]:
            assert getattr(family.limits, name) == getattr(launch.COMMON, name), (family.name, name)
    assert "64-bit-atomics" in (limits_of("M2").features or ())
    assert "64-bit-atomics" not in (limits_of("A15").features or ())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("M9", "there is no chip or GPU family 'M9' in the table: `metalcore families` lists them"),
        ("M1 Mac", "there is no chip or GPU family 'M1 Mac' in the table: did you mean M1 Max or Mac2 or M5 Max?"),
    ],
)
def test_an_unknown_name(name: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        metalcore.target(name)
    assert str(caught.value) == message


def test_bad_targets() -> None:
    with pytest.raises(TypeError, match="not int"):
        metalcore.target(7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_threads must be a positive int, not 0"):
        metalcore.target("M1", max_threads=0)
    with pytest.raises(ValueError, match="max_threads of kernel 'f' must be a positive int, not '832'"):
        metalcore.target("M1", max_threads={"f": "832"})  # type: ignore[dict-item]


def test_a_target_holds_inside_its_block_and_thread_alone(f: metalcore.Function) -> None:
    x = np.zeros(1024, np.float32)
    f(x, threads=1024, group_size=1024)
    others: list[object] = []

    def elsewhere() -> None:
        f(x, threads=1024, group_size=1024)
        others.append("ran")

    with metalcore.target("A10"):
        with pytest.raises(LaunchError, match=r"the limit of A10 \(Apple3\) is 512"):
            f(x, threads=1024, group_size=1024)
        with metalcore.target("M1"):
            f(x, threads=1024, group_size=1024)
        with pytest.raises(LaunchError, match="512"):
            f(x, threads=1024, group_size=1024)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    f(x, threads=1024, group_size=1024)
    assert others == ["ran"]


def test_one_launch_for_a_target_without_running_it(f: metalcore.Function) -> None:
    f.check_launch(threads=1024, group_size=1024)
    f.check_launch(threads=1024, group_size=1024, target="M1")
    with pytest.raises(LaunchError, match="the limit of Apple2 is 512"):
        f.check_launch(threads=1024, group_size=1024, target="Apple2")
    with pytest.raises(LaunchError, match=r"its pipeline on M1 \(Apple7\) is 832"):
        f.check_launch(threads=1024, group_size=1024, target="M1", max_threads=832)


@pytest.fixture
def in_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.delenv("METALCORE_TARGET", raising=False)


def test_the_target_of_the_environment(in_settings: pytest.MonkeyPatch) -> None:
    facts = launch.Kernel("f")
    in_settings.setenv("METALCORE_TARGET", "A9")
    assert launch.thread_limit(facts) == 512
    with metalcore.target("M2"):
        assert launch.thread_limit(facts) == 1024
    in_settings.setenv("METALCORE_TARGET", "A999")
    with pytest.raises(ValueError, match="METALCORE_TARGET: there is no chip or GPU family 'A999'"):
        launch.validate(facts, threads=4)
    in_settings.setenv("METALCORE_TARGET", "")
    assert launch.thread_limit(facts) == 1024


def test_the_command() -> None:
    run = CliRunner().invoke
    everything = run(cli, ["families"])
    assert everything.exit_code == 0
    for family in families():
        assert family.name in everything.output
    assert "Metal Feature Set Tables" in everything.output and "not confirmed" in everything.output
    one = run(cli, ["families", "M1", "--json"])
    assert [row["name"] for row in json.loads(one.output)["families"]] == ["Apple7"]
    wrong = run(cli, ["families", "M1 Mac"])
    assert wrong.exit_code == 2 and "did you mean M1 Max" in wrong.output


def test_modes_and_targets_in_any_order(f: metalcore.Function) -> None:
    x = np.zeros(1024, np.float32)
    big = {"threads": 1024, "group_size": 1024}
    with metalcore.mode("fast"):
        f(x, **big)
        with metalcore.target("A10"):
            with pytest.raises(LaunchError):
                f(x, **big)
            with metalcore.mode("checked"), pytest.raises(LaunchError):
                f(x, **big)
            f(x, threads=1024, group_size=512)
        f(x, **big)
    with metalcore.target("A10"), metalcore.mode("fast"), pytest.raises(LaunchError):
        f(x, **big)
    f(x, **big)
