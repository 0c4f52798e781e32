"""Reads a recording: its period, key frames and blocks, requests and answers, incidents, density."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.hosts.plan import Plan
from gpuwatch.link.recording.lease import Holder, holder
from gpuwatch.link.recording.parts import (
    MAX_SEEK_BYTES,
    MAX_SEEK_CPU_S,
    MAX_SEEK_RECORDS,
    PartReader,
    ReadBudget,
)
from gpuwatch.link.recording.records import StreamRecord
from gpuwatch.link.recording.schema import MAX_NUMBER, RecordingError, Rows, open_for_reading
from gpuwatch.link.recording.tee import (
    MICRO,
    AnswerItem,
    DictionaryItem,
    IncidentMark,
    Item,
    KeyFrame,
    RecordBlock,
    RequestItem,
)
from gpuwatch.plain import plain
from gpuwatch.wire.codec import decode_strictly

BLOCKS_AT_ONCE = 16
MAX_HEADLINE = 2_000
"""Characters of an incident's id, severity and headline."""
INCIDENTS = """
SELECT number, at, first, substr(severity, 1, ?1), substr(headline, 1, ?1), substr(id, 1, ?1)
FROM incident ORDER BY at, number
"""
KEY_FRAMES = "SELECT at, block, data FROM key_frame"
PASSED_OVER = """
SELECT (SELECT count(*) FROM block WHERE id = ?1 AND first > ?2), ifnull(max(id), ?1) FROM block
"""
"""Query: whether a key frame's block begins after it, and the last block."""
MAX_DICTIONARY_BYTES = 1 << 20
"""Limit of a dictionary, which stays in memory; recorders train 16 KiB."""
MAX_REQUESTS = 500
"""Recorded requests of one kind and node that are compared with a new one."""


class ReadBlock(Struct, frozen=True):
    """A block of a recording, as stored in the file. Times are microseconds of recorded time."""

    id: int
    first: int
    last: int
    wall: int
    data: bytes


_plan_decoder: msgspec.json.Decoder[Plan] = msgspec.json.Decoder(Plan)


class Recording:
    """An open recording, which may still be growing; `last` is read again each time."""

    def __init__(self, path: Path) -> None:
        """Open a recording.

        Raises:
            RecordingError: It is not a recording, of a newer version, damaged, or still empty.
        """
        self.path = path
        self._file = open_for_reading(path)
        self._rows = Rows(self._file)
        self._parts = PartReader(self._dictionary)
        self.facts: dict[str, str] = dict(self._rows.all("tt", "SELECT name, value FROM meta"))
        nodes = self._rows.all("it", "SELECT id, name FROM node ORDER BY id")
        self.nodes = {number: plain(name) for number, name in nodes}
        try:
            self.plan = self._plan()
        except ValueError as error:
            raise RecordingError(f"{path}: damaged: {plain(str(error))}") from error
        extent = self.extent()
        if extent is None:
            raise RecordingError(f"{path}: nothing is recorded in it yet")
        self.first = extent[0]
        """First time (microseconds of recorded time)."""
        if self._lacks_blocks():
            self._parts.note(("block", 0))

    @property
    def damaged(self) -> int:
        """Return how many blocks, lines and rows together could not be read so far."""
        return self._rows.damaged + self._parts.damaged

    def _lacks_blocks(self) -> bool:
        """Return True if blocks are missing in the middle, or have numbers that no recorder gives."""
        found = self._rows.one("iii", "SELECT count(*), ifnull(min(id), 1), ifnull(max(id), 0) FROM block")
        return found is None or found[1] < 1 or found[2] - found[1] + 1 != found[0]

    def budget(self, *, whole: bool = False) -> ReadBudget:
        """Return the limits of what one seek may read; with `whole`, those of a walk through the file."""
        if not whole:
            return ReadBudget(self._parts, MAX_SEEK_BYTES, MAX_SEEK_RECORDS, MAX_SEEK_CPU_S)
        return ReadBudget.of_file(self._parts, self.path.stat().st_size)

    def give_up(self, after: int, at: int, *, dropped: bool = False) -> int:
        """Skip the blocks after block `after` that end by `at`; return the number of the last skipped one.

        They count as damaged; with `dropped`, also if there are none.
        """
        found = self._rows.one("i", "SELECT ifnull(max(id), 0) FROM block WHERE last <= ?", at)
        last = after if found is None else max(after, int(found[0]))
        if last > after or dropped:
            self._parts.note(("unread", after))
        return last

    def _plan(self) -> Plan:
        plan = decode_strictly(self.facts.get("plan", "{}").encode(), _plan_decoder, ValueError)
        known = {spec.name for spec in plan.nodes}
        if missing := set(self.nodes.values()) - known:
            raise RecordingError(f"{self.path}: damaged: its plan lacks the node {min(missing)}")
        return replace(plan, rules=(), source=str(self.path))

    @property
    def writer(self) -> Holder | None:
        """Return the recorder that holds the file, alive or not; None if there is none."""
        try:
            return holder(self._file)
        except sqlite3.Error:
            return None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def extent(self) -> tuple[int, int] | None:
        """Return the first and last time (microseconds of recorded time); None if it is empty."""
        block = self._rows.one("i", "SELECT first FROM block ORDER BY id LIMIT 1")
        starts = [*(block or ()), self._rows.bound("at", "key_frame", "min")]
        known = [start for start in starts if start is not None]
        return (min(known), self.last) if known else None

    @property
    def last(self) -> int:
        """Return the last time (microseconds of recorded time), which is read again at each call."""
        ends = (self._rows.bound("last", "block", "max"), self._rows.bound("at", "key_frame", "max"))
        return max(end or 0 for end in ends)

    def key_frame(self, at: int) -> tuple[int, int, list[StreamRecord]]:
        """Return the newest key frame at or before `at`: its time, the block before it, its records.

        Before all key frames: the first time, block 0 and no records. Times are microseconds of recorded
        time.
        """
        row = self._rows.one("iib", f"{KEY_FRAMES} WHERE at <= ? ORDER BY at DESC LIMIT 1", at)
        if row is None:
            return self.first, 0, []
        moment, before, data = row
        records = list(self._parts.records(("key_frame", moment), data, moment, moment))
        ends = self._rows.one("ii", PASSED_OVER, before, moment)
        passed, last = ends or (0, before)
        if passed or before > last:  # the blocks up to that one would be passed over
            self._parts.note(("key_frame", moment))
            before = self.give_up(0, moment)
        return moment, before, records

    def blocks(self, after: int) -> Iterator[ReadBlock]:
        """Yield the blocks after the block `after`, in order of writing, as far as they exist."""
        while True:
            sql = "SELECT id, first, last, wall, data FROM block WHERE id > ? ORDER BY id LIMIT ?"
            rows = self._rows.all("iiiib", sql, after, BLOCKS_AT_ONCE)
            if not rows:
                return
            for row in rows:
                after = row[0]
                yield ReadBlock(*row)

    def records(self, block: ReadBlock) -> Iterator[StreamRecord]:
        """Return the records of a block; none if it is damaged."""
        return self._parts.records(("block", block.id), block.data, block.first, block.last)

    def all_records(self) -> Iterator[tuple[ReadBlock, StreamRecord]]:
        """Yield every record with its block, until the budget for a whole file is spent."""
        budget = self.budget(whole=True)
        for block in self.blocks(0):
            for one in self.records(block):
                budget.records += 1
                yield block, one
            if budget.is_spent:
                self.give_up(block.id, self.last)
                return

    def wall_shift(self, at: int) -> int:
        """Return the wall clock minus recorded time at a moment (both microseconds); 0 without any block."""
        row = self._rows.one("i", "SELECT wall FROM block WHERE last >= ? ORDER BY last LIMIT 1", at)
        row = row or self._rows.one("i", "SELECT wall FROM block ORDER BY id DESC LIMIT 1")
        return 0 if row is None else int(row[0])

    def requests(self, node: int, kind: str, until: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield the requests of a kind to a node up to `until`, newest first, as (time, number, body).

        At most `MAX_REQUESTS`.
        """
        sql = "SELECT at, number, body FROM request WHERE node = ? AND kind = ? AND at <= ?"
        newest = f"{sql} ORDER BY at DESC LIMIT {MAX_REQUESTS}"
        yield from self._rows.all("iib", newest, node, kind, until)

    def answers(self, node: int, number: int, since: int) -> list[tuple[int, bytes]]:
        """Return the answers to the request made at `since`, as (time, JSON frame), within the budget."""
        later = "SELECT at FROM request WHERE node = ? AND number = ? AND at > ? ORDER BY at LIMIT 1"
        end = self._rows.one("i", later, node, number, since)  # a later session starts its numbers again
        until = MAX_NUMBER if end is None else end[0]
        sql = "SELECT at, data FROM answer WHERE node = ? AND number = ? AND at >= ? AND at < ? ORDER BY at"
        found, budget = [], self.budget()
        for at, data in self._rows.all("ib", sql, node, number, since, until):
            if budget.is_spent:
                self._parts.note(("answer", number))
                break
            found.append((at, self.inflated(data)))
        return found

    def incidents(self) -> list[IncidentMark]:
        """Return all incidents, in the order in which they were first seen."""
        rows = self._rows.all("iirttt", INCIDENTS, MAX_HEADLINE)
        return [
            IncidentMark(plain(name), number, at, first, plain(severity), plain(headline))
            for number, at, first, severity, headline, name in rows
        ]

    def gaps(self) -> list[tuple[int, int, str]]:
        """Return the periods whose data was lost, as (first time, last time, reason)."""
        sql = "SELECT first, last, substr(reason, 1, ?) FROM gap ORDER BY 1"
        return [(first, last, reason) for first, last, reason in self._rows.all("iit", sql, MAX_HEADLINE)]

    def density(self, columns: int) -> Sequence[int]:
        """Return the number of findings and events in each of `columns` equal parts of the recorded time."""
        first, last = self.first, self.last
        width = max(1, (last - first) // columns + 1)
        parts = "SELECT (last - ?) / ?, sum(findings) FROM block GROUP BY 1"
        rows = self._rows.all("ii", parts, first, width)
        found = {min(max(0, part), columns - 1): count for part, count in rows}
        return [found.get(part, 0) for part in range(columns)]

    def items(self, first: int, last: int) -> Iterator[Item]:
        """Yield the items that make a recording of this period (microseconds), as stored in the file."""
        dictionaries = self._rows.each("ib", "SELECT id, data FROM dictionary")
        yield from (DictionaryItem(*row) for row in dictionaries)
        row = self._rows.one("iib", f"{KEY_FRAMES} WHERE at <= ? ORDER BY at DESC LIMIT 1", first)
        start, before = (row[0], row[1]) if row is not None else (self.first, 0)
        if row is not None:
            yield KeyFrame(row[0], row[2])
        later = f"{KEY_FRAMES} WHERE at > ? AND at <= ? ORDER BY at"
        keys = self._rows.each("iib", later, start, last)
        key = next(keys, None)
        blocks = "SELECT id, first, last, wall, frames, findings, data FROM block WHERE id > ? AND first <= ?"
        few = f"{blocks} ORDER BY id LIMIT {BLOCKS_AT_ONCE}"
        while rows := self._rows.all("iiiiiib", few, before, last):
            for row in rows:
                before = number = row[0]
                yield RecordBlock(*row[1:])
                while key is not None and key[1] <= number:
                    yield KeyFrame(key[0], key[2])
                    key = next(keys, None)
        requests = "SELECT at, node, number, kind, body FROM request WHERE at BETWEEN ? AND ? ORDER BY id"
        yield from (RequestItem(*row) for row in self._rows.each("iiitb", requests, start, last))
        answers = "SELECT at, node, number, data FROM answer WHERE at BETWEEN ? AND ? ORDER BY id"
        yield from (AnswerItem(*row) for row in self._rows.each("iiib", answers, start, last))
        yield from (mark for mark in self.incidents() if mark.at <= last)

    def inflated(self, data: bytes) -> bytes:
        """Return the decompressed bytes of a part; empty if it is damaged."""
        return self._parts.inflated(data)

    def _dictionary(self, number: int) -> bytes | None:
        sql = "SELECT data FROM dictionary WHERE id = ? AND length(data) <= ?"
        row = self._rows.one("b", sql, number, MAX_DICTIONARY_BYTES)
        return None if row is None else row[0]


def seconds(at: int) -> float:
    """Return microseconds of recorded time as seconds."""
    return at / MICRO
