"""Selects the records to apply for a seek: those that later ones replace are left out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

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
Writer: TypeAlias = tuple[int, str, int | None, int | None, int | None, str | None]
"""Node number, file, rank, local rank, pid and host."""


class _StepLine(msgspec.Struct):
    """Who wrote the lines of a progress record; nothing else of it is decoded."""

    file: str = ""
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    host: str | None = None
    past: msgspec.Raw = msgspec.Raw()


_decoder = msgspec.json.Decoder(_StepLine)


def thinned(
    key_frame: Iterable[StreamRecord], records: Iterable[StreamRecord], position: int
) -> list[StreamRecord]:
    """Return what matters at a position of a key frame and of the records after it, in order.

    `position`: microseconds of recorded time.
    """
    kept: list[StreamRecord] = []
    newest: dict[tuple[int, str], StreamRecord] = {}
    progress: dict[Writer, deque[StreamRecord]] = {}
    for one in records:
        if one.kind == "sample":
            if one.at >= position - TAKEN_S * MICRO or any(part in one.body for part in _RARE):
                kept.append(one)
        elif one.kind in NEWEST:
            newest[one.node, one.kind] = one
        elif (writer := _writer(one)) is not None:
            progress.setdefault(writer, deque(maxlen=KEPT_PROGRESS)).append(one)
        else:
            kept.append(one)
    kept.extend(newest.values())
    kept.extend(one for steps in progress.values() for one in steps)
    kept.sort(key=lambda one: one.at)
    counts = Counter({writer: len(steps) for writer, steps in progress.items()})
    return [*_not_replaced(list(key_frame), counts), *kept]


def _not_replaced(key_frame: Sequence[StreamRecord], later: Counter[Writer]) -> list[StreamRecord]:
    """Return the records of a key frame without the steps of writers with enough `later` ones."""
    kept: list[StreamRecord] = []
    for one in reversed(key_frame):
        writer = _writer(one)
        if writer is not None:
            later[writer] += 1
            if later[writer] > KEPT_PROGRESS:
                continue
        kept.append(one)
    return kept[::-1]


def _writer(one: StreamRecord) -> Writer | None:
    """Return who wrote the step of a record; None if it is none, or holds the steps of a backlog."""
    if one.kind != "progress":
        return None
    try:
        who = _decoder.decode(one.body)
    except msgspec.MsgspecError:
        return None
    if len(bytes(who.past)) > len("[]"):
        return None
    return one.node, who.file, who.rank, who.local_rank, who.pid, who.host
