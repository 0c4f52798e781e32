"""Cuts a period out of a recording, or out of a running session's ring, as a recording of its own."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gpuwatch.hosts.plan import Plan
from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.schema import RecordingError, create
from gpuwatch.link.recording.tee import (
    MICRO,
    AnswerItem,
    DictionaryItem,
    IncidentMark,
    Item,
    KeyFrame,
    RecordBlock,
    RequestItem,
    StreamTee,
)
from gpuwatch.link.recording.writer import describe, write_items


def cut_recording(source: Recording, first: float, last: float, path: Path) -> None:
    """Write a period of a recording into a new file. It begins with the key frame before `first`.

    Args:
        source: The recording.
        first: Start of the period (recorded time, unix seconds).
        last: End of the period, likewise.
        path: The new file, which must not exist.

    Raises:
        RecordingError: the file cannot be written, or nothing was recorded in that period.
    """
    nodes = {name: number for number, name in source.nodes.items()}
    _write_cut(path, source.plan, nodes, source.items(round(first * MICRO), round(last * MICRO)))


def cut_ring(tee: StreamTee, plan: Plan, first: float, last: float, path: Path) -> None:
    """Write a period of a running session's recent past into a new file.

    Args:
        tee: Of the session (`Session.keep_stream`).
        plan: Of the session.
        first: Start of the period (recorded time, unix seconds); what the ring no longer holds is missing.
        last: End of the period, likewise.
        path: The new file, which must not exist.

    Raises:
        RecordingError: the file cannot be written, or nothing was recorded in that period.
    """
    until = round(last * MICRO)
    items = (item for item in tee.ring(first) if start_of(item) <= until)
    _write_cut(path, plan, tee.nodes, items)


def start_of(item: Item) -> int:
    """Return the start of an item (microseconds of recorded time); 0 for a dictionary."""
    match item:
        case RecordBlock():
            return item.first
        case DictionaryItem():
            return 0
        case KeyFrame() | RequestItem() | AnswerItem() | IncidentMark():
            return item.at


def _write_cut(path: Path, plan: Plan, nodes: Mapping[str, int], items: Iterable[Item]) -> None:
    file = create(path)
    try:
        describe(file, path, plan, nodes)
        file.execute("BEGIN")
        write_items(file, _counted(items, path))
        file.execute("COMMIT")
        file.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, to be handed over
    except (sqlite3.Error, RecordingError) as error:
        file.close()
        with contextlib.suppress(OSError):
            path.unlink()
        raise error if isinstance(error, RecordingError) else RecordingError(f"{path}: {error}") from error
    file.close()


def _counted(items: Iterable[Item], path: Path) -> Iterator[Item]:
    any_block = False
    for item in items:
        any_block |= isinstance(item, RecordBlock | KeyFrame)
        yield item
    if not any_block:
        raise RecordingError(f"{path}: nothing was recorded in that time")
