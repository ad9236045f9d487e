"""Launches of a kernel whose result is known."""

from __future__ import annotations

from tests.hostile import tree as h
from tests.hostile.case import Host, expect
from tests.hostile.generate import draw_launch
from tests.hostile.guarded import Pages
from tests.hostile.oracle import Outcome, Redraw
from tests.hostile.shape import Launch

TRIES = 24
SMALLER = 4  # so many tries for a launch that is meant to stay inside and does not


def make_launch(kernel: h.Kernel, number: int, pages: Pages) -> tuple[Launch, Host, Outcome] | None:
    """The launch, its arrays and what they hold afterwards; None where none was found."""
    found: tuple[Launch, Host, Outcome] | None = None
    for attempt in range(TRIES):
        launch = draw_launch(kernel, number, attempt)
        pages.release()
        host = Host(kernel, launch, pages)
        try:
            found = launch, host, expect(kernel, launch, host)
        except Redraw:
            continue
        if launch.intent != "inside" or not found[2].outside or attempt >= SMALLER:
            return found
    return None
