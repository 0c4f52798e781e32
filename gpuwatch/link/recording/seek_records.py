"""What is taken in behind a key frame to stand at a moment: what later records replace is left out."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from gpuwatch.link.recording.records import StreamRecord
from gpuwatch.link.recording.tee import MICRO

TAKEN_S = 6.0
"""All samples of the last seconds are taken in: they hold every GPU's 5 s tier."""
KEPT_PROGRESS = 2
"""Of one writer of one file."""
NEWEST = frozenset(("ranks", "logs", "clock"))
"""Kinds of which the newest record of a node replaces those before it."""
_RARE = (b'"slow":{', b'"missing":{', b'"disks":[')
"""What older samples may hold."""
_FILE, _RANK, _PAST = re.compile(rb'"file":"[^"]*"'), re.compile(rb'"(?:local_)?rank":\d+'), b'"past":['


def thinned(records: Iterable[StreamRecord], position: int) -> list[StreamRecord]:
    """The records that count at a moment (microseconds of recorded time), in their order."""
    kept: list[StreamRecord] = []
    newest: dict[tuple[int, str], StreamRecord] = {}
    progress: dict[tuple[int, bytes, bytes], deque[StreamRecord]] = {}
    for one in records:
        if one.kind == "sample":
            if one.at >= position - TAKEN_S * MICRO or any(part in one.body for part in _RARE):
                kept.append(one)
        elif one.kind in NEWEST:
            newest[one.node, one.kind] = one
        elif one.kind == "progress" and _PAST not in one.body:
            writer = one.node, _first(_FILE, one.body), _first(_RANK, one.body)
            progress.setdefault(writer, deque(maxlen=KEPT_PROGRESS)).append(one)
        else:
            kept.append(one)
    kept.extend(newest.values())
    kept.extend(one for steps in progress.values() for one in steps)
    kept.sort(key=lambda one: one.at)
    return kept


def _first(pattern: re.Pattern[bytes], body: bytes) -> bytes:
    found = pattern.search(body)
    return b"" if found is None else found[0]
