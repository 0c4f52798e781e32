"""Selects the records to apply after a key frame for a seek: those that later ones replace are left out."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from gpuwatch.link.recording.records import StreamRecord
from gpuwatch.link.recording.tee import MICRO

TAKEN_S = 6.0
"""Seconds before the position from which all samples are applied: they contain every GPU's 5 s tier."""
KEPT_PROGRESS = 2
"""Per writer and file."""
NEWEST = frozenset(("ranks", "logs", "clock"))
"""Kinds of which a node's newest record replaces older ones."""
_RARE = (b'"slow":{', b'"missing":{', b'"disks":[')
"""Parts that only older samples may contain."""
_FILE, _RANK, _PAST = re.compile(rb'"file":"[^"]*"'), re.compile(rb'"(?:local_)?rank":\d+'), b'"past":['


def thinned(records: Iterable[StreamRecord], position: int) -> list[StreamRecord]:
    """Return the records that matter at a position (microseconds of recorded time), in order."""
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
