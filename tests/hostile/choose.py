"""Numbers that take an access inside its array, just past its ends, or anywhere."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.hostile import tree as h
from tests.stress.types import Scalar

Values = np.ndarray[Any, Any]
FACTORS = (1, 1, 2, 3, 4, 5, 7, 8, 16, 31, 33, 64, 255, 257, 4097, 65535, 65537, 1 << 24, (1 << 24) + 1, 1 << 27)
FACTORS += ((1 << 27) + 1, (1 << 28) + 3, (1 << 29) + 1, 0x40000001, 0x40000000, 0x80000001, 0x80000000, 0xC0000001)
FACTORS += (0xFFFFFFFF, 0xFFFFFFFE, 0x55555556, 0xAAAAAAAB, 0x10000001, 0x7FFFFFFF)
WILD = (-1, -2, -64, 1 << 15, (1 << 15) - 1, 1 << 16, (1 << 16) - 1, 1 << 29, 1 << 30, (1 << 30) - 1, (1 << 31) - 1)
WILD += (1 << 31, (1 << 31) + 5, (1 << 32) - 1, (1 << 32) - 33, 1 << 32, (1 << 32) + 3, 1 << 33, -(1 << 31), -(1 << 33))
WILD += (1 << 34, 1 << 40, -(1 << 40), (1 << 47) - 1, 1 << 48)


def plain_value(r: random.Random, e: h.Param | h.Own) -> int:
    """A number that is no index."""
    if e.role == "count":
        return r.choice([0, 1, 2, 3, 4, 5, 8, 9, 12])
    if e.role == "factor":
        return r.choice(FACTORS)
    kind = r.random()
    if kind < 0.4:
        return r.randint(0, 40)
    if kind < 0.7:
        return r.choice(WILD)
    return r.randint(e.type.low, e.type.high)


def spread(t: Scalar, now: Values, start: Values) -> Values:
    """How far each thread's element is from the first thread's, taken as the nearer way round."""
    bits = min(t.bits, 64)
    delta = now.astype(np.uint64) - now.astype(np.uint64)[0]
    if bits < 64:
        delta = (delta << np.uint64(64 - bits)).view(np.int64) >> np.int64(64 - bits)
    distances: Values = delta.view(np.int64) + (start - start[0])
    return distances


def choose_param(r: random.Random, intent: str, t: Scalar, now: Values, start: Values, last: int, loop: bool) -> int:
    """p such that `now + p` of the threads lies in [0, last] - start, or not, as the launch is meant."""
    if not len(now):
        return 0
    away = spread(t, now, start)
    low, high = int(away.min()), int(away.max())
    room = 12 if loop and last - high + low > 30 else 0
    if high - low > last:  # not all fit: one of them does
        low = high = int(r.choice(away.tolist()))
    first = low, high
    lowest, highest = room - first[0], last - room - first[1]
    outside = intent != "inside" and r.random() < (0.35 if intent == "edge" else 0.6)
    if not outside:
        target = r.choice([lowest, highest, r.randint(min(lowest, highest), max(lowest, highest))])
    elif intent == "edge":
        by = r.choice([1, 1, 1, 2, 3, 7, 31, 32, 33, 63, 64])
        target = r.choice([last - first[1] + by, -first[0] - by])
    else:
        target = r.choice(WILD) if r.random() < 0.7 else r.randint(-(1 << 33), 1 << 33)
    return target - int(start[0]) - int(now[0])


def choose_own(
    r: random.Random, intent: str, t: Scalar, now: Values, start: Values, last: int, loop: bool
) -> list[int]:
    """The same for numbers that each thread has of its own."""
    room = 12 if loop and last > 30 else 0
    share = 0.0 if intent == "inside" or r.random() < 0.4 else r.choice([0.01, 0.2, 0.9])
    one = r.randrange(len(now)) if share and len(now) else -1
    out = []
    near = r.random() < 0.3  # neighbours: the accesses of a simdgroup are rows
    for i in range(len(now)):
        if i == one or r.random() < share:
            edge = r.choice([last + 1, last + 2, -1, -2, last + 33, -33])
            target = edge if intent == "edge" or r.random() < 0.3 else r.choice(WILD)
        elif near:
            target = min(max(room, i % max(1, last + 1 - 2 * room) + room), last)
        else:
            target = r.choice([0, last]) if r.random() < 0.2 and not room else r.randint(room, max(room, last - room))
        out.append(target - int(start[i]) - int(np.int64(now[i].astype(np.uint64).view(np.int64))))
    return out
